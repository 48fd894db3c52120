"""`weft annotate`: the original trace, byte for byte, with weft's lanes, phases and counters added."""

from __future__ import annotations

EPILOG = ""
def command() -> None: ...

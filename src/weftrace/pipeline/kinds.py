"""What can be done with the values of the wing: see `weftrace.kinds`."""

from __future__ import annotations

from weftrace.kinds import Kind

KINDS: tuple[Kind, ...] = ()

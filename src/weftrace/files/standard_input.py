"""Standard input as a file, `-`: kept in a temporary file, because a trace may be read twice or by other processes."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from contextlib import suppress
from functools import cache

from weftrace.errors import OutputError, TraceError
from weftrace.units import MIB

STANDARD_INPUT, STANDARD_INPUT_NAME = "-", "standard input"
_HELP = "Pipe a trace into it: zstdcat train.json.zst | weftrace report -"


def located(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Where the bytes of a path are: of `-`, the file in which standard input is kept; of others, the path.

    Raises TraceError where standard input is a terminal or empty, or cannot be kept.
    """
    return _kept() if str(path) == STANDARD_INPUT else path


def temporary_folder() -> str:
    """The folder for temporary files. Raises OutputError where none can be written."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise OutputError("no folder for temporary files can be written. Let TMPDIR name one that can.") from error


@cache
def _kept() -> str:
    """Standard input in a temporary file that is gone when the program ends; memory holds a piece of it at a time."""
    source = sys.stdin.buffer if sys.stdin is not None else None
    if source is None or source.isatty():
        why = "is closed" if source is None else "is a terminal"
        raise TraceError(f"standard input {why}. {_HELP}")
    handle, path = tempfile.mkstemp(prefix="weftrace-stdin-", dir=temporary_folder())
    atexit.register(_remove, path)
    num_bytes = 0
    try:
        with open(handle, "wb") as file:
            while piece := source.read(MIB):
                num_bytes += file.write(piece)
    except OSError as error:
        raise TraceError(
            f"standard input cannot be kept in {path}: {error.strerror or error}. Let TMPDIR name a folder with room."
        ) from error
    if not num_bytes:
        raise TraceError(f"standard input is empty: did what writes to it fail? {_HELP}")
    return path


def _remove(path: str) -> None:
    with suppress(OSError):
        os.remove(path)

"""The open files that a command is started with, made fit for use: one may be closed, a reader of standard output may
stop early, and an encoding may lack what is printed."""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import Any, TextIO

#: ASCII by a name that Click does not know: it takes ASCII for a mistake, and would write UTF-8.
_ASCII = "ascii_console"
_ERRORS = "weftrace"  # what Python calls the way in which characters are written that an encoding lacks


def make_usable() -> None:
    """Replace standard output and standard error, and open what is closed of the three.

    Standard output whose reader has stopped takes the rest and drops it, so the command ends as it would have, with the
    same exit status. Another failure of it (a full disk) is raised once. Failures of standard error are dropped: there
    is nowhere to tell them. Characters that an encoding lacks are replaced: ASCII of the same width.
    """
    _open_closed()
    codecs.register(_ascii_console)
    codecs.register_error(_ERRORS, _replaced)
    sys.stdout, sys.stderr = _usable(sys.stdout, 1), _usable(sys.stderr, 2)


def _open_closed() -> None:
    """Open the null device where one of the three is closed; else the next file that is opened would be taken for it,
    and a message of a library would be written into an output of ours."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)


def _usable(stream: TextIO | None, number: int) -> TextIO:
    """The stream, or what writes to the same file in its place; a notebook's or a test's own is left as it is."""
    if stream is None:  # it was closed
        stream = open(number, "w", closefd=False)  # noqa: SIM115 # for as long as the program runs
    if type(stream) is not io.TextIOWrapper:
        return stream
    encoding = _ASCII if codecs.lookup(stream.encoding).name == "ascii" else stream.encoding
    stream.reconfigure(encoding=encoding, errors=_ERRORS)
    raw = getattr(stream.buffer, "raw", stream.buffer)
    if type(raw) is not io.FileIO or raw.fileno() != number:  # a console of Windows
        return stream
    stream.flush()
    output: Any = _Output(number, tells=number == 1)
    # Without a buffer where PYTHONUNBUFFERED asks for that.
    buffer = output if stream.buffer is raw else io.BufferedWriter(output)
    return io.TextIOWrapper(
        buffer, encoding, _ERRORS, line_buffering=stream.line_buffering, write_through=stream.write_through
    )


class _Output(io.FileIO):
    """Writes all that it is given, waits where the file takes nothing yet, and drops the rest after a failure. tells:
    whether the first failure is raised, unless it is that of a pipe that nobody reads."""

    def __init__(self, number: int, *, tells: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self._tells = tells
        self._has_failed = False

    def write(self, data: bytes | memoryview, /) -> int:  # type: ignore[override]
        rest = memoryview(data).cast("B")
        num_bytes = len(rest)
        while rest and not self._has_failed:
            try:
                written: int | None = super().write(rest)
            except OSError as error:
                self._has_failed = True
                if self._tells and not isinstance(error, BrokenPipeError):
                    raise
                break
            if written is None:  # whoever shares the file with us has made it one that does not wait
                select.select((), (self,), ())
            rest = rest[written or 0 :]
        return num_bytes


def _ascii_console(name: str) -> codecs.CodecInfo | None:
    found = codecs.lookup("ascii")
    return (
        codecs.CodecInfo(*found, found.incrementalencoder, found.incrementaldecoder, name) if name == _ASCII else None
    )


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding lacks: of a byte of a file's name that is no UTF-8, its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    from weftrace.render.console_text import ascii_text

    return ascii_text(error.object[error.start : error.end]), error.end

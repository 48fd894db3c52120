"""What does a file seem to be, when it is not a trace? So that the error can say what helps."""

from __future__ import annotations

import re

from weftrace.errors import TraceError
from weftrace.trace.chrome.recorders import recorder_of
from weftrace.trace.chrome.tally import shown
from weftrace.units import size

_GIVE = "Give the JSON that torch.profiler's export_chrome_trace wrote, plain or as .gz or .zst."
_HEAD_BYTES = 4_096  # the schema is the first field of what weftrace writes
_DOCUMENT = re.compile(rb'"schema"\s*:\s*"(weftrace\.\w+/\d+)"')
_UNPACK = "Unpack it first; weftrace reads traces that are plain, .gz or .zst."
_RESAVE = "Save it as UTF-8 first (iconv -f UTF-16 -t UTF-8)."

# (offset, first bytes, what it seems to be, what helps). Signatures are from the formats' specifications; those of
# compressed files also from https://en.wikipedia.org/wiki/List_of_file_signatures.
_SIGNATURES: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\xff\xfe", "UTF-16 text", _RESAVE),
    (0, b"\xfe\xff", "UTF-16 text", _RESAVE),
    (0, b"PK\x03\x04", "a zip archive (torch.save writes those too)", _UNPACK),
    (0, b"PK\x05\x06", "an empty zip archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"BZh", "a bzip2 file", _UNPACK),
    (0, b"\xfd7zXZ\0", "an xz file", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (0, b"\x04\x22\x4d\x18", "an lz4 file", _UNPACK),
    (0, b"PAR1", "a Parquet file", f"If weftrace saved it, its name must end in .parquet. {_GIVE}"),
    (0, b"SQLite format 3\0", "an SQLite database", _GIVE),
    (0, b"ARROW1", "an Arrow file", _GIVE),
    (0, b"\x89HDF", "an HDF5 file", _GIVE),
    (0, b"\x89PNG", "a picture", _GIVE),
    (0, b"%PDF", "a PDF", _GIVE),
    (0, b"\x7fELF", "a program", _GIVE),
    (0, b"\x80\x02", "a Python pickle, which weftrace never loads", _GIVE),
    (0, b"\x80\x03", "a Python pickle, which weftrace never loads", _GIVE),
    (0, b"\x80\x04", "a Python pickle, which weftrace never loads", _GIVE),
    (0, b"\x80\x05", "a Python pickle, which weftrace never loads", _GIVE),
)
# The same of texts. Damage can make a trace begin with anything: these count only where no event is found.
_TEXTS = (
    (0, b"<", "HTML or XML, perhaps a login or error page that was downloaded instead", "Download the trace itself."),
    (0, b"version https://git-lfs", "a Git LFS pointer", "Fetch the file that it stands for with git lfs pull."),
)
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
_UTF_16 = re.compile(rb"[\s{\[]\0[^\0]\0|\0[\s{\[]\0[^\0]")  # without a byte-order mark


def seems(start: bytes, *, also_text: bool = False) -> tuple[str, str] | None:
    """What the first bytes of a file say that it is, and what helps; None where they say nothing."""
    for offset, signature, what, helps in (*_SIGNATURES, *(_TEXTS if also_text else ())):
        if start[offset:].startswith(signature):
            return what, helps
    return ("UTF-16 text", _RESAVE) if _UTF_16.match(start) else None


def _is_binary(start: bytes) -> bool:
    """Whether bytes are no text of any encoding that extends ASCII."""
    return bool(_CONTROL.search(start)) or start.decode("utf-8", "replace").count("\ufffd") > len(start) / 10


def not_a_trace(
    path: str, text: bytes, keys: list[str], *, truncated: str | None = None, searched: int | None = None
) -> TraceError:
    """The error for a file in which there is no event.

    text: its beginning, without a byte-order mark; keys: those of the JSON object in it, as far as it can be read;
    truncated: how its decompression ended early, if it did; searched: bytes after which the search was given up, if it
    was.
    """
    cut = f" ({truncated})" if truncated else ""
    start = text.lstrip()
    if not start.strip(b"\0"):
        if start:
            return TraceError(f"{path}: holds only zero bytes{cut}. Was the disk full, or did the host crash?")
        return TraceError(f"{path}: is empty{cut}. Was the profiler stopped before it could write?")
    if recorder := recorder_of(path, text):
        return TraceError(
            f"{path}: is {recorder.what}, not a trace of torch.profiler{cut}. {recorder.helps.format(path=path)}"
        )
    found = seems(text)
    if found is None and _is_binary(text[:_HEAD_BYTES]):
        found = "binary data", _GIVE
    if found := found or seems(start, also_text=True):
        return TraceError(f"{path}: is not trace JSON{cut}: it seems to be {found[0]}. {found[1]}")
    if not start.startswith(b"{"):
        return TraceError(
            f"{path}: is not trace JSON{cut}: it starts with {shown(start)}, where JSON would start with {{ or [. "
            f"{_GIVE}"
        )
    if searched is not None:
        return TraceError(f"{path}: holds no event in its first {size(searched)}, and was read no further. {_GIVE}")
    if "traceEvents" in keys:
        return TraceError(f"{path}: its traceEvents is not a list{cut}. {_GIVE}")
    if document := _DOCUMENT.search(text[:_HEAD_BYTES]):
        return TraceError(
            f"{path}: is a document that weftrace wrote ({document[1].decode()}), not a trace{cut}; in Python, "
            f"weftrace.load opens it. {_GIVE}"
        )
    if keys:
        names = ", ".join(shown(key) for key in keys[:6])
        return TraceError(f"{path}: is JSON but not a trace{cut}: it has no traceEvents, only {names}. {_GIVE}")
    return TraceError(f"{path}: is not a trace, or cut short before its events{cut}: {size(len(text))} read. {_GIVE}")

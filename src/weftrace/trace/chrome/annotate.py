"""A recorded file with weftrace's lanes in it: every byte of the original in its place, and events added behind its
own.

`annotate` knows text, not traces: it finds where the list of events ends, and puts the additions there. What these are
is the business of `weftrace.trace.chrome.lane_events`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from weftrace.errors import TraceError
from weftrace.files.output import Sink, open_output
from weftrace.files.sources import DEFAULT_MAX_BYTES, ByteStream, open_bytes
from weftrace.notebook import InNotebook
from weftrace.trace.chrome.json_text import NotJson, lenient_json
from weftrace.trace.chrome.lane_events import PROCESS
from weftrace.trace.chrome.mend import mended
from weftrace.trace.model import Trace
from weftrace.units import MIB, size

_MAX_OUTSIDE_BYTES = 256 * MIB  # what may stand before the list of events, and what is checked of what follows it
_MAX_EVENT_BYTES = 64 * MIB
_UNPAIRED = "quotes or brackets in its list of events do not pair"
_TRUNCATED_KEY = "weftrace_truncated_source"

_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated(InNotebook):
    """What `annotate` wrote.

    num_events: events that it added.
    truncated: where and why the original ended early, or None. Of such a file, the part behind the last whole event is
    left out and the brackets are closed; the copy says the same under the key `weftrace_truncated_source`.
    """

    num_events: int
    truncated: str | None = None


def annotate(
    source: str | os.PathLike[str],
    additions: Iterable[Mapping[str, Any]],
    out: str | os.PathLike[str],
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Annotated:
    """Copy a trace file byte for byte, with events added at the end of its list. Memory does not grow with the file.

    What is no JSON does not stay, since no viewer would open it: bare numbers (`inf`, `nan`) become null, quotes and
    backslashes that the profiler left as they are in a name are escaped.
    source: Chrome JSON, an object with `traceEvents` or a bare list, compressed or not, local or remote.
    additions: events as mappings; a Decimal becomes a number with the same digits.
    out: compressed as its suffix says. It may be the source itself, which is replaced only when the copy is whole.
    max_bytes: limit on the source's decompressed size.

    Raises TraceError when the source is not such a file or is too damaged to tell where its list ends, TraceTooLarge
    past `max_bytes`, OutputError when `out` cannot be written.
    """
    stream = open_bytes(source, max_bytes=max_bytes)
    with open_output(out) as sink:
        return _copy(stream, additions, sink)


def file_base_ns(trace: Trace) -> int:
    """What the trace's file says must be added to its times (`baseTimeNanoseconds`), and so is taken off additions."""
    stated = trace.info.get("baseTimeNanoseconds", "").strip()
    base = int(stated) if re.fullmatch(r"[0-9]{1,19}", stated, re.ASCII) else 0
    return base if base < 1 << 62 else 0


def is_annotated(trace: Trace) -> bool:
    """Whether a trace was read from a file that holds the lanes already: adding them again would draw them twice."""
    return any(track.pid == PROCESS for track in trace.tracks)


def _copy(stream: ByteStream, additions: Iterable[Mapping[str, Any]], sink: Sink) -> Annotated:
    chunks = iter(stream.chunks)
    head, chunk, in_object = _find_list(stream, chunks)
    sink.write(head)
    ends = _Ends()
    any_event = False
    held = b""  # behind the last whole event: where the next one begins, or the list ends
    while True:
        whole, closed = ends.find(chunk)
        if whole:
            sink.write(_with_escapes(_with_null(held + chunk[:whole])))
            held, any_event = b"", True
        if closed is not None and chunk[closed : closed + 1] != b"]":
            raise _damaged(stream, _UNPAIRED)
        if closed is not None:
            held += chunk[whole:closed]
            sink.write(held)
            between = held.rstrip()
            needs_comma = not between.endswith(b",") if between else any_event
            num_events = _insert(additions, sink, needs_comma=needs_comma)
            return Annotated(
                num_events=num_events, truncated=_copy_rest(chunk[closed:], chunks, stream, sink, in_object)
            )
        held += chunk[whole:]
        if len(held) > _MAX_EVENT_BYTES:
            raise _damaged(stream, f"{size(_MAX_EVENT_BYTES)} of its list of events hold no end of an event")
        following = next(chunks, None)
        if following is None:
            break
        chunk = following
    if held.count(b'"ph"') > 1:
        raise _damaged(stream, _UNPAIRED)
    truncated = stream.truncated or "the list of events is not closed"
    num_events = _insert(additions, sink, needs_comma=any_event)
    sink.write(_closing(truncated, in_object))
    return Annotated(num_events=num_events, truncated=truncated)


def _with_null(events: bytes) -> bytes:
    """Whole events with null for bare numbers (`inf`, `-nan`), which are no JSON: no viewer would open the copy."""
    if not any(start in events for start in _BARE_BEGINS):
        return events
    plain = _ESCAPE.sub(b"  ", events) if b"\\" in events else events
    pieces = []
    num_quotes = copied = counted = 0
    for found in _BARE.finditer(plain):
        num_quotes += plain.count(b'"', counted, found.start())
        counted = found.start()
        if num_quotes % 2 == 0:
            pieces += [events[copied : found.start()], b"null"]
            copied = found.end()
    return b"".join((*pieces, events[copied:]))


def _with_escapes(events: bytes) -> bytes:
    """Whole events with the quotes and backslashes escaped that a profiler left as they are in a name (`mend`)."""
    try:
        msgspec.json.decode(b"[" + events.strip(b" \t\r\n,") + b"]", type=list[msgspec.Raw])
        return events
    except (msgspec.DecodeError, RecursionError):
        text = events.decode("utf-8", "surrogateescape")
    pieces = []
    at = copied = 0
    while (at := text.find("{", at)) >= 0:
        try:
            at = lenient_json(text, at)[1]
        except NotJson:
            try:
                _, piece, end = mended(text, at, last=True)
            except NotJson:
                break  # damage, which stays as it is
            pieces += [text[copied:at], piece]
            at = copied = end
    return "".join((*pieces, text[copied:])).encode("utf-8", "surrogateescape")


def _insert(additions: Iterable[Mapping[str, Any]], sink: Sink, *, needs_comma: bool) -> int:
    num_events = 0
    for event in additions:
        sink.write((b",\n" if needs_comma else b"\n") + _encode(event))
        needs_comma = True
        num_events += 1
    if num_events:
        sink.write(b"\n")
    return num_events


def _copy_rest(rest: bytes, chunks: Iterator[bytes], stream: ByteStream, sink: Sink, in_object: bool) -> str | None:
    """Copy from the list's closing bracket on, once it is known to be sound; what is wrong with it otherwise."""
    pieces = [rest]
    length = len(rest)
    for chunk in chunks:
        pieces.append(chunk)
        length += len(chunk)
        if length > _MAX_OUTSIDE_BYTES:
            break
    rest = b"".join(pieces)
    if length > _MAX_OUTSIDE_BYTES or _is_sound(rest[1:], in_object):
        sink.write(rest)
        for chunk in chunks:
            sink.write(chunk)
        return stream.truncated
    if b'"ph"' in rest:
        raise _damaged(stream, _UNPAIRED)
    truncated = stream.truncated or "what follows the list of events is cut short or damaged"
    sink.write(_closing(truncated, in_object))
    return truncated


def _closing(truncated: str, in_object: bool) -> bytes:
    """The end of a file whose own is missing."""
    return b"],\n" + _encode({_TRUNCATED_KEY: truncated})[1:] + b"\n" if in_object else b"]\n"


def _is_sound(tail: bytes, in_object: bool) -> bool:
    """Whether the text behind the list's closing bracket completes the file."""
    tail = tail.strip()
    if not in_object:
        return not tail
    try:
        json.loads(b"{" + tail.removeprefix(b","), strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _damaged(stream: ByteStream, reason: str) -> TraceError:
    cut = f" ({stream.truncated})" if stream.truncated else ""
    return TraceError(
        f"{stream.path}: {reason}{cut}, so weftrace cannot find the end of the list. Repair it first: "
        f"weftrace convert '{stream.path}' -o repaired.json.gz keeps every event that can be read."
    )


_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]:,]', re.DOTALL)


def _find_list(stream: ByteStream, chunks: Iterator[bytes]) -> tuple[bytes, bytes, bool]:
    """The text through the bracket that opens the list of events, what was read behind it, and whether the list stands
    in an object."""
    text = b""
    scan_at = 1 << 12
    for chunk in chunks:
        text += chunk
        start = text.removeprefix(b"\xef\xbb\xbf").lstrip()
        if start.startswith(b"["):
            opened = len(text) - len(start) + 1
            return text[:opened], text[opened:], False
        if start and not start.startswith(b"{"):
            shown = ascii(start[:40].decode("utf-8", "replace"))
            raise TraceError(
                f"{stream.path}: is not a trace's JSON: it starts with {shown}. "
                "Annotate the file that torch.profiler's export_chrome_trace wrote."
            )
        if len(text) >= scan_at:
            if (opened_at := _list_start(text)) is not None:
                return text[:opened_at], text[opened_at:], True
            scan_at = 2 * len(text)
        if len(text) > _MAX_OUTSIDE_BYTES:
            raise TraceError(f"{stream.path}: no traceEvents in the first {size(len(text))}: not a trace.")
    if (opened_at := _list_start(text)) is not None:
        return text[:opened_at], text[opened_at:], True
    cut = f" ({stream.truncated})" if stream.truncated else ""
    if not text.strip():
        raise TraceError(f"{stream.path}: is empty{cut}. Was the profiler stopped before it could write?")
    raise TraceError(
        f"{stream.path}: has no list of traceEvents{cut}: not a trace, or cut short before its first event."
    )


def _list_start(text: bytes) -> int | None:
    """Offset behind the bracket that opens `traceEvents` of the outermost object."""
    depth = 0
    before = (b"", b"")
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == b"[" and depth == 1 and before == (b'"traceEvents"', b":"):
            return match.end()
        depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
        before = (before[1], token)
    return None


# As Kineto writes them, the value of a key; the first are looked for because that is much quicker.
_BARE_BEGINS = tuple(b":" + rest for word in (b"inf", b"nan", b"Inf", b"NaN")
                     for rest in (word, b" " + word, b"-" + word, b" -" + word))  # fmt: skip
_BARE = re.compile(rb"(?<=[\s:,\[])[-+]?(?:inf(?:inity)?|nan(?:\(\w*\))?)(?=\s*[,\]}])", re.IGNORECASE)
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_QUOTE, _OPEN, _CLOSE = 1, 2, 3
_KIND_OF_BYTE = np.zeros(256, np.uint8)
_KIND_OF_BYTE[list(b'"')] = _QUOTE
_KIND_OF_BYTE[list(b"{[")] = _OPEN
_KIND_OF_BYTE[list(b"}]")] = _CLOSE
_STEP_OF_KIND = np.array([0, 0, 1, -1], np.int8)


class _Ends:
    """Follows strings and brackets through the chunks of a list, to tell where its events end and where it does."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._in_escape = False  # the last chunk ended with a backslash that escapes this one's first byte

    def find(self, chunk: bytes) -> tuple[int, int | None]:
        """Offsets behind the chunk's last whole event (0 where none ends), and of the bracket that closes the list."""
        if not chunk:
            return 0, None
        kinds = _KIND_OF_BYTE[np.frombuffer(self._without_escapes(chunk), np.uint8)]
        at = np.flatnonzero(kinds)
        if not len(at):
            return 0, None
        kinds = kinds[at]
        in_string = (np.cumsum(kinds == _QUOTE) + self._in_string) % 2 == 1
        steps = np.where(in_string, 0, _STEP_OF_KIND[kinds])
        depths = self._depth + np.cumsum(steps, dtype=np.int64)
        self._depth, self._in_string = int(depths[-1]), bool(in_string[-1])
        closing = np.flatnonzero(depths < 0)
        end = int(closing[0]) if len(closing) else len(at)
        wholes = np.flatnonzero((depths[:end] == 0) & (steps[:end] < 0))
        return int(at[wholes[-1]]) + 1 if len(wholes) else 0, int(at[end]) if len(closing) else None

    def _without_escapes(self, chunk: bytes) -> bytes:
        """The chunk with blanks for whatever a backslash escapes, so that each quote left opens or closes a string."""
        if self._in_escape:
            chunk = b" " + chunk[1:]
            self._in_escape = False
        if b"\\" in chunk:
            chunk = _ESCAPE.sub(b"  ", chunk)
            self._in_escape = chunk.endswith(b"\\")
        return chunk

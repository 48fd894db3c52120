"""Where are the events in the text of a trace file, and where can it be cut between two of them?

Two speeds share one sink. Sound text is cut at a boundary between events and decoded as a whole: a cut between two
objects that are nested in one event leaves brackets open, so that a decode that succeeds proves the cut. Text that
cannot be decoded so is walked through event by event (`walk`).

Memory is bounded by `EVENT_BYTES` of events and `OUTSIDE_BYTES` of what stands around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from weftrace.files.sources import ByteStream
from weftrace.trace.chrome.ahead import Ahead
from weftrace.trace.chrome.facts import members
from weftrace.trace.chrome.foreign import not_a_trace, seems
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.walk import EVENT_BEGINS, Sink, walk
from weftrace.trace.limits import EVENT_LISTS, OUTSIDE_BYTES
from weftrace.units import KIB, size

_MAX_CUTS = 6  # that are tried
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
# Where a list of events starts: behind its key or, in a file that has lost that, at the first event.
_LIST = re.compile(rb'"traceEvents"\s*:\s*\[|(?=%s)' % EVENT_BEGINS.encode())


def read_events(stream: ByteStream, sink: Sink, ahead: Ahead | None = None) -> list[bytes]:
    """Feed every event of a file to `sink`; the result is the text around the list of events: a head and a tail.

    ahead: reads text for the sink before its turn. A second list, and events beyond the end of the list, are read too.
    `stream.truncated` says afterwards whether the text ended early. Raises TraceError where there is no event, and says
    what the file seems to be.
    """
    head, rest = _first_list(stream, sink.tally)
    outside = [head]
    num_outside = num_lists = 0
    while (after := _read_list(rest, stream, sink, ahead)) is not None:
        buffer = bytearray(after)
        found = _search(buffer, stream.chunks)
        outside.append(bytes(buffer[: found[0]] if found else buffer))
        num_outside += len(outside[-1])
        num_lists += 1
        if found is None or num_outside > OUTSIDE_BYTES or num_lists == EVENT_LISTS:
            if num_outside > OUTSIDE_BYTES:
                stream.truncated = f"what follows the events exceeds {size(OUTSIDE_BYTES)} and was not read"
            elif found is not None:
                stream.truncated = f"what follows {EVENT_LISTS:,} lists of events was not read"
            elif head.lstrip().startswith(b"{") and not buffer.rstrip(b" \t\r\n\0").endswith(b"}"):
                stream.truncated = stream.truncated or "what follows the list of events is cut short"
            return outside
        rest = bytes(buffer[found[1] :])
        sink.tally.repair("events beyond the end of the list were read", rest)
    stream.truncated = stream.truncated or "the list of events is not closed"
    return outside


def _first_list(stream: ByteStream, tally: Tally) -> tuple[bytes, bytes]:
    """What stands before the first list of events, and what is at hand of the text from its first event on."""
    buffer = bytearray()
    while len(buffer) < 4 * KIB and (chunk := next(stream.chunks, None)) is not None:
        buffer += chunk
    buffer = buffer.removeprefix(b"\xef\xbb\xbf")
    start = bytes(buffer[: 4 * KIB])
    found: tuple[int, int] | None
    if start.lstrip().startswith(b"["):
        match = _LIST.search(buffer)
        found = match.span() if match and match[0] else (0, buffer.index(b"[") + 1)
    else:
        found = None if seems(start) else _search(buffer, stream.chunks)
    if found is None:
        text = bytes(buffer)
        facts, _ = members(text.decode("utf-8", "replace"))
        searched = OUTSIDE_BYTES if len(text) > OUTSIDE_BYTES else None
        raise not_a_trace(stream.path, text, list(facts), truncated=stream.truncated, searched=searched)
    if found[0] == found[1]:
        tally.repair("no traceEvents: events were found without it", bytes(buffer[found[0] :][:64]))
    return bytes(buffer[: found[0]]), bytes(buffer[found[1] :])


def _search(buffer: bytearray, chunks: Iterator[bytes]) -> tuple[int, int] | None:
    """Where the next list of events has its key and its first event; the buffer grows as long as there is none."""
    searched = 0
    while (match := _LIST.search(buffer, max(0, searched - 4 * KIB))) is None:
        searched = len(buffer)
        if searched > OUTSIDE_BYTES or (chunk := next(chunks, None)) is None:
            return None
        buffer += chunk
    return match.span()


# --- one list of events ---------------------------------------------------------------------------------------------


def _read_list(buffer: bytes, stream: ByteStream, sink: Sink, ahead: Ahead | None) -> bytes | None:
    """Take events until the list is closed, and return what is at hand of the text after it; None where the file ends
    before."""
    enough = 0
    while True:
        buffer, last = _grown(buffer, stream.chunks, enough)
        cuts = _last_cuts(buffer)
        if ahead is not None:
            if not last and cuts and ahead.take(buffer, *cuts[-1]):
                buffer, enough = buffer[cuts[-1][1] :], 0
                continue
            if (in_order := ahead.settle(buffer)) is not None:
                buffer, later = in_order
                cuts, last = _last_cuts(buffer), False
                stream.chunks = chain(later, stream.chunks)
        cut = _take_prefix(buffer, cuts, sink)
        closed = False
        if cut is None or last:
            buffer = buffer[cut or 0 :]
            cut, closed = walk(buffer, sink, last=last)
        if closed or last:
            return buffer[cut:] if closed else None
        enough = 0 if cut else 2 * len(buffer)  # an event longer than the buffer: grow it fast enough to stay linear
        buffer = buffer[cut:]


def _grown(buffer: bytes, chunks: Iterator[bytes], enough: int) -> tuple[bytes, bool]:
    """A text with at least one more chunk, and as many as make `enough` bytes; and whether the file ends with it."""
    pieces = [buffer]
    num_bytes = len(buffer)
    last = False
    while not last and (len(pieces) == 1 or num_bytes < enough):
        chunk = next(chunks, None)
        last = chunk is None
        pieces.append(chunk or b"")
        num_bytes += len(pieces[-1])
    return b"".join(pieces), last


def _last_cuts(buffer: bytes) -> list[tuple[int, int]]:
    """The last boundaries in a text, in order."""
    cuts: list[tuple[int, int]] = []
    for window in (4 * KIB, 64 * KIB, len(buffer)):
        cuts = [match.span() for match in _BOUNDARY.finditer(buffer, max(0, len(buffer) - window))]
        if cuts:
            break
    return cuts[-_MAX_CUTS:]


def _take_prefix(buffer: bytes, cuts: Sequence[tuple[int, int]], sink: Sink) -> int | None:
    """Take the events up to the last boundary; the offset of what remains, or None where that text is not sound."""
    view = memoryview(buffer)
    for start, end in reversed(cuts):
        if sink.add_json(b"".join((b"[", view[: start + 1], b"]"))):
            return end
    return None

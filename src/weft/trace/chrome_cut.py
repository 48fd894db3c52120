"""Where does one event end and the next begin? The text of a trace file, cut into events, however damaged it is.

Two speeds share one sink. Sound text is cut at a boundary between events and decoded as a whole: a cut between two
objects that are nested in one event leaves brackets open, so that a decode that succeeds proves the cut. Text that cannot
be decoded so is walked through event by event; after damage, reading resumes at the next object that is an event.

Memory is bounded by `_MAX_EVENT_BYTES` of events and `_MAX_OUTSIDE_BYTES` of what stands around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from weft.trace.chrome_events import Event, lenient_event, lenient_json
from weft.trace.chrome_facts import members
from weft.trace.chrome_foreign import not_a_trace, seems
from weft.trace.chrome_tally import Tally
from weft.trace.sources import ByteStream
from weft.units import KIB, MIB, size

_MAX_OUTSIDE_BYTES = 64 * MIB
_MAX_EVENT_BYTES = 8 * MIB
_MAX_DAMAGE_BYTES = 1 * MIB  # of damaged text that waits for more, to find the next event

_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
# Where a list of events starts: behind its key or, in a file that has lost that, at the first object with a phase.
_LIST = re.compile(rb'"traceEvents"\s*:\s*\[|(?=\{[^{}]*"ph"\s*:)')


class Sink(Protocol):
    """What takes the events."""

    tally: Tally

    def add_json(self, text: bytes) -> bool:
        """Take a JSON list of events; False, with nothing taken, when the text is not that."""

    def add(self, events: Sequence[Event]) -> None:
        """Take events."""


def read_events(stream: ByteStream, sink: Sink) -> list[bytes]:
    """Feed every event of a file to `sink`; the result is the text around the list of events: a head and a tail.

    A second list, and events beyond the end of the list, are read too. `stream.truncated` says afterwards whether the
    text ended early. Raises TraceError where there is no event, and says what the file seems to be.
    """
    head, rest = _first_list(stream, sink.tally)
    outside = [head]
    while (after := _read_list(rest, stream.chunks, sink)) is not None:
        buffer = bytearray(after)
        found = _search(buffer, stream.chunks)
        outside.append(bytes(buffer[: found[0]] if found else buffer))
        if found is None:
            if len(buffer) > _MAX_OUTSIDE_BYTES:
                stream.truncated = f"what follows the events exceeds {size(_MAX_OUTSIDE_BYTES)} and was not read"
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
    if start.lstrip().startswith(b"["):
        match = _LIST.search(buffer)
        found = match.span() if match and match[0] else (0, buffer.index(b"[") + 1)
        match = None  # a match forbids the buffer to grow
    elif seems(start) or (found := _search(buffer, stream.chunks)) is None:
        text = bytes(buffer)
        raise not_a_trace(stream.path, text, list(members(text.decode("utf-8", "replace"))[0]), stream.truncated)
    if found[0] == found[1]:
        tally.repair("no traceEvents: events were found without it", bytes(buffer[found[0] :][:64]))
    return bytes(buffer[: found[0]]), bytes(buffer[found[1] :])


def _search(buffer: bytearray, chunks: Iterator[bytes]) -> tuple[int, int] | None:
    """Where the next list of events has its key and its first event; the buffer grows as long as there is none."""
    searched = 0
    while (match := _LIST.search(buffer, max(0, searched - 4 * KIB))) is None:
        searched = len(buffer)
        if searched > _MAX_OUTSIDE_BYTES or (chunk := next(chunks, None)) is None:
            return None
        buffer += chunk
    return match.span()


# --- one list of events ---------------------------------------------------------------------------------------------


def _read_list(buffer: bytes, chunks: Iterator[bytes], sink: Sink) -> bytes | None:
    """Take events until the list is closed, and return what is at hand of the text after it; None where the file ends
    before."""
    enough = 0
    while True:
        pieces = [buffer]
        num_bytes = len(buffer)
        last = False
        while not last and (len(pieces) == 1 or num_bytes < enough):
            chunk = next(chunks, None)
            last = chunk is None
            pieces.append(chunk or b"")
            num_bytes += len(pieces[-1])
        buffer = b"".join(pieces)
        cut = _take_prefix(buffer, sink)
        closed = False
        if cut is None or last:
            buffer = buffer[cut or 0 :]
            cut, closed = _walk(buffer, sink, last=last)
        if closed or last:
            return buffer[cut:] if closed else None
        enough = 0 if cut else 2 * len(buffer)  # an event longer than the buffer: grow it fast enough to stay linear
        buffer = buffer[cut:]


def _take_prefix(buffer: bytes, sink: Sink) -> int | None:
    """Take the events up to the last boundary; the offset of what remains, or None where that text is not sound."""
    cuts: list[tuple[int, int]] = []
    for window in (4 * KIB, 64 * KIB, len(buffer)):
        cuts = [match.span() for match in _BOUNDARY.finditer(buffer, max(0, len(buffer) - window))]
        if cuts:
            break
    view = memoryview(buffer)
    for start, end in reversed(cuts[-6:]):
        if sink.add_json(b"".join((b"[", view[: start + 1], b"]"))):
            return end
    return None


# --- event by event -------------------------------------------------------------------------------------------------

_BLANK = re.compile(r"[\s,\0]*")
_SCALAR = r'(?:"(?:[^"\\]|\\.)*+"|[\w.+-]++)'
_SCALARS = re.compile(rf"(?:{_SCALAR}[\s\0]*(?:,[\s\0]*|(?=\])))++")
_CLOSES = re.compile(r'\][\s\0]*(?:,[\s\0]*"|\}|,?[\s\0]*\Z)')  # the end of the list, as it is in a sound file
_MAY_CLOSE = re.compile(r"\][\s\0,]*\Z")
_BRACKETS = re.compile(r"\[[\[\s,\0]*|\](?:[\]\s,\0]*(?=\]))?")


def _walk(buffer: bytes, sink: Sink, *, last: bool) -> tuple[int, bool]:
    """Take the events one by one, as far as they are complete (to the end, when the text is the `last` of its file); the
    offset of what remains, and whether the list was closed."""
    text = buffer.decode("utf-8", "surrogateescape")
    events: list[Event] = []
    closed = False
    at = 0
    while not closed and (at := _end(_BLANK, text, at)) < len(text):
        damage, unfinished = "not JSON (text between events)", False
        if text[at] == "{":
            try:
                value, end = lenient_json(text, at)
            except (json.JSONDecodeError, RecursionError) as error:
                unfinished = _is_unfinished(error, text, at)
                if unfinished and not last and len(text) - at < _MAX_EVENT_BYTES:
                    break  # the next chunk will complete it
                damage = f"longer than {size(_MAX_EVENT_BYTES)}" if unfinished else f"not JSON ({_message(error)})"
            else:
                events.append(lenient_event(value, text[at:end], sink.tally))
                at = end
                continue
        elif text[at] in "[]":
            if _MAY_CLOSE.match(text, at) and not last and len(text) - at < _MAX_DAMAGE_BYTES:
                break
            closed = _CLOSES.match(text, at) is not None
            end = at + 1 if closed else _end(_BRACKETS, text, at)
            if not closed:
                sink.tally.repair(_STRAY, text[at:end])
            at = end
            continue
        elif scalars := _SCALARS.match(text, at):
            sink.tally.drop("not an object", scalars[0], len(re.findall(_SCALAR, scalars[0])))
            at = scalars.end()
            continue
        resume = _next_event(text, at + 1, last=last or len(text) - at > _MAX_DAMAGE_BYTES)
        if resume is None:
            break
        end = resume
        if last and resume == len(text):
            tail = None if unfinished else _tail(text, at)
            if tail is None:
                damage = "cut short at the end of the file"
            else:
                (end, resume), closed = tail, True
        _lose(text[at:end], damage, sink.tally)
        at = resume
    sink.add(events)
    return len(text[:at].encode("utf-8", "surrogateescape")), closed


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match, (pattern, text[at : at + 20])
    return match.end()


# --- damage ---------------------------------------------------------------------------------------------------------

_STRAY = "stray text between events skipped"
_PHASE = re.compile(r'"ph"\s*:')
_OBJECT = re.compile(r'\{(?=\s*")')
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]]')


def _lose(stretch: str, reason: str, tally: Tally) -> None:
    """Count the events of a damaged stretch: by their phases, and one at least where there is something of an object."""
    num_events = len(_PHASE.findall(stretch)) or int(":" in stretch)
    if num_events:
        tally.drop(reason, stretch, num_events)
    else:
        tally.repair(_STRAY, stretch)


def _message(error: json.JSONDecodeError | RecursionError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"


def _is_unfinished(error: json.JSONDecodeError | RecursionError, text: str, start: int) -> bool:
    """Whether more text could make the object that starts at `start` whole."""
    if isinstance(error, RecursionError):
        return _nested(text, start, depth=0) is None
    return error.pos >= len(text) - 12 or error.msg.startswith("Unterminated string")  # 12: the longest token but one


def _nested(text: str, start: int, *, depth: int) -> int | None:
    """Where the brackets that open at `start` first nest to a depth; with depth 0, where they are closed."""
    now = 0
    for token in _NESTING.finditer(text, start):
        if token[0] in "{[":
            now += 1
        elif token[0] in "}]":
            now -= 1
        else:
            continue
        if now == depth:
            return token.end()
    return None


def _next_event(text: str, start: int, *, last: bool) -> int | None:
    """Where the next event starts, after damage. None: more text must show, unless it is the last; then its end."""
    skip_to = start
    budget = 4 * len(text) + 64 * KIB  # so that a file made for it cannot have every stretch read many times over
    for match in _OBJECT.finditer(text, start):
        at = match.start()
        if at < skip_to:
            continue
        try:
            value, end = lenient_json(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            if isinstance(error, RecursionError):
                skip_to = _nested(text, at, depth=200) or len(text)
                continue
            if not last and _is_unfinished(error, text, at):
                return None
            budget -= error.pos - at
            if budget < 0:
                break
            continue
        if "ph" in value:
            return at
        skip_to = end
    return len(text) if last else None


def _tail(text: str, start: int) -> tuple[int, int] | None:
    """(end of the damage, start of the tail) where the list ends within the damaged rest of a file and the facts behind
    it are sound; the closing bracket itself may be missing."""
    if text[start] == '"' and _is_tail(text[start:]):
        return start, start
    for tried, match in enumerate(re.finditer(r"\]", text[start:])):
        end, rest = start + match.start(), text[start + match.end() :]
        if tried == 64:
            break
        if rest.strip(" \t\r\n\0}") == "":
            if text[:end].rstrip().endswith("}"):
                return end, end + 1
        elif re.match(r'\s*,\s*"', rest) and _is_tail(rest):
            return end, end + 1
    return None


def _is_tail(text: str) -> bool:
    facts, sound = members(text)
    return sound and "ph" not in facts

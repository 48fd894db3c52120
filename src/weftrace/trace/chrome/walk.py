"""Where does the next event begin in damaged text? Events one by one; after damage, the next object that is an event.

What stands between is counted as events lost: as many as there are phases in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from weftrace.trace.chrome.events import Event, lenient_event, quick_event
from weftrace.trace.chrome.facts import members
from weftrace.trace.chrome.json_text import NotJson, lenient_json, nested
from weftrace.trace.chrome.mend import mended
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.limits import DAMAGE_BYTES, EVENT_BYTES
from weftrace.units import KIB, size

_MAX_QUICK = 1 << 14  # characters in which an event that is read quickly ends
_MAX_NESTING = 200  # levels that may be skipped at once in text that nests too deeply to be decoded

_BLANK = re.compile(r"[\s,\0]*")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*+"|[\w.+-]++')
_SCALARS = re.compile(rf"(?:(?:{_SCALAR.pattern})[\s\0]*(?:,[\s\0]*|(?=\])))++")
_CLOSES = re.compile(r'\][\s\0]*(?:,[\s\0]*"|\}|,?[\s\0]*\Z)')  # the end of the list, as it is in a sound file
_MAY_CLOSE = re.compile(r"\][\s\0,]*\Z")
_EMPTY_LIST = re.compile(r"\[[\s\0]*\]")
_MAY_BE_EMPTY = re.compile(r"\[[\s\0]*\Z")
_BRACKETS = re.compile(r"\[[\[\s,\0]*|\](?:[\]\s,\0]*(?=\]))?")  # all of a run but the last, which may close the list
_PHASE = re.compile(r'"ph"\s*:')
_NEXT = re.compile(r"\}[\s,]*(?=\{)")
_OBJECT = re.compile(r'\{(?=\s*")')
_TEXT = r'"(?:[^"\\]|\\.)*+"'
#: How an event begins whose phase stands before its arguments, as nearly all writers have it.
EVENT_BEGINS = rf'\{{(?:\s*(?!"ph"\s*:){_TEXT}\s*:\s*(?:{_TEXT}|[^"{{}}\[\],]*+)\s*,)*+\s*"ph"\s*:'
_EVENT = re.compile(EVENT_BEGINS)


class Sink(Protocol):
    """What takes the events."""

    tally: Tally
    whole: bool  # whether it takes events with all their arguments

    def add_json(self, text: bytes) -> bool:
        """Take a JSON list of events; False, with nothing taken, when the text is not that."""

    def add(self, events: Sequence[Event]) -> None:
        """Take events."""


def walk(buffer: bytes, sink: Sink, *, last: bool) -> tuple[int, bool]:
    """Take the events one by one, as far as they are complete; the offset of what remains, and whether the list closed.

    last: the file ends with this text, so that nothing remains of the list.
    """
    walker = _Walker(buffer.decode("utf-8", "surrogateescape"), sink.tally, last=last, whole=sink.whole)
    walker.run()
    sink.add(walker.events)
    return len(walker.text[: walker.at].encode("utf-8", "surrogateescape")), walker.closed


class _Walker:
    """A place in a text, and the events before it."""

    def __init__(self, text: str, tally: Tally, *, last: bool, whole: bool) -> None:
        self.whole = whole
        self.text = text
        self.tally = tally
        self.last = last
        self.at = 0
        self.events: list[Event] = []
        self.closed = False
        self._no_next_before = 0  # no event is followed by another one before this place

    def run(self) -> None:
        """Go on until the list closes, the text ends, or more of it must show what stands here."""
        go_on = True
        while go_on and not self.closed:
            self.at = _end(_BLANK, self.text, self.at)
            if self.at == len(self.text):
                return
            char = self.text[self.at]
            go_on = self._object() if char == "{" else self._bracket() if char in "[]" else self._other()

    def _object(self) -> bool:
        text, at = self.text, self.at
        if self._quick():
            return True
        try:
            value, end = lenient_json(text, at)
        except NotJson as error:
            if not error.unfinished and not error.too_deep:
                try:
                    return self._mended(at)
                except NotJson as other:
                    if other.unfinished:
                        return False
            unfinished = nested(text, at, depth=0) is None if error.too_deep else error.unfinished
            if self.last or not unfinished:
                return self._damage(f"not JSON ({error.reason})", may_hold_end=not unfinished)
            return len(text) - at >= EVENT_BYTES and self._damage(f"longer than {size(EVENT_BYTES)}")
        is_event = "ph" in value
        sound = isinstance(value.get("ph"), str) and "traceEvents" not in value
        if not sound and len(_PHASE.findall(text, at, end)) > is_event:
            return self._damage("an object around events")
        if is_event:
            self.events.append(lenient_event(value, text[at:end], self.tally, whole=self.whole))
        else:
            self.tally.drop("no ph: not an event", text[at:end])
        self.at = end
        return True

    def _quick(self) -> bool:
        """Take the event here, if it is sound or soon mended, and another one follows it."""
        text, at = self.text, self.at
        if at < self._no_next_before:
            return False
        following = _NEXT.search(text, at, at + _MAX_QUICK)
        if following is None:
            self._no_next_before = min(at + _MAX_QUICK, len(text))
            return False
        event_text = text[at : following.start() + 1]
        event = None if '"traceEvents"' in event_text else quick_event(event_text, self.tally, whole=self.whole)
        if event is None:
            return False
        self.events.append(event)
        self.at = following.start() + 1
        return True

    def _mended(self, at: int) -> bool:
        """Take the event here whose text is not quite JSON. Raises NotJson where it cannot be mended."""
        value, text, end = mended(self.text, at, last=self.last)
        if not _is_one_event(value, self.text, at, end):
            raise NotJson("not one event", at)
        self.events.append(lenient_event(value, text, self.tally, mended=True, whole=self.whole))
        self.at = end
        return True

    def _bracket(self) -> bool:
        text, at = self.text, self.at
        if empty := _EMPTY_LIST.match(text, at):
            self.tally.drop("not an object", empty[0])
            self.at = empty.end()
            return True
        may_go_on = _MAY_CLOSE.match(text, at) or _MAY_BE_EMPTY.match(text, at)
        if not self.last and len(text) - at < DAMAGE_BYTES and may_go_on:
            return False
        self.closed = _CLOSES.match(text, at) is not None
        self.at = at + 1 if self.closed else _end(_BRACKETS, text, at)
        if not self.closed:
            self.tally.repair(_STRAY, text[at : self.at])
        return True

    def _other(self) -> bool:
        scalars = _SCALARS.match(self.text, self.at)
        if scalars is None:
            return self._damage("not JSON (text between events)")
        self.tally.drop("not an object", scalars[0], len(_SCALAR.findall(scalars[0])))
        self.at = scalars.end()
        return True

    def _damage(self, reason: str, *, may_hold_end: bool = True) -> bool:
        """Count what is damaged and go on behind it. may_hold_end: the list may end in what is damaged."""
        text, at = self.text, self.at
        enough = self.last or len(text) - at > DAMAGE_BYTES
        found = _next_event(text, at + 1, last=enough)
        if found is None and not enough:
            return False
        end = self.at = len(text) if found is None else found
        if found is None and self.last:
            tail = _tail(text, at) if may_hold_end else None
            if tail is None:
                reason = "cut short at the end of the file"
            else:
                (end, self.at), self.closed = tail, True
        self._lose(text[at:end], reason)
        return True

    def _lose(self, stretch: str, reason: str) -> None:
        """Count the events of a damaged stretch: one at least where there is something of an object."""
        num_events = len(_PHASE.findall(stretch)) or int(":" in stretch)
        if num_events:
            self.tally.drop(reason, stretch, num_events)
        else:
            self.tally.repair(_STRAY, stretch)


def _is_one_event(value: dict[str, Any], text: str, at: int, end: int) -> bool:
    """Whether what was mended is one event: with a second phase, or without its times, a text took in too much."""
    needed = ("ts", "dur") if value.get("ph") == "X" else ("ph", "ts")
    return all(key in value for key in needed) and len(_PHASE.findall(text, at, end)) == 1


_STRAY = "stray text between events skipped"


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match, (pattern, text[at : at + 20])
    return match.end()


def _next_event(text: str, start: int, *, last: bool) -> int | None:
    """Where the next event starts, after damage; None where there is none or, unless the text is the last, where more
    of it must show. Tries are bounded, so that a file made for it cannot have every stretch read many times over.
    """
    skip_to = start
    budget = 4 * len(text) + 64 * KIB  # characters that may be read in vain; then only what begins as most events do
    for match in _OBJECT.finditer(text, start):
        at = match.start()
        if at < skip_to or (budget < 0 and not _EVENT.match(text, at)):
            continue
        try:
            value, end = lenient_json(text, at)
        except NotJson as error:
            if error.too_deep:
                skip_to = nested(text, at, depth=_MAX_NESTING) or len(text)
                continue
            budget -= error.end - at + 64  # to try costs something in any case
            if not error.unfinished and _EVENT.match(text, at):
                try:
                    value, _, end = mended(text, at, last=last)
                except NotJson as other:
                    budget -= other.end - at
                    error = other
                else:
                    if _is_one_event(value, text, at, end):
                        return at
            if budget < -64 * len(text) or (error.unfinished and not last):
                return None
            continue
        if "ph" in value:
            return at
        if not _PHASE.search(text, at, end):
            skip_to = end
    return None


def _tail(text: str, start: int) -> tuple[int, int] | None:
    """(end of the damage, start of the tail) where the list ends in the damaged rest of a file and the facts behind it
    are sound. The closing bracket itself may be missing."""
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
    return sound and not facts.keys() & {"ph", "ts", "pid", "args"}

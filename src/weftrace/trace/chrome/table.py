"""What becomes of each event? Complete ones become rows; others become facts, or are counted as skipped or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weftrace.trace.chrome.columns import Columns
from weftrace.trace.chrome.events import MISSING, NO_ARGS, Event, decode_list
from weftrace.trace.chrome.frames import FrameColumns
from weftrace.trace.chrome.gather import label, short
from weftrace.trace.chrome.memory_events import MEMORY, MemoryColumns
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import MAX_NS, Bools, Ints, TooFine, decimal_us, exact_ns, times_ns
from weftrace.trace.model import Track

_METADATA = frozenset(
    ("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index")
)  # https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "Metadata Events"
_SPECIAL = frozenset(("python_function", "Trace"))
#: Collections, which torch.profiler (record_python_gc_info) writes among the frames: they are events of their own.
_COLLECTION, _COLLECTION_CATEGORY = "Python GC", "python_gc"
_FLOW = frozenset("stf")
_PAIR = frozenset("BE")
_INSTANT = frozenset("iI")
# Phases of the same document that carry no duration of their own.
_SKIPPED = {"i": "instant", "I": "instant", "C": "counter", "n": "async", "b": "async", "e": "async",
            "S": "async", "T": "async", "F": "async", "p": "async", "P": "sample", "N": "object",
            "O": "object", "D": "object", "v": "memory dump", "V": "memory dump", "R": "mark",
            "c": "clock sync", "(": "context", ")": "context"}  # fmt: skip


class EventSink:
    """Takes events from text. Floats serve for times until one of them has lost its nanoseconds; then decimals do."""

    #: Whether it takes events with all their arguments (`AllArgs`).
    whole = False

    def __init__(self, tally: Tally, *, exact: bool = False) -> None:
        self.tally = tally
        self.exact = exact

    def add_json(self, text: bytes | memoryview) -> bool:
        """Take a JSON list of events; False, with nothing taken, when the text is not that."""
        events = decode_list(text, exact=self.exact, whole=self.whole)
        if events is None:
            return False
        try:
            self.add(events)
        except TooFine:
            assert not self.exact, "decimals lose no nanoseconds"
            self.exact = True
            return self.add_json(text)
        return True

    def add(self, events: Sequence[Event]) -> None:
        """Take events. Raises TooFine, with nothing taken, where a float has lost its nanoseconds."""
        raise NotImplementedError


@dataclass(slots=True)
class _Begin:
    """A begin event that waits for its end. ts_ns is None when it has no usable time, and is counted already."""

    event: Event
    ts_ns: int | None


class Table(EventSink):
    """The rows of a trace under construction, and what its other events say. frames: keep Python frames, apart."""

    def __init__(self, tally: Tally, *, python_functions: bool = False, frames: bool = False) -> None:
        super().__init__(tally)
        self.columns = Columns(tally)
        self.frames = FrameColumns(tally) if frames else None
        self.memory = MemoryColumns(tally)
        self._window: tuple[int, int] | None = None
        self._window_end: int | None = None
        self.options = (python_functions, frames)
        self._special = frozenset(("Trace",)) if python_functions else _SPECIAL
        self._tracks: dict[tuple[str, str | None], dict[str, Any]] = {}
        self._begins: dict[tuple[str, str], list[_Begin]] = {}

    def add(self, events: Sequence[Event]) -> None:
        complete: list[Event] = []
        others: list[Event] = []
        frames: list[Event] = []
        memory: list[Event] = []
        num_flows = 0
        special = self._special
        for event in events:
            if event.ph == "X":
                if event.cat not in special:
                    complete.append(event)
                elif event.cat == "python_function" and event.name != _COLLECTION:
                    frames.append(event)
                elif event.cat == "python_function":
                    event.cat = _COLLECTION_CATEGORY
                    complete.append(event)
                else:
                    others.append(event)
            elif event.ph in _FLOW:
                num_flows += 1
            elif event.name == MEMORY and event.ph in _INSTANT:
                memory.append(event)
            else:
                others.append(event)
        times = _Times.of(complete)
        times_of_frames = _Times.of(frames if self.frames is not None else [])
        times_of_memory = times_ns([event.ts for event in memory]) if memory else None
        if others:
            _Times.of(others)  # may raise, and must before anything is taken
            if any(event.ph in _PAIR for event in others):
                paired = list(self._paired(events))
                complete = [event for event in paired if not self._is_frame(event)]
                frames += [event for event in paired if self._is_frame(event)]
                times, times_of_frames = _Times.of(complete), _Times.of(frames if self.frames is not None else [])
            self._take_others(others)
        if times_of_memory is not None:
            self.memory.append(memory, *times_of_memory)
        if num_flows:
            self.tally.skip("flow", num_flows)
        if frames and self.frames is None:
            self.tally.skip("python_function", len(frames))
        elif frames and self.frames is not None:
            t = times_of_frames
            self.frames.append(frames, t.ts_ns, t.dur_ns, t.has_ts & t.has_dur)
        if complete:
            self._take_complete(complete, times)

    def close(self) -> None:
        """Count what never ended. No event may be added afterwards."""
        for begins in self._begins.values():
            for begin in begins:
                if begin.ts_ns is not None:
                    self.tally.drop("begin without end", begin.event.name)
        self._begins.clear()

    def tracks(self) -> Iterator[Track]:
        """Processes and threads in order of appearance, with the names, labels and order that metadata events give."""
        for (pid, tid), facts in self._tracks.items():
            yield Track(pid=pid, tid=tid, **facts)

    @property
    def window_ns(self) -> tuple[int, int] | None:
        """The profiler's recording, as its own event tells it; the origin of times is not added."""
        if self._window is None:
            return None
        start, end = self._window
        return start, end if self._window_end is None else max(end, self._window_end)

    def _take_complete(self, events: list[Event], times: _Times) -> None:
        """Rows for events with usable times. The others are dropped and counted."""
        ts, dur = times.ts_ns, times.dur_ns
        if not (times.has_ts.all() and times.has_dur.all()) or (dur < 0).any() or (ts + dur >= MAX_NS).any():
            keep = np.zeros(len(events), np.bool_)
            for row, event in enumerate(events):
                if not times.has_ts[row]:
                    self.tally.drop("no usable time", f"{event.name} ts={event.ts}")
                elif event.dur is None:
                    self.tally.repair("no duration: taken as 0", event.name)
                    keep[row] = True
                elif not times.has_dur[row] or ts[row] + dur[row] >= MAX_NS:
                    self.tally.drop("no usable duration", f"{event.name} dur={event.dur}")
                elif dur[row] < 0:
                    self.tally.drop("negative duration", f"{event.name} dur={event.dur}")
                else:
                    keep[row] = True
            events = [event for event, kept in zip(events, keep, strict=True) if kept]
            ts, dur = ts[keep], dur[keep]
        if events:
            self.columns.append(events, ts, dur)
            if self.frames is not None:
                self.frames.append_operators(events, ts, dur)

    def _is_frame(self, event: Event) -> bool:
        return event.cat == "python_function" and event.cat in self._special

    def _paired(self, events: Sequence[Event]) -> Iterator[Event]:
        """The complete events, those included that a begin and an end make; they stand where the end does."""
        for event in events:
            if event.ph == "X" and event.cat not in self._special:
                yield event
            elif event.ph == "B":
                ts_ns = exact_ns(event.ts)
                if ts_ns is None:
                    self.tally.drop("no usable time", f"{event.name} ts={event.ts}")
                self._begins.setdefault((label(event.pid), label(event.tid)), []).append(_Begin(event, ts_ns))
            elif event.ph == "E":
                begins = self._begins.get((label(event.pid), label(event.tid)))
                end_ns = exact_ns(event.ts)
                if not begins:
                    self.tally.drop("end without begin", event.name)
                    continue
                begin = begins.pop()
                if end_ns is None and begin.ts_ns is not None:
                    self.tally.drop("no usable time", f"{event.name} ts={event.ts}")
                if end_ns is not None and begin.ts_ns is not None:
                    begin.event.dur = decimal_us(end_ns - begin.ts_ns)
                    if begin.event.args is NO_ARGS:
                        begin.event.args = event.args
                    yield begin.event

    def _take_others(self, events: Sequence[Event]) -> None:
        for event in events:
            self.take_other(event)

    def take_other(self, event: Event) -> None:
        """Everything that is neither complete, nor a flow, nor a begin or end."""
        ph = event.ph
        if ph == "X":  # the profiler's recording as a whole
            start, length = exact_ns(event.ts), exact_ns(event.dur)
            if start is None or length is None or not 0 <= length < MAX_NS - start:
                self.tally.drop("no usable time", f"{event.name} ts={event.ts} dur={event.dur}")
            else:
                old = self._window or (start, start + length)
                self._window = min(old[0], start), max(old[1], start + length)
        elif ph == "M":
            self._take_metadata(event)
        elif ph in _SKIPPED:
            if event.name == "Record Window End" and (end := exact_ns(event.ts)) is not None:
                self._window_end = end
            self.tally.skip(_SKIPPED[ph])
        elif ph not in _PAIR:
            self.tally.drop("unknown ph", f"{ph} {event.name}")

    def _take_metadata(self, event: Event) -> None:
        if event.name not in _METADATA:
            self.tally.skip("metadata")
            return
        kind, _, fact = event.name.partition("_")
        place = label(event.pid), label(event.tid) if kind == "thread" else None
        facts = self._tracks.setdefault(short(place, self.tally), {})
        value = {"name": event.args.name, "labels": event.args.labels, "sort_index": event.args.sort_index}[fact]
        if isinstance(value, str) or (isinstance(value, int) and MISSING < value < -MISSING):
            facts[fact] = short(value, self.tally)


@dataclass(slots=True, frozen=True)
class _Times:
    """Times of some events in nanoseconds, and which of them are usable."""

    ts_ns: Ints
    has_ts: Bools
    dur_ns: Ints
    has_dur: Bools

    @classmethod
    def of(cls, events: Sequence[Event]) -> _Times:
        return cls(*times_ns([event.ts for event in events]), *times_ns([event.dur for event in events]))

"""What becomes of each event? Complete events become rows; others become facts, or are counted as skipped or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from weft.trace.chrome_columns import Columns
from weft.trace.chrome_events import MISSING, NO_ARGS, Event, decode_list
from weft.trace.chrome_tally import Tally
from weft.trace.chrome_times import MAX_NS, TooFine, exact_ns, times_ns
from weft.trace.model import Track
from weft.units import US

_METADATA = frozenset(
    ("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index")
)  # https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, "Metadata Events"
_SPECIAL = frozenset(("python_function", "Trace"))
_FLOW = frozenset("stf")
# Phases of the same document that carry no duration of their own.
_SKIPPED = {"i": "instant", "I": "instant", "C": "counter", "n": "async", "b": "async", "e": "async",
            "S": "async", "T": "async", "F": "async", "p": "async", "P": "sample", "N": "object",
            "O": "object", "D": "object", "v": "memory dump", "V": "memory dump", "R": "mark",
            "c": "clock sync", "(": "context", ")": "context"}  # fmt: skip


class EventSink:
    """Takes events from text. Floats serve for times until one of them has lost its nanoseconds; then decimals do."""

    def __init__(self, tally: Tally, *, exact: bool = False) -> None:
        self.tally = tally
        self.exact = exact

    def add_json(self, text: bytes) -> bool:
        """Take a JSON list of events; False, with nothing taken, when the text is not that."""
        events = decode_list(text, exact=self.exact)
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
    """The rows of a trace under construction, and what its other events say."""

    def __init__(self, tally: Tally, *, python_functions: bool = False) -> None:
        super().__init__(tally)
        self.columns = Columns(tally)
        self.window_ns: tuple[int, int] | None = None
        self._window_end_ns: int | None = None
        self._special = frozenset(("Trace",)) if python_functions else _SPECIAL
        self._tracks: dict[tuple[str, str | None], dict[str, Any]] = {}
        self._begins: dict[tuple[int | str, int | str], list[_Begin]] = {}

    def add(self, events: Sequence[Event]) -> None:
        complete: list[Event] = []
        others: list[Event] = []
        special = self._special
        for event in events:
            if event.ph == "X" and event.cat not in special:
                complete.append(event)
            else:
                others.append(event)
        times = times_ns([event.ts for event in complete])
        lengths = times_ns([event.dur for event in complete])
        others = [event for event in others if event.ph not in _FLOW]
        ...

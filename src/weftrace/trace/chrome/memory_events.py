"""How do the profiler's `[memory]` events (`profile_memory=True`) become `Trace.memory`? A file with them has about one
for two operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.trace.chrome.columns import categorical
from weftrace.trace.chrome.events import MISSING, Event
from weftrace.trace.chrome.gather import Codes, Gathered, Tables, ints, joined, label
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import Bools, Ints
from weftrace.trace.model import MEMORY_SCHEMA

#: Name of such an event, which is an instant.
MEMORY = "[memory]"

#: Columns of numbers, and the arguments under which Kineto writes them, in its order.
MEMORY_KEY = {
    "reserved_bytes": "Total Reserved",
    "allocated_bytes": "Total Allocated",
    "bytes": "Bytes",
    "address": "Addr",
    "device": "Device Id",
    "device_type": "Device Type",
}


_PART_ROWS = 1 << 16


class MemoryColumns:
    """The memory events of a trace under construction."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._threads = Codes(tally)
        self.tables = Tables({"thread": self._threads})
        self._parts: dict[str, list[NDArray[Any]]] = defaultdict(list)
        self._num_pending = 0
        self._frames: list[pl.DataFrame] = []

    def append(self, events: Sequence[Event], ts_ns: Ints, has_ts: Bools) -> None:
        """Add events with these times. Those without a usable time or bytes are dropped and counted."""
        args = [event.args for event in events]
        stated = (
            [a.reserved_bytes for a in args], [a.allocated_bytes for a in args], [a.memory_bytes for a in args],
            [a.address for a in args], [a.memory_device for a in args], [a.device_type for a in args],
        )  # fmt: skip
        values = {column: ints(numbers, self._tally) for column, numbers in zip(MEMORY_KEY, stated, strict=True)}
        kept = has_ts & (values["bytes"] != MISSING)
        for row in np.flatnonzero(~kept).tolist():
            self._tally.drop("memory event without usable time or bytes", f"ts={events[row].ts}")
        threads = self._threads
        values["thread"] = np.fromiter([threads[(e.pid, e.tid)] for e in events], np.uint32, len(events))
        values["ts_ns"] = ts_ns
        for column, of_events in values.items():
            self._parts[column].append(of_events if kept.all() else of_events[kept])
        self._count(len(events))

    def gathered(self) -> Gathered:
        """All events, which are given up: fewer than a part, as a few megabytes of text have."""
        assert not self._frames, self._num_pending
        return Gathered(joined(self._parts), self.tables.values_of())

    def put(self, gathered: Gathered) -> None:
        """Add events that were gathered elsewhere."""
        for column, values in self.tables.arrays(gathered).items():
            self._parts[column].append(values.copy())  # of the memory in which they came
        self._count(len(gathered.arrays.get("ts_ns", ())))

    def frame(self, base_ns: int) -> pl.DataFrame | None:
        """All of them in order of time, with `base_ns` added; None where there are none."""
        self._flush()
        if not self._frames:
            return None
        frame = pl.concat(self._frames, rechunk=False)
        if base_ns:
            frame = frame.with_columns(pl.col("ts_ns") + base_ns)
        return frame if frame.get_column("ts_ns").is_sorted() else frame.sort("ts_ns", maintain_order=True)

    def _count(self, num_events: int) -> None:
        self._num_pending += num_events
        if self._num_pending >= _PART_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Make a part of the pending events, in its final types."""
        values = joined(self._parts)
        self._num_pending = 0
        if not values or not len(values["ts_ns"]):
            return
        threads = pl.Series(values.pop("thread"))
        columns = {column: self._nullable(column, numbers) for column, numbers in values.items()}
        for at, column in enumerate(("pid", "tid")):
            columns[column] = categorical(threads, [label(thread[at]) for thread in self._threads])
        self._frames.append(pl.DataFrame({column: columns[column] for column in MEMORY_SCHEMA}))

    def _nullable(self, column: str, values: Ints) -> pl.Series:
        series = pl.Series(values)
        if (absent := values == MISSING).any():
            series = series.set(pl.Series(absent), None)
        number = series.cast(MEMORY_SCHEMA[column], strict=False)
        if beyond := number.null_count() - series.null_count():
            self._tally.repair("integer beyond 32 bits left out", column, beyond)
        return number

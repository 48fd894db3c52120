"""How do Python frames become `Trace.frames`? They are most of a file with stacks, so only names, threads and times."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.trace.chrome.columns import categorical
from weftrace.trace.chrome.events import Event
from weftrace.trace.chrome.gather import Codes, Gathered, Tables, joined, label
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import MAX_NS, Bools, Ints
from weftrace.trace.model import FRAME_SCHEMA
from weftrace.units import US

#: Calls of built-in functions, half of all frames. Many are of an object whose address is in the name
#: ("<built-in method view of Tensor object at 0x7f…>"), so that their names are as many as they. Of those that take
#: long (a lock, a sleep) the name is kept without the address; the others are left out.
_BUILT_IN = "<built-in "
_ADDRESS = re.compile(r" (object )?at 0x[0-9a-fA-F]+")
_LONG_NS = 50 * US
_CATS = ("python_function", "module_hierarchy")


class FrameColumns:
    """The frames of a trace under construction: 24 bytes each."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._names, self._threads = Codes(tally), Codes(tally)
        self.tables = Tables({"name": self._names, "thread": self._threads})
        self._parts: dict[str, list[NDArray[Any]]] = defaultdict(list)

    def append(self, events: Sequence[Event], ts_ns: Ints, dur_ns: Ints, usable: Bools) -> None:
        """Add Python frames with these times; those without usable ones are dropped and counted."""
        bad = ~usable | (dur_ns < 0) | (ts_ns + dur_ns >= MAX_NS)
        for row in np.flatnonzero(bad).tolist():
            self._tally.drop("frame without usable times", f"{events[row].name} ts={events[row].ts}")
        own = np.array([not event.name.startswith(_BUILT_IN) for event in events], np.bool_) | (dur_ns >= _LONG_NS)
        if num_built_in := int((~own & ~bad).sum()):
            self._tally.skip("built-in call", num_built_in)
        kept = np.flatnonzero(own & ~bad)
        names = [events[row].name for row in kept.tolist()]
        names = [_ADDRESS.sub("", name) if name.startswith(_BUILT_IN) else name for name in names]
        self._put(names, 0, events, ts_ns, dur_ns, kept)

    def append_operators(self, events: Sequence[Event], ts_ns: Ints, dur_ns: Ints) -> None:
        """Add, of operators, those that say which modules they are in (TorchScript, `with_modules`)."""
        summary = np.array([row for row, event in enumerate(events) if event.args.hierarchy], np.int64)
        if len(summary):
            self._put([events[row].args.hierarchy or "" for row in summary.tolist()], 1, events, ts_ns, dur_ns, summary)

    def gathered(self) -> Gathered:
        """All frames, which are given up."""
        return Gathered(joined(self._parts), self.tables.values_of())

    def put(self, gathered: Gathered) -> None:
        """Add frames that were gathered elsewhere."""
        for key, values in self.tables.arrays(gathered).items():
            self._parts[key].append(values.copy())  # of the memory in which they came

    def frame(self, base_ns: int) -> pl.DataFrame:
        """All of them, with `base_ns` added to their times."""
        if not self._parts["ts"]:
            return pl.DataFrame(schema=FRAME_SCHEMA)
        found = {key: pl.Series(np.concatenate(self._parts.pop(key))) for key in list(self._parts)}
        pids, tids = ([label(thread[at]) for thread in self._threads] for at in (0, 1))
        return pl.DataFrame(
            {
                "name": categorical(found.pop("name"), list(self._names)),
                "cat": categorical(found.pop("cat"), _CATS),
                "pid": categorical(found["thread"], pids),
                "tid": categorical(found.pop("thread"), tids),
                "ts_ns": found.pop("ts") + base_ns,
                "dur_ns": found.pop("dur"),
            }
        )

    def _put(
        self, names: list[str], cat: int, events: Sequence[Event], ts_ns: Ints, dur_ns: Ints, rows: NDArray[np.int64]
    ) -> None:
        codes, threads, parts = self._names, self._threads, self._parts
        parts["name"].append(np.fromiter([codes[name] for name in names], np.uint32, len(names)))
        parts["cat"].append(np.full(len(names), cat, np.uint32))
        at = [threads[(events[row].pid, events[row].tid)] for row in rows.tolist()]
        parts["thread"].append(np.fromiter(at, np.uint32, len(names)))
        parts["ts"].append(ts_ns[rows])
        parts["dur"].append(dur_ns[rows])

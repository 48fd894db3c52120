"""How do events become the columns of `Trace.events`, in little memory?

Values are gathered in NumPy arrays, a few hundred rows at a time; every `_PART_ROWS` rows these become Polars columns of
their final type, so that only one part is ever held twice. Arguments that few events have are kept sparsely until then.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.trace.chrome_events import MISSING, Args, Event
from weft.trace.chrome_tally import Tally
from weft.trace.chrome_times import Bools, Ints
from weft.trace.model import DEVICE_CATEGORIES, EVENT_SCHEMA

_PART_ROWS = 1 << 16
_INT32 = 1 << 31

# Categories of old profilers, and their names today (Kineto's libkineto/src/ActivityType.cpp has today's).
_CATEGORY = {
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Driver": "cuda_driver",
    "gpu_memcpy_async": "gpu_memcpy",
}
# What has a device and a stream. CPU operators that carry a stream do not belong to it.
_STREAMED = frozenset((*DEVICE_CATEGORIES, "cuda_sync", "gpu_user_annotation"))
_OF_STREAMED = frozenset((*_STREAMED, *(old for old, cat in _CATEGORY.items() if cat in _STREAMED)))

_STREAM_COLUMNS = ("stream", "device", "num_blocks", "num_threads", "moved_bytes",
                   "graph_id", "graph_node_id", "wait_stream", "wait_correlation")  # fmt: skip
_AUTOGRAD_COLUMNS = ("sequence", "forward_thread")
_GROUP_COLUMNS = ("in_elems", "out_elems", "group_size", "comm_seq")
_GROUP_TEXTS = ("collective", "dtype", "group", "group_ranks")
_INT_COLUMNS = ("correlation", "external_id", *_STREAM_COLUMNS, *_AUTOGRAD_COLUMNS, *_GROUP_COLUMNS)


class _Codes(dict[Any, int]):
    """Values numbered in the order in which they appear."""

    def __missing__(self, key: Any) -> int:
        code = self[key] = len(self)
        return code


class Columns:
    """The events frame under construction."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._names, self._cats, self._threads = _Codes(), _Codes(), _Codes()
        self._texts = {column: _Codes({None: 0}) for column in _GROUP_TEXTS}
        self._chunks: dict[str, list[NDArray[Any]]] = defaultdict(list)
        self._num_pending = 0
        self._parts: dict[str, list[pl.Series | None]] = defaultdict(list)
        self._heights: list[int] = []

    @property
    def num_rows(self) -> int:
        return sum(self._heights) + self._num_pending

    def append(self, events: Sequence[Event], ts_ns: Ints, dur_ns: Ints) -> None:
        """Add rows for complete events with these times."""
        put, count = self._put, len(events)
        names, cats, threads = self._names, self._cats, self._threads
        put("ts_ns", ts_ns)
        put("dur_ns", dur_ns)
        put("name", np.fromiter([names[e.name] for e in events], np.uint32, count))
        put("cat", np.fromiter([cats[e.cat] for e in events], np.uint32, count))
        put("thread", np.fromiter([threads[(e.pid, e.tid)] for e in events], np.uint32, count))
        args = [e.args for e in events]
        put("correlation", self._ints([a.correlation for a in args]))
        external = self._ints([a.external_id for a in args])
        if (absent := external == MISSING).any():
            external[absent] = self._ints([a.old_external_id for a in args])[absent]
        put("external_id", external)
        self._append_autograd(args)
        self._append_streamed(events, args)
        self._append_groups(args)
        self._num_pending += count
        if self._num_pending >= _PART_ROWS:
            self._flush()

    def _append_autograd(self, args: list[Args]) -> None:
        rows = [i for i, a in enumerate(args) if a.sequence is not MISSING or a.forward_thread is not MISSING]
        if rows:
            self._put_rows("autograd_row", rows)
            self._put("sequence", self._ints([args[i].sequence for i in rows]))
            self._put("forward_thread", self._ints([args[i].forward_thread for i in rows]))

    def _append_streamed(self, events: Sequence[Event], args: list[Args]) -> None:
        rows = [i for i, e in enumerate(events) if e.cat in _OF_STREAMED]
        if not rows:
            return
        args = [args[i] for i in rows]
        self._put_rows("stream_row", rows)
        self._put("stream", self._ints([_integer(a.stream) for a in args]))
        self._put("num_blocks", self._ints([_product(a.grid) for a in args]))
        self._put("num_threads", self._ints([_product(a.block) for a in args]))
        self._put("moved_bytes", self._ints([_integer(a.moved_bytes) for a in args]))
        for column in ("device", "graph_id", "graph_node_id", "wait_stream", "wait_correlation"):
            self._put(column, self._ints([getattr(a, column) for a in args]))

    def _append_groups(self, args: list[Args]) -> None:
        rows = [i for i, a in enumerate(args) if a.collective is not None or a.group is not None]
        if not rows:
            return
        args = [args[i] for i in rows]
        self._put_rows("group_row", rows)
        for column in ("in_elems", "out_elems", "group_size"):
            self._put(column, self._ints([getattr(a, column) for a in args]))
        self._put("comm_seq", self._ints([_integer(a.comms_id) if a.seq is MISSING else a.seq for a in args]))
        for column, codes in self._texts.items():
            self._put(column, np.fromiter([codes[getattr(a, column)] for a in args], np.uint32, len(args)))

    def _put(self, column: str, values: NDArray[Any]) -> None:
        self._chunks[column].append(values)

    def _put_rows(self, column: str, rows: list[int]) -> None:
        self._put(column, np.array(rows, np.int64) + self._num_pending)

    def _ints(self, values: list[int]) -> Ints:
        """A column of int64; what does not fit (an unsigned address in an id's place) becomes missing, and is counted."""
        try:
            return np.fromiter(values, np.int64, len(values))
        except OverflowError:
            fit = [value if MISSING <= value < -MISSING else MISSING for value in values]
            beyond = [value for value, kept in zip(values, fit, strict=True) if value is not kept]
            self._tally.repair("integer beyond 62 bits left out", str(beyond[0])[:64], len(beyond))
            return np.array(fit, np.int64)

    # --- one part, in its final types ---------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Make a part of the rows that are pending."""
        if not self._num_pending:
            return
        ints = {name: self._take(name) for name in ("correlation", "external_id")}
        ints |= self._spread("autograd_row", _AUTOGRAD_COLUMNS) | self._spread("group_row", _GROUP_COLUMNS)
        streamed = self._spread("stream_row", _STREAM_COLUMNS)
        if streamed:
            self._complete_streamed(streamed)
        texts = self._spread("group_row", _GROUP_TEXTS, absent=0)
        self._chunks.pop("stream_row", None), self._chunks.pop("group_row", None)
        for name in ("ts_ns", "dur_ns", "name", "cat", "thread"):
            self._parts[name].append(pl.Series(self._take(name)))
        for name in _INT_COLUMNS:
            self._parts[name].append(self._nullable(name, (ints | streamed).get(name)))
        for name in _GROUP_TEXTS:
            codes = texts.get(name)
            self._parts[name].append(pl.Series(codes) if codes is not None and codes.any() else None)
        self._heights.append(self._num_pending)
        self._num_pending = 0

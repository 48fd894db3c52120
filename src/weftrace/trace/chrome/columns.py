"""How do events become the columns of `Trace.events`, in little memory?

Values are gathered in NumPy arrays, a few hundred rows at a time; every `_PART_ROWS` rows these become Polars columns
of their final type, so that only one part is ever held twice. Until then, arguments that few events have are kept for
those events alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.trace.chrome.argument_texts import (
    BETWEEN,
    CALL_COLUMNS,
    LAUNCH_COLUMNS,
    calls,
    integer,
    launches,
    of_operator,
)
from weftrace.trace.chrome.events import MISSING, NO_ARGS, NOTHING, Args, Event, Planned
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import Ints
from weftrace.trace.model import DEVICE_CATEGORIES, EVENT_SCHEMA, LAUNCH_CATEGORIES

_PART_ROWS = 1 << 16
_INT32, _INT64 = 1 << 31, 1 << 63

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
_DEVICE = frozenset((*DEVICE_CATEGORIES, *(old for old, now in _CATEGORY.items() if now in DEVICE_CATEGORIES)))
# Host calls that carry a stream or a device do not run there; what is of no category that weftrace knows keeps what it
# states. ROCm's launches, not its kernels, tell the grid.
_ON_HOST = frozenset((*LAUNCH_CATEGORIES, "cpu_op", "user_annotation", "python_function"))
_OPERATORS = frozenset(("cpu_op", "Operator", "python_function"))  # most of a file's events: they have none of `_ODD`
# Arguments that only some events have, gathered for these alone: kind of event -> columns.
_SPARSE = {
    "streamed": ("stream", "device", "launch", "moved_bytes",
                 "graph_id", "graph_node_id", "wait_stream", "wait_correlation"),
    "autograd": ("sequence", "forward_thread"),
    "called": ("call",),
    "collective": ("in_elems", "out_elems", "group_size", "comm_seq", "src_rank", "dst_rank",
                   "collective", "dtype", "group", "group_ranks"),
    "planned": ("layer", "micro_batch", "op_kind"),
}  # fmt: skip
# Arguments by which an event of any other kind belongs to one of these.
_ODD = attrgetter("moved_bytes", "device", "block", "graph_id", "graph_node_id", "wait_stream", "wait_correlation",
                  "in_elems", "out_elems", "seq", "comms_id", "dtype", "group_size", "group_ranks",
                  "src_rank", "dst_rank", "registers", "shared_bytes", "occupancy")  # fmt: skip
_NONE_ODD = _ODD(NO_ARGS)
_COLLECTIVE_TEXTS = ("collective", "dtype", "group", "group_ranks")
_TEXTS = (*_COLLECTIVE_TEXTS, "op_kind")
_NUMBERED = {"launch": LAUNCH_COLUMNS, "call": CALL_COLUMNS}  # numbers that stand for the values of several columns
_CODED = (*_TEXTS, *_NUMBERED)  # 0 stands for nothing


class Codes(dict[Any, int]):
    """Values numbered in the order in which they appear."""

    def __missing__(self, key: Any) -> int:
        code = self[key] = len(self)
        return code


class _Processes(dict[Any, "_ThreadsOf"]):
    """pid -> tid -> the number of the pair: two look-ups take half the time of making the pair."""

    def __init__(self, codes: Codes) -> None:
        super().__init__()
        self._codes = codes

    def __missing__(self, pid: int | str) -> _ThreadsOf:
        threads = self[pid] = _ThreadsOf(pid, self._codes)
        return threads


class _ThreadsOf(dict[Any, int]):
    def __init__(self, pid: int | str, codes: Codes) -> None:
        super().__init__()
        self._pid, self._codes = pid, codes

    def __missing__(self, tid: int | str) -> int:
        code = self[tid] = self._codes[(self._pid, tid)]
        return code


class Columns:
    """The events frame under construction."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._names, self._cats, self._threads = Codes(), Codes(), Codes()
        self._processes = _Processes(self._threads)
        self._texts = {column: Codes({None: 0}) for column in _TEXTS}
        self._numbered = {"launch": launches(tally), "call": calls(tally)}
        self._chunks: dict[str, list[NDArray[Any]]] = defaultdict(list)
        self._num_pending = 0
        self._parts: dict[str, list[pl.Series | None]] = defaultdict(list)
        self._heights: list[int] = []

    def append(self, events: Sequence[Event], ts_ns: Ints, dur_ns: Ints) -> None:
        """Add rows for complete events with these times."""
        put, count = self._put, len(events)
        names, cats, processes = self._names, self._cats, self._processes
        put("ts_ns", ts_ns)
        put("dur_ns", dur_ns)
        put("name", np.fromiter([names[e.name] for e in events], np.uint32, count))
        put("cat", np.fromiter([cats[e.cat] for e in events], np.uint32, count))
        put("thread", np.fromiter([processes[e.pid][e.tid] for e in events], np.uint32, count))
        args = [e.args for e in events]
        put("correlation", self._ints([a.correlation for a in args]))
        external = self._ints([a.external_id for a in args])
        if (absent := external == MISSING).any():
            external[absent] = self._ints([a.old_external_id for a in args])[absent]
        put("external_id", external)
        more = [
            i
            for i, a in enumerate(args)
            if a.sequence is not MISSING
            or a.input_shapes is not NOTHING
            or a.forward_thread is not MISSING
            or a.input_types is not NOTHING
            or a.planned is not None
            or a.call_stack is not NOTHING
            or a.old_input_shapes is not NOTHING
        ]
        if more:
            self._append_more(more, args)
        rich = [
            i
            for i, a in enumerate(args)
            if a.stream is not MISSING
            or a.grid is not NOTHING
            or a.collective is not None
            or a.group is not None
            or (events[i].cat not in _OPERATORS and (events[i].cat in _DEVICE or _ODD(a) != _NONE_ODD))
        ]
        if rich:
            self._append_streamed(rich, [args[i] for i in rich])
            if rows := [i for i in rich if _has_collective(args[i], any_part=events[i].cat not in _OPERATORS)]:
                self._append_collective(rows, [args[i] for i in rows])
        self._num_pending += count
        if self._num_pending >= _PART_ROWS:
            self._flush()

    def frame(self, base_ns: int) -> pl.DataFrame:
        """All rows, with `base_ns` added to their times. The columns are given up one by one as it grows."""
        self._flush()
        found: dict[str, pl.Series | None] = {}
        for column in ("ts_ns", "dur_ns", *_INT_COLUMNS):
            found[column] = self._joined(column)
        if base_ns and found["ts_ns"] is not None:
            found["ts_ns"] = found["ts_ns"] + base_ns
        found["name"] = categorical(self._joined("name"), list(self._names))
        found["cat"] = categorical(self._joined("cat"), [_CATEGORY.get(cat, cat) for cat in self._cats])
        thread = self._joined("thread")
        found["pid"] = categorical(thread, [label(pid) for pid, _ in self._threads])
        found["tid"] = categorical(thread, [label(tid) for _, tid in self._threads])
        for column, codes in self._texts.items():
            found[column] = categorical(self._joined(column), list(codes))
        for kind, columns in _NUMBERED.items():
            numbers = self._joined(kind)
            for column, values in zip(columns, zip(*self._numbered[kind].values_of, strict=True), strict=True):
                found[column] = _looked_up(numbers, values, EVENT_SCHEMA[column])
        if not self._heights:
            return pl.DataFrame(schema=EVENT_SCHEMA)
        present = {column: series for column, series in found.items() if series is not None}
        return pl.DataFrame(present).select(
            pl.col(column) if column in present else pl.lit(None, dtype=dtype).alias(column)
            for column, dtype in EVENT_SCHEMA.items()
        )

    # --- values of one chunk of events --------------------------------------------------------------------------------

    def _append_streamed(self, rows: list[int], args: list[Args]) -> None:
        self._put_rows("streamed", rows)
        self._put("stream", self._ints([integer(a.stream) for a in args]))
        join, number = BETWEEN.join, self._numbered["launch"]
        keys = [join((a.grid, a.block, a.registers, a.shared_bytes, a.occupancy)) for a in args]
        self._put("launch", _codes([number[key] for key in keys]))
        self._put("moved_bytes", self._ints([integer(a.moved_bytes) for a in args]))
        for column in ("device", "graph_id", "graph_node_id", "wait_stream", "wait_correlation"):
            self._put(column, self._ints([getattr(a, column) for a in args]))

    def _append_more(self, rows: list[int], args: list[Args]) -> None:
        """What autograd, the profiler of shapes and plans say of host events: of `rows`, some of each."""
        if own := [i for i in rows if args[i].sequence is not MISSING or args[i].forward_thread is not MISSING]:
            self._put_rows("autograd", own)
            self._put("sequence", self._ints([args[i].sequence for i in own]))
            self._put("forward_thread", self._ints([args[i].forward_thread for i in own]))
        own = [
            i
            for i in rows
            if (a := args[i]).input_shapes is not NOTHING
            or a.input_types is not NOTHING
            or a.call_stack is not NOTHING
            or a.old_input_shapes is not NOTHING
        ]
        if own:
            called = [args[i] for i in own]
            keys = [BETWEEN.join((a.input_shapes, a.old_input_shapes, a.input_types, a.call_stack)) for a in called]
            number = self._numbered["call"]
            self._put_rows("called", own)
            self._put("call", _codes([number[key] for key in keys]))
        if own := [i for i in rows if args[i].planned is not None]:
            self._append_planned(own, [planned for i in own if (planned := args[i].planned) is not None])

    def _append_collective(self, rows: list[int], args: list[Args]) -> None:
        self._put_rows("collective", rows)
        for column in ("in_elems", "out_elems", "group_size"):
            self._put(column, self._ints([getattr(a, column) for a in args]))
        self._put("comm_seq", self._ints([integer(a.comms_id) if a.seq is MISSING else a.seq for a in args]))
        for column in ("src_rank", "dst_rank"):
            self._put(column, self._ints([integer(getattr(a, column)) for a in args]))
        for column in _COLLECTIVE_TEXTS:
            codes = self._texts[column]
            self._put(column, _codes([codes[getattr(a, column)] for a in args]))

    def _append_planned(self, rows: list[int], planned: list[Planned]) -> None:
        self._put_rows("planned", rows)
        self._put("layer", self._ints([p.layer for p in planned]))
        self._put("micro_batch", self._ints([p.micro_batch for p in planned]))
        codes = self._texts["op_kind"]
        self._put("op_kind", _codes([codes[p.kind] for p in planned]))

    def _put(self, column: str, values: NDArray[Any]) -> None:
        self._chunks[column].append(values)

    def _put_rows(self, kind: str, rows: list[int]) -> None:
        self._put(f"{kind} rows", np.array(rows, np.int64) + self._num_pending)

    def _ints(self, values: list[int]) -> Ints:
        """A column of int64; what does not fit (an unsigned address as an id) becomes missing, and is counted."""
        try:
            return np.fromiter(values, np.int64, len(values))
        except OverflowError:
            fit = np.array([value if -_INT64 <= value < _INT64 else MISSING for value in values], np.int64)
            beyond = [value for value, kept in zip(values, fit.tolist(), strict=True) if value != kept]
            self._tally.repair("integer beyond 64 bits left out", f"{beyond[0]:x}", len(beyond))
            return fit

    # --- one part in its final types ----------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Make a part of the pending rows."""
        if not self._num_pending:
            return
        values = {column: self._take(column) for column in ("ts_ns", "dur_ns", "name", "cat", "thread")}
        values |= {column: self._take(column) for column in ("correlation", "external_id")}
        for kind, columns in _SPARSE.items():
            if self._chunks[f"{kind} rows"]:
                rows = self._take(f"{kind} rows")
                values |= {column: self._spread(column, rows) for column in columns}
        self._settle_streams(values)
        for column in ("ts_ns", "dur_ns", "name", "cat", "thread"):
            self._parts[column].append(pl.Series(values[column]))
        for column in _INT_COLUMNS:
            self._parts[column].append(self._nullable(column, values.get(column)))
        for column in _CODED:
            self._parts[column].append(pl.Series(values[column]) if column in values else None)
        self._heights.append(self._num_pending)
        self._num_pending = 0

    def _take(self, column: str) -> NDArray[Any]:
        return np.concatenate(self._chunks.pop(column))

    def _spread(self, column: str, rows: Ints) -> NDArray[Any]:
        """A column of few rows over all rows of the part."""
        values = self._take(column)
        spread = np.full(self._num_pending, 0 if column in _CODED else MISSING, values.dtype)
        spread[rows] = values
        return spread

    def _settle_streams(self, values: dict[str, NDArray[Any]]) -> None:
        """Leave stream and device only where they mean something; where device events state none, take the stream from
        the thread's name and the device from the process's."""
        if "stream" not in values:
            return
        cats = [_CATEGORY.get(cat, cat) for cat in self._cats]
        on_device = np.array([cat in DEVICE_CATEGORIES for cat in cats], np.bool_)[values["cat"]]
        on_host = np.array([cat in _ON_HOST for cat in cats], np.bool_)[values["cat"]]
        operators = np.array([cat in _OPERATORS for cat in self._cats], np.bool_)[values["cat"]]
        for column in ("moved_bytes", "graph_id", "graph_node_id", "wait_stream", "wait_correlation"):
            values[column][operators] = MISSING
        numbered, codes = self._numbered["launch"], values["launch"]
        told = numbered.values_of
        for code in np.unique(codes[operators]).tolist():
            codes[operators & (codes == code)] = numbered.number(of_operator(told[code]))
        for column, place, pattern in (
            ("stream", 1, r"(?<!\d)(\d{1,15})(?!\d)"),
            ("device", 0, r"(?:^|\D)(\d{1,6})\s*$"),
        ):
            values[column][on_host] = MISSING
            absent = on_device & (values[column] == MISSING)
            if absent.any():
                threads = list(self._threads)
                codes, where = np.unique(values["thread"][absent], return_inverse=True)
                found = [re.search(pattern, label(threads[code][place])) for code in codes.tolist()]
                numbers = np.array([int(match[1]) if match else MISSING for match in found], np.int64)
                values[column][absent] = numbers[where]
        no_graph = values["graph_id"] <= 0
        values["graph_id"][no_graph] = values["graph_node_id"][no_graph] = MISSING

    def _nullable(self, column: str, values: Ints | None) -> pl.Series | None:
        """A part of a column of integers in its final type; None where no row has a value."""
        if values is None:
            return None
        absent = values == MISSING
        if EVENT_SCHEMA[column] == pl.Int32:
            beyond = ~absent & ((values < -_INT32) | (values >= _INT32))
            if beyond.any():
                self._tally.repair("integer beyond 32 bits left out", f"{values[beyond][0]:x}", int(beyond.sum()))
                absent |= beyond
            values = np.where(absent, 0, values).astype(np.int32)
        if absent.all():
            return None
        series = pl.Series(values)
        return series.set(pl.Series(absent), None) if absent.any() else series

    def _joined(self, column: str) -> pl.Series | None:
        """The parts of a column in one, which gives them up; None where no part has a value."""
        parts = self._parts.pop(column, [])
        dtype = next((part.dtype for part in parts if part is not None), None)
        if dtype is None:
            return None
        empty = 0 if column in _CODED else None
        return pl.concat(
            (
                pl.repeat(empty, height, dtype=dtype, eager=True) if part is None else part
                for part, height in zip(parts, self._heights, strict=True)
            ),
            rechunk=False,
        )


_INT_COLUMNS = ("correlation", "external_id", *(c for columns in _SPARSE.values() for c in columns if c not in _CODED))


def label(process_or_thread: int | str) -> str:
    """A pid or tid in one spelling: number or text, without the blank that Kineto puts behind a stream's name."""
    return str(process_or_thread).strip()


def categorical(codes: pl.Series | None, values: Sequence[str | None]) -> pl.Series | None:
    """The values that the codes number, as a categorical column; None for None."""
    return _looked_up(codes, values, pl.Categorical())


def _looked_up(codes: pl.Series | None, values: Sequence[Any], dtype: pl.DataType) -> pl.Series | None:
    if codes is None or all(value is None for value in values):
        return None
    table = pl.Series(values, dtype=pl.String if dtype == pl.Categorical() else dtype).cast(dtype)
    return pl.concat([table.gather(part) for part in codes.get_chunks()], rechunk=False)


def _has_collective(args: Args, *, any_part: bool) -> bool:
    """Whether there is something of a collective; of operators, its name or its group, unless any part will do."""
    if args.collective is not None or args.group is not None:
        return True
    return any_part and (
        args.in_elems is not MISSING
        or args.out_elems is not MISSING
        or args.seq is not MISSING
        or args.comms_id is not MISSING
        or args.dtype is not None
        or args.group_size is not MISSING
        or args.group_ranks is not None
        or args.src_rank is not MISSING
        or args.dst_rank is not MISSING
    )


def _codes(codes: list[int]) -> NDArray[np.uint32]:
    return np.fromiter(codes, np.uint32, len(codes))

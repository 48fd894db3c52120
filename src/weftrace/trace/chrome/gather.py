"""What do events say, as arrays? Values are gathered a few hundred rows at a time; arguments that few events have are
kept for those events alone, and what many events say alike has a number.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weftrace.trace.chrome.argument_texts import (
    BETWEEN,
    CALL_BITS,
    CALL_COLUMNS,
    LAUNCH_COLUMNS,
    Calls,
    calls,
    integer,
    launches,
)
from weftrace.trace.chrome.events import MISSING, NOTHING, Args, Event
from weftrace.trace.chrome.peers import PEER_OF, with_peer
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import Ints
from weftrace.trace.limits import NAME_CHARS
from weftrace.trace.model import DEVICE_CATEGORIES, LAUNCH_CATEGORIES

_INT64 = 1 << 63
#: What is counted where a name is too long.
CUT_NAME = f"name cut to {NAME_CHARS:,} characters"

# Categories of old profilers, and their names today (Kineto's libkineto/src/ActivityType.cpp has today's).
CATEGORY = {
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Driver": "cuda_driver",
    "gpu_memcpy_async": "gpu_memcpy",
}
_DEVICE = frozenset((*DEVICE_CATEGORIES, *(old for old, now in CATEGORY.items() if now in DEVICE_CATEGORIES)))
# Host calls that carry a stream or a device do not run there; what is of no category that weftrace knows keeps what it
# states. ROCm's launches, not its kernels, tell the grid.
ON_HOST = frozenset((*LAUNCH_CATEGORIES, "cpu_op", "user_annotation", "python_function"))
OPERATORS = frozenset(("cpu_op", "Operator", "python_function"))  # most of a file's events: none of them is odd
# Arguments that only some events have, gathered for these alone: kind of event -> columns.
SPARSE = {
    "streamed": ("stream", "device", "launch", "moved_bytes",
                 "graph_id", "graph_node_id", "wait_stream", "wait_correlation"),
    "autograd": ("sequence", "forward_thread"),
    "called": ("call", "input_values"),
    "collective": ("in_elems", "out_elems", "group_size", "comm_seq", "src_rank", "dst_rank",
                   "collective", "dtype", "group", "group_ranks"),
    "compiled": ("stated_flops",),
    "planned": ("layer", "micro_batch", "op_kind"),
}  # fmt: skip
_TEXTS = ("collective", "dtype", "group", "group_ranks", "op_kind")
NUMBERED = {"launch": LAUNCH_COLUMNS, "call": CALL_COLUMNS}  # numbers that stand for the values of several columns
CODED = (*_TEXTS, "input_values", *NUMBERED)  # 0 stands for nothing


_LAUNCH = attrgetter("grid", "block", "registers", "shared_bytes", "occupancy")
_CALL = attrgetter("input_shapes", "old_input_shapes", "input_types", "input_strides", "call_stack", "inputs")
# How a column is read where it is not the argument of its name.
_READ: dict[str, Callable[[Args], int]] = {
    "stream": lambda a: integer(a.stream),
    "moved_bytes": lambda a: integer(a.moved_bytes),
    "stated_flops": lambda a: integer(a.stated_flops),
    "src_rank": lambda a: integer(a.src_rank),
    "dst_rank": lambda a: integer(a.dst_rank),
    "comm_seq": lambda a: integer(a.comms_id) if a.seq is MISSING else a.seq,
}


class Codes(dict[Any, int]):
    """Values numbered in the order in which they appear; a text that is too long for a name is cut, and counted."""

    def __init__(self, tally: Tally, known: Mapping[Any, int] = MappingProxyType({})) -> None:
        super().__init__(known)
        self._tally = tally

    def __missing__(self, key: Any) -> int:
        if (name := short(key, self._tally)) is not key:
            return self[name]
        code = self[key] = len(self)
        return code


def short(name: Any, tally: Tally) -> Any:
    """A name, or a thread's pair of them, that is short enough: itself, unless it must be cut."""
    if isinstance(name, tuple):
        parts = tuple(short(part, tally) for part in name)
        return name if all(map(operator.is_, parts, name)) else parts
    if not isinstance(name, str) or len(name) <= NAME_CHARS:
        return name
    tally.repair(CUT_NAME, name)
    return name[: NAME_CHARS - 1] + "…"


class Gathered(NamedTuple):
    """Rows that were gathered elsewhere.

    arrays: column -> values; `"… rows"` say of sparse columns whose they are, from 0 on. values: of columns of codes,
    what the codes stand for, in their order.
    """

    arrays: dict[str, NDArray[Any]]
    values: dict[str, list[Any]]


class Tables(dict[str, dict[Any, int]]):
    """Of columns of codes, what the codes stand for: value -> code, each the number of values before it."""

    def values_of(self) -> dict[str, list[Any]]:
        return {column: list(table) for column, table in self.items()}

    def arrays(self, gathered: Gathered) -> dict[str, NDArray[Any]]:
        """The arrays with these codes. Values are numbered as they would be if they were met here."""
        arrays = dict(gathered.arrays)
        for column in arrays.keys() & self.keys():
            table = self[column]
            codes = [table.setdefault(value, len(table)) for value in gathered.values[column]]
            arrays[column] = np.array(codes, np.uint32)[arrays[column]]
        return arrays


class _Processes(dict[Any, "_ThreadsOf"]):
    """pid -> tid -> the number of the pair: two look-ups take half the time of making the pair."""

    def __init__(self, codes: Codes) -> None:
        super().__init__()
        self._codes = codes

    def __missing__(self, pid: int | str) -> _ThreadsOf:
        threads = _ThreadsOf(pid, self._codes)
        if isinstance(pid, int) or len(pid) <= NAME_CHARS:
            self[pid] = threads
        return threads


class _ThreadsOf(dict[Any, int]):
    def __init__(self, pid: int | str, codes: Codes) -> None:
        super().__init__()
        self._pid, self._codes = pid, codes

    def __missing__(self, tid: int | str) -> int:
        code = self._codes[(self._pid, tid)]
        if isinstance(tid, int) or len(tid) <= NAME_CHARS:
            self[tid] = code
        return code


class Gatherer:
    """The rows of some events, in arrays."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._names, self._cats, self._threads = Codes(tally), Codes(tally), Codes(tally)
        self._processes = _Processes(self._threads)
        self._texts = {column: Codes(tally, {None: 0}) for column in _TEXTS}
        self._numbered = {"launch": launches(tally), "call": calls(tally)}
        values = Codes(tally, {None: 0})
        self._calls = Calls(self._numbered["call"], values, tally)
        self.tables = Tables(
            {"name": self._names, "cat": self._cats, "thread": self._threads, "input_values": values, **self._texts}
            | {column: numbered.number_of for column, numbered in self._numbered.items()}
        )
        self._chunks: dict[str, list[NDArray[Any]]] = defaultdict(list)
        self._num_pending = 0

    def gathered(self) -> Gathered:
        """All rows, which are given up."""
        return Gathered(joined(self._chunks), self.tables.values_of())

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
        peers = []
        if not PEER_OF.keys().isdisjoint(names):
            peers = [i for i, e in enumerate(events) if e.name in PEER_OF and args[i].inputs is not NOTHING]
            for i in peers:
                args[i] = with_peer(args[i], events[i].name)
        put("correlation", self._ints([a.correlation for a in args]))
        external = self._ints([a.external_id for a in args])
        if (absent := external == MISSING).any():
            external[absent] = self._ints([a.old_external_id for a in args])[absent]
        put("external_id", external)
        for kind, rows in _rows_of_host(args).items():
            self._append_kind(kind, rows, args)
        if rows := [
            i
            for i, a in enumerate(args)
            if a.stream is not MISSING
            or a.grid is not NOTHING
            or a.collective is not None
            or a.group is not None
            or (events[i].cat not in OPERATORS and (events[i].cat in _DEVICE or _is_odd(a)))
        ]:
            self._append_kind("streamed", rows, args)
            own = [events[i].cat in OPERATORS for i in rows]  # what operators state of a launch or of sizes counts less
            number = self._numbered["launch"]
            codes = [number[BETWEEN.join(_LAUNCH(args[i]))] for i in rows]
            put("launch", _codes([number.of_operator(c) if its else c for c, its in zip(codes, own, strict=True)]))
            rows = [i for i, its in zip(rows, own, strict=True) if _has_collective(args[i], any_part=not its)]
        if rows := sorted({*rows, *peers}):
            self._append_kind("collective", rows, args)
        self._num_pending += count

    # --- values of one chunk of events --------------------------------------------------------------------------------

    def _append_kind(self, kind: str, rows: list[int], args: list[Args]) -> None:
        """The columns of `SPARSE` of these rows, without `launch`, which depends on more than the arguments."""
        if not rows:
            return
        self._put(f"{kind} rows", np.array(rows, np.int64) + self._num_pending)
        stated: list[Any] = [args[i].planned for i in rows] if kind == "planned" else [args[i] for i in rows]
        for column in SPARSE[kind]:
            if column in _TEXTS:
                codes, read = self._texts[column], attrgetter("kind" if column == "op_kind" else column)
                self._put(column, _codes([codes[read(a)] for a in stated]))
            elif column == "call":
                both = self._calls
                numbers = np.fromiter([both[BETWEEN.join(_CALL(a))] for a in stated], np.int64, len(stated))
                self._put("call", (numbers & ((1 << CALL_BITS) - 1)).astype(np.uint32))
                self._put("input_values", (numbers >> CALL_BITS).astype(np.uint32))
            elif column not in ("launch", "input_values"):
                self._put(column, self._ints(list(map(_READ.get(column) or attrgetter(column), stated))))

    def _put(self, column: str, values: NDArray[Any]) -> None:
        self._chunks[column].append(values)

    def _ints(self, values: list[int]) -> Ints:
        return ints(values, self._tally)


def ints(values: list[int], tally: Tally) -> Ints:
    """A column of int64; what does not fit (an unsigned address as an id) becomes missing, and is counted."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        fit = np.array([value if -_INT64 <= value < _INT64 else MISSING for value in values], np.int64)
        beyond = [value for value, kept in zip(values, fit.tolist(), strict=True) if value != kept]
        tally.repair("integer beyond 64 bits left out", f"{beyond[0]:x}", len(beyond))
        return fit


def joined(chunks: dict[str, list[NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """What was gathered little by little, each column in one; the chunks are given up."""
    arrays = {column: a[0] if len(a) == 1 else np.concatenate(a) for column, a in chunks.items() if a}
    chunks.clear()
    return arrays


def label(process_or_thread: int | str) -> str:
    """A pid or tid in one spelling: number or text, without the blank that Kineto puts behind a stream's name."""
    return str(process_or_thread).strip()


def _rows_of_host(args: Sequence[Args]) -> dict[str, list[int]]:
    """Kind of `SPARSE` -> rows that have it, of what autograd, the profiler of shapes and plans say of host events."""
    autograd, called, compiled, planned = [], [], [], []
    for i, a in enumerate(args):  # of each event of a file, so plain
        if a.sequence is not MISSING or a.forward_thread is not MISSING:
            autograd.append(i)
        if (
            a.input_shapes is not NOTHING
            or a.input_types is not NOTHING
            or a.call_stack is not NOTHING
            or a.inputs is not NOTHING
            or a.input_strides is not NOTHING
            or a.old_input_shapes is not NOTHING
        ):
            called.append(i)
        if a.stated_flops is not MISSING:
            compiled.append(i)
        if a.planned is not None:
            planned.append(i)
    return {"autograd": autograd, "called": called, "compiled": compiled, "planned": planned}


def _is_odd(a: Args) -> bool:
    """Whether an event of any other kind has an argument by which it belongs to one of `SPARSE`."""
    return (
        a.device is not MISSING
        or a.block is not NOTHING
        or a.registers is not NOTHING
        or a.shared_bytes is not NOTHING
        or a.occupancy is not NOTHING
        or a.moved_bytes is not MISSING
        or a.graph_id is not MISSING
        or a.graph_node_id is not MISSING
        or a.wait_stream is not MISSING
        or a.wait_correlation is not MISSING
        or _has_collective(a, any_part=True)
    )


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

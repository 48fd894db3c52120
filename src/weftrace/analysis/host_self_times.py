"""Which operators and functions take the host's time, and which of them keep the device waiting?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, TypedDict
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.analysis.intervals import Array, Intervals, covered, of_events, sums_by_group
from weftrace.analysis.waiting.cause_words import LAUNCH_BOUND
from weftrace.analysis.waiting.gap_parts import CALL, PARTS
from weftrace.analysis.waiting.host_paths import FRAME, KINDS, OPERATOR, RUNTIME_CALL, Nested, nested
from weftrace.analysis.waiting.host_ranges import host_ranges
from weftrace.analysis.waiting.idle_pieces import CAUSES, idle_pieces
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Count, Ns
from weftrace.notebook import InNotebook
from weftrace.trace.containment import FEW_THREADS, in_lanes, lanes_of
from weftrace.trace.model import Trace, is_annotation
from weftrace.trace.phases import find_steps
from weftrace.trace.work import Work, as_work
from weftrace.units import counted, duration, percent

#: The device waited in so much of an operator's self time and calls: it bounds the device.
_WAITED = 0.5
#: Operators that bound the device are named where they keep it waiting for so much of its span; no more than so many.
_WORTH_SAYING, _MOST_NAMED = 0.02, 3


class HostTimeRow(TypedDict):
    """All calls of one operator, or of one Python function, on all threads of the host. Self time is what lies in
    none of the operators, functions and runtime calls inside it; self times, times in calls and what lies outside add
    up to the span of each thread. Each call counts on its own thread."""

    name: Annotated[str, Shown("name", wide=True)]
    num_calls: Annotated[Count, Meta(description="All calls, also those in a call of the same name."), Shown("calls")]
    self_ns: Annotated[Ns, Meta(description="Time in it and in nothing that is inside it."), Shown("self")]
    calls_ns: Annotated[
        Ns, Meta(description="Time in calls of the device's runtime that it makes itself: launches, waits."),
        Shown("in calls"),
    ]  # fmt: skip
    total_ns: Annotated[
        Ns, Meta(description="Time in it with all inside; a call within one of the same name counts once."),
        Shown("total"),
    ]  # fmt: skip
    launched_ns: Annotated[
        Ns | None,
        Meta(description="Device time of the work launched while it was the innermost: sum of the durations."),
        Shown("device, self"),
    ]
    device_ns: Annotated[
        Ns | None,
        Meta(description="Device time of all that was launched while it was open: sum of the durations, each once."),
        Shown("device below"),
    ]
    host_per_device: Annotated[
        float | None,
        Meta(
            description="Self time and time in calls, over the device time below: above 1 the host takes longer to "
            "launch the work than the device to do it. Waits for the device count in it."
        ),
        Shown("host ÷ device"),
    ]
    idle_ns: Annotated[
        Ns | None,
        Meta(
            description="The part of its self time and calls in which the device was idle, waiting for just this "
            "thread to launch something, whatever the cause in the account of idle time."
        ),
        Shown("device idle"),
    ]
    bound: Annotated[
        str,
        Meta(
            description="launch: the work launched below it takes less device time than it takes itself on the "
            "host. In half of its self time and calls or more, the device idled because nothing was launched (causes "
            "operators, python and launch_call)."
        ),
        Shown("bound by"),
    ]


#: Columns of `HostTimes.threads`, a row per host thread. span_ns: from its first start to its last end, of operators,
#: functions and calls, which is self_ns of all + calls_ns + outside_ns; outside_ns: what lies in no operator and no
#: function, but for calls.
THREAD_SCHEMA: dict[str, pl.DataType] = {
    "pid": pl.Categorical(), "tid": pl.Categorical(), "num_ranges": pl.Int64(), "span_ns": pl.Int64(),
    "self_ns": pl.Int64(), "calls_ns": pl.Int64(), "outside_ns": pl.Int64(),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostTimes(InNotebook):
    """Self time of operators and Python functions on the host, and the device time below them.

    operators, functions: frames of `HostTimeRow`, longest self time first; functions are empty where the file's Python
    frames were not read (`frames=True`). threads: a frame of `THREAD_SCHEMA`.

    By hand: ranges of a thread lie in each other; one that crosses the end of the range around it is cut there. The
    self time of a range is its duration less the durations of the ranges directly in it. self_ns is what PyTorch's
    profiler calls self CPU time. Annotations are passed over. Of a step, ranges are cut at the ends of its window.
    """

    operators: pl.DataFrame
    functions: pl.DataFrame
    threads: pl.DataFrame

    def _describe(self) -> Iterator[tuple[str, str]]:
        for row in self.operators.head(8).iter_rows(named=True):
            yield row["name"], f"self {duration(row['self_ns'])}, {row['num_calls']:,}×"


#: Of works that are still in use: two tables ask for them.
_KNOWN: WeakKeyDictionary[Work, HostTimes] = WeakKeyDictionary()


def host_times(source: Trace | Work) -> HostTimes:
    """Host time by operator and by Python function. Raises TraceError where a Trace holds several devices."""
    work = as_work(source)
    if (known := _KNOWN.get(work)) is None:
        known = _KNOWN[work] = _host_times(work)
    return known


def host_operators(work: Work) -> pl.DataFrame:
    return host_times(work).operators


def host_functions(work: Work) -> pl.DataFrame:
    return host_times(work).functions


def launch_bound_sentence(rows: Sequence[Any], span_ns: int) -> str:
    """Which operators are launch-bound, by name; empty where the device waited less than 2 % of its span for them.

    rows: `HostTimeRow`s of operators. span_ns: of the device.
    """
    bound = sorted((row for row in rows if row["bound"]), key=lambda row: -row["idle_ns"])
    idle_ns = sum(row["idle_ns"] for row in bound)
    if not span_ns or idle_ns < _WORTH_SAYING * span_ns:
        return ""
    named = [
        f"{row['name']} ({counted(row['num_calls'], 'call')}, {duration(_host_ns(row) / row['num_calls'])} of the host "
        f"each for {duration(row['device_ns'] / row['num_calls'])} of device work)"
        for row in bound[:_MOST_NAMED]
    ]
    more = len(bound) - len(named)
    names = ", ".join(named) + (f" and {more} more" if more else "")
    return (
        f"Launch-bound: the device waited {duration(idle_ns)} ({percent(idle_ns / span_ns)} of its span) for {names}."
    )


def _host_ns(row: Any) -> int:
    return int(row["self_ns"] + row["calls_ns"])


def _host_times(work: Work) -> HostTimes:
    empty = pl.DataFrame(schema=frame_schema(HostTimeRow))
    nothing = HostTimes(operators=empty, functions=empty, threads=pl.DataFrame(schema=THREAD_SCHEMA))
    if work.basis not in ("device", "host"):
        return nothing
    found = _launched(work), *(_waited_for(work, causes) for causes in (CAUSES, LAUNCH_BOUND))
    parts: list[pl.DataFrame] = []
    named: list[pl.DataFrame] = []
    threads: list[pl.DataFrame] = []
    for ranges in _by_thread(work):
        named.append(ranges.select("code", "name").unique("code"))
        extents = ranges.select("pid", "tid", start_ns="ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns"))
        for lanes in lanes_of(extents).partition_by("batch"):
            of_threads, part = _of_threads(ranges, lanes, *found)
            parts.append(part)
            threads.append(of_threads)
    if not parts:
        return nothing
    rows = _by_name(pl.concat(parts), has_device=work.basis == "device")
    names = pl.concat(named).unique("code").with_columns(pl.col("name").cast(pl.String))
    rows = rows.join(names, on="code", how="left").sort("self_ns", "total_ns", "name", descending=[True, True, False])
    own = {kind: rows.filter(pl.col("kind") == KINDS.index(kind)) for kind in (OPERATOR, FRAME)}
    schema = frame_schema(HostTimeRow)
    operators, functions = (
        own[kind].select(pl.col(name).cast(dtype) for name, dtype in schema.items()) for kind in (OPERATOR, FRAME)
    )
    every = pl.concat(threads).select(pl.col(name).cast(dtype) for name, dtype in THREAD_SCHEMA.items())
    return HostTimes(operators=operators, functions=functions, threads=every.sort("span_ns", descending=True))


_CALL = KINDS.index(RUNTIME_CALL)
_FAR = 1 << 62
_MANY = 1 << 20  # events of a trace
_AT_ONCE = 1 << 17  # ranges of a thread that are looked at together


def _by_thread(work: Work) -> Iterator[pl.DataFrame]:
    """Ranges of the threads of processes that launched something, a thread at a time; all at once of many threads."""
    pids = work.events.get_column("launch_pid").drop_nulls().unique()
    launched = pl.col("pid").is_in(pids.implode()) if work.basis == "device" and len(pids) else pl.lit(True)
    which = ~is_annotation() & launched
    if work.trace.events.height > _MANY:
        tables = [table.lazy() for table in (work.trace.events, work.trace.frames) if table is not None]
        threads = pl.concat(table.filter(which).select("pid", "tid").unique() for table in tables).unique().collect()
        if threads.height <= FEW_THREADS:
            for pid, tid in threads.iter_rows():
                ranges = _ranges(work, which & (pl.col("pid") == pid) & (pl.col("tid") == tid))
                if ranges.height:
                    yield ranges
            return
    ranges = _ranges(work, which)
    if ranges.height and ranges.select("pid", "tid").n_unique() > FEW_THREADS:
        yield ranges
    else:
        yield from ranges.partition_by("pid", "tid")


def _ranges(work: Work, which: pl.Expr) -> pl.DataFrame:
    """Ranges of the host, cut at the ends of the window; of what a step launched, at those of the step on the host."""
    ranges = host_ranges(work.trace, least_ns=0, which=which)
    window = work.window_ns
    if window is None and work.step is not None:
        steps = find_steps(work.trace.events).filter(pl.col("step") == work.step)
        window = steps.select("host_start_ns", "host_end_ns").row(0) if steps.height else None
    if window is None:
        return ranges
    begin, end = pl.col("ts_ns"), pl.col("ts_ns") + pl.col("dur_ns")
    inside = ranges.filter(begin < window[1], (end > window[0]) | (begin >= window[0]))
    return inside.with_columns(
        begin.clip(lower_bound=window[0]), dur_ns=end.clip(upper_bound=window[1]) - begin.clip(lower_bound=window[0])
    )


_THREAD: dict[str, pl.DataType] = {"pid": pl.Categorical(), "tid": pl.Categorical()}
_CALL_SCHEMA = _THREAD | {"ts_ns": pl.Int64(), "dur_ns": pl.Int64()}
_WAIT_SCHEMA = _THREAD | {"start_ns": pl.Int64(), "end_ns": pl.Int64()}


def _launched(work: Work) -> pl.DataFrame:
    """When each thread launched what ran on the device, and how long that ran, whole: pid, tid, ts_ns, dur_ns."""
    if work.basis != "device":
        return pl.DataFrame(schema=_CALL_SCHEMA)
    return work.around.events.drop_nulls("launch_ts_ns").select(
        pid="launch_pid", tid="launch_tid", ts_ns="launch_ts_ns", dur_ns=pl.col("end_ns") - pl.col("start_ns")
    )


def _waited_for(work: Work, causes: Collection[str]) -> pl.DataFrame:
    """When the device was idle because of what a thread did on its way to the next launch: frame of `_WAIT_SCHEMA`."""
    if work.basis != "device":
        return pl.DataFrame(schema=_WAIT_SCHEMA)
    pieces = idle_pieces(work)
    waits = (pieces.part <= PARTS.index(CALL)) & np.isin(pieces.cause, [CAUSES.index(cause) for cause in causes])
    return pieces.gaps.events.select(pid="launch_pid", tid="launch_tid")[pieces.gap[waits]].with_columns(
        pl.Series("start_ns", pieces.start[waits]), pl.Series("end_ns", pieces.end[waits])
    )


def _of_threads(
    ranges: pl.DataFrame, lanes: pl.DataFrame, launched: pl.DataFrame, *waited: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of the threads in these lanes a row each (`THREAD_SCHEMA`), and the sums of their ranges (`_by_label`)."""
    everything = Intervals(np.array([-_FAR]), np.array([_FAR]))
    lanes = lanes.with_row_index("lane")
    laid = in_lanes(ranges, lanes, "ts_ns")
    lane, code = (laid.get_column(name).cast(pl.Int64).to_numpy() for name in ("lane", "code"))
    wide = int(code.max()) + 1
    if lanes.height > 1:  # names of each thread apart, so that no thread's range counts as inside another's
        labels, code = np.unique(lane * wide + code, return_inverse=True)
        laid = laid.with_columns(pl.Series("code", code))
    else:
        labels = np.arange(wide)
    calls = in_lanes(launched, lanes).filter(pl.col("ts_ns").is_between("low_ns", "high_ns"))
    calls = calls.with_columns(pl.col("ts_ns") + pl.col("shift_ns")).sort("ts_ns")
    waits = [_as_intervals(in_lanes(found, lanes)) for found in waited]
    first, last, parts = np.full(lanes.height, _FAR), np.full(lanes.height, -_FAR), []
    for piece in _pieces(laid):
        tree = nested(piece, everything)
        parts.append(_by_label(tree, calls, *waits))
        np.minimum.at(first, labels[tree.code] // wide, tree.start)
        np.maximum.at(last, labels[tree.code] // wide, tree.end)
    sums = pl.concat(parts).group_by("kind", "code", maintain_order=True).agg(pl.all().sum())
    thread, code = np.divmod(labels[sums.get_column("code").to_numpy()], wide)
    sums = sums.with_columns(pl.Series("code", code))
    self_ns, calls_ns = (sums_by_group(thread, sums.get_column(c), lanes.height) for c in ("self_ns", "calls_ns"))
    of_threads = lanes.select("pid", "tid").with_columns(
        pl.Series("num_ranges", np.bincount(lane, minlength=lanes.height)), pl.Series("span_ns", last - first),
        pl.Series("self_ns", self_ns), pl.Series("calls_ns", calls_ns),
        pl.Series("outside_ns", last - first - self_ns - calls_ns),
    )  # fmt: skip
    return of_threads, sums


def _as_intervals(found: pl.DataFrame) -> Intervals:
    """The union of what `in_lanes` gives, within the extent of each lane."""
    return of_events(found.select(pl.col("start_ns", "end_ns").clip("low_ns", "high_ns") + pl.col("shift_ns")))


def _pieces(ranges: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The ranges of a thread, so many at a time or a few more, where none is open from one piece to the next: what is
    looked at together is held many times over."""
    if ranges.height <= _AT_ONCE:
        yield ranges
        return
    order = np.argsort(ranges.get_column("ts_ns").to_numpy(), kind="stable")
    start, dur = (ranges.get_column(name).to_numpy()[order] for name in ("ts_ns", "dur_ns"))
    closed = np.flatnonzero(start[1:] > np.maximum.accumulate(start + dur)[:-1]) + 1
    cuts = closed[np.diff(closed // _AT_ONCE, prepend=0) > 0].tolist()
    for first, stop in pairwise((0, *cuts, ranges.height)):
        yield ranges[order[first:stop]]


def _by_label(tree: Nested, launched: pl.DataFrame, waited: Intervals, for_launches: Intervals) -> pl.DataFrame:
    """A row per kind and name of one thread's ranges, with the sums of its ranges: num_calls, self_ns, calls_ns,
    launched_ns, idle_ns, and unlaunched_ns of it for want of launches; of those that no range of the name is around
    total_ns, device_ns and num_events, of the latter. Calls have no time of their own: theirs is that of who makes
    them."""
    number, is_call = len(tree.start), tree.kind == _CALL
    labels, label = _numbered(tree.code * len(KINDS) + tree.kind)
    outer = np.flatnonzero(_outermost(tree, label))
    calls = np.flatnonzero(is_call)
    owner = tree.around[calls]  # the operator or function that makes a call
    while (inner := (owner >= 0) & is_call[owner]).any():
        owner[inner] = tree.around[owner[inner]]
    payer = label.copy()
    payer[calls[owner >= 0]] = label[owner[owner >= 0]]  # calls outside of all keep their own
    inside = np.flatnonzero(tree.around >= 0)
    around = tree.around[inside]

    def summed(values: Array, of: Array = label) -> Array:
        return sums_by_group(of, values, len(labels))

    def own(inclusive: Array) -> Array:
        """The sums of what of each range's value lies in none of the ranges directly in it, those of calls added to
        those of who makes them."""
        return summed(inclusive, payer) - summed(inclusive[inside], payer[around])

    whole_ns = tree.end - tree.start
    self_ns = whole_ns - sums_by_group(around, whole_ns[inside], number)
    times = launched.get_column("ts_ns").to_numpy()
    sums = np.append(0, np.cumsum(launched.get_column("dur_ns").to_numpy()))
    first, last = np.searchsorted(times, tree.start), np.searchsorted(times, tree.end)
    device_ns, num_events = sums[last] - sums[first], last - first
    idle_ns = covered(waited, tree.start, tree.end)
    unlaunched_ns, idled = np.zeros(number, np.int64), np.flatnonzero(idle_ns)  # the former is part of idle time
    unlaunched_ns[idled] = covered(for_launches, tree.start[idled], tree.end[idled])
    return pl.DataFrame(
        {
            "code": labels // len(KINDS),
            "kind": labels % len(KINDS),
            "num_calls": np.bincount(label, minlength=len(labels)),
            "self_ns": summed(np.where(is_call, 0, self_ns)),
            "calls_ns": summed(self_ns[calls], payer[calls]),
            "launched_ns": own(device_ns),
            "idle_ns": own(idle_ns),
            "unlaunched_ns": own(unlaunched_ns),
            "total_ns": summed(whole_ns[outer], label[outer]),
            "device_ns": summed(device_ns[outer], label[outer]),
            "num_events": summed(num_events[outer], label[outer]),
        }
    )


def _numbered(values: Array) -> tuple[Array, Array]:
    """The different ones of some values from 0, in order, and for each value which of them it is."""
    seen = np.zeros(int(values.max()) + 1, np.bool_)
    seen[values] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[values]


def _outermost(tree: Nested, label: Array) -> NDArray[np.bool_]:
    """Ranges that no other of their label is around."""
    short = label.astype(np.uint16) if int(label.max()) < 1 << 16 else label  # which NumPy sorts without comparing
    order = np.argsort(short, kind="stable")  # within a label still in order of start
    group, start, end = label[order], tree.start[order], tree.end[order]
    low, high = int(tree.start[0]), int(tree.end.max())
    if (high - low + 1) * (int(group[-1]) + 1) >= _FAR:  # a broken trace: the order of its times serves as well
        times, rank = np.unique(np.concatenate((start, end)), return_inverse=True)
        start, end, low, high = rank[: len(start)], rank[len(start) :], 0, len(times)
    shift = group * (high - low + 1) - low  # each label on a stretch of time of its own
    reach = np.maximum.accumulate(end + shift)
    found = np.ones(len(order), np.bool_)
    found[order[1:]] = reach[:-1] <= (start + shift)[1:]
    return found


def _by_name(labels: pl.DataFrame, *, has_device: bool) -> pl.DataFrame:
    rows = labels.filter(pl.col("kind") != _CALL).group_by("kind", "code").agg(pl.all().sum())
    own = pl.col("self_ns") + pl.col("calls_ns")
    launches = (pl.col("num_events") > 0) & (pl.col("device_ns") < own) & (pl.col("unlaunched_ns") >= _WAITED * own)
    rows = rows.with_columns(
        pl.when(pl.col("device_ns") > 0).then(own / pl.col("device_ns")).alias("host_per_device"),
        pl.when(launches).then(pl.lit("launch")).otherwise(pl.lit("")).alias("bound"),
    )
    if has_device:
        return rows
    return rows.with_columns(pl.lit(None).alias(name) for name in ("launched_ns", "device_ns", "idle_ns"))

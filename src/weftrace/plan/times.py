"""When does each op of a plan run, what decides how long the plan takes, and what memory does it hold?

Everything here is computed from the plan alone, without making a trace. Times are nanoseconds from the plan's start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.notebook import InNotebook
from weftrace.plan.graph import Graph, chain, graph_of, latest_start_ns, run
from weftrace.plan.model import Plan
from weftrace.plan.rows import rows_by_rank
from weftrace.units import duration

#: Memory that a plan takes and frees adds up to less than this, so that it fits int64.
MAX_TOTAL_BYTES = 1 << 62
_ROWS_AT_ONCE = 1 << 13

Reason = Literal["start", "dependency", "resource", "meet"]

#: Columns of what `critical_path` returns. The ops' own columns follow: id, name, phase, kind, rank, stream.
PATH_SCHEMA: dict[str, pl.DataType] = {
    "op": pl.UInt32(),  # row of the plan
    "start_ns": pl.Int64(),  # of the op
    "end_ns": pl.Int64(),
    "from_ns": pl.Int64(),  # the part of the op that is on the path
    "until_ns": pl.Int64(),
    "lag_ns": pl.Int64(),  # between the part of the cause and this one: a lag, or the gap of the stream
    "reason": pl.Enum(get_args(Reason)),
    "why": pl.Categorical(),  # of a dependency, as the plan has it
    "cause": pl.UInt32(),  # row of the op that this one waited for; null for the first
    "wait": pl.UInt32(),  # of a dependency, row of the plan's waits
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timetable(InNotebook):
    """Start and end of every op, int64 arrays in the order of `plan.ops`.

    By hand: an op starts at the latest of 0, of the end or start of each op that it waits for (plus that wait's lag),
    and of the end of the op before it on its stream (plus `plan.gap_ns`). It ends `duration_ns + (num_kernels - 1) *
    gap_ns` later; a member of a meet that much after the last start of all members.

    shared: what the traces of all ranks have in common, kept by the first that is made.
    """

    plan: Plan
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    shared: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def makespan_ns(self) -> int:
        """End of the last op; 0 for a plan without ops."""
        return int(self.end_ns.max(initial=0))

    @property
    def ops(self) -> pl.DataFrame:
        """The plan's ops with their `start_ns` and `end_ns`."""
        return self.plan.ops.with_columns(start_ns=pl.Series(self.start_ns), end_ns=pl.Series(self.end_ns))

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "plan", self.plan.name
        yield "makespan", duration(self.makespan_ns)
        yield "ops", f"{len(self.plan):,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(InNotebook):
    """Ops each of which waits for the one before: a path as `critical_path` gives it, and how long it takes."""

    path: pl.DataFrame
    length_ns: int


def timetable(plan: Plan) -> Timetable:
    """Run the plan. Raises `PlanError` as `weftrace.plan.check` does."""
    return times_of(graph_of(plan))


def times_of(graph: Graph) -> Timetable:
    """Run the plan of a graph. Raises `PlanError` where ops wait for each other in a circle."""
    result = run(graph)
    return Timetable(plan=graph.plan, start_ns=result.start_ns, end_ns=result.end_ns)


def critical_path(times: Timetable, *, last: int | None = None) -> pl.DataFrame:
    """The ops that together decide when the plan ends, first to last, with the columns of `PATH_SCHEMA` and the ops'.

    last: the row of the op whose end is asked for, where it is not that of the plan.

    reason tells what an op's part of the path waited for: "dependency", an op that it waits for; "resource", the op
    before it on its stream; "meet", the member of its meet that started last; "start", it began with the plan. The
    parts and the lags add up to the makespan: `sum(until_ns - from_ns) + sum(lag_ns)`. Where a negative lag reaches
    back before the cause's own part, that part counts as negative. Of several such paths one is taken: the first op of
    the plan that ends last, the first wait that held, a wait before a stream.
    """
    need_timetable(times)
    return _path(graph_of(times.plan), times, last)


def longest_chain(plan: Plan) -> Chain:
    """The dependent ops that take longest together, were every stream free at any time.

    No number of streams or ranks makes the plan shorter than this. Waits and meets count, the order on a stream does
    not. Raises `PlanError` as `weftrace.plan.check` does, but for circles that only the order on a stream closes.
    """
    graph = graph_of(plan, free_streams=True)
    result = run(graph)
    times = Timetable(plan=plan, start_ns=result.start_ns, end_ns=result.end_ns)
    return Chain(path=_path(graph, times), length_ns=times.makespan_ns)


def slack_ns(times: Timetable, *, may_end_ns: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """For each op, by how much it could start later, all else as it is, without the plan ending later; int64, [ops].

    may_end_ns: how late each op may end, [ops], where that is not the plan's end.
    An op on the critical path has none. The slack of a chain is shared: taken by one op, it is gone for the others.
    """
    need_timetable(times)
    graph = graph_of(times.plan)
    result = run(graph, recorded=True)
    late: NDArray[np.int64] = latest_start_ns(graph, result, may_end_ns) - times.start_ns
    return late


def memory_curve(times: Timetable, rank: int) -> pl.DataFrame:
    """Memory held on a rank over time: a row whenever it changes, `time_ns` and `bytes` after all changes of that time.

    What `start_bytes` and `end_bytes` say, added up from 0. Raises `PlanError` where the plan has no op on that rank.
    """
    need_timetable(times)
    _, time_ns, held = _curves(times, times.plan.rows_on(rank))
    changed = np.diff(held, prepend=0) != 0
    return pl.DataFrame({"time_ns": time_ns[changed], "bytes": held[changed]})


def memory_peaks(times: Timetable) -> pl.DataFrame:
    """For each rank the most memory that it holds, `peak_bytes`, and from when on first, `at_ns`; ranks ascending.

    A rank that never holds more than at its start has a peak of 0 at 0.
    """
    need_timetable(times)
    by_rank, ranks, first = rows_by_rank(times.plan.ops)
    peak_bytes, at_ns = np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    begins = first[np.flatnonzero(np.diff(first // _ROWS_AT_ONCE, prepend=-1))]  # small ranks together
    for rows in np.split(by_rank, begins[1:]):
        rank, time_ns, held = _curves(times, rows)
        begins_of = np.flatnonzero(np.diff(rank, prepend=-1))
        most = (
            np.repeat(np.maximum.reduceat(held, begins_of), np.diff(begins_of, append=len(rank))) if len(rank) else held
        )
        highest = np.flatnonzero((held > 0) & (held == most))
        highest = highest[np.diff(rank[highest], prepend=-1) > 0]
        at = np.searchsorted(ranks, rank[highest])
        peak_bytes[at], at_ns[at] = held[highest], time_ns[highest]
    return pl.DataFrame(
        {"rank": ranks, "peak_bytes": peak_bytes, "at_ns": at_ns},
        schema={"rank": pl.Int32, "peak_bytes": pl.Int64, "at_ns": pl.Int64},
    )


def need_timetable(given: object) -> None:
    """Raise `PlanError` where something else stands for a timetable, as a plan easily does."""
    if not isinstance(given, Timetable):
        raise PlanError(
            f"a Timetable is wanted here, not a {type(given).__name__}: timetable(plan) makes one of a plan."
        )


def _curves(
    times: Timetable, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Ranks, times at which something is taken or freed, ascending within each rank, and what is held from each on."""
    ops = times.plan.ops
    moments: list[tuple[NDArray[Any], ...]] = []
    for column, at in (("start_bytes", times.start_ns), ("end_bytes", times.end_ns)):
        change = ops.get_column(column).gather(rows).to_numpy()
        these = rows[change != 0]
        moments.append((ops.get_column("rank").gather(these).to_numpy(), at[these], change[change != 0]))
    rank, time_ns, change = (np.concatenate(parts) for parts in zip(*moments, strict=True))
    if float(np.abs(change.astype(np.float64)).sum()) >= MAX_TOTAL_BYTES:
        raise PlanError(f"plan {times.plan.name!r}: its start_bytes and end_bytes are too large to be added up.")
    order = np.argsort(time_ns, kind="stable")
    if len(rank) and (rank[0] != rank).any():
        order = order[np.argsort(rank[order], kind="stable")]
    rank, time_ns, total = rank[order], time_ns[order], np.cumsum(change[order])
    is_last = np.append((time_ns[1:] != time_ns[:-1]) | (rank[1:] != rank[:-1]), True)[: len(rank)]
    rank, time_ns, total = rank[is_last], time_ns[is_last], total[is_last]
    begins = np.flatnonzero(np.diff(rank, prepend=-1))
    of_others = np.append(0, total)[begins]  # what the ranks before have added to the sum
    return rank, time_ns, total - np.repeat(of_others, np.diff(begins, append=len(rank)))


def reached_ns(times: Timetable, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """When each of these host ops is reached, int64: a call that blocks (why = "host") is from then on inside itself.

    By hand: where an op has such a wait, the time at which it would start without it, from the end of the op before it
    on its thread and its other waits; else its start. rows: all host ops of some ranks, ascending.
    """
    plan = times.plan
    reached = times.start_ns[rows]
    blocks = np.isin(rows, plan.waits.filter(why="host").get_column("op").to_numpy())
    if blocks.any():
        before = plan.ops.select("rank", "stream")[rows].with_columns(end_ns=times.end_ns[rows])
        free = before.select(pl.col("end_ns").shift(1).over("rank", "stream") + plan.gap_ns).to_series().fill_null(0)
        reached[blocks] = free.to_numpy()[blocks]
        others = plan.waits.filter(pl.col("why") != "host", pl.col("op").is_in(rows[blocks]))
        op, on = (others.get_column(name).to_numpy() for name in ("op", "on"))
        since = np.where((others.get_column("since") == "start").to_numpy(), times.start_ns[on], times.end_ns[on])
        np.maximum.at(reached, np.searchsorted(rows, op), since + others.get_column("lag_ns").to_numpy())
    return reached


# --- the critical path ------------------------------------------------------------------------------------------------


def _path(graph: Graph, times: Timetable, last: int | None = None) -> pl.DataFrame:
    """From the end of the op that ends last, or of the one asked for, back from cause to cause."""
    plan = times.plan
    own = ("id", "name", "phase", "kind", "rank", "stream")
    if not len(plan):
        return pl.DataFrame(schema=PATH_SCHEMA).hstack(plan.ops.select(own))
    last = int(np.argmax(times.end_ns)) if last is None else last
    op, cause, wait = (each[::-1] for each in chain(graph, times.start_ns, times.end_ns, last))
    is_first, is_wait, is_meet = cause < 0, wait >= 0, wait < -1
    assert (is_first == (times.start_ns[op] == 0))[0], (plan.label(int(op[0])), times.start_ns[op[0]])
    lag_ns = np.where(is_first | is_meet, 0, plan.gap_ns)
    lag_ns[is_wait] = np.maximum(plan.waits.get_column("lag_ns").to_numpy()[wait[is_wait]], 0)
    from_ns = np.where(is_meet, times.start_ns[cause], times.start_ns[op])
    code = np.select((is_first, is_wait, is_meet), (0, 1, 3), 2)
    by_wait = pl.Series(np.where(is_wait, wait, -1))
    columns = {
        "op": op,
        "start_ns": times.start_ns[op],
        "end_ns": times.end_ns[op],
        "from_ns": from_ns,
        "until_ns": np.append((from_ns - lag_ns)[1:], times.end_ns[last]),
        "lag_ns": lag_ns,
        "reason": pl.Series(np.array(get_args(Reason))[code], dtype=pl.String),
        "why": plan.waits.get_column("why").gather(by_wait.set(by_wait < 0, None)).cast(pl.String),
        "cause": pl.Series(cause).set(pl.Series(is_first), None),
        "wait": by_wait.set(by_wait < 0, None),
    }
    frame = pl.DataFrame(columns).select(pl.col(name).cast(dtype) for name, dtype in PATH_SCHEMA.items())
    return frame.hstack(plan.ops.select(own)[frame.get_column("op").to_numpy()])

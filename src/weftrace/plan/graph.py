"""Can a plan run, and when does each op? Its frames become arrays, every rule is checked, the loop fills the times.

Time and memory are linear in ops plus waits. Plans run interpreted as long as that is quicker than to load compiled
code, which takes about a second; once a process has interpreted as much as that, it loads it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.plan import loops
from weftrace.plan.model import Plan, need_plan
from weftrace.plan.ops import WAIT_SCHEMA
from weftrace.plan.rows import more

#: Sums of times stay below this, so that absolute times fit int64 with room for a clock's origin.
MAX_TOTAL_NS = 1 << 61
#: Ops plus waits that a process interprets before it loads compiled code: they take about half a second.
INTERPRETED = 500_000
_MAX_ROWS = 1 << 31
_MAX_LISTED = 24

_Int32s = NDArray[np.int32]
_Int64s = NDArray[np.int64]
_NONE = np.empty(0, np.int32)
_NO_TIMES = np.empty(0, np.int64)
_num_interpreted = 0  # ops plus waits, by this process


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A plan as the arrays that `weftrace.plan.loops` takes: N ops, Q streams, W waits, M meets.

    queue_of: stream of each op, [N]; ops of stream q are queue_ops[queue_first[q]:queue_first[q + 1]], [N], [Q + 1].
    waits of op i are rows wait_first[i] to wait_first[i + 1], [N + 1], of `plan.waits`: wait_on, wait_for_start [W],
    wait_lag_ns [W], or empty where no wait has a lag.
    hold_ns: time that an op holds its stream, [N]. meet_of: [N], meet_first, meet_ops: members by meet; all empty where
    there is none.
    """

    plan: Plan
    queue_of: _Int32s
    queue_first: _Int32s
    queue_ops: _Int32s
    wait_first: _Int32s
    wait_on: _Int32s
    wait_for_start: NDArray[np.uint8]
    wait_lag_ns: _Int64s
    hold_ns: _Int64s
    meet_of: _Int32s
    meet_first: _Int32s
    meet_ops: _Int32s


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """start_ns, end_ns: of every op, [N]. events: what happened, causes first, as `loops.run` records it; may be empty.

    num_ended: ops that ended, fewer than N where the plan is stuck; head: how far each stream came in its queue.
    """

    start_ns: _Int64s
    end_ns: _Int64s
    events: _Int32s
    num_ended: int
    head: _Int32s


def check(plan: Plan) -> None:
    """Raise `PlanError` where the plan cannot run.

    Checked: ids are unique; durations, gaps and counts are not negative; no op needs more SMs than the device has; host
    and device do not share a stream; ranks are below world_size; times add up to less than 73 years; and no ops wait
    for each other in a circle, be it through waits and meets alone or through these and the order of a stream.
    """
    run(graph_of(plan))


def graph_of(plan: Plan, *, free_streams: bool = False) -> Graph:
    """The arrays of a plan. free_streams: each op gets a stream of its own, so that the order on streams plays no part.

    Raises `PlanError` for everything that `check` raises, circles excepted.
    """
    check_values(plan)
    num_ops = len(plan)
    if free_streams:
        queue_of = queue_ops = np.arange(num_ops, dtype=np.int32)
        queue_first = np.arange(num_ops + 1, dtype=np.int32)
    else:
        queue_of, num_queues = _numbered(_resource_keys(plan))
        queue_first, queue_ops = _grouped(queue_of, num_queues)
    ops, waits = plan.ops.clone(), plan.waits.clone()
    wait_op = waits.get_column("op").to_numpy().view(np.int32)
    wait_first = np.zeros(num_ops + 1, np.int32)
    np.cumsum(np.bincount(wait_op, minlength=num_ops), out=wait_first[1:])
    lag_ns = waits.get_column("lag_ns")
    meet_of = meet_first = meet_ops = _NONE
    if (meet := ops.get_column("meet")).null_count() < num_ops:
        meet_of, meet_first, meet_ops = _meets(meet)
    return Graph(
        plan=plan,
        queue_of=queue_of,
        queue_first=queue_first,
        queue_ops=queue_ops,
        wait_first=wait_first,
        wait_on=waits.get_column("on").to_numpy().view(np.int32),
        wait_for_start=waits.get_column("since").to_physical().to_numpy().astype(np.uint8, copy=False),
        wait_lag_ns=lag_ns.to_numpy() if (lag_ns != 0).any() else _NO_TIMES,
        hold_ns=hold_ns(ops, plan.gap_ns),
        meet_of=meet_of,
        meet_first=meet_first,
        meet_ops=meet_ops,
    )


def with_durations(graph: Graph, plan: Plan) -> Graph:
    """The arrays of a plan that differs from the graph's in durations alone, none below 0. Raises `PlanError` where
    they add up to too much."""
    _check_total(plan, f"plan {plan.name!r}")
    return replace(graph, plan=plan, hold_ns=hold_ns(plan.ops, plan.gap_ns))


def hold_ns(ops: pl.DataFrame, gap_ns: int) -> _Int64s:
    """For each op, the time that it holds its stream unless it waits for its meet: its kernels and the gaps between."""
    holds = ops.get_column("duration_ns")
    if gap_ns and (ops.get_column("num_kernels") != 1).any():
        gaps = pl.col("num_kernels").cast(pl.Int64) - 1
        holds = ops.select(pl.col("duration_ns") + gaps * gap_ns).to_series()
    return holds.to_numpy()


def run(graph: Graph, *, recorded: bool = False, compiled: bool | None = None) -> Run:
    """Start and end of every op. Raises `PlanError` naming the ops of a circle where there is one.

    recorded: keep the order of events too. compiled: whether by compiled code; None leaves it to the size.
    """
    num_ops, num_queues, num_meets = len(graph.hold_ns), len(graph.queue_first) - 1, max(0, len(graph.meet_first) - 1)
    start, end = np.full(num_ops, loops.NONE, np.int64), np.full(num_ops, loops.NONE, np.int64)
    head = graph.queue_first[:-1].copy()
    events = np.zeros(2 * num_ops if recorded else 0, np.int32)
    state = (
        start, end, _of(num_ops, loops.NONE), head, _of(num_queues, loops.NONE), np.zeros(num_queues, np.int64),
        _of(num_queues, loops.NONE), np.arange(num_queues, dtype=np.int32)[::-1].copy(),
        np.diff(graph.meet_first), np.zeros(num_meets, np.int64), events,
    )  # fmt: skip
    fixed = (graph.queue_first, graph.queue_ops, graph.queue_of, *_waits(graph), graph.hold_ns, graph.plan.gap_ns,
             graph.meet_of, graph.meet_first, graph.meet_ops)  # fmt: skip
    num_ended = _call(loops.run, (*fixed, *state), written=(start, end, head, events), compiled=compiled, graph=graph)
    result = Run(start_ns=start, end_ns=end, events=events, num_ended=num_ended, head=head)
    if num_ended < num_ops:
        _raise_circle(graph, result)
    return result


def latest_start_ns(
    graph: Graph, result: Run, may_end_ns: _Int64s | None = None, *, compiled: bool | None = None
) -> _Int64s:
    """How late each op may start, all else as it is, so that none ends later than it may, or the plan does.

    result: a recorded run. may_end_ns: of each op, [N], not before its end; None: the makespan.
    """
    num_ops, makespan_ns = len(graph.hold_ns), int(result.end_ns.max(initial=0))
    latest_start = np.full(num_ops, makespan_ns, np.int64)
    latest_end = latest_start.copy() if may_end_ns is None else may_end_ns.astype(np.int64)
    meet_latest = np.full(max(0, len(graph.meet_first) - 1), makespan_ns, np.int64)
    arguments = (result.events, *_waits(graph), graph.hold_ns, graph.plan.gap_ns, graph.meet_of,
                 previous_on_stream(graph), latest_start, latest_end, meet_latest)  # fmt: skip
    _call(loops.latest, arguments, written=(latest_start,), compiled=compiled, graph=graph)
    return latest_start


def chain(
    graph: Graph, start_ns: _Int64s, end_ns: _Int64s, last: int, *, compiled: bool | None = None
) -> tuple[_Int32s, _Int32s, _Int32s]:
    """Ops from `last` back from cause to cause, of each the cause, and the wait, as `loops.chain` finds them."""
    found = tuple(_of(2 * len(graph.hold_ns), loops.NONE) for _ in range(3))
    arguments = (last, start_ns, end_ns, *_waits(graph), graph.plan.gap_ns, graph.meet_of, graph.meet_first,
                 graph.meet_ops, previous_on_stream(graph), *found)  # fmt: skip
    num_found = _call(loops.chain, arguments, written=found, compiled=compiled, graph=graph)
    op, cause, wait = (each[:num_found] for each in found)
    return op, cause, wait


def previous_on_stream(graph: Graph) -> _Int32s:
    """For each op, the op before it on its stream; -1 for the first."""
    previous = _of(len(graph.queue_ops), loops.NONE)
    previous[graph.queue_ops[1:]] = graph.queue_ops[:-1]
    starts = graph.queue_first[:-1]
    previous[graph.queue_ops[starts[starts < len(previous)]]] = loops.NONE
    return previous


# --- arrays -----------------------------------------------------------------------------------------------------------


def _of(length: int, value: int) -> _Int32s:
    return np.full(length, value, np.int32)


def _waits(graph: Graph) -> tuple[Any, ...]:
    return graph.wait_first, graph.wait_on, graph.wait_for_start, graph.wait_lag_ns


def _call(function: Any, arguments: tuple[Any, ...], *, written: Any, compiled: bool | None, graph: Graph) -> Any:
    """Run a loop on arrays, compiled, or interpreted: on lists then, whose items Python reaches faster.

    written: those of the arguments that the caller reads afterwards.
    """
    global _num_interpreted
    if compiled is None:
        _num_interpreted += len(graph.hold_ns) + len(graph.wait_on)
        compiled = _num_interpreted > INTERPRETED
    if compiled:
        return _compiled(function)(*arguments)
    lists = [a.tolist() if isinstance(a, np.ndarray) else a for a in arguments]
    result = function(*lists)
    for array, values in zip(arguments, lists, strict=True):
        if any(array is each for each in written):
            array[:] = values
    return result


@cache
def _compiled(function: Any) -> Any:
    """The function compiled for the types that `run` and `latest_start_ns` give it, from the disk where it was before.

    Read-only arrays are asked for where nothing is written, so that a frame's own memory will do.
    """
    from numba import int32, int64, types, uint8, void

    from weftrace.compiled import compiled

    def fixed(item: Any) -> Any:
        return types.Array(item, 1, "C", readonly=True)

    i32, i64 = fixed(int32), fixed(int64)
    out32, out64 = int32[::1], int64[::1]
    waits = (i32, i32, fixed(uint8), i64)
    signatures = {
        loops.run: int64(i32, i32, i32, *waits, i64, int64, i32, i32, i32, out64, out64, out32, out32, out32, out64,
                         out32, out32, out32, out64, out32),
        loops.latest: void(i32, *waits, i64, int64, i32, i32, out64, out64, out64),
        loops.chain: int64(int64, i64, i64, *waits, int64, i32, i32, i32, i32, out32, out32, out32),
        loops.grouped: void(i32, out32, out32),
    }  # fmt: skip
    return compiled(function, signatures[function])


def _resource_keys(plan: Plan) -> _Int64s:
    """A number for each op's stream: equal where rank and stream are."""
    if not len(plan):
        return _NO_TIMES
    ops = plan.ops.clone()
    rank, stream = ops.get_column("rank"), ops.get_column("stream")
    low, high = _range(plan, "stream")
    if low == high:
        return rank.to_numpy()
    keys = rank.to_numpy().astype(np.int64)
    keys *= high - low + 1
    keys += stream.to_numpy()
    keys -= low
    return keys


def _numbered(keys: NDArray[Any]) -> tuple[_Int32s, int]:
    """Keys numbered from 0 in ascending order, and how many there are. Keys are 0 or more."""
    if not len(keys):
        return _NONE, 0
    if int(keys.max()) > 4 * len(keys) + 1024:
        used = np.sort(pl.Series(keys).unique().to_numpy())  # few of many, as a rule: hashing is quicker than sorting
        return np.searchsorted(used, keys).astype(np.int32), len(used)
    is_used = np.zeros(int(keys.max()) + 1, dtype=bool)
    is_used[keys] = True
    if is_used.all():
        return keys.astype(np.int32, copy=False), len(is_used)
    number_of = np.cumsum(is_used, dtype=np.int32)
    return (number_of - 1)[keys], int(number_of[-1])


def _grouped(codes: _Int32s, num_groups: int) -> tuple[_Int32s, _Int32s]:
    """Offsets of each code, and indices sorted by code, those of one code in their order."""
    if (codes[1:] >= codes[:-1]).all():
        in_order = np.arange(max(num_groups + 1, len(codes)), dtype=np.int32)
        return np.searchsorted(codes, in_order[: num_groups + 1]).astype(np.int32), in_order[: len(codes)]
    if len(codes) + _num_interpreted > INTERPRETED:
        first, order = np.zeros(num_groups + 1, np.int32), np.empty(len(codes), np.int32)
        _compiled(loops.grouped)(codes, first, order)
        return first, order
    first = np.zeros(num_groups + 1, np.int32)
    np.cumsum(np.bincount(codes, minlength=num_groups), out=first[1:])
    return first, np.argsort(codes, kind="stable").astype(np.int32)


def _meets(column: pl.Series) -> tuple[_Int32s, _Int32s, _Int32s]:
    """meet_of, meet_first, meet_ops."""
    member = column.is_not_null().to_numpy()
    keys = column.drop_nulls().to_numpy()
    codes, num_meets = _numbered(keys.astype(np.int64) - int(keys.min()))
    meet_of = _of(len(member), loops.NONE)
    meet_of[member] = codes
    first, order = _grouped(codes, num_meets)
    return meet_of, first, np.flatnonzero(member).astype(np.int32)[order]


# --- what is wrong, in words ------------------------------------------------------------------------------------------


def check_values(plan: Plan) -> None:
    """Raise `PlanError` for everything that `check` raises, circles excepted."""
    need_plan(plan)
    of, ops, waits = f"plan {plan.name!r}", plan.ops.clone(), plan.waits.clone()
    if plan.gap_ns < 0:
        raise PlanError(f"{of}: gap_ns = {plan.gap_ns:,}; it must be 0 or more nanoseconds.")
    if len(ops) >= _MAX_ROWS or len(waits) >= _MAX_ROWS:
        raise PlanError(
            f"{of}: it has {len(ops):,} ops and {len(waits):,} waits; up to {_MAX_ROWS - 1:,} are possible."
        )
    for column, least, rule in (
        ("duration_ns", 0, "an op takes 0 ns or longer"),
        ("num_kernels", 1, "an op is at least one kernel"),
        ("num_sms", 0, "it is 0 or more, or nothing"),
    ):
        if len(ops) and _range(plan, column)[0] < least:
            rows = (ops.get_column(column) < least).arg_true()
            value = ops.get_column(column)[rows[0]]
            raise PlanError(f"{of}: op {plan.label(rows[0])} has {column} = {value:,}; {rule}.{more(len(rows))}")
    _check_device(plan, of)
    _check_ids(plan, of)
    _check_total(plan, of)


def _range(plan: Plan, column: str) -> tuple[int, int]:
    """Least and largest of a column of ops; (0, 0) where all is null."""
    values = plan.ops.clone().get_column(
        column
    )  # asked itself: a query of a small plan takes ten times as long as its answer
    return cast("int | None", values.min()) or 0, cast("int | None", values.max()) or 0


def _check_device(plan: Plan, of: str) -> None:
    ops = plan.ops.clone()  # so that constant columns take memory here only
    if not len(ops):
        return
    if plan.num_sms is not None and _range(plan, "num_sms")[1] > plan.num_sms:
        row = (ops.get_column("num_sms") > plan.num_sms).arg_true()[0]
        raise PlanError(
            f"{of}: op {plan.label(row)} holds {ops['num_sms'][row]} SMs, but the plan's device has "
            f"{plan.num_sms}. Correct num_sms of the op or of the plan."
        )
    low, high = _range(plan, "rank")
    if low < 0:
        raise PlanError(f"{of}: it has an op on rank {low}; ranks count from 0.")
    if plan.world_size is not None and high >= plan.world_size:
        raise PlanError(
            f"{of}: it has an op on rank {high}, but world_size is {plan.world_size}, "
            f"so ranks are 0 to {plan.world_size - 1}."
        )
    is_host = ops.get_column("kind") == "host"
    if is_host.any() and not is_host.all() and _is_mixed(plan, is_host):
        mixed = (
            ops.select("rank", "stream", host=is_host).unique().group_by("rank", "stream").len().filter(pl.col.len > 1)
        )
        rank, stream, _ = mixed.sort("rank", "stream").row(0)
        raise PlanError(
            f"{of}: stream {stream} of rank {rank} has host ops and others. A host thread is a stream of its own: "
            f"give it a number that no stream of the device has.{more(len(mixed))}"
        )


def _is_mixed(plan: Plan, is_host: pl.Series) -> bool:
    """Whether any stream has ops of a host and others."""
    keys = pl.Series(_resource_keys(plan))
    of_host, others = (keys.filter(which).unique() for which in (is_host, ~is_host))
    return bool(of_host.is_in(others.implode()).any())


def _check_ids(plan: Plan, of: str) -> None:
    ids = plan.ops.clone().get_column("id")
    if ids.null_count() < len(ids) and (twice := ids.drop_nulls().value_counts().filter(pl.col.count > 1)).height:
        label, count = twice.sort("id").row(0)
        raise PlanError(f"{of}: {count} ops share the id {label!r}. Ids name one op each.{more(twice.height)}")


def _check_total(plan: Plan, of: str) -> None:
    """Sums in floating point: they need not be exact, and cannot overflow."""
    ops = plan.ops
    per_op = pl.col("duration_ns").cast(pl.Float64).sum() + pl.col("num_kernels").cast(pl.Float64).sum() * plan.gap_ns
    lags = plan.waits.clone().get_column("lag_ns").cast(pl.Float64).abs().sum()
    total_ns = int((ops.select(per_op).item() if len(ops) else 0) + lags)
    if total_ns >= MAX_TOTAL_NS:
        raise PlanError(
            f"{of}: its times add up to {total_ns:,} ns, over {MAX_TOTAL_NS / 1e9 / 86400 / 365:.0f} years. "
            "Times are nanoseconds: look for a duration given in a smaller unit, or for one that is a time stamp."
        )


def _raise_circle(graph: Graph, stuck: Run) -> None:
    """Every stuck stream's head waits for an op that sits in, or behind the head of, another stuck stream."""
    q = int(np.flatnonzero(stuck.head < graph.queue_first[1:])[0])
    seen: dict[int, int] = {}
    path: list[tuple[int, int, str]] = []  # (head that waits, op it waits for, what of that op)
    while q not in seen:
        seen[q] = len(path)
        i = int(graph.queue_ops[stuck.head[q]])
        needed, what = _needed(graph, stuck, i)
        path.append((i, needed, what))
        q = int(graph.queue_of[needed])
    circle = path[seen[q] :]
    lines: list[str] = []
    num_ops = 0
    label = graph.plan.label
    for (i, needed, what), (blocker, _, _) in zip(circle, circle[1:] + circle[:1], strict=True):
        num_ops += 1 if needed == blocker else 2
        lines.append(f"  {label(i)} {what.format(label(needed))}")
        if needed != blocker:
            lines.append(f"  {label(needed)} is queued behind {label(blocker)} ({_resource(graph.plan, blocker)})")
    if len(lines) > _MAX_LISTED:
        lines = [*lines[: _MAX_LISTED - 1], f"  ... {len(lines) - _MAX_LISTED:,} more ...", lines[-1]]
    if num_ops == 1:
        summary = "an op waits for itself, a circle of one"
        raise PlanError(f"plan {graph.plan.name!r} cannot run: {summary}.\n{lines[0]}\nDrop this wait.")
    by_order = any("queued behind" in line for line in lines)
    remedy = (
        "Issue the awaited op earlier on its stream, move it to another stream, or drop a wait."
        if by_order
        else "Drop one of these waits."
    )
    raise PlanError(
        f"plan {graph.plan.name!r} cannot run: {num_ops:,} ops wait for each other in a circle"
        + (" (a deadlock between stream order and dependencies)" if by_order else "")
        + ".\n"
        + "\n".join(lines)
        + f"\n{remedy}"
    )


def _needed(graph: Graph, stuck: Run, i: int) -> tuple[int, str]:
    """What the head of a stuck stream waits for: an op, and words for it."""
    if stuck.start_ns[i] >= 0:
        m = graph.meet_of[i]
        members = graph.meet_ops[graph.meet_first[m] : graph.meet_first[m + 1]]
        absent = members[stuck.start_ns[members] < 0]
        return int(absent[0]), "meets {}, which cannot start"
    for k in range(graph.wait_first[i], graph.wait_first[i + 1]):
        for_start = bool(graph.wait_for_start[k])
        on = int(graph.wait_on[k])
        if (stuck.start_ns if for_start else stuck.end_ns)[on] < 0:
            return on, f"waits for {{}} to {'start' if for_start else 'end'}"
    raise AssertionError(f"op {i} of {graph.plan.name!r} is stuck, and waits for nothing")


def _resource(plan: Plan, row: int) -> str:
    rank, stream, kind = plan.ops.select("rank", "stream", "kind").row(row)
    return f"rank {rank}, {'host thread' if kind == 'host' else 'stream'} {stream}"


assert tuple(WAIT_SCHEMA["since"].categories) == ("end", "start"), "the loops take its code as a truth"  # type: ignore[attr-defined]

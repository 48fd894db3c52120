"""Can a plan run? Ids become indices, every rule is checked, and every op gets its start.

The run is discrete-event: each stream advances through its queue until its head waits for an op that has not ended,
and is woken when that op ends. As streams are FIFO and nothing else is shared, an op's start is the latest of its
dependencies' ends (plus lags) and its stream's release, whatever the order of the visits: the result is unique.
Time and memory are linear in ops plus dependencies.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from weftrace.errors import PlanError
from weftrace.plan.model import KINDS, Op, Plan, Resource

#: Sums of times stay below this, so that absolute times fit int64 with room for a clock's origin.
MAX_TOTAL_NS = 1 << 61
_MAX_LISTED = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A plan with ids replaced by indices into `plan.ops`.

    queues[r]: ops of resources[r], in issue order. resource_of[i]: index in `resources`.
    dependencies[i]: indices of the ops that op i waits for, in the order of `after`.
    hold_ns[i]: time that op i holds its stream.
    """

    plan: Plan
    resources: list[Resource]
    resource_of: list[int]
    queues: list[list[int]]
    dependencies: list[tuple[int, ...]]
    hold_ns: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """start_ns, end_ns: of every op, in plan order. order: op indices such that everything comes after its causes."""

    start_ns: list[int]
    end_ns: list[int]
    order: list[int]


def check(plan: Plan) -> None:
    """Raise `PlanError` where the plan cannot run.

    Checked: ids are unique; durations, lags, gaps and counts are whole numbers and not negative; no op needs more SMs
    than the device has; every dependency exists; and no ops wait for each other in a circle, be it through
    dependencies alone or through dependencies and the order of a stream.
    """
    run(compile_plan(plan))


def compile_plan(plan: Plan) -> Graph:
    """Replace ids by indices. Raises `PlanError` for everything that `check` raises, circles excepted."""
    ops = plan.ops
    _check_values(plan)
    index = {op.id: i for i, op in enumerate(ops)}
    if len(index) != len(ops):
        _raise_duplicate(plan)
    try:
        dependencies = [tuple([index[a] for a in op.after]) if op.after else () for op in ops]
    except KeyError:
        _raise_unknown(plan, index)
        raise
    queue_of: dict[Resource, int] = {}
    resource_of = [queue_of.setdefault(op.resource, len(queue_of)) for op in ops]
    queues: list[list[int]] = [[] for _ in queue_of]
    for i, r in enumerate(resource_of):
        queues[r].append(i)
    gap_ns = plan.gap_ns
    hold_ns = [op.duration_ns + (op.num_kernels - 1) * gap_ns for op in ops]
    total_ns = sum(hold_ns) + gap_ns * len(ops) + sum(sum(op.lags_ns) for op in ops if op.lags_ns)
    if total_ns >= MAX_TOTAL_NS:
        raise PlanError(
            f"{_of(plan)}: its times add up to {total_ns:,} ns, over {MAX_TOTAL_NS / 1e9 / 86400 / 365:.0f} years. "
            "Times are nanoseconds: look for a duration given in a smaller unit, or for one that is a time stamp."
        )
    return Graph(
        plan=plan,
        resources=list(queue_of),
        resource_of=resource_of,
        queues=queues,
        dependencies=dependencies,
        hold_ns=hold_ns,
    )


def run(graph: Graph) -> Run:
    """Start and end of every op. Raises `PlanError` naming the ops of a circle where there is one."""
    ops, queues, dependencies, hold_ns = graph.plan.ops, graph.queues, graph.dependencies, graph.hold_ns
    gap_ns = graph.plan.gap_ns
    start_ns = [0] * len(ops)
    end_ns = [-1] * len(ops)  # -1: has not ended
    order: list[int] = []
    head = [0] * len(queues)  # position in the queue
    met = [0] * len(queues)  # dependencies of the head that are known to have ended
    free_ns = [0] * len(queues)  # earliest start of the head, by what is known so far
    waiting: dict[int, list[int]] = {}  # op -> streams whose head waits for it
    awake = list(range(len(queues)))[::-1]
    while awake:
        r = awake.pop()
        queue, position, k, t = queues[r], head[r], met[r], free_ns[r]
        while position < len(queue):
            i = queue[position]
            needs = dependencies[i]
            if needs:
                lags_ns = ops[i].lags_ns
                while k < len(needs):
                    ready = end_ns[needs[k]]
                    if ready < 0:
                        break
                    if lags_ns:
                        ready += lags_ns[k]
                    if ready > t:
                        t = ready
                    k += 1
                if k < len(needs):
                    waiting.setdefault(needs[k], []).append(r)
                    break
                k = 0
            start_ns[i] = t
            t += hold_ns[i]
            end_ns[i] = t
            t += gap_ns
            order.append(i)
            position += 1
            if i in waiting:
                awake += waiting.pop(i)
        head[r], met[r], free_ns[r] = position, k, t
    if len(order) < len(ops):
        _raise_circle(graph, head, met)
    return Run(start_ns=start_ns, end_ns=end_ns, order=order)


def previous_on_stream(graph: Graph) -> list[int]:
    """For each op, the op before it on its stream; -1 for the first."""
    previous = [-1] * len(graph.plan.ops)
    for queue in graph.queues:
        for before, i in pairwise(queue):
            previous[i] = before
    return previous


# What is wrong, in words.


def _of(plan: Plan) -> str:
    return f"plan {plan.name!r}"


def _more(num_found: int) -> str:
    return f" ({num_found - 1:,} more like it.)" if num_found > 1 else ""


def _check_values(plan: Plan) -> None:
    ops = plan.ops
    whole_numbers: tuple[tuple[str, int, str], ...] = (
        ("duration_ns", 0, "an op takes 0 ns or longer"),
        ("num_kernels", 1, "an op is at least one kernel"),
    )
    for field, least, rule in whole_numbers:
        values = [getattr(op, field) for op in ops]
        wrong = [i for i, v in enumerate(values) if type(v) is not int] if set(map(type, values)) - {int} else []
        if wrong:
            raise PlanError(
                f"{_of(plan)}: op {ops[wrong[0]].id!r} has {field} = {values[wrong[0]]!r}, which is not an int. "
                f"Use whole numbers (nanoseconds for times), for example int(round(x)).{_more(len(wrong))}"
            )
        if values and min(values) < least:
            low = [i for i, v in enumerate(values) if v < least]
            raise PlanError(
                f"{_of(plan)}: op {ops[low[0]].id!r} has {field} = {values[low[0]]:,}; {rule}.{_more(len(low))}"
            )
    if type(plan.gap_ns) is not int or plan.gap_ns < 0:
        raise PlanError(f"{_of(plan)}: gap_ns = {plan.gap_ns!r}; it must be an int of 0 or more nanoseconds.")
    for op in ops:
        if op.lags_ns:
            _check_lags(plan, op)
        if op.num_sms is not None:
            _check_sms(plan, op)
        after: object = op.after
        if isinstance(after, str):
            raise PlanError(
                f"{_of(plan)}: op {op.id!r} has after = {after!r}, a string. Give a tuple of ids: ({after!r},)."
            )
    kinds = {op.kind for op in ops}
    if not kinds <= set(KINDS):
        op = next(op for op in ops if op.kind not in KINDS)
        raise PlanError(f"{_of(plan)}: op {op.id!r} has kind {op.kind!r}; weftrace knows {', '.join(KINDS)}.")
    ranks = {op.resource.rank for op in ops}
    if ranks and min(ranks) < 0:
        raise PlanError(f"{_of(plan)}: it has an op on rank {min(ranks)}; ranks count from 0.")
    if ranks and plan.world_size is not None and max(ranks) >= plan.world_size:
        raise PlanError(
            f"{_of(plan)}: it has an op on rank {max(ranks)}, but world_size is {plan.world_size}, "
            f"so ranks are 0 to {plan.world_size - 1}."
        )


def _check_lags(plan: Plan, op: Op) -> None:
    if len(op.lags_ns) != len(op.after):
        raise PlanError(
            f"{_of(plan)}: op {op.id!r} waits for {len(op.after)} ops but has {len(op.lags_ns)} lags_ns. "
            "Give one lag for each entry of `after` (0 where there is none), or leave lags_ns empty."
        )
    for lag in op.lags_ns:
        if type(lag) is not int or lag < 0:
            raise PlanError(f"{_of(plan)}: op {op.id!r} has a lag of {lag!r}; lags are ints of 0 or more nanoseconds.")


def _check_sms(plan: Plan, op: Op) -> None:
    if type(op.num_sms) is not int or op.num_sms < 0:
        raise PlanError(f"{_of(plan)}: op {op.id!r} has num_sms = {op.num_sms!r}; it is an int of 0 or more, or None.")
    if plan.num_sms is not None and op.num_sms > plan.num_sms:
        raise PlanError(
            f"{_of(plan)}: op {op.id!r} holds {op.num_sms} SMs, but the plan's device has {plan.num_sms}. "
            "Correct num_sms of the op or of the plan."
        )


def _raise_duplicate(plan: Plan) -> None:
    repeated = [(id_, n) for id_, n in Counter(op.id for op in plan.ops).items() if n > 1]
    id_, n = repeated[0]
    raise PlanError(
        f"{_of(plan)}: {n} ops share the id {id_!r}. Ids name one op each; add the layer, micro-batch or rank to it."
        f"{_more(len(repeated))}"
    )


def _raise_unknown(plan: Plan, index: dict[str, int]) -> None:
    unknown = [(op.id, a) for op in plan.ops for a in op.after if a not in index]
    waiter, missing = unknown[0]
    near = difflib.get_close_matches(missing, list(index), n=1) if len(index) <= 10_000 else []
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise PlanError(
        f"{_of(plan)}: op {waiter!r} waits for {missing!r}, which is not among its {len(index):,} ops.{hint}"
        f"{_more(len(unknown))}"
    )


def _raise_circle(graph: Graph, head: Sequence[int], met: Sequence[int]) -> None:
    """Every stuck stream's head waits for an op that sits in, or behind the head of, another stuck stream."""
    ops = graph.plan.ops
    r = next(r for r, queue in enumerate(graph.queues) if head[r] < len(queue))
    seen: dict[int, int] = {}
    path: list[tuple[int, int]] = []  # (head that waits, op it waits for)
    while r not in seen:
        seen[r] = len(path)
        i = graph.queues[r][head[r]]
        needed = graph.dependencies[i][met[r]]
        path.append((i, needed))
        r = graph.resource_of[needed]
    circle = path[seen[r] :]
    lines: list[str] = []
    num_ops = 0
    for (i, needed), (blocker, _) in zip(circle, circle[1:] + circle[:1], strict=True):
        num_ops += 1 if needed == blocker else 2
        lines.append(f"  {ops[i].id!r} waits for {needed_id!r} to end" if (needed_id := ops[needed].id) else "")
        if needed != blocker:
            lines.append(f"  {needed_id!r} is queued behind {ops[blocker].id!r} ({ops[blocker].resource})")
    if len(lines) > _MAX_LISTED:
        lines = [*lines[: _MAX_LISTED - 1], f"  ... {len(lines) - _MAX_LISTED:,} more ...", lines[-1]]
    by_order = any("queued behind" in line for line in lines)
    remedy = (
        "Issue the awaited op earlier on its stream, move it to another stream, or drop a dependency."
        if by_order
        else "Drop one of these dependencies."
    )
    raise PlanError(
        f"{_of(graph.plan)} cannot run: {num_ops:,} ops wait for each other in a circle"
        + (" (a deadlock between stream order and dependencies)" if by_order else "")
        + ".\n"
        + "\n".join(lines)
        + f"\n{remedy}"
    )

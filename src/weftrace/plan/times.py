"""When does each op of a plan run, and what decides how long the plan takes?

Everything here is computed from the plan alone, without making a trace. Times are nanoseconds from the plan's start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weftrace.notebook import InNotebook
from weftrace.plan.graph import Graph, Run, compile_plan, previous_on_stream, run
from weftrace.plan.model import Op, Plan
from weftrace.units import duration

Reason = Literal["start", "dependency", "resource"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timetable(InNotebook):
    """Start and end of every op, int64 arrays in the order of `plan.ops`.

    By hand: an op starts at the latest of 0, the end of each op in its `after` (plus that entry's lag), and the end of
    the op before it on its stream (plus `plan.gap_ns`). It ends `duration_ns + (num_kernels - 1) * gap_ns` later.
    """

    plan: Plan
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]

    @property
    def makespan_ns(self) -> int:
        """End of the last op; 0 for a plan without ops."""
        return int(self.end_ns.max(initial=0))

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "plan", self.plan.name
        yield "makespan", duration(self.makespan_ns)
        yield "ops", f"{len(self.plan.ops):,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(InNotebook):
    """Ops each of which waits for the one before. length_ns: what they take together, lags and kernel gaps included."""

    ops: tuple[Op, ...]
    length_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalStep(InNotebook):
    """One op that a shorter plan would have to shorten, and what its start waited for.

    reason: "dependency", the op `cause` of its `after` ended last; "resource", the op `cause` before it on its stream
    did; "start", it began with the plan, and `cause` is None. Where both ended at the same time it is "dependency".
    """

    op: Op
    start_ns: int
    end_ns: int
    reason: Reason
    cause: str | None


def timetable(plan: Plan) -> Timetable:
    """Run the plan. Raises `PlanError` as `weftrace.plan.check` does."""
    result = run(compile_plan(plan))
    return Timetable(
        plan=plan,
        start_ns=np.array(result.start_ns, dtype=np.int64),
        end_ns=np.array(result.end_ns, dtype=np.int64),
    )


def longest_chain(plan: Plan) -> Chain:
    """The dependent ops that take longest together, were every stream free at any time.

    No number of streams or ranks makes the plan shorter than this. Only `after` counts, not the order on a stream.
    Raises `PlanError` as `weftrace.plan.check` does.
    """
    graph = compile_plan(plan)
    order = run(graph).order
    reach_ns = [0] * len(plan.ops)  # length of the longest chain that ends with this op
    before = [-1] * len(plan.ops)
    for i in order:
        longest = 0
        for k, j in enumerate(graph.dependencies[i]):
            reach = reach_ns[j] + _lag_ns(plan.ops[i], k)
            if before[i] < 0 or reach > longest:
                longest, before[i] = reach, j
        reach_ns[i] = longest + graph.hold_ns[i]
    if not order:
        return Chain(ops=(), length_ns=0)
    last = max(range(len(reach_ns)), key=reach_ns.__getitem__)
    chain: list[Op] = []
    i = last
    while i >= 0:
        chain.append(plan.ops[i])
        i = before[i]
    return Chain(ops=tuple(reversed(chain)), length_ns=reach_ns[last])


def critical_path(plan: Plan) -> tuple[CriticalStep, ...]:
    """The ops that together decide when the plan ends, first to last.

    Each step starts when its cause lets it: at the cause's end plus the lag ("dependency") or plus `plan.gap_ns`
    ("resource"). So the steps' times, lags and gaps add up to the makespan exactly. Of several such paths the one
    through the op that comes first in the plan is taken. Raises `PlanError` as `weftrace.plan.check` does.
    """
    graph = compile_plan(plan)
    result = run(graph)
    if not plan.ops:
        return ()
    previous = previous_on_stream(graph)
    steps: list[CriticalStep] = []
    i = max(range(len(plan.ops)), key=result.end_ns.__getitem__)
    while i >= 0:
        cause, reason = _cause(graph, result, previous[i], i)
        steps.append(
            CriticalStep(
                op=plan.ops[i],
                start_ns=result.start_ns[i],
                end_ns=result.end_ns[i],
                reason=reason,
                cause=plan.ops[cause].id if cause >= 0 else None,
            )
        )
        i = cause
    return tuple(reversed(steps))


def _cause(graph: Graph, result: Run, previous: int, i: int) -> tuple[int, Reason]:
    start_ns = result.start_ns[i]
    for k, j in enumerate(graph.dependencies[i]):
        if result.end_ns[j] + _lag_ns(graph.plan.ops[i], k) == start_ns:
            return j, "dependency"
    if previous >= 0 and result.end_ns[previous] + graph.plan.gap_ns == start_ns:
        return previous, "resource"
    assert start_ns == 0, (graph.plan.ops[i].id, start_ns)
    return -1, "start"


def _lag_ns(op: Op, k: int) -> int:
    return op.lags_ns[k] if op.lags_ns else 0

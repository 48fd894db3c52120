"""Why did an action of a pipeline start later than planned?

An action waits for two things: the action before it on its rank, and what it needs of other ranks (`messages`). The one
that came last, had messages travelled as planned, is its *cause*. Legend: N actions, in the order of
`Schedule.actions`; u is the cause of v.

    planned    u ====|..transit..|.slack.|==== v        slack: v waited for something else, the plan had time to spare
    measured      u =======|..transit..|..p2p..|between|====== v
                                                         p2p: the message took longer than planned
                                                         between: the rank did neither an action nor wait for a message

    late(v) = late end(u) - slack(v) + p2p(v) + between(v),  late end(u) = late(u) + own(u)

own(u) is by how much u itself took longer than planned. Both lines hold to the nanosecond, so the lateness of every
action is a sum over the chain of causes before it, and that of the last one the difference of the makespans.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.dependencies import messages_between_ranks
from weftrace.pipeline.schedule import ACTION_SCHEMA, Schedule

_Ints = NDArray[np.int64]

#: What an action waited for: nothing (the first of its rank without input), the action before it, or another rank's.
Reason = Literal["start", "rank", "input"]

#: Columns of `lateness`; the actions' own come first.
LATENESS_SCHEMA: dict[str, pl.DataType] = {
    **ACTION_SCHEMA,
    "planned_start_ns": pl.Int64(),
    "planned_end_ns": pl.Int64(),
    "start_ns": pl.Int64(),  # measured, from the first start of all ranks
    "end_ns": pl.Int64(),
    "late_ns": pl.Int64(),  # start - planned start
    "own_ns": pl.Int64(),  # how much longer it took than planned
    "reason": pl.Enum(get_args(Reason)),
    "cause": pl.UInt32(),  # row of the action that it waited for; null for "start"
    "slack_ns": pl.Int64(),  # of this action's late_ns, see above
    "p2p_ns": pl.Int64(),
    "between_ns": pl.Int64(),
    "caused_own_ns": pl.Int64(),  # late_ns = caused_own + caused_p2p + caused_between - caused_slack: its chain's sums
    "caused_p2p_ns": pl.Int64(),
    "caused_between_ns": pl.Int64(),
    "caused_slack_ns": pl.Int64(),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedTimes:
    """When each action should run, [N], and how long each message of `messages(schedule)` should travel."""

    start_ns: _Ints
    end_ns: _Ints
    transit_ns: _Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredTimes:
    """When each action ran, [N]. waited_until_ns: when the wait for messages before an action ended, -1 where the run
    tells of none; None where it tells of no waits at all, so that any time without an action before one that needs a
    message counts as that message's.
    """

    start_ns: _Ints
    end_ns: _Ints
    waited_ns: _Ints | None = None
    waited_until_ns: _Ints | None = None


def lateness(schedule: Schedule, planned: PlannedTimes, measured: MeasuredTimes) -> pl.DataFrame:
    """Each action of a schedule, how late it started, and why: a frame of `LATENESS_SCHEMA`."""
    cause, reason, transit = _causes(schedule, planned, measured)
    has_cause = cause >= 0
    at = np.maximum(cause, 0)
    planned_gap = np.where(has_cause, planned.start_ns - planned.end_ns[at], planned.start_ns)
    gap = np.where(has_cause, measured.start_ns - measured.end_ns[at], measured.start_ns)
    slack = planned_gap - transit
    between = _between(schedule, measured, reason, gap)
    parts = {"slack": slack, "p2p": gap - transit - between, "between": between}
    own = (measured.end_ns - measured.start_ns) - (planned.end_ns - planned.start_ns)
    summed = _along_chains(schedule, cause, own, parts)
    columns: dict[str, Any] = {
        "planned_start_ns": planned.start_ns,
        "planned_end_ns": planned.end_ns,
        "start_ns": measured.start_ns,
        "end_ns": measured.end_ns,
        "late_ns": measured.start_ns - planned.start_ns,
        "own_ns": own,
        "reason": np.array(get_args(Reason))[reason],
        "cause": pl.Series(cause).set(pl.Series(~has_cause), None),
        **{f"{name}_ns": values for name, values in parts.items()},
        **{f"caused_{name}_ns": values for name, values in summed.items()},
    }
    frame = schedule.actions.with_columns(**{name: pl.Series(name, values) for name, values in columns.items()})
    return frame.select(pl.col(name).cast(dtype) for name, dtype in LATENESS_SCHEMA.items())


def chain_of(late: pl.DataFrame, row: int) -> list[int]:
    """The rows of the chain of causes that ends in a row, first to last."""
    cause = late.get_column("cause").to_list()
    chain = [row]
    while (before := cause[chain[-1]]) is not None:
        chain.append(before)
    return chain[::-1]


def _causes(schedule: Schedule, planned: PlannedTimes, measured: MeasuredTimes) -> tuple[_Ints, _Ints, _Ints]:
    """Of each action: the row of its cause, -1 for none; its reason, as the position in `Reason`; and the planned
    transit of the message that it waited for, 0 without one."""
    rank = schedule.rank_N
    rows = np.arange(len(rank))
    is_first = np.diff(rank, prepend=-1) != 0
    before = np.where(is_first, -1, rows - 1)
    op, on, _, place = messages_between_ranks(schedule)
    transit_of = planned.transit_ns[place]
    arrives = measured.end_ns[on] + transit_of
    order = np.lexsort((arrives, op))  # the last of each op's messages in this order is the one that arrives last
    last = order[np.diff(op[order], append=-1) != 0]
    arrival = np.full(len(rank), np.iinfo(np.int64).min)
    sender, transit = np.full(len(rank), -1), np.zeros(len(rank), np.int64)
    arrival[op[last]], sender[op[last]], transit[op[last]] = arrives[last], on[last], transit_of[last]
    free = np.where(is_first, np.iinfo(np.int64).min, measured.end_ns[np.maximum(before, 0)])
    waits_for_input = (sender >= 0) & (is_first | (arrival > free))
    cause = np.where(waits_for_input, sender, before)
    reason = np.where(waits_for_input, 2, np.where(is_first, 0, 1))
    return cause, reason, np.where(waits_for_input, transit, 0)


def _between(schedule: Schedule, measured: MeasuredTimes, reason: _Ints, gap: _Ints) -> _Ints:
    """Of the time between an action and its cause: what was no waiting for a message."""
    if measured.waited_ns is None or measured.waited_until_ns is None:
        needs = np.zeros(len(schedule), bool)
        needs[messages_between_ranks(schedule).op] = True
        return np.where(needs, 0, gap)
    after_wait = np.clip(measured.start_ns - measured.waited_until_ns, 0, np.maximum(gap, 0))
    has_wait = measured.waited_until_ns >= 0
    of_input = np.where(has_wait, after_wait, 0)
    return np.where(reason == 2, of_input, gap - np.where(has_wait, measured.waited_ns, 0))


def _along_chains(schedule: Schedule, cause: _Ints, own: _Ints, parts: dict[str, _Ints]) -> dict[str, _Ints]:
    """Sums over the chain of causes of each action: own of those before it, the other parts its own included."""
    order = TopologicalSorter({row: (before,) if before >= 0 else () for row, before in enumerate(cause.tolist())})
    summed = {"own": np.zeros(len(cause), np.int64), **{name: values.copy() for name, values in parts.items()}}
    for row in order.static_order():
        if (before := cause[row]) < 0:
            continue
        summed["own"][row] = summed["own"][before] + own[before]
        for name in parts:
            summed[name][row] += summed[name][before]
    return summed

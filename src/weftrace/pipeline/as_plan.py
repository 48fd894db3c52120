"""A schedule with its costs as a `weftrace.plan.Plan`: actions on streams, messages and copies beside them.

A rank computes its actions in order, on one stream. Messages that only take their time on the way are lags; where their
size matters or they block they are ops, and so are copies of offloaded activations: see `planned`.

Legend: N actions, S stages, K kinds of action.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.costs import Costs, durations_ns, need_costs, of_stages
from weftrace.pipeline.dependencies import messages_between_ranks
from weftrace.pipeline.held import changes_of_kinds, in_bytes
from weftrace.pipeline.planned.copies import copies_of, with_copies
from weftrace.pipeline.planned.frames import named, stacked
from weftrace.pipeline.planned.streams import COMPUTE
from weftrace.pipeline.planned.transfers import with_messages
from weftrace.pipeline.range_names import chunk_name
from weftrace.pipeline.rules import check_work
from weftrace.pipeline.schedule import KINDS, Schedule, code_of
from weftrace.plan import Plan

_F, _FB = code_of("F"), code_of("F&B")


def plan_of(schedule: Schedule, costs: Costs) -> Plan:
    """The plan of a schedule. Row i of its ops is action i of the schedule; messages and copies come after.

    An action's memory is taken at its start where it has a forward, and freed at its end (see `Costs`; where there is
    no backward at all, a forward frees its own); parameters are no part of it. An offloaded chunk's is freed once its
    copy to the host has ended, and taken when its copy back begins. That copy is begun so that it ends just before the
    backward if the rank computes without a pause from then on, and where several are on their way, so that all are in
    time; so it is late only where it would have to begin before its chunk has gone.

    Raises `ScheduleError` where costs are of another pipeline, and as `check` does, but for ranks that wait for each
    other in a circle, which are the engine's to find.
    """
    ops, waits = _frames_of_times(schedule, costs)
    return _plan(schedule, costs, _told(ops, schedule, costs), waits)


def plan_of_times(schedule: Schedule, costs: Costs) -> Plan:
    """`plan_of` without names, phases and memory of actions, which no time depends on: half as large."""
    return _plan(schedule, costs, *_frames_of_times(schedule, costs))


def told(plan: Plan, schedule: Schedule, costs: Costs) -> Plan:
    """A plan of `plan_of_times` with what it left out."""
    return replace(plan, ops=_told(plan.ops, schedule, costs))


def _plan(schedule: Schedule, costs: Costs, ops: pl.DataFrame, waits: pl.DataFrame) -> Plan:
    return Plan(name=schedule.name, source=costs.source, notes=schedule.notes, ops=ops, waits=waits)


def _frames_of_times(schedule: Schedule, costs: Costs) -> tuple[pl.DataFrame, pl.DataFrame]:
    check_work(schedule)
    need_costs(costs)
    times_ns = durations_ns(schedule, costs)
    ops = schedule.actions.select("rank", "micro_batch").with_columns(
        name=pl.lit("", pl.Categorical()), duration_ns=pl.Series(times_ns), stream=pl.lit(COMPUTE, pl.Int32)
    )
    ops, waits = with_messages(schedule, costs, ops, messages_between_ranks(schedule))
    copies = copies_of(schedule)
    if len(copies.forward):
        size = of_stages(costs, "activation_bytes", schedule.num_stages)[copies.stage]
        changes = np.append(0 * size, size), np.append(-size, 0 * size)
        ops, waits = with_copies(schedule, costs, ops, waits, copies, times_ns, changes)
    return ops, waits


def _told(ops: pl.DataFrame, schedule: Schedule, costs: Costs) -> pl.DataFrame:
    code, num_stages, num = schedule.kind_N, schedule.num_stages, len(schedule)
    chunk_N = code.astype(np.int32) * np.int32(num_stages) + schedule.stage_N
    columns = {"name": named(KINDS, code), "phase": _phases(schedule, chunk_N)}
    columns |= dict(zip(("start_bytes", "end_bytes"), _memory_changes(schedule, costs, chunk_N), strict=True))
    actions, others = ops[:num].with_columns(**columns), ops[num:]
    return stacked(actions, others) if len(others) else actions


def _memory_changes(schedule: Schedule, costs: Costs, chunk_N: NDArray[np.int32]) -> tuple[pl.Series, pl.Series]:
    """What each action takes at its start and at its end (negative: frees), Int64."""
    sizes, code = in_bytes(schedule, costs), schedule.kind_N
    chunk = pl.Series(chunk_N.view(np.uint32))
    by_kind = changes_of_kinds(sizes, forward_only=bool((code == _F).all()))
    start, end = (pl.Series(changes_KS.reshape(-1)).gather(chunk) for changes_KS in by_kind)
    if len(pairs := np.flatnonzero(code == _FB)):
        back = schedule.actions.get_column("back_stage").gather(pairs).to_numpy()
        end = end.scatter(pairs, -sizes.activation_S[back])
    return start, end


def _phases(schedule: Schedule, chunk_N: NDArray[np.int32]) -> pl.Series:
    """What the ranges of a real run are called: stage3(F); those of an F&B, stage0(F)&stage7(B)."""
    num_stages, code = schedule.num_stages, schedule.kind_N
    names = [chunk_name(stage, kind) for kind in KINDS for stage in range(num_stages)]
    phase = chunk_N
    if len(pairs := np.flatnonzero(code == _FB)):
        stage, back = (schedule.actions.get_column(name).gather(pairs).to_numpy() for name in ("stage", "back_stage"))
        used, which = np.unique(np.stack([stage, back]), axis=1, return_inverse=True)
        phase = chunk_N.copy()
        phase[pairs] = len(names) + which.reshape(-1)
        names += [f"{chunk_name(forward, 'F')}&{chunk_name(backward, 'B')}" for forward, backward in used.T.tolist()]
    return named(tuple(names), phase)

"""A schedule with its costs as a `weftrace.plan.Plan`: actions on streams, messages and copies beside them.

A rank computes its actions in order, on one stream. Messages that only take their time on the way are lags; where their
size matters or they block they are ops, and so are copies of offloaded activations: see `planned`.

Legend: N actions, S stages, C offloaded chunks.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.costs import Costs, durations_ns, need_costs, of_stages
from weftrace.pipeline.dependencies import messages_between_ranks
from weftrace.pipeline.planned.copies import Copies, copies_of, with_copies
from weftrace.pipeline.planned.frames import named
from weftrace.pipeline.planned.streams import COMPUTE
from weftrace.pipeline.planned.transfers import with_messages
from weftrace.pipeline.range_names import chunk_name
from weftrace.pipeline.rules import check_work
from weftrace.pipeline.schedule import KINDS, Schedule, code_of
from weftrace.plan import Plan

_F, _B, _I, _W, _FB = (code_of(kind) for kind in ("F", "B", "I", "W", "F&B"))


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
    check_work(schedule)
    need_costs(costs)
    times_ns = durations_ns(schedule, costs)
    copies = copies_of(schedule)
    num_actions, num_copies = len(schedule), len(copies.forward)
    activation_S, pending_S = (
        of_stages(costs, name, schedule.num_stages) for name in ("activation_bytes", "pending_bytes")
    )
    start_bytes, end_bytes = _memory_changes(schedule, activation_S, pending_S, copies)
    ops = pl.DataFrame(
        {
            "name": named(KINDS, schedule.kind_N),
            "phase": _phases(schedule),
            "rank": schedule.actions.get_column("rank"),
            "duration_ns": times_ns,
            "micro_batch": schedule.actions.get_column("micro_batch"),
            "start_bytes": start_bytes[:num_actions],
            "end_bytes": end_bytes[:num_actions],
        }
    ).with_columns(stream=pl.lit(COMPUTE, pl.Int32))
    ops, waits = with_messages(schedule, costs, ops, messages_between_ranks(schedule))
    if num_copies:
        changes = (start_bytes[num_actions:], end_bytes[num_actions:])
        ops, waits = with_copies(schedule, costs, ops, waits, copies, times_ns, changes)
    return Plan(name=schedule.name, source=costs.source, notes=schedule.notes, ops=ops, waits=waits)


def _memory_changes(
    schedule: Schedule, activation_S: NDArray[np.int64], pending_S: NDArray[np.int64], copies: Copies
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What each op takes at its start and at its end (negative: frees), int64 [N + 2 C]: actions, then copies.

    activation_S: what a forward of a stage takes. pending_S: the part of it that is held from I to W.
    """
    code, stage = schedule.kind_N, schedule.stage_N
    none = np.zeros_like(activation_S)
    start_KS, end_KS = np.stack([none] * len(KINDS)), np.stack([none] * len(KINDS))
    start_KS[[_F, _FB]] = activation_S
    if (code == _F).all():  # forward only: nothing waits for a backward
        end_KS[_F] = -activation_S
    end_KS[_B], end_KS[_I], end_KS[_W] = -activation_S, pending_S - activation_S, -pending_S
    start, end = start_KS[code, stage], end_KS[code, stage]
    if len(pairs := np.flatnonzero(code == _FB)):
        end[pairs] = -activation_S[schedule.actions.get_column("back_stage").gather(pairs).to_numpy()]
    if not len(copies.stage):
        return start, end
    copied = activation_S[copies.stage]
    return np.concatenate([start, 0 * copied, copied]), np.concatenate([end, -copied, 0 * copied])


def _phases(schedule: Schedule) -> pl.Series:
    """What the ranges of a real run are called: stage3(F); those of an F&B, stage0(F)&stage7(B)."""
    num_stages, code = schedule.num_stages, schedule.kind_N
    names = [chunk_name(stage, kind) for kind in KINDS for stage in range(num_stages)]
    phase = code.astype(np.int64) * num_stages + schedule.stage_N
    if len(pairs := np.flatnonzero(code == _FB)):
        stage, back = (schedule.actions.get_column(name).gather(pairs).to_numpy() for name in ("stage", "back_stage"))
        used, which = np.unique(np.stack([stage, back]), axis=1, return_inverse=True)
        phase[pairs] = len(names) + which.reshape(-1)
        names += [f"{chunk_name(forward, 'F')}&{chunk_name(backward, 'B')}" for forward, backward in used.T.tolist()]
    return named(tuple(names), phase)

"""Offloaded activations: copies to the host after their forward, and back before their backward.

Legend: N actions, C offloaded chunks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs, of_stages, transfer_ns
from weftrace.pipeline.dependencies import chunk_rows
from weftrace.pipeline.planned.frames import Rows, all_of, named, stacked, wait_frame
from weftrace.pipeline.planned.streams import FROM_HOST, TO_HOST
from weftrace.pipeline.schedule import Schedule


class Copies(NamedTuple):
    """Offloaded chunks, [C] each, as rows of actions: the forward and the backward of each, and its stage."""

    forward: Rows
    backward: Rows
    stage: NDArray[np.int32]


def copies_of(schedule: Schedule) -> Copies:
    """Offloaded chunks that a backward needs again, in the order of the rows of their forwards."""
    actions = schedule.actions
    row = actions.get_column("offload").arg_true().to_numpy()
    stage, micro_batch = (actions.get_column(name).to_numpy()[row] for name in ("stage", "micro_batch"))
    if not len(row):
        return Copies(row, row, stage)
    backward = chunk_rows(schedule, "I")[0][stage, micro_batch]
    needed = backward >= 0
    return Copies(row[needed], backward[needed], stage[needed])


def with_copies(
    schedule: Schedule, costs: Costs, ops: pl.DataFrame, waits: pl.DataFrame, copies: Copies,
    times_ns: NDArray[np.int64], changes: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """With a copy to the host after each offloaded forward, and one back before its backward.

    changes: what copies take at their start and end, those to the host first.
    """
    if costs.offload_bytes_per_s is None:
        raise ScheduleError(
            f"schedule {schedule.name!r} offloads activations: costs need offload_bytes_per_s, the rate of the copies."
        )
    num = len(copies.forward)
    size = of_stages(costs, "activation_bytes", schedule.num_stages)[copies.stage]
    copy_ns = transfer_ns(size, costs, "offload_bytes_per_s")
    rank = schedule.rank_N
    micro_batch = schedule.actions.get_column("micro_batch").to_numpy()
    back = np.argsort(copies.backward, kind="stable")  # copied back in the order in which they are needed
    there_row = len(ops) + np.arange(num)
    back_row = np.empty(num, np.int64)
    back_row[back] = len(ops) + num + np.arange(num)
    both = pl.DataFrame(
        {
            "name": named(("offload(F)", "reload(B)"), np.repeat([0, 1], num)),
            "kind": all_of("memory", 2 * num),
            "rank": np.tile(rank[copies.forward], 2),
            "stream": np.repeat(np.array([TO_HOST, FROM_HOST], np.int32), num),
            "duration_ns": np.tile(copy_ns, 2),
            "micro_batch": np.tile(micro_batch[copies.forward], 2),
            "start_bytes": changes[0],
            "end_bytes": changes[1],
        }
    )
    both = pl.concat([both[:num], both[num:][back]])
    after, lag_ns = _begun_after(rank, times_ns, copies.backward[back], copy_ns[back])
    begun = after >= 0
    more = [
        wait_frame(there_row, copies.forward),
        wait_frame(back_row, there_row),
        wait_frame(back_row[back][begun], after[begun], lag_ns[begun], since="start"),
        wait_frame(copies.backward, back_row),
    ]
    return stacked(ops, both), stacked(waits, *more)


def _begun_after(
    rank: NDArray[np.int32], times_ns: NDArray[np.int64], backward: Rows, copy_ns: NDArray[np.int64]
) -> tuple[Rows, NDArray[np.int64]]:
    """For each copy back: the action that it begins beside, as a row, and how long after that action's start.

    On a clock that counts only the time that a rank computes, action i begins at clock[i]. A copy has to have begun by
    (the earlier of its backward's time and of the time by which the next copy has to have begun) - its own time. The
    action is the last of the rank that begins until then; -1 where there is none. backward: ascending.
    """
    clock = np.cumsum(times_ns) - times_ns
    after, lag_ns = np.full(len(backward), -1, np.int64), np.zeros(len(backward), np.int64)
    firsts = np.flatnonzero(np.diff(rank[backward], prepend=-1))
    for first, end in zip(firsts, [*firsts[1:], len(backward)], strict=True):
        own = slice(first, end)
        rows = slice(*np.searchsorted(rank, [rank[backward[first]], rank[backward[first]] + 1]))
        left = np.cumsum(copy_ns[own][::-1])[::-1]  # this copy and all that follow it
        by = clock[backward[own]] - copy_ns[own] + left
        by = np.minimum.accumulate(by[::-1])[::-1] - left
        at = np.searchsorted(clock[rows], by, side="right") - 1
        at = np.minimum(at, backward[own] - rows.start - 1)  # where nothing takes time, what begins then is not before
        after[own] = np.where(at >= 0, rows.start + at, -1)
        lag_ns[own] = np.where(at >= 0, by - clock[rows][at], 0)
    return after, lag_ns

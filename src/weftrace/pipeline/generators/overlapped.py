"""Interleaved 1F1B whose steady state overlaps: a backward, and the forward that follows it, as one F&B.

Source: Megatron-LM's interleaved schedule with overlapped MoE communication (one more forward of warm-up).
"""

from __future__ import annotations

import numpy as np

from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.columns import Columns, code_of, frame_of
from weftrace.pipeline.schedule import Schedule


def interleaved_overlapped(num_ranks: int, num_micro_batches: int, stages_per_rank: int = 2) -> Schedule:
    """Interleaved 1F1B with F and B merged: rank r of D holds stages r, D + r, 2D + r, ...

    Micro-batches go round in groups of D: a rank runs a group through its first stage, then through its next, ... Of
    interleaved 1F1B it differs in that each backward runs together with the forward after it, so every rank holds one
    chunk more. What `merge_neighbours` makes of interleaved 1F1B is this schedule.

    Raises `ScheduleError` where there is no rank or stage, or the micro-batches are no whole number of groups.
    """
    if num_ranks < 1 or stages_per_rank < 1:
        raise ScheduleError(
            f"interleaved F&B: {num_ranks} ranks of {stages_per_rank} stages; there must be one or more of each."
        )
    if num_micro_batches < 1 or num_micro_batches % num_ranks:
        below = num_micro_batches // num_ranks * num_ranks
        near = " or ".join(str(each) for each in (below, below + num_ranks) if each > 0)
        raise ScheduleError(
            f"interleaved F&B: {num_micro_batches} micro-batches on {num_ranks} ranks; they go round in groups of "
            f"{num_ranks}, so {near} would do."
        )
    turn = np.arange(num_micro_batches * stages_per_rank)  # the k-th chunk of a rank
    loop, micro_batch = (
        turn // num_ranks % stages_per_rank,
        (turn // (num_ranks * stages_per_rank) * num_ranks + turn % num_ranks),
    )
    ranks = [_of_rank(rank, num_ranks, stages_per_rank, loop, micro_batch) for rank in range(num_ranks)]
    placed = (tuple(range(num_ranks)) * stages_per_rank,)
    return Schedule(
        name="interleaved F&B", rank_of=placed, num_micro_batches=num_micro_batches, actions=frame_of(ranks)
    )


def _of_rank(rank: int, num_ranks: int, stages_per_rank: int, loop: np.ndarray, micro_batch: np.ndarray) -> Columns:
    """Some forwards ahead, F&B as long as there are forwards, then backwards; those go through the loops in reverse."""
    ahead = min(2 * (num_ranks - rank - 1) + (stages_per_rank - 1) * num_ranks + 1, len(loop))
    forward = np.stack([loop * num_ranks + rank, micro_batch])
    backward = np.stack([(stages_per_rank - 1 - loop) * num_ranks + rank, micro_batch])
    num_pairs = len(loop) - ahead
    columns = np.full((6, len(loop) + ahead), -1, np.int32)
    columns[0] = rank
    columns[1] = np.repeat([code_of("F"), code_of("F&B"), code_of("B")], [ahead, num_pairs, ahead])
    columns[2:4, : len(loop)], columns[2:4, len(loop) :] = forward, backward[:, num_pairs:]
    columns[4:6, ahead : len(loop)] = backward[:, :num_pairs]
    return columns

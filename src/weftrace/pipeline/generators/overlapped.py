"""Interleaved 1F1B whose steady state overlaps: a backward, and the forward that follows it, as one F&B."""

from __future__ import annotations

import numpy as np

from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.columns import Columns, frame_of
from weftrace.pipeline.generators.looped import round_lengths, rounds_of_turns
from weftrace.pipeline.generators.sweeps import Chunks
from weftrace.pipeline.schedule import Schedule, code_of


def interleaved_overlapped(
    num_ranks: int, num_micro_batches: int, stages_per_rank: int = 2, group_size: int | None = None
) -> Schedule:
    """Interleaved 1F1B with F and B merged, as Megatron-LM runs it to overlap the communication of experts.

    Each backward runs together with the forward after it, so every rank holds one chunk more than with interleaved
    1F1B: (V - 1) g + 2 (D - 1 - r) + 2, g being the longest round (see `interleaved`). Bubble: (D - 1)(F + B). It is
    what `merge_neighbours` makes of interleaved 1F1B. With one stage a rank it is 1F1B with a warm-up twice as long, so
    that no F&B waits for another.

    group_size: as for `interleaved`. Raises `ScheduleError` for one smaller than D, and for a count that is no whole
    number above 0.
    """
    name = "interleaved F&B"
    need_counts(name, num_ranks=num_ranks, num_micro_batches=num_micro_batches, stages_per_rank=stages_per_rank)
    rounds = round_lengths(num_ranks, num_micro_batches, group_size)
    forward, backward = rounds_of_turns(rounds, stages_per_rank)
    to_the_end = np.arange(num_ranks)[::-1]
    ahead = np.minimum((stages_per_rank - 1) * max(rounds) + 2 * to_the_end + 1, len(forward))
    ranks = [_of_rank(rank, num_ranks, int(ahead[rank]), forward, backward) for rank in range(num_ranks)]
    placed = (tuple(range(num_ranks)) * stages_per_rank,)
    return Schedule(name=name, rank_of=placed, num_micro_batches=num_micro_batches, actions=frame_of(ranks))


def _of_rank(rank: int, num_ranks: int, ahead: int, forward: Chunks, backward: Chunks) -> Columns:
    """Some forwards ahead, F&B as long as there are forwards, and the backwards that are left."""
    num = len(forward)
    columns = np.full((6, num + ahead), -1, np.int32)
    columns[0] = rank
    columns[1] = np.repeat([code_of("F"), code_of("F&B"), code_of("B")], [ahead, num - ahead, ahead])
    columns[2:4, :num] = _stages(forward, rank, num_ranks)
    columns[4:6, ahead:num] = _stages(backward, rank, num_ranks)[:, : num - ahead]
    columns[2:4, num:] = _stages(backward, rank, num_ranks)[:, num - ahead :]
    return columns


def _stages(chunks: Chunks, rank: int, num_ranks: int) -> Columns:
    """Stage and micro-batch of each chunk."""
    return np.stack([chunks.turn_N * num_ranks + rank, chunks.micro_batch_N])

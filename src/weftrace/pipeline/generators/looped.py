"""Schedules that go round all ranks several times: interleaved 1F1B, and interleaved zero bubble.

With V stages a rank, stage s on rank s mod D, each chunk takes 1/V of the time, and so does the bubble at both ends.
Micro-batches go in rounds of about D: a rank runs its first stage for all of a round, then its second for all of
the round, and so on; backwards the other way round.
"""

from __future__ import annotations

import numpy as np

from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.arguments import need_counts, need_several_stages
from weftrace.pipeline.generators.sweeps import Chunks, Sweep, actions_of
from weftrace.pipeline.schedule import Schedule, needed_count


def interleaved(
    num_ranks: int, num_micro_batches: int, stages_per_rank: int = 2, group_size: int | None = None
) -> Schedule:
    """Interleaved 1F1B, in Megatron-LM's order (Narayanan et al., 2021, arXiv:2104.04473).

    Bubble: (D - 1)(F + B) for D ranks and M ≥ D, in times of a chunk, which is 1/V of a rank's layers. Rank r holds
    (V - 1) g + 2 (D - 1 - r) + 1 chunks, g being the longest round: D where D divides M. Where it does not, M // D
    rounds share the rest as evenly as they can: a short round would leave the ring of ranks waiting, or locked.
    group_size: micro-batches of a round instead of D, at least as many; Megatron-LM's
    `--microbatch-group-size-per-virtual-pipeline-stage`. In a longer round a message has more time to go round.
    Raises `ScheduleError` for fewer than 2 stages a rank, a group smaller than D, and a count that is no whole number
    above 0.
    """
    name = "interleaved 1F1B"
    need_counts(name, num_ranks=num_ranks, num_micro_batches=num_micro_batches, stages_per_rank=stages_per_rank)
    need_several_stages(name, stages_per_rank, "1F1B")
    rounds = round_lengths(num_ranks, num_micro_batches, group_size)
    # the first backward can be there when the forward has been round V - 1 times, and to the end and back
    behind = (stages_per_rank - 1) * max(rounds) + 2 * np.arange(num_ranks)[::-1]
    forward, backward = rounds_of_turns(rounds, stages_per_rank)
    sweeps = [Sweep("F", forward, 0), Sweep("B", backward, behind)]
    return _schedule(name, num_ranks, num_micro_batches, stages_per_rank, sweeps)


def interleaved_zb(
    num_ranks: int, num_micro_batches: int, stages_per_rank: int = 2, group_size: int | None = None
) -> Schedule:
    """Interleaved zero bubble: interleaved 1F1B with B split as ZB1P splits it (Qi et al., 2023, arXiv:2401.10241).

    Bubble: (D - 1)(F + I - W) for F = I = W and M ≥ D, in times of a chunk. All ranks hold (V - 1) g + D chunks; g, the
    longest round, is D where D divides M. Rounds and errors as in `interleaved`.
    """
    name = "interleaved zero bubble"
    need_counts(name, num_ranks=num_ranks, num_micro_batches=num_micro_batches, stages_per_rank=stages_per_rank)
    need_several_stages(name, stages_per_rank, "ZB1P")
    rounds = round_lengths(num_ranks, num_micro_batches, group_size)
    earlier_turns = (stages_per_rank - 1) * max(rounds)
    forward, backward = rounds_of_turns(rounds, stages_per_rank)
    sweeps = [
        Sweep("F", forward, 0),
        Sweep("I", backward, earlier_turns + np.arange(num_ranks)[::-1]),
        Sweep("W", backward, earlier_turns + num_ranks - 1),
    ]
    return _schedule(name, num_ranks, num_micro_batches, stages_per_rank, sweeps)


def round_lengths(num_ranks: int, num_micro_batches: int, group_size: int | None = None) -> list[int]:
    """Micro-batches of each round: at least as many as of a group, where there are so many, and as even as they can be.

    group_size: as many as ranks where it is None. Raises `ScheduleError` where it is smaller.
    """
    if group_size is not None and needed_count("interleaved", "group_size", group_size) < num_ranks:
        raise ScheduleError(
            f"interleaved: group_size = {group_size}; a round takes as many micro-batches as there are ranks, "
            f"{num_ranks}, or more."
        )
    num_rounds = max(1, num_micro_batches // (group_size or num_ranks))
    short, rest = divmod(num_micro_batches, num_rounds)
    return [short + 1] * rest + [short] * (num_rounds - rest)


def rounds_of_turns(rounds: list[int], stages_per_rank: int) -> tuple[Chunks, Chunks]:
    """Chunks in their order, forward and backward: a round's micro-batches in one turn after the other."""
    micro_batch, turn, start = [], [], 0
    for length in rounds:
        micro_batch.append(np.tile(np.arange(start, start + length, dtype=np.int32), stages_per_rank))
        turn.append(np.repeat(np.arange(stages_per_rank, dtype=np.int32), length))
        start += length
    micro_batch_N, turn_N = np.concatenate(micro_batch), np.concatenate(turn)
    return Chunks(micro_batch_N, turn_N), Chunks(micro_batch_N, stages_per_rank - 1 - turn_N)


def _schedule(name: str, num_ranks: int, num_micro_batches: int, stages_per_rank: int, sweeps: list[Sweep]) -> Schedule:
    stages = np.arange(num_ranks * stages_per_rank, dtype=np.int32)
    return Schedule(
        name=name,
        rank_of=(tuple(int(stage) % num_ranks for stage in stages),),
        num_micro_batches=num_micro_batches,
        actions=actions_of(sweeps, stages.reshape(stages_per_rank, num_ranks).T),
    )

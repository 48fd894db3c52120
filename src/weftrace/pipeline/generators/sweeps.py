"""An order for each rank, put together of sweeps that run side by side.

A **sweep** is all chunks of one kind that a rank runs, in the order in which it runs them: all its forwards, all its
backwards. A rank's order is a row of steps, and each sweep runs a chunk in each step, from its first step on; the
sweeps of a step take turns. So 1F1B on rank r of PP is two sweeps, the backward PP - 1 - r steps behind the forward,
which is r's distance to the last stage:

    step        0     1     2     3     4     5
    F           F0    F1    F2    F3
    B                       B0    B1    B2    B3          2 steps behind
    order       F0    F1    F2 B0 F3 B1 B2    B3

What distinguishes most published schedules is how far behind each other their sweeps are: this is warm-up, memory and
bubble in one number. A sweep may also rest for some steps before one of its chunks.

Letters in the names of arrays: R ranks, N chunks of a sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.alphabet import Direction
from weftrace.pipeline.generators.columns import kinds_of

#: A number of steps or chunks for each rank, or one for all.
OfRanks = int | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks in an order: each one's micro-batch, and which of the rank's stages it is of, counted from 0."""

    micro_batch_N: NDArray[np.int32]
    turn_N: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.micro_batch_N)


@dataclass(frozen=True, slots=True)
class Rest:
    """steps_R: how many steps a sweep rests before its chunk before_R, counted from 0."""

    before_R: OfRanks
    steps_R: OfRanks


@dataclass(frozen=True, slots=True)
class Sweep:
    """All chunks of one kind, in the order in which every rank runs them. behind_R: the step of its first chunk."""

    kind: Direction
    chunks: Chunks
    behind_R: OfRanks
    rests: tuple[Rest, ...] = ()

    def steps_N(self, rank: int, num_ranks: int) -> NDArray[np.int64]:
        """The step of each chunk on one rank."""
        steps = np.arange(len(self.chunks)) + _of_rank(self.behind_R, rank, num_ranks)
        for rest in self.rests:
            steps[_of_rank(rest.before_R, rank, num_ranks) :] += _of_rank(rest.steps_R, rank, num_ranks)
        return steps


def actions_of(sweeps: Sequence[Sweep], stage_of: NDArray[np.int32]) -> pl.DataFrame:
    """The frame of actions of ranks that run these sweeps, which take turns in the order given.

    stage_of: int32 [ranks, turns], the stages of each rank, in the order of their turns.
    """
    num_ranks, many = len(stage_of), len(sweeps)
    micro_batch = np.concatenate([sweep.chunks.micro_batch_N for sweep in sweeps])
    turn = np.concatenate([sweep.chunks.turn_N for sweep in sweeps])
    kind = np.repeat(np.arange(many, dtype=np.uint32), [len(sweep.chunks) for sweep in sweeps])
    orders = []
    for rank in range(num_ranks):
        slots = np.concatenate([sweep.steps_N(rank, num_ranks) * many + i for i, sweep in enumerate(sweeps)])
        chunk_of_slot = np.full(int(slots.max()) + 1, -1, np.int32)
        chunk_of_slot[slots] = np.arange(len(slots))
        orders.append(chunk_of_slot[chunk_of_slot >= 0])
    order_RN = np.stack(orders)
    return pl.DataFrame(
        {
            "rank": np.repeat(np.arange(num_ranks, dtype=np.int32), order_RN.shape[1]),
            "kind": kinds_of(kind[order_RN.ravel()], [sweep.kind for sweep in sweeps]),
            "stage": np.take_along_axis(stage_of, turn[order_RN], axis=1).ravel(),
            "micro_batch": micro_batch[order_RN.ravel()],
        }
    )


def _of_rank(value_R: OfRanks, rank: int, num_ranks: int) -> int:
    return int(np.broadcast_to(value_R, num_ranks)[rank])

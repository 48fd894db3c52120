"""Schedules in the shape of a V: the model goes down the ranks and comes back, rank r holds stages r and 2D - 1 - r.

So the first rank has the loss too, and every rank sees a micro-batch twice on its way forward. A rank's four passes
are F0 and F1, forwards of its early and its late stage, and I1 and I0, their backwards.

ZBV runs as many forwards ahead as leave no gap. V-Half and V-Min hold a half and a third of that, at the price of a
bubble. In their steady state each rank repeats a **building block**: the six passes F0, F1, I1, I0 and two W of a
micro-batch, each at its own time modulo 6. What is held at once is how long the block keeps each activation, over 6;
so a block whose passes follow each other sooner down and up the V holds less. (Qi et al., 2024, arXiv:2405.15362.)

    steps from rank to rank     F0 down   F1 up   I1 down   I0 up    a rank's two activations are kept
    V-Half                      2         1       2         1        6 D steps together: D chunks held, and some
    V-Min                       1         1       1         1        4 D steps together: 2/3 D
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.columns import kinds_of
from weftrace.pipeline.generators.compaction import Block, squeezed
from weftrace.pipeline.generators.sweeps import Chunks, Rest, Sweep, actions_of
from weftrace.pipeline.schedule import Schedule


def zbv(num_ranks: int, num_micro_batches: int) -> Schedule:
    """ZBV (Qi et al., 2023, arXiv:2401.10241, section 6).

    With F = I = W no rank waits from its first action to its last; with a barrier at the step's end D - 1 chunks'
    time is lost, for the last rank starts as much later. All ranks hold 2 D chunks, as much as 1F1B's first.
    Raises `ScheduleError` for a count that is no whole number above 0; so do all functions here.
    """
    need_counts("ZBV", num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    rank = np.arange(num_ranks)
    to_the_tip = num_ranks - rank  # ranks from here to the V's tip, with both
    many = max(num_micro_batches, 2 * num_ranks - 1)  # as many as fill it; those that are not there are left out below
    need_counts("ZBV", num_ranks=num_ranks, many=many)
    micro_batch = np.arange(many, dtype=np.int32)
    early, late = (Chunks(micro_batch, np.full_like(micro_batch, turn)) for turn in range(2))

    first_I1, first_I0 = num_ranks + to_the_tip - 2, num_ranks + 2 * to_the_tip - 2
    sweeps = [
        # forwards fill the way to the tip and back, then make room until the first backward has come down the V
        Sweep("F", early, 0, (Rest(2 * num_ranks - 1 - rank, to_the_tip - 1),)),
        Sweep("I", early, first_I0),
        # when forwards end, backwards alone go on for as many steps as a rank is away from the first
        Sweep("W", early, first_I0, (Rest(many - num_ranks, rank), Rest(many - rank, rank))),
        Sweep("F", late, 2 * to_the_tip - 2),
        Sweep("I", late, first_I1),
        Sweep("W", late, first_I1, (Rest(many - rank, num_ranks),)),
    ]
    actions = actions_of(sweeps, _stages(num_ranks))
    if many > num_micro_batches:
        actions = actions.filter(pl.col("micro_batch") < num_micro_batches)
    return _schedule("ZBV", num_micro_batches, actions)


def v_half(num_ranks: int, num_micro_batches: int) -> Schedule:
    """V-Half: about half of 1F1B's memory (Qi et al., 2024, arXiv:2405.15362).

    Ranks hold D + 2 chunks of half a rank's layers at most, D + 1 where D is odd. With F = I = W, M ≥ D and D > 2 the
    bubble is 3 D - 7 times of a chunk, 3 D - 4 where D is odd.
    """
    need_counts("V-Half", num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    # where D is even, I1 would come up in F0's step of the block
    waits = (0 if num_ranks % 2 else 3, 1)
    block = _block(num_ranks, hops=(2, 1, 2, 1), waits=waits, cap=2 * (num_ranks // 2 + 1))
    return _squeezed("V-Half", block, num_micro_batches)


def v_min(num_ranks: int, num_micro_batches: int) -> Schedule:
    """V-Min: about a third of 1F1B's memory (Qi et al., 2024, arXiv:2405.15362).

    Ranks hold 2 ((D + 1) // 3 + 1) chunks of half a rank's layers at most. With F = I = W, M ≥ D and D > 1 the bubble
    is 4 D - 5 times of a chunk, 4 D - 7 where 3 divides D. Unequal times cost it more than others: ranks have little
    else to do while a micro-batch is on its way.
    """
    need_counts("V-Min", num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    # where 3 divides D, I1 would come up in F0's step of the block
    waits = (0 if num_ranks % 3 else 2, 0)
    block = _block(num_ranks, hops=(1, 1, 1, 1), waits=waits, cap=2 * ((num_ranks + 1) // 3 + 1))
    return _squeezed("V-Min", block, num_micro_batches)


def _block(num_ranks: int, *, hops: tuple[int, int, int, int], waits: tuple[int, int], cap: int) -> Block:
    """A micro-batch on its way: down, up, down, up, a pass taking `hops` steps from rank to rank.

    waits: steps lost between F1 and I1, at the loss, and between I1 and I0, at the V's tip.
    """
    away, back = np.arange(num_ranks), np.arange(num_ranks)[::-1]
    F0 = hops[0] * away
    F1 = F0[-1] + 1 + hops[1] * back
    I1 = F1[0] + 1 + waits[0] + hops[2] * away
    I0 = I1[-1] + 1 + waits[1] + hops[3] * back
    return Block(start_PR=np.stack([F0, F1, I1, I0]), cap=cap)


def _squeezed(name: str, block: Block, num_micro_batches: int) -> Schedule:
    chosen = squeezed(block, num_micro_batches)
    num_ranks = len(chosen)
    kind = np.array([0, 0, 1, 1, 2], np.uint32)[chosen]  # of F0, F1, I1, I0 and W
    stage_of = _stages(num_ranks)[:, [0, 1, 1, 0]]  # of F0, F1, I1, I0
    stage, micro_batch = np.empty_like(chosen, np.int32), np.empty_like(chosen, np.int32)
    for number in range(4):
        there = chosen == number
        micro_batch[there] = np.tile(np.arange(num_micro_batches, dtype=np.int32), num_ranks)
        stage[there] = np.repeat(stage_of[:, number], num_micro_batches)
    backward, weights = kind == 1, kind == 2
    micro_batch[weights], stage[weights] = (
        micro_batch[backward],
        stage[backward],
    )  # a rank's W follow its I, in their order
    actions = pl.DataFrame(
        {
            "rank": np.repeat(np.arange(num_ranks, dtype=np.int32), chosen.shape[1]),
            "kind": kinds_of(kind.ravel(), ("F", "I", "W")),
            "stage": stage.ravel(),
            "micro_batch": micro_batch.ravel(),
        }
    )
    return _schedule(name, num_micro_batches, actions)


def _stages(num_ranks: int) -> NDArray[np.int32]:
    """Both stages of each rank, int32 [ranks, 2]."""
    rank = np.arange(num_ranks, dtype=np.int32)
    return np.stack([rank, 2 * num_ranks - 1 - rank], axis=1)


def _schedule(name: str, num_micro_batches: int, actions: pl.DataFrame) -> Schedule:
    down = range(int(actions["rank"].max()) + 1)  # type: ignore[arg-type]
    return Schedule(
        name=name, rank_of=((*down, *reversed(down)),), num_micro_batches=num_micro_batches, actions=actions
    )

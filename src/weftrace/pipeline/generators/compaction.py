"""From a building block to an order for each rank: repeat it for all micro-batches, then let no time go by unused.

Time goes in steps of one pass (F = I = W). In each step each rank runs the pass that is next in the block's order;
where that one's input is not there,

- before its first I0 (warm-up) and after its last forward (cool-down) the next one after it that has its input, for
  nothing can be made up for there. F0 goes ahead of its turn only as far as the block has it before the first I0, so
  that the steady state begins with what the block holds;
- in between nothing else: a rank that leaves the block's rhythm there delays all others, later;

and else a W, if any is left. A forward runs only while the rank holds less than the cap.

Letters: P passes, in the order F0, F1, I1, I0; R ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_NUM_PASSES, _W, _IDLE = 4, 4, 5
_PERIOD = 6  # steps in which a rank does all its work for a micro-batch: the passes, and two W
_F0, _F1, _I1, _I0 = range(_NUM_PASSES)
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Block:
    """start_PR: int64, when each pass of the first micro-batch starts; those of a rank differ modulo 6.

    cap: chunks that a rank may hold, from their F to their W.
    """

    start_PR: NDArray[np.int64]
    cap: int


def squeezed(block: Block, num_micro_batches: int) -> NDArray[np.int8]:
    """What each rank runs, int8 [ranks, 6 x micro-batches]: the number of a pass, or 4 for the W of its oldest I."""
    many = block.start_PR.shape[1]
    done_PR = np.zeros(
        (_NUM_PASSES, many), np.int64
    )  # a pass takes micro-batches in their order, so a count says which
    weights_R = np.zeros(many, np.int64)
    steps: list[NDArray[np.int8]] = []
    while weights_R.min() < 2 * num_micro_batches:
        choice_R = _choices(block, done_PR, weights_R, num_micro_batches)
        runs_pass = choice_R < _W
        done_PR[choice_R[runs_pass], np.flatnonzero(runs_pass)] += 1
        weights_R += choice_R == _W
        assert choice_R.min() < _IDLE, (len(steps), done_PR, weights_R)
        steps.append(choice_R.astype(np.int8))
    chosen = np.stack(steps, axis=1)
    in_order: NDArray[np.int8] = chosen[chosen != _IDLE].reshape(many, _PERIOD * num_micro_batches)
    return in_order


def _choices(
    block: Block, done_PR: NDArray[np.int64], weights_R: NDArray[np.int64], num_micro_batches: int
) -> NDArray[np.int64]:
    """What each rank runs in the next step."""
    held_R = done_PR[_F0] + done_PR[_F1] - weights_R
    ready_PR = _arrived(done_PR, num_micro_batches) > done_PR
    ready_PR[: _F1 + 1] &= held_R < block.cap
    turn_PR = np.where(done_PR < num_micro_batches, block.start_PR + _PERIOD * done_PR, _NEVER)

    in_turn_PR = np.arange(_NUM_PASSES)[:, None] == turn_PR.argmin(axis=0)
    warm_up_R, cool_down_R = done_PR[_I0] == 0, done_PR[_F1] == num_micro_batches
    early_R = turn_PR[_F0] < block.start_PR[_I0]
    may_PR = in_turn_PR | warm_up_R | cool_down_R
    may_PR[_F0] &= in_turn_PR[_F0] | early_R

    turn_PR[~(ready_PR & may_PR)] = _NEVER
    waits_R = done_PR[_I1] + done_PR[_I0] > weights_R
    return np.where(turn_PR.min(axis=0) < _NEVER, turn_PR.argmin(axis=0), np.where(waits_R, _W, _IDLE))


def _arrived(done_PR: NDArray[np.int64], num_micro_batches: int) -> NDArray[np.int64]:
    """For how many micro-batches each pass has its input: as many as the hop before it on the way has done.

    The way: F0 down the ranks, F1 up, I1 down, I0 up.
    """
    way = done_PR.copy()
    way[1::2] = way[1::2, ::-1]
    before = np.concatenate([[num_micro_batches], way.ravel()[:-1]]).reshape(way.shape)
    before[1::2] = before[1::2, ::-1]
    return before

"""Schedules with one stage on each rank: GPipe, 1F1B, and the two zero-bubble schedules made by hand.

They differ in how many steps the backward is behind the forward, and the weight gradients behind both. With F = I = W
a chunk of activations is held from its F to its W, that is as many steps as W is behind F, and one:

    GPipe   M - 1         all forwards, then all backwards: every micro-batch is held
    1F1B    PP - 1 - r    a backward as soon as the first one can be there: PP - r are held
    ZB1P    PP - 1        W fills the time in which 1F1B waits for the next backward; all ranks hold PP
    ZB2P    2 PP - 1      twice as many forwards first, so that nothing waits at all; all ranks hold 2 PP
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from weftrace.alphabet import Direction
from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.sweeps import Chunks, OfRanks, Sweep, actions_of
from weftrace.pipeline.schedule import Schedule


def gpipe(num_stages: int, num_micro_batches: int) -> Schedule:
    """All forwards, then all backwards, in the order of the micro-batches (Huang et al., 2019, arXiv:1811.06965).

    Bubble: (PP - 1)(F + B). Every rank holds all micro-batches, so memory grows with their number.
    Raises `ScheduleError` for a count that is no whole number above 0; so do all functions here.
    """
    need_counts("GPipe", num_stages=num_stages, num_micro_batches=num_micro_batches)
    return _schedule("GPipe", num_stages, num_micro_batches, {"F": 0, "B": num_micro_batches - 1})


def one_f_one_b(num_stages: int, num_micro_batches: int) -> Schedule:
    """One forward, one backward: PipeDream-Flush (Narayanan et al., 2021, arXiv:2104.04473).

    Rank r first runs the PP - r forwards that the first backward needs to come back, then a backward and a forward in
    turn. Bubble: (PP - 1)(F + B), as GPipe's. Rank r holds PP - r micro-batches, or all, where there are fewer.
    """
    need_counts("1F1B", num_stages=num_stages, num_micro_batches=num_micro_batches)
    return _schedule("1F1B", num_stages, num_micro_batches, {"F": 0, "B": _to_the_end(num_stages)})


def zb1p(num_stages: int, num_micro_batches: int) -> Schedule:
    """ZB1P, which its authors call ZB-H1 (Qi et al., 2023, arXiv:2401.10241).

    1F1B with B split: the stage before needs I only, so W waits until rank r has run r more backwards, and is there
    when the pipeline drains. Bubble: (PP - 1)(F + I - min(W, F, I)), from M = PP on. Every rank holds PP micro-batches.
    """
    need_counts("ZB1P", num_stages=num_stages, num_micro_batches=num_micro_batches)
    sweeps: dict[Direction, OfRanks] = {"F": 0, "I": _to_the_end(num_stages), "W": num_stages - 1}
    return _schedule("ZB1P", num_stages, num_micro_batches, sweeps)


def zb2p(num_stages: int, num_micro_batches: int) -> Schedule:
    """ZB2P, which its authors call ZB-H2 (Qi et al., 2023, arXiv:2401.10241).

    Rank r runs twice as many forwards first, one for each step of the way to the last stage and back. With F = I = W
    no rank waits from its first action to its last; with a barrier at the step's end it still takes as long as ZB1P,
    for the last rank starts PP - 1 steps late. Every rank holds 2 PP micro-batches, as its name says (ZB-2p: a limit of
    2 p), the first one 2 PP - 1 where activations go at I. With W one step earlier, all would hold 2 PP - 1.
    """
    need_counts("ZB2P", num_stages=num_stages, num_micro_batches=num_micro_batches)
    sweeps: dict[Direction, OfRanks] = {"F": 0, "I": 2 * _to_the_end(num_stages), "W": 2 * num_stages - 1}
    return _schedule("ZB2P", num_stages, num_micro_batches, sweeps)


def _to_the_end(num_stages: int) -> NDArray[np.int64]:
    """How many stages come after each rank's."""
    return np.arange(num_stages)[::-1]


def _schedule(name: str, num_stages: int, num_micro_batches: int, behind_of: Mapping[Direction, OfRanks]) -> Schedule:
    micro_batch = np.arange(num_micro_batches, dtype=np.int32)
    chunks = Chunks(micro_batch, np.zeros_like(micro_batch))
    sweeps = [Sweep(kind, chunks, behind_R) for kind, behind_R in behind_of.items()]
    return Schedule(
        name=name,
        rank_of=(tuple(range(num_stages)),),
        num_micro_batches=num_micro_batches,
        actions=actions_of(sweeps, np.arange(num_stages, dtype=np.int32)[:, None]),
    )

"""Which steps of a run are as its steps usually are? The others are left out, and it is said why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weftrace.comparison.runs import RankRun
from weftrace.units import counted

_FAR = 6.0  # times the median distance from the median step
_AND = 0.2  # and this part of it
_ODD = 0.2  # of the steps: more than that are not odd, they are of another kind (a step that also updates weights)
_SEAM = 0.02  # of the median step: the last window may be off by as much


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadySteps:
    """steps: numbers of the steps that count; empty where there are none. dropped: the others, each with the reason."""

    steps: tuple[int, ...]
    dropped: tuple[tuple[int, str], ...] = ()


def steady_steps(ranks: Sequence[RankRun]) -> SteadySteps:
    """Of the steps that all ranks have, those that are as most are. Left out are

    - the last, where its window may be off by more than 2 % of the median step on any rank, for no next step ends it.
      By how much is told by the others' ends (`RankRun.seam_ns`); where they do not tell, the last of three or more is
      left out;
    - those whose length, mean over ranks, is far from the median: six times the median distance from it, and 20 % of
      it. Not where more than one in five is so (one of three or four may be): then steps are of several kinds, and none
      is odd; nor of two steps, of which it cannot be told which is the usual one.
    """
    numbers = Counter(step for rank in ranks for step in rank.steps)
    common = sorted(step for step, num in numbers.items() if num == len(ranks))
    if not common:
        return SteadySteps(steps=())
    dropped = [
        (step, f"{counted(len(ranks) - num, 'rank')} of {len(ranks)} without it")
        for step, num in numbers.items()
        if num < len(ranks)
    ]
    lengths = np.mean([_lengths(rank, common) for rank in ranks], axis=0)
    keeps = np.ones(len(common), np.bool_)
    if len(common) > 1 and not _ends_well(ranks, float(np.median(lengths)), len(common)):
        keeps[-1] = False
        dropped.append((common[-1], "the last: no next step ends it"))
    middle = float(np.median(lengths[keeps]))
    odd = keeps & _is_odd(lengths, keeps)
    dropped += [(common[at], f"{lengths[at] / middle:.2f} times as long as the median") for at in np.flatnonzero(odd)]
    return SteadySteps(steps=tuple(np.array(common)[keeps & ~odd].tolist()), dropped=tuple(sorted(dropped)))


def _ends_well(ranks: Sequence[RankRun], middle: float, num: int) -> bool:
    seams = [rank.seam_ns for rank in ranks if rank.seam_ns is not None]
    return max(seams) <= _SEAM * middle if seams else num < 3


def _is_odd(lengths: NDArray[np.float64], among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    num = int(among.sum())
    middle = float(np.median(lengths[among]))
    far = np.abs(lengths - middle)
    is_far = (far > _FAR * float(np.median(far[among]))) & (far > _AND * middle)
    is_few = num >= 3 and int((is_far & among).sum()) <= max(1, _ODD * num)
    return is_far & is_few


def _lengths(rank: RankRun, steps: list[int]) -> list[int]:
    length = {step: end - start for step, start, end in rank.windows.iter_rows()}
    return [length[step] for step in steps]

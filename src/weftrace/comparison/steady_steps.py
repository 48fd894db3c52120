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
_ODD = 0.2  # of the steps: more than that are not odd, they are of another kind
_ALIKE = 1.2  # two or more odd steps, the longest by less than this longer than the shortest, are of another kind too
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
      it. The first ones are warm-up, where fewer than half of the steps are so. Later ones are odd where they are one,
      or one in five or fewer that are not alike in length: others are of another kind (steps that also update weights,
      say), and count. Of two steps it cannot be told which is the usual one.
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
    why = _odd(lengths[keeps])
    dropped += [(common[at], summary) for at, summary in why.items()]
    keeps[list(why)] = False
    return SteadySteps(steps=tuple(np.array(common)[keeps].tolist()), dropped=tuple(sorted(dropped)))


def _ends_well(ranks: Sequence[RankRun], middle: float, num: int) -> bool:
    seams = [rank.seam_ns for rank in ranks if rank.seam_ns is not None]
    return max(seams) <= _SEAM * middle if seams else num < 3


def _odd(lengths: NDArray[np.float64]) -> dict[int, str]:
    """Positions of the steps that are warm-up or odd, and what is said of each."""
    middle = float(np.median(lengths))
    if not middle:
        return {}  # steps without work have no length
    far = np.abs(lengths - middle)
    is_far = (far > _FAR * float(np.median(far))) & (far > _AND * middle) & (len(lengths) > 2)
    num_first = int(np.argmin(is_far)) if not is_far.all() else 0
    warm = range(num_first) if 2 * num_first < len(lengths) else range(0)
    later = [int(at) for at in np.flatnonzero(is_far) if at not in warm]
    is_few = len(later) <= max(1, _ODD * len(lengths))
    is_a_kind = len(later) > 1 and float(lengths[later].max()) < _ALIKE * float(lengths[later].min())
    times = [f"{length / middle:.2f} times as long as the median" for length in lengths.tolist()]
    summary = {at: f"warm-up: {times[at]}" for at in warm}
    return summary | ({at: times[at] for at in later} if is_few and not is_a_kind else {})


def _lengths(rank: RankRun, steps: list[int]) -> list[int]:
    length = {step: end - start for step, start, end in rank.windows.iter_rows()}
    return [length[step] for step in steps]

"""Which steps of a run are as its steps usually are? The others are left out, and it is said why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weftrace.comparison.runs import RankRun

_FAR = 6.0  # times the median distance from the median step
_AND = 0.2  # and this part of it


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadySteps:
    """steps: numbers of the steps that count; empty where there are none. dropped: the others, each with the reason."""

    steps: tuple[int, ...]
    dropped: tuple[tuple[int, str], ...] = ()


def steady_steps(ranks: Sequence[RankRun]) -> SteadySteps:
    """Of the steps that all ranks have: not the last of three or more, for no next step ends its window; not those
    whose length, mean over ranks, is far from the median: six times the median distance from it, and 20 % of it.
    """
    common = sorted(set.intersection(*(set(rank.steps) for rank in ranks))) if ranks else []
    if not common:
        return SteadySteps(steps=())
    dropped: list[tuple[int, str]] = []
    if len(common) >= 3:
        dropped.append((common.pop(), "the last: no next step ends it"))
    lengths = np.mean([_lengths(rank, common) for rank in ranks], axis=0)
    middle = float(np.median(lengths))
    far = np.abs(lengths - middle)
    is_far = (far > _FAR * float(np.median(far))) & (far > _AND * middle) & (len(common) >= 3)
    for step, length in zip(np.array(common)[is_far].tolist(), lengths[is_far].tolist(), strict=True):
        dropped.append((step, f"{length / middle:.2f} times as long as the median"))
    return SteadySteps(steps=tuple(np.array(common)[~is_far].tolist()), dropped=tuple(sorted(dropped)))


def _lengths(rank: RankRun, steps: list[int]) -> list[int]:
    length = {step: end - start for step, start, end in rank.windows.iter_rows()}
    return [length[step] for step in steps]

"""Is a difference larger than what steps of one run differ by?

Two tests ask it, and either may answer: one of means, which finds most where steps scatter evenly; and Wilcoxon's rank
sum, which one odd step cannot blind. Each is held to `LEVEL` over all questions asked at once (Holm), so of 100
comparisons of a run with its like about two or three name a change anywhere, span and families together.

What steps of one run cannot tell is how runs differ: other clocks, temperatures or nodes move all steps of a run
alike, and look like a change. And steps that drift, or resemble their neighbours, say less than their number: with a
correlation of 0.5 from one to the next, ten steps of a run and of its like differ in 17 of 100.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from weftrace.comparison.significance import margin_of, mean_p, rank_p

#: How often, at most, each of the two tests calls anything a change where nothing changed.
LEVEL = 0.02
#: Said wherever a change is called more than noise.
ONE_RUN_EACH = "steps of one run each: runs of the same can differ by more (clocks, temperature, other nodes)"
_ROUNDING = 1e-12  # of a value: means over ranks and steps are floats


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpread:
    """Of a number over steps: median, lower and upper quartile, how many steps. ns."""

    median_ns: int
    low_ns: int
    high_ns: int
    num_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """By how much two means over steps differ, in ns, and from where to where: an interval that, of steps which scatter
    evenly, holds the true difference with this confidence at least. It excludes 0 where `mean_p` < 1 - confidence.
    """

    change_ns: float
    low_ns: float
    high_ns: float
    confidence: Annotated[float, Meta(description="That the true difference lies between them: 0.98.")] = 1 - LEVEL

    @property
    def margin_ns(self) -> float:
        """Half of the interval: change ± margin."""
        return (self.high_ns - self.low_ns) / 2


def spread_of(values: ArrayLike) -> StepSpread:
    """The spread of a step's lengths."""
    low, middle, high = (round(float(q)) for q in np.quantile(np.asarray(values, np.float64), (0.25, 0.5, 0.75)))
    return StepSpread(median_ns=middle, low_ns=low, high_ns=high, num_steps=len(np.atleast_1d(values)))


def difference_of(before: ArrayLike, after: ArrayLike) -> Difference | None:
    """The difference of two means over steps with its interval; None where fewer than two steps tell."""
    one, other = _row(before), _row(after)
    if min(one.shape[1], other.shape[1]) < 2:
        return None
    change, margin = float(other.mean() - one.mean()), float(margin_of(one, other, LEVEL)[0])
    return Difference(change_ns=change, low_ns=change - margin, high_ns=change + margin)


def is_noise(before: ArrayLike, after: ArrayLike, *, num_asked: int = 1) -> bool | None:
    """Whether two means differ by no more than steps do by themselves; None where fewer than two steps tell.

    before, after: a value a step. num_asked: how many such questions are asked at once.
    """
    found = are_noise(_row(before), _row(after), num_asked=num_asked)
    return None if found is None else bool(found[0])


def are_noise(before_GS: ArrayLike, after_GS: ArrayLike, *, num_asked: int | None = None) -> NDArray[np.bool_] | None:
    """`is_noise` of each row, all of them asked at once: [G]. None where fewer than two steps tell.

    before_GS, after_GS: a row a question, a column a step; the numbers of steps may differ. num_asked: the questions
    asked at once, where they are more than these rows.
    """
    before, after = np.asarray(before_GS, np.float64), np.asarray(after_GS, np.float64)
    if min(before.shape[1], after.shape[1]) < 2:
        return None
    one, other = before.mean(axis=1), after.mean(axis=1)
    no_change = np.abs(other - one) <= _ROUNDING * np.maximum(np.abs(one), np.abs(other))
    num = max(len(before), num_asked or 0)
    found = np.zeros(len(before), np.bool_)
    for test in (mean_p, rank_p):
        found |= _holm(np.where(no_change, 1.0, test(before, after)), num)
    return ~found


def _holm(p: NDArray[np.float64], num_asked: int) -> NDArray[np.bool_]:
    """Which of several findings stand when all are to be right at once: S. Holm, *A simple sequentially rejective
    multiple test procedure*, 1979."""
    order = np.argsort(p, kind="stable")
    stands = p[order] < LEVEL / (num_asked - np.arange(len(p)))
    found = np.zeros(len(p), np.bool_)
    found[order[: len(p) if stands.all() else int(np.argmin(stands))]] = True
    return found


def _row(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64).reshape(1, -1)

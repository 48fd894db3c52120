"""Is a difference larger than what steps of one run differ by?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of a number over steps: median, lower and upper quartile, how many steps. ns."""

    median_ns: int
    low_ns: int
    high_ns: int
    num_steps: int


def spread_of(values: ArrayLike) -> Spread:
    """The spread of a step's lengths."""
    low, middle, high = (round(float(q)) for q in np.quantile(np.asarray(values, np.float64), (0.25, 0.5, 0.75)))
    return Spread(median_ns=middle, low_ns=low, high_ns=high, num_steps=len(np.atleast_1d(values)))


def is_noise(before: ArrayLike, after: ArrayLike, *, num_asked: int = 1) -> bool | None:
    """Whether two means differ by no more than steps do by themselves; None where fewer than two steps tell.

    num_asked: how many such questions are asked at once.
    """
    one, other = np.asarray(before, np.float64), np.asarray(after, np.float64)
    if min(one.size, other.size) < 2:
        return None
    return bool(one.mean() == other.mean())

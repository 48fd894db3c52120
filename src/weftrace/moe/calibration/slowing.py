"""By how much does communication slow the kernels beside it? Fitted on the layers that are given.

A kernel that takes d alone, and of whose time a share b lies beside communication that moves data, takes
d / (1 - b * (1 - 1/f)). The same kernel of different layers differs in b, so f is the factor, from 1 on, for which the
times alone, by size, differ least: the least sum of squares of their logarithms about each kernel's mean, weighed by
time. Where b hardly differs from layer to layer nothing tells a factor, and it is 1. Kernels that only wait for other
ranks move nothing, and slow nothing here.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from weftrace.moe.calibration.kernels import MATRIX
from weftrace.moe.calibration.values import Group, Slowed

_FACTORS = np.arange(100, 201) / 100
MAX_FACTOR = float(_FACTORS[-1])
#: Shares of time beside data that differ less than this between layers (standard deviation) tell no factor.
_LEAST_CONTRAST = 0.01
_GROUPS: tuple[tuple[Group, tuple[str, ...]], ...] = (("matrix", MATRIX), ("memory", ()))


def fitted_slowing(kernels: pl.DataFrame) -> tuple[Slowed, ...]:
    """A factor for each group of kernels that compute, 1 where nothing tells one. kernels: with `size`."""
    return tuple(
        Slowed(group=group, families=families, factor=_factor(kernels.filter(pl.col("group") == group)))
        for group, families in _GROUPS
    )


def alone(duration: np.ndarray, beside: np.ndarray, factor: float | np.ndarray) -> np.ndarray:
    """What kernels would take with nothing beside them."""
    return np.asarray(duration * (1 - beside * (1 - 1 / factor)))


def _factor(kernels: pl.DataFrame) -> float:
    if kernels.is_empty():
        return 1.0
    same = kernels.select(pl.struct("phase", "name", "slot").rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    weight, beside, size = (kernels.get_column(name).to_numpy() for name in ("dur_ns", "beside", "size"))
    total = np.bincount(same, weight)
    usual = np.bincount(same, weight * beside) / total
    if np.average((beside - usual[same]) ** 2, weights=weight) < _LEAST_CONTRAST**2:
        return 1.0

    def spread(factor: float) -> float:
        time = np.log(alone(weight / size, beside, factor))
        mean = np.bincount(same, weight * time) / total
        return float((weight * (time - mean[same]) ** 2).sum())

    spreads = [spread(factor) for factor in _FACTORS]
    least = int(np.argmin(spreads))
    return float(_FACTORS[least]) if spreads[least] < spreads[0] else 1.0

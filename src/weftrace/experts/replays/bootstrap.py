"""How sure is a mean over windows that resemble their neighbours? The moving-block bootstrap."""

from __future__ import annotations

import math

import numpy as np

from weftrace.experts.arrays import Floats

CONFIDENCE = 0.95


def block_length(num_windows: int) -> int:
    """Windows in a block: the square root of their number, rounded up, so that blocks outlast the memory of drift."""
    return math.isqrt(max(num_windows - 1, 0)) + 1


def resampled_means(value_RT: Floats, *, num_resamples: int, block: int, seed: int) -> Floats:
    """[R, B] means over T of B resamples of every row, each of T values in blocks of neighbours.

    H. R. Künsch, *The jackknife and the bootstrap for general stationary observations*, 1989: blocks of `block` windows
    start anywhere with the same chance, are laid end to end and cut to T. All rows are resampled alike, so that the
    difference of two rows' means is that of the same windows (a paired comparison).
    """
    num_windows = value_RT.shape[1]
    block = min(block, num_windows)
    starts_BK = np.random.default_rng(seed).integers(
        0, num_windows - block + 1, size=(num_resamples, -(-num_windows // block))
    )
    window_BT = (starts_BK[:, :, None] + np.arange(block)).reshape(num_resamples, -1)[:, :num_windows]
    weight_BT = np.zeros((num_resamples, num_windows))
    np.add.at(weight_BT, (np.arange(num_resamples)[:, None], window_BT), 1.0)
    mean_RB: Floats = value_RT @ weight_BT.T / num_windows
    return mean_RB


def band(mean_B: Floats) -> tuple[float, float]:
    """The quantiles between which `CONFIDENCE` of the resampled means lie."""
    low, high = np.quantile(mean_B, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)

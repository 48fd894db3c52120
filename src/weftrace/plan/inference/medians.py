"""The median of measured times, where the clock may be coarse."""

from __future__ import annotations

import numpy as np
import polars as pl

from weftrace.units import US


def median_ns(times_ns: pl.Series) -> int:
    """The median; 0 of nothing. Of whole µs, as profilers wrote until 2024, the median between them: those that are
    m µs stand for times spread evenly from m - 0.5 to m + 0.5, as in statistics.median_grouped. Half a µs too much
    would add up over thousands of gaps.
    """
    times = times_ns.drop_nulls().to_numpy()
    if not len(times):
        return 0
    median = float(np.median(times))
    if (times % US).any():
        return int(median)
    middle = np.sort(times)[len(times) // 2]
    below, equal = int((times < middle).sum()), int((times == middle).sum())
    return round(float(middle) + US * ((len(times) / 2 - below) / equal - 0.5))

"""Bands of means over windows: right in width where that is known, and wider where neighbours are alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftrace.experts.replays.bootstrap import band, block_length, resampled_means


def test_blocks_by_hand() -> None:
    # 3 values in blocks of 2: the first block is [1 2] or [2 4], and one more value follows, the head of another block.
    means = resampled_means(np.array([[1.0, 2.0, 4.0]]), num_resamples=200, block=2, seed=0)
    assert sorted(set(np.round(3 * means[0], 9))) == [4, 5, 7, 8]  # 1+2+1, 1+2+2, 2+4+1, 2+4+2


def test_a_block_as_long_as_the_series_is_the_series() -> None:
    value_RT = np.arange(8.0).reshape(2, 4)
    np.testing.assert_allclose(resampled_means(value_RT, num_resamples=3, block=9, seed=0), [[1.5] * 3, [5.5] * 3])


def test_single_values_give_the_band_of_textbooks() -> None:
    # mean of 400 independent values of variance 1: ± 1.96 / 20
    value_RT = np.random.default_rng(1).standard_normal((1, 400))
    low, high = band(resampled_means(value_RT, num_resamples=4000, block=1, seed=2)[0])
    assert (high - low) / 2 == pytest.approx(1.96 * value_RT.std() / 20, rel=0.06)


def test_neighbours_that_are_alike_tell_less() -> None:
    """Of an AR(1) series with 0.9 the mean has sqrt(1.9 / 0.1) = 4.4 times the deviation of independent values."""
    random = np.random.default_rng(3)
    widths = []
    for _ in range(8):
        value_T = np.zeros(1000)
        for at in range(1, 1000):
            value_T[at] = 0.9 * value_T[at - 1] + random.standard_normal()
        for block in (1, block_length(1000)):
            low, high = band(resampled_means(value_T[None], num_resamples=500, block=block, seed=4)[0])
            widths.append(high - low)
    ratio = np.mean(widths[1::2]) / np.mean(widths[::2])
    assert 3 < ratio < 4.8


@given(num_windows=st.integers(1, 30), block=st.integers(1, 40), seed=st.integers(0, 9))
def test_resamples_are_of_the_rows_own_values_and_paired(num_windows: int, block: int, seed: int) -> None:
    value_T = np.random.default_rng(seed).random(num_windows)
    means = resampled_means(np.stack([value_T, value_T + 1]), num_resamples=20, block=block, seed=seed)
    np.testing.assert_allclose(means[1] - means[0], 1)
    assert (means[0] >= value_T.min() - 1e-12).all()
    assert (means[0] <= value_T.max() + 1e-12).all()


def test_block_lengths() -> None:
    assert [block_length(num) for num in (1, 2, 4, 5, 100, 101, 199)] == [1, 2, 2, 3, 10, 11, 15]

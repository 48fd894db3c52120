"""Estimators of the next window, checked with a pencil and against the weighted sums that define them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.fuzz import examples
from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats
from weftrace.experts.recorded.estimators import ESTIMATORS, half_life_of_window, make_estimator


def estimate(name: str, windows: object, **options: float) -> Floats:
    estimator = make_estimator(name, **options)  # type: ignore[arg-type]
    for load_LN in np.asarray(windows, dtype=np.float64):
        estimator.update(load_LN)
    return estimator.estimate()


ONE_EXPERT = [[[8.0]], [[4.0]], [[2.0]]]


def test_with_a_pencil() -> None:
    assert estimate("last", ONE_EXPERT) == 2
    assert estimate("mean", ONE_EXPERT, window=2) == 3
    assert estimate("mean", ONE_EXPERT, window=10) == pytest.approx(14 / 3)
    # half-life 1: weights 1/4, 1/2, 1
    assert estimate("ema", ONE_EXPERT, half_life=1) == pytest.approx((2 + 2 + 2) / 1.75)
    # mean 24/7; squares (8 - m)^2 / 4 + (4 - m)^2 / 2 + (2 - m)^2
    mean = 24 / 7
    variance = ((8 - mean) ** 2 / 4 + (4 - mean) ** 2 / 2 + (2 - mean) ** 2) / 1.75
    assert estimate("risk", ONE_EXPERT, half_life=1, risk=2) == pytest.approx(mean + 2 * variance**0.5)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_window_is_its_own_estimate(name: str) -> None:
    assert np.array_equal(estimate(name, [[[3.0, 0.1]]]), [[3.0, 0.1]])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_window_of_one_is_the_last(name: str) -> None:
    assert np.array_equal(estimate(name, [[[3.0, 0.1]], [[7.0, 0.7]]], window=1), [[7.0, 0.7]])


def test_half_life_matches_the_age_of_a_window() -> None:
    weights = 0.5 ** (np.arange(10_000) / half_life_of_window(9))
    assert (weights * np.arange(10_000)).sum() / weights.sum() == pytest.approx(4)


@settings(max_examples=examples(50))
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.just(2), st.just(3)), elements=st.floats(0, 1e6)),
    st.integers(1, 5),
    st.floats(0.1, 20),
)
def test_the_weighted_sums_that_define_them(load_TLN: Floats, window: int, half_life: float) -> None:
    assert np.allclose(estimate("mean", load_TLN, window=window), load_TLN[-window:].mean(axis=0))
    weight_T = 2.0 ** (-np.arange(len(load_TLN))[::-1] / half_life)
    mean_LN = np.average(load_TLN, axis=0, weights=weight_T)
    deviation_LN = np.sqrt(np.average((load_TLN - mean_LN) ** 2, axis=0, weights=weight_T))
    assert np.allclose(estimate("ema", load_TLN, half_life=half_life), mean_LN)
    risky_LN = estimate("risk", load_TLN, half_life=half_life, risk=0.5)
    assert np.allclose(risky_LN, mean_LN + 0.5 * deviation_LN, atol=1e-6)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimate_is_the_callers_own(name: str) -> None:
    estimator = make_estimator(name)
    window = np.ones((1, 2))
    estimator.update(window)
    window[:] = 9
    estimator.estimate()[:] = 7
    assert np.array_equal(estimator.estimate(), np.ones((1, 2)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_errors(name: str) -> None:
    estimator = make_estimator(name)
    with pytest.raises(LoadsError, match="seen no window"):
        estimator.estimate()
    estimator.update(np.ones((2, 3)))
    with pytest.raises(LoadsError, match="2 layers of 4 experts, and the windows before it 2 of 3"):
        estimator.update(np.ones((2, 4)))
    with pytest.raises(LoadsError, match="not finite"):
        estimator.update(np.full((2, 3), np.nan))
    assert np.array_equal(estimator.estimate(), np.ones((2, 3)))  # a refused window leaves no trace


def test_bad_options() -> None:
    with pytest.raises(LoadsError, match="choose from last, mean, ema, risk"):
        make_estimator("oracle")
    with pytest.raises(LoadsError, match="at least 1, not 0"):
        make_estimator("mean", window=0)
    with pytest.raises(LoadsError, match="half-life must be"):
        make_estimator("ema", half_life=-1)
    with pytest.raises(LoadsError, match="risk must be"):
        make_estimator("risk", risk=float("nan"))

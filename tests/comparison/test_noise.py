"""What is called a change is one; what is called noise is the scatter of steps. Many draws each, all in arrays."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from weftrace.comparison.noise import LEVEL, are_noise, difference_of, is_noise, spread_of
from weftrace.comparison.significance import margin_of, mean_p, rank_p

_DRAWS = 500


def _noise(before: ArrayLike, after: ArrayLike) -> NDArray[np.bool_]:
    found = are_noise(before, after)
    assert found is not None
    return found


def _steps(rng: np.random.Generator, kernels: list[int], num_steps: int) -> np.ndarray:
    """[draws, 1 + families, steps]: the span and its families, of so many kernels of 1 ms, each 2 % off by itself."""
    families = np.stack([rng.normal(1e6, 2e4, (_DRAWS, num_steps, n)).sum(axis=2) for n in kernels], axis=1)
    return np.concatenate([families.sum(axis=1, keepdims=True), families], axis=1)


@pytest.mark.parametrize("num_steps", [(10, 10), (3, 10), (5, 5)])
@pytest.mark.parametrize("kernels", [[1, 1], [1, 3, 10, 30, 1, 5, 2, 20]])
def test_a_run_and_its_like_differ_by_noise_alone(num_steps: tuple[int, int], kernels: list[int]) -> None:
    rng = np.random.default_rng(0)
    before, after = _steps(rng, kernels, num_steps[0]), _steps(rng, kernels, num_steps[1])
    quiet = [bool(_noise(one, other).all()) for one, other in zip(before, after, strict=True)]
    assert np.mean(quiet) > 0.965


@pytest.mark.parametrize("kernels", [[1, 1, 1], [1, 3, 10, 30, 1, 5, 2, 20], [4, 8, 40]])
def test_a_change_of_five_percent_of_one_family_is_found_in_ten_steps(kernels: list[int]) -> None:
    """The first family has a single kernel a step in two of the three cases: 2.5 times its scatter."""
    rng = np.random.default_rng(1)
    before, after = _steps(rng, kernels, 10), _steps(rng, kernels, 10)
    after[:, :2] += 0.05 * before[:, 1:2].mean(axis=2, keepdims=True)
    found = np.array([~_noise(one, other) for one, other in zip(before, after, strict=True)])
    assert found[:, 1].mean() > 0.955
    assert found[:, 2:].any(axis=1).mean() < 0.04  # and hardly ever another one


def test_one_odd_step_neither_makes_a_change_nor_hides_one() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.normal(100, 2, (_DRAWS, 10)), rng.normal(100, 2, (_DRAWS, 10))
    after[:, 3] += 300
    alone = [is_noise(one, other) is True for one, other in zip(before, after, strict=True)]
    assert np.mean(alone) > 0.97
    moved = after + 6
    assert np.mean([is_noise(one, other) is True for one, other in zip(before, moved, strict=True)]) < 0.03


def test_many_questions_are_held_to_one_level() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.normal(100, 2, (300, 200, 6)), rng.normal(100, 2, (300, 200, 6))
    anything = [not bool(_noise(one, other).all()) for one, other in zip(before, after, strict=True)]
    assert np.mean(anything) < 2 * LEVEL + 0.01


def test_questions_asked_elsewhere_count() -> None:
    rng = np.random.default_rng(4)
    before, after = rng.normal(100, 1, 6), rng.normal(103, 1, 6)
    assert is_noise(before, after) is False
    assert is_noise(before, after, num_asked=10_000) is True


def test_steps_that_do_not_scatter_show_any_change() -> None:
    assert is_noise([100.0, 100.0], [100.0, 100.0]) is True
    assert is_noise([100.0, 100.0], [101.0, 101.0]) is False
    assert is_noise([1e9 / 3, 1e9 / 3], [(1e9 + 1e-6) / 3] * 2) is True  # rounding is no change
    assert is_noise([0.2, 0.2], [0.6, 0.6]) is False  # a share, as gates ask of


def test_of_one_step_noise_is_unknown() -> None:
    assert is_noise([100.0], [200.0, 200.0]) is None
    assert are_noise([[100.0]], [[200.0]]) is None
    assert difference_of([100.0], [200.0, 201.0]) is None


def test_the_interval_holds_the_true_difference_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    before, after = rng.normal(100, 2, (_DRAWS, 9)), rng.normal(110, 2, (_DRAWS, 7))
    inside = np.abs(after.mean(axis=1) - before.mean(axis=1) - 10) <= margin_of(before, after, LEVEL)
    assert abs(inside.mean() - (1 - LEVEL)) < 0.012
    first = difference_of(before[0], after[0])
    assert first is not None
    assert first.change_ns == pytest.approx(after[0].mean() - before[0].mean())
    assert first.margin_ns == pytest.approx(first.high_ns - first.change_ns)


def test_nothing_that_was_not_there_is_compared_as_zero() -> None:
    before = np.array([[0.0] * 10, [5.0] * 10])
    after = np.array([[3.0, 3.1] * 5, [0.0] * 10])
    assert _noise(before, after).tolist() == [False, False]
    assert _noise(np.empty((0, 3)), np.empty((0, 4))).tolist() == []


def test_a_spread_is_median_and_quartiles() -> None:
    spread = spread_of([10.0, 20.0, 30.0, 40.0, 50.0])
    assert (spread.median_ns, spread.low_ns, spread.high_ns, spread.num_steps) == (30, 20, 40, 5)


@pytest.mark.parametrize(
    ("num_steps", "alone", "of_eight"), [(3, 6.5, 16), (5, 3.1, 4.6), (10, 2.0, 2.4), (20, 1.3, 1.6)]
)
def test_how_small_a_change_is_found_is_as_the_docs_say(num_steps: int, alone: float, of_eight: float) -> None:
    rng = np.random.default_rng(6)
    before, after = (rng.standard_normal((4000, num_steps)) for _ in range(2))
    for times, num_asked in ((alone, 1), (of_eight, 8)):
        p = [test(before, after + times) for test in (mean_p, rank_p)]
        assert np.mean(np.minimum(*p) < LEVEL / num_asked) == pytest.approx(0.95, abs=0.02)


def test_steps_that_resemble_their_neighbours_say_less_as_the_docs_say() -> None:
    rng = np.random.default_rng(7)
    drawn = rng.standard_normal((2, 10, 10_000))
    for at in range(1, 10):
        drawn[:, at] = 0.5 * drawn[:, at - 1] + np.sqrt(0.75) * drawn[:, at]
    p = [test(drawn[0].T, drawn[1].T) for test in (mean_p, rank_p)]
    assert np.mean(np.minimum(*p) < LEVEL) == pytest.approx(0.17, abs=0.02)

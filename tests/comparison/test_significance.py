"""p-values by rows are those that SciPy, which weftrace does not need, works out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from weftrace.comparison.significance import margin_of, mean_p, rank_p, student_p, student_t


@pytest.mark.parametrize("num", [(2, 2), (3, 10), (10, 10), (40, 30)])
def test_p_of_means_is_scipys_larger_one_of_student_and_welch(num: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    before, after = rng.normal(100, 2, (50, num[0])), rng.normal(103, 5, (50, num[1]))
    both = [stats.ttest_ind(before, after, axis=1, equal_var=alike) for alike in (True, False)]
    expected = np.maximum(*(each.pvalue for each in both))
    assert np.allclose(mean_p(before, after), expected, rtol=1e-9, atol=0)
    wide = np.maximum(*(np.diff(each.confidence_interval(0.98), axis=0)[0] for each in both)) / 2
    assert np.allclose(margin_of(before, after, 0.02), wide, rtol=1e-7)


@pytest.mark.parametrize("num", [(2, 2), (3, 10), (9, 10), (30, 20)])
def test_p_of_ranks_is_scipys_exact_one(num: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    before, after = rng.normal(100, 2, (50, num[0])), rng.normal(102, 2, (50, num[1]))
    expected = stats.mannwhitneyu(before, after, axis=1, method="exact").pvalue
    assert np.allclose(rank_p(before, after), expected, rtol=1e-9, atol=0)


def test_p_of_ranks_of_many_steps_is_that_of_the_normal_distribution() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.normal(100, 2, (20, 80)), rng.normal(101, 2, (20, 90))
    expected = stats.mannwhitneyu(before, after, axis=1, method="asymptotic").pvalue
    assert np.allclose(rank_p(before, after), expected, rtol=1e-9, atol=0)


def test_ties_never_make_ranks_tell_more_than_they_do() -> None:
    same = np.full((1, 10), 5.0)
    assert rank_p(same, same).tolist() == [1.0]
    two = np.array([[1.0, 2.0]])
    assert rank_p(two, np.array([[2.0, 3.0]])).item() >= rank_p(two, np.array([[2.5, 3.0]])).item()


def test_students_t_from_its_middle_to_its_far_tail() -> None:
    t, freedom = (grid.ravel() for grid in np.meshgrid([0.0, 0.1, 1.0, 4.0, 40.0, 1e4], [1.0, 1.7, 4.0, 18.0, 500.0]))
    assert np.allclose(student_p(t, freedom), 2 * stats.t.sf(t, freedom), rtol=1e-8, atol=1e-250)
    for p in (0.5, 0.02, 1e-4):
        assert np.allclose(student_t(p, np.array([1.3, 4.0, 18.0])), stats.t.isf(p / 2, [1.3, 4.0, 18.0]), rtol=1e-9)


def test_samples_that_do_not_scatter() -> None:
    same = np.full((1, 3), 7.0)
    assert mean_p(same, same).tolist() == [1.0]
    assert mean_p(same, same + 1).tolist() == [0.0]

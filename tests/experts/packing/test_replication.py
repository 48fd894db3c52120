"""Copy counts: by hand, against all counts there are, and what every answer keeps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.packing.replication import greedy_counts, replicas_of
from weftrace.experts.recorded.generator import synthetic_loads


def counts(loads: list[float], replicas: int, most: int, least: list[int] | None = None) -> list[int]:
    """Greedy counts of one layer."""
    least_LN = None if least is None else np.array([least])
    answer: list[int] = greedy_counts(np.array([loads]), np.array([replicas]), most, least_LN)[0].tolist()
    return answer


def test_each_slot_goes_to_the_largest_replica() -> None:
    # 12 5 2 -> 6 6 5 2 -> 4 4 4 5 2 -> 4 4 4 2.5 2.5 2
    assert counts([12, 5, 2], 3, 9) == [1, 1, 1]
    assert counts([12, 5, 2], 4, 9) == [2, 1, 1]
    assert counts([12, 5, 2], 5, 9) == [3, 1, 1]
    assert counts([12, 5, 2], 6, 9) == [3, 2, 1]


def test_among_equals_fewer_copies_then_the_lower_number() -> None:
    assert counts([6, 3, 3], 4, 9) == [2, 1, 1]
    assert counts([6, 3, 3], 5, 9) == [2, 2, 1]  # replicas 3 3 3 3: the first of those with one copy
    assert counts([0, 0, 0, 0], 6, 9) == [2, 2, 1, 1]  # a layer of zeros spreads its slots


def test_no_expert_gets_more_than_most_copies() -> None:
    assert counts([100, 1, 1], 6, 2) == [2, 2, 2]
    assert counts([100, 0, 0], 5, 3) == [3, 1, 1]
    assert counts([100, 0, 0], 6, 3) == [3, 2, 1]


def test_most_copies_may_differ_by_layer() -> None:
    load_LN = np.array([[100.0, 1, 1]] * 2)
    assert greedy_counts(load_LN, np.array([5, 5]), np.array([2, 3])).tolist() == [[2, 2, 1], [3, 1, 1]]


def test_pins_ask_for_copies_whatever_the_load() -> None:
    assert counts([12, 5, 2], 6, 9, least=[0, 0, 3]) == [2, 1, 3]
    assert counts([12, 5, 2], 5, 2, least=[0, 0, 3]) == [1, 1, 3]  # a pin outranks the limit


def test_too_few_slots_are_our_own_fault() -> None:
    with pytest.raises(AssertionError):
        counts([1, 1, 1], 2, 9)
    with pytest.raises(AssertionError):
        counts([1, 1, 1], 7, 2)


def test_counts_are_the_largest_quotients() -> None:
    """The same counts without a loop: an expert with load w stands for w/1, w/2, ...; the P - N largest win."""
    load_LN = synthetic_loads("real", 5, 64, seed=3)
    counts_LN = greedy_counts(load_LN, np.full(5, 96), 96)
    quotients_LNK = load_LN[:, :, None] / np.arange(1, 34)
    for layer in range(5):
        won = np.argsort(-quotients_LNK[layer], axis=None, kind="stable")[:32] // 33
        assert counts_LN[layer].tolist() == (1 + np.bincount(won, minlength=64)).tolist()


@given(st.lists(st.integers(0, 20), min_size=1, max_size=4), st.integers(0, 4), st.integers(1, 5))
@settings(max_examples=examples(60), deadline=None)
def test_no_counts_have_a_smaller_largest_replica(loads: list[int], extra: int, most: int) -> None:
    replicas = min(len(loads) + extra, len(loads) * most)
    mine = counts([float(load) for load in loads], replicas, most)
    assert sum(mine) == replicas and max(mine) <= most and min(mine) >= 1
    every = [c for c in itertools.product(range(1, most + 1), repeat=len(loads)) if sum(c) == replicas]
    least = min(max(w / c for w, c in zip(loads, some, strict=True)) for some in every)
    assert max(w / c for w, c in zip(loads, mine, strict=True)) == least


def test_replicas_come_largest_first() -> None:
    expert_LR, value_LR = replicas_of(np.array([[1, 3, 1]]), np.array([[2.0, 12, 4]]))
    assert expert_LR.tolist() == [[1, 1, 1, 2, 0]]  # the lower expert first among equals
    assert value_LR.tolist() == [[4, 4, 4, 4, 2]]


def test_replicas_of_a_smaller_layer_are_padded() -> None:
    expert_LR, value_LR = replicas_of(np.array([[1, 1], [3, 1]]), np.array([[2.0, 1], [3, 5]]))
    assert expert_LR.tolist() == [[0, 1, -1, -1], [1, 0, 0, 0]]
    assert value_LR.tolist() == [[2, 1, 0, 0], [5, 1, 1, 1]]


@given(st.lists(st.tuples(st.floats(0, 1e9), st.integers(1, 5)), min_size=1, max_size=12))
def test_replicas_keep_the_load(experts: list[tuple[float, int]]) -> None:
    load_LN: Floats = np.array([[load for load, _ in experts]])
    counts_LN: Ints = np.array([[count for _, count in experts]])
    expert_LR, value_LR = replicas_of(counts_LN, load_LN)
    assert np.bincount(expert_LR[0], minlength=len(experts)).tolist() == counts_LN[0].tolist()
    assert np.allclose(np.bincount(expert_LR[0], weights=value_LR[0]), load_LN[0])
    assert (np.diff(value_LR[0]) <= 0).all()

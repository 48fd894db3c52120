"""The branch and bound of small layers, against all placements written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import make_cluster
from weftrace.experts.constraints import make_problem
from weftrace.experts.problem import NotApplicable, Solution
from weftrace.experts.proof.exact import best_even, is_small, solve_exact
from weftrace.experts.slots import copies_of, load_of_gpus, num_repeats


def least_maximum(load_N: Floats, capacity_G: Ints, speed_G: Floats, pins: tuple[tuple[int, int], ...] = ()) -> float:
    """Every way to put different experts on each GPU, tried one by one; infinite where none places every expert."""
    num_experts = len(load_N)
    best = np.inf
    for held in itertools.product(*(itertools.combinations(range(num_experts), int(c)) for c in capacity_G)):
        copies_N = np.bincount(
            np.concatenate([np.array(experts, dtype=np.int64) for experts in held]), minlength=num_experts
        )
        if copies_N.min() and all(expert in held[gpu] for expert, gpu in pins):
            part_N = load_N / copies_N
            best = min(best, max(part_N[list(h)].sum() / v for h, v in zip(held, speed_G, strict=True)))
    return float(best)


def all_maxima_of_equal_gpus(load_N: Floats, slots: int, num_gpus: int) -> float:
    """The same for equal GPUs and larger layers: GPUs in ascending order of what they hold, all at once in NumPy."""
    num_experts = len(load_N)
    held_KN = np.array(
        [
            [expert in experts for expert in range(num_experts)]
            for experts in itertools.combinations(range(num_experts), slots)
        ],
        dtype=np.float64,
    )
    rows = np.array(list(itertools.combinations_with_replacement(range(len(held_KN)), num_gpus)))
    copies_RN = sum(held_KN[rows[:, gpu]] for gpu in range(num_gpus))
    rows, copies_RN = rows[copies_RN.min(axis=1) > 0], copies_RN[copies_RN.min(axis=1) > 0]
    part_RN = load_N / copies_RN
    return float(np.max([(held_KN[rows[:, gpu]] * part_RN).sum(axis=1) for gpu in range(num_gpus)], axis=0).min())


def test_with_a_pencil() -> None:
    """Loads 6 5 4 1 on two GPUs of three slots, mean 8: 6 and 1 get a copy on each GPU, 3.5 + 5 beats 3.5 + 4."""
    time, gpus_N, is_proved = best_even(np.array([6.0, 5, 4, 1]), np.array([3, 3]), np.ones(2), np.zeros(4, np.int64))
    assert (time, is_proved) == (8.5, True)
    assert sorted(gpus_N.tolist()) == [1, 2, 3, 3]


def test_speeds_with_a_pencil() -> None:
    """A GPU of speed 2 and one of speed 1, loads 4 and 2, one slot each: 4 / 2 = 2 / 1."""
    time, gpus_N, _ = best_even(np.array([2.0, 4]), np.array([1, 1]), np.array([2.0, 1]), np.zeros(2, np.int64))
    assert time == 2
    assert gpus_N.tolist() == [2, 1]


def test_a_gpu_without_slots_is_left_out() -> None:
    time, gpus_N, _ = best_even(np.array([3.0, 1]), np.array([0, 1, 0, 1]), np.ones(4), np.zeros(2, np.int64))
    assert time == 3
    assert sorted(gpus_N.tolist()) == [2, 8]


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_equals_every_placement_tried(data: st.DataObject) -> None:
    num_experts = data.draw(st.integers(1, 5), label="experts")
    capacity_G = np.array(
        data.draw(st.lists(st.integers(0, min(3, num_experts)), min_size=1, max_size=4), label="slots")
    )
    if capacity_G.sum() < num_experts or capacity_G.sum() > 9:
        return
    values = st.one_of(st.integers(0, 4).map(float), st.floats(0.01, 100))
    load_N = np.array(data.draw(st.lists(values, min_size=num_experts, max_size=num_experts), label="loads"))
    speed_G = np.array(
        data.draw(
            st.lists(st.sampled_from([1.0, 1.0, 0.5, 2.0]), min_size=len(capacity_G), max_size=len(capacity_G)),
            label="speeds",
        )
    )
    pinned_N = np.zeros(num_experts, dtype=np.int64)
    pins: tuple[tuple[int, int], ...] = ()
    if data.draw(st.booleans(), label="pin") and capacity_G[-1]:
        pins = ((num_experts - 1, len(capacity_G) - 1),)
        pinned_N[-1] = 1 << (len(capacity_G) - 1)
    time, gpus_N, is_proved = best_even(load_N, capacity_G, speed_G, pinned_N)
    assert is_proved
    assert time == pytest.approx(least_maximum(load_N, capacity_G, speed_G, pins), rel=1e-12)
    if np.isfinite(time):
        held_G = [(gpus_N >> gpu & 1).sum() for gpu in range(len(capacity_G))]
        assert held_G == capacity_G.tolist()
        assert (gpus_N & pinned_N == pinned_N).all()


@pytest.mark.parametrize(("slots", "seed"), [(2, 0), (3, 1), (3, 2), (4, 3)])
def test_equals_every_placement_of_eight_experts_on_four_gpus(slots: int, seed: int) -> None:
    num_experts = 8 if slots < 4 else 6
    load_N = np.random.default_rng(seed).lognormal(0, 1, num_experts)
    time, _, is_proved = best_even(load_N, np.full(4, slots), np.ones(4), np.zeros(num_experts, np.int64))
    assert is_proved
    assert time == pytest.approx(all_maxima_of_equal_gpus(load_N, slots, 4), rel=1e-12)


def test_solution_of_a_problem() -> None:
    load_LN = np.random.default_rng(0).lognormal(0, 1, (5, 8))
    problem = make_problem(load_LN, make_cluster(12, 4), pins=[(2, 1)])
    solution = solve_exact(problem)
    assert isinstance(solution, Solution)
    first_slot_G = problem.cluster.first_slot_G
    copies_LN = copies_of(solution.expert_of_slot_LP, 8)
    assert (copies_LN.min(), set(copies_LN.sum(axis=1))) == (1, {12})
    assert not num_repeats(solution.expert_of_slot_LP, first_slot_G).any()
    assert (solution.expert_of_slot_LP[:, 3:6] == 2).any(axis=1).all()
    worst_L = load_of_gpus(solution.expert_of_slot_LP, solution.share_LP, load_LN, first_slot_G).max(axis=1)
    for layer in range(5):
        pinned_N = np.array([0, 0, 2, 0, 0, 0, 0, 0])
        assert worst_L[layer] == pytest.approx(best_even(load_LN[layer], np.full(4, 3), np.ones(4), pinned_N)[0])


def test_refuses_what_is_not_small() -> None:
    loads = np.ones((1, 9))
    assert not is_small(make_problem(loads, make_cluster(12, 4)))
    assert isinstance(solve_exact(make_problem(loads, make_cluster(12, 4))), NotApplicable)
    assert isinstance(solve_exact(make_problem(np.ones((1, 8)), make_cluster(12, 4), split="uneven")), NotApplicable)

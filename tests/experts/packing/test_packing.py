"""Packing: by hand, against brute force on small cases, what every packing keeps, and the figures it has to reach."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import Cluster, make_cluster
from weftrace.experts.packing.packing import pack, pack_counts, solve_lpt_swaps
from weftrace.experts.problem import Problem, Solution
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.slots import copies_of, load_of_gpus, num_repeats


def problem_of(
    load_LN: Floats,
    cluster: Cluster,
    *,
    pins: list[tuple[int, int, int]] | None = None,
    capacity_LG: Ints | None = None,
    is_even: bool = True,
) -> Problem:
    if capacity_LG is None:
        capacity_LG = np.tile(np.minimum(cluster.capacity_G, load_LN.shape[1]), (len(load_LN), 1))
    return Problem(
        load_LN=load_LN,
        cluster=cluster,
        capacity_LG=capacity_LG,
        num_groups=1,
        pins_K3=np.array(sorted(pins or []), dtype=np.int64).reshape(-1, 3),
        is_even=is_even,
    )


def balancedness(problem: Problem, solution: Solution) -> Floats:
    """[L] mean over maximum of GPU time."""
    cluster = problem.cluster
    load_LG = load_of_gpus(solution.expert_of_slot_LP, solution.share_LP, problem.load_LN, cluster.first_slot_G)
    worst_L = (load_LG / cluster.speed_G).max(axis=1)
    balancedness_L: Floats = problem.load_LN.sum(axis=1) / cluster.speed_G[cluster.usable_G].sum() / worst_L
    return balancedness_L


def check(problem: Problem, solution: Solution) -> None:
    """What every solution keeps: each expert placed, leading slots filled, no repeats, pins, loads."""
    map_LP, cluster = solution.expert_of_slot_LP, problem.cluster
    assert (copies_of(map_LP, problem.num_experts) >= 1).all()
    for layer, gpu in itertools.product(range(problem.num_layers), range(cluster.num_gpus)):
        slots = map_LP[layer, cluster.first_slot_G[gpu] : cluster.first_slot_G[gpu + 1]]
        filled = problem.capacity_LG[layer, gpu]
        assert (slots[:filled] >= 0).all() and (slots[filled:] == -1).all()
    assert not num_repeats(map_LP, cluster.first_slot_G).any()
    for layer, expert, gpu in problem.pins_K3:
        assert expert in map_LP[layer, cluster.first_slot_G[gpu] : cluster.first_slot_G[gpu + 1]]
    load_LG = load_of_gpus(map_LP, solution.share_LP, problem.load_LN, cluster.first_slot_G)
    assert np.allclose(load_LG.sum(axis=1), problem.load_LN.sum(axis=1))


def packed_loads(values: list[float], capacity: list[int], *, rounds: int = 8) -> list[float]:
    """Loads of the GPUs after packing distinct experts with these values."""
    gpu_LR = pack(
        np.arange(len(values))[None], np.array([values]), np.array([capacity]), np.ones(len(capacity)), rounds=rounds
    )
    assert np.bincount(gpu_LR[0], minlength=len(capacity)).tolist() == capacity
    loads: list[float] = np.bincount(gpu_LR[0], weights=values, minlength=len(capacity)).tolist()
    return loads


def test_a_swap_repairs_what_longest_first_leaves() -> None:
    # Longest first: 8 5 | 7 6 4 is 13 | 17. Swapping 5 and 7 gives 8 7 | 6 5 4.
    assert packed_loads([8, 7, 6, 5, 4], [2, 3], rounds=0) == [15, 15]


def test_swaps_need_not_free_the_largest_replica() -> None:
    # Longest first: 9 5 5 | 8 8 1 is 19 | 17. Swapping 9 and 8 gives 8 5 5 | 9 8 1.
    assert packed_loads([9, 8, 8, 5, 5, 1], [3, 3], rounds=0) == [18, 18]


def test_faster_gpus_take_more() -> None:
    gpu_LR = pack(np.array([[0, 1]]), np.array([[9.0, 3.0]]), np.array([[1, 1]]), np.array([1.0, 3.0]))
    assert gpu_LR.tolist() == [[1, 0]]


def test_pinned_replicas_stay() -> None:
    expert_LR, value_LR = np.array([[0, 1, 2, 3]]), np.array([[4.0, 3, 2, 1]])
    pinned_LR = np.array([[0, 0, -1, -1]])
    gpu_LR = pack(expert_LR, value_LR, np.array([[2, 2]]), np.ones(2), pinned_LR=pinned_LR)
    assert gpu_LR.tolist() == [[0, 0, 1, 1]]


def test_padding_is_left_out() -> None:
    expert_LR = np.array([[0, 1, -1], [0, 0, 1]])
    value_LR = np.array([[2.0, 1, 0], [1, 1, 1]])
    gpu_LR = pack(expert_LR, value_LR, np.array([[1, 1], [1, 2]]), np.ones(2))
    assert sorted(gpu_LR[0].tolist()) == [-1, 0, 1]
    assert sorted(gpu_LR[1, :2].tolist()) == [0, 1]  # the two copies of expert 0 apart


def test_repeats_only_where_nothing_else_is_possible() -> None:
    gpu_LR = pack(np.array([[0, 0, 0, 1]]), np.ones((1, 4)), np.array([[2, 2]]), np.ones(2))
    assert sorted(gpu_LR[0, :3].tolist()) in ([0, 0, 1], [0, 1, 1])


@given(st.data())
@settings(max_examples=examples(80), deadline=None)
def test_repeats_are_avoided_whenever_they_can_be(data: st.DataObject) -> None:
    """Counts, capacities and pins come from a placement without repeats, so there is one to find."""
    num_experts, num_gpus = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 6))
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    has_GN = random.random((num_gpus, num_experts)) < random.random()
    has_GN[0, :] |= ~has_GN.any(axis=0)
    gpu_K, expert_K = np.nonzero(has_GN)
    value_N = random.integers(0, 9, num_experts).astype(np.float64)
    order_K = np.lexsort((expert_K, -value_N[expert_K]))
    pinned_K = np.where(random.random(len(gpu_K)) < 0.2, gpu_K, -1)[order_K]
    expert_R = expert_K[order_K]
    gpu_R = pack(
        expert_R[None],
        value_N[expert_R][None],
        has_GN.sum(axis=1)[None],
        random.integers(1, 4, num_gpus).astype(np.float64),
        pinned_LR=pinned_K[None],
    )[0]
    assert np.bincount(gpu_R, minlength=num_gpus).tolist() == has_GN.sum(axis=1).tolist()
    assert len(set(zip(gpu_R.tolist(), expert_R.tolist(), strict=True))) == len(gpu_R)
    assert (gpu_R[pinned_K >= 0] == pinned_K[pinned_K >= 0]).all()


def test_small_cases_are_packed_almost_as_well_as_possible() -> None:
    """200 cases of 8 replicas on GPUs with 2 + 3 + 3 slots, by brute force: 8! / (2! 3! 3!) = 560 packings each."""
    splits = [
        (first, second, tuple(r for r in range(8) if r not in first + second))
        for first in itertools.combinations(range(8), 2)
        for second in itertools.combinations([r for r in range(8) if r not in first], 3)
    ]
    assert len(splits) == 560
    value_LR = -np.sort(-np.random.default_rng(1).integers(1, 40, (200, 8)).astype(np.float64), axis=1)
    gpu_LR = pack(
        np.tile(np.arange(8), (200, 1)), value_LR, np.tile([2, 3, 3], (200, 1)), np.ones(3), close_enough=0.0, rounds=30
    )
    worst_L = np.array([np.bincount(gpus, weights=values).max() for gpus, values in zip(gpu_LR, value_LR, strict=True)])
    best_L = np.min(
        [np.max([value_LR[:, gpu].sum(axis=1) for gpu in map(list, split)], axis=0) for split in splits], axis=0
    )
    assert (worst_L >= best_L).all()
    assert (worst_L == best_L).mean() > 0.97
    assert (worst_L <= best_L * 1.05).all()


def test_the_same_input_gives_the_same_output() -> None:
    problem = problem_of(synthetic_loads("real", 4, 64, seed=1), make_cluster(96, 24))
    first, second = solve_lpt_swaps(problem), solve_lpt_swaps(problem)
    assert np.array_equal(first.expert_of_slot_LP, second.expert_of_slot_LP)


def test_kicks_never_make_it_worse() -> None:
    problem = problem_of(synthetic_loads("real", 10, 64, seed=1), make_cluster(96, 24))
    counts_LN = copies_of(solve_lpt_swaps(problem).expert_of_slot_LP, 64)
    worst = []
    for rounds in (0, 5, 40):
        map_LP = pack_counts(problem, counts_LN, rounds=rounds)
        share_LP = 1.0 / counts_LN[np.arange(10)[:, None], map_LP]
        worst.append(load_of_gpus(map_LP, share_LP, problem.load_LN, problem.cluster.first_slot_G).max(axis=1))
    assert (worst[1] <= worst[0] * (1 + 1e-12)).all() and (worst[2] <= worst[1] * (1 + 1e-12)).all()


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_any_problem_is_solved(data: st.DataObject) -> None:
    """Unequal slots and speeds, lost GPUs, budgets, pins, either split."""
    num_gpus, num_layers = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    slots = data.draw(st.lists(st.integers(1, 5), min_size=num_gpus, max_size=num_gpus))
    dead = data.draw(st.sets(st.integers(0, num_gpus - 1), max_size=num_gpus - 1))
    speeds = data.draw(st.lists(st.sampled_from([0.5, 1.0, 1.0, 2.0]), min_size=num_gpus, max_size=num_gpus))
    cluster = make_cluster(None, num_gpus, slots_of_gpu=slots, speed_of_gpu=speeds, dead=dead)
    num_experts = data.draw(st.integers(int(cluster.capacity_G.max()), int(cluster.capacity_G.sum())))
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    load_LN = random.integers(0, 50, (num_layers, num_experts)).astype(np.float64)
    pins: list[tuple[int, int, int]] = []
    spare = int(cluster.capacity_G.sum()) - num_experts
    for gpu in np.flatnonzero(cluster.usable_G)[: data.draw(st.integers(0, 3))]:
        if len(pins) < spare:
            pins.append((0, int(random.integers(num_experts)), int(gpu)))
    problem = problem_of(load_LN, cluster, pins=pins, is_even=data.draw(st.booleans()))
    solution = solve_lpt_swaps(problem)
    check(problem, solution)
    if problem.is_even:
        copies_LN = copies_of(solution.expert_of_slot_LP, num_experts)
        filled_LP = solution.expert_of_slot_LP >= 0
        layer_LP = np.broadcast_to(np.arange(num_layers)[:, None], filled_LP.shape)[filled_LP]
        share = 1.0 / copies_LN[layer_LP, solution.expert_of_slot_LP[filled_LP]]
        assert np.array_equal(solution.share_LP[filled_LP], share)


def test_budgets_leave_the_last_slots_of_a_gpu_empty() -> None:
    cluster = make_cluster(8, 4)
    problem = problem_of(np.ones((2, 5)), cluster, capacity_LG=np.array([[2, 1, 1, 1], [2, 2, 2, 2]]))
    solution = solve_lpt_swaps(problem)
    check(problem, solution)
    assert (solution.expert_of_slot_LP[0] == -1).sum() == 3


@pytest.mark.parametrize(
    ("kind", "num_experts", "num_slots", "num_gpus", "at_least"),
    [
        ("real", 256, 288, 32, 0.9997),
        ("logn1", 256, 288, 32, 0.9997),
        ("real", 256, 288, 72, 0.996),
        ("real", 256, 432, 144, 0.994),
        ("real", 128, 160, 32, 0.9972),
        ("real", 384, 416, 32, 0.9999),
    ],
)
def test_figures(kind: str, num_experts: int, num_slots: int, num_gpus: int, at_least: float) -> None:
    problem = problem_of(synthetic_loads(kind, 58, num_experts, seed=0), make_cluster(num_slots, num_gpus))
    solution = solve_lpt_swaps(problem)
    check(problem, solution)
    assert balancedness(problem, solution).mean() >= at_least

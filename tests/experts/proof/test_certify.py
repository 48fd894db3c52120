"""Bounds and what binds, checked with a pencil, then against brute force."""

from __future__ import annotations

import itertools
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experts.proof.test_exact import least_maximum
from tests.fuzz import examples
from weftrace.experts.arrays import Floats
from weftrace.experts.certificate import Binding, Certificate
from weftrace.experts.cluster import make_cluster
from weftrace.experts.constraints import make_problem
from weftrace.experts.packing.packing import solve_lpt_swaps
from weftrace.experts.problem import Problem, Solution
from weftrace.experts.proof import bounds
from weftrace.experts.proof.bounds import counted_bound, partition_bound
from weftrace.experts.proof.certify import certify
from weftrace.experts.proof.exact import best_even, solve_exact
from weftrace.experts.proof.fold_bound import fold_bound
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.slots import even_shares


def even(problem: Problem, *rows: list[int]) -> Solution:
    expert_of_slot_LP = np.array(rows, dtype=np.int64)
    return Solution(expert_of_slot_LP=expert_of_slot_LP, share_LP=even_shares(expert_of_slot_LP, problem.num_experts))


def replica_bound(problem: Problem) -> Floats:
    return bounds.replica_bound(problem, any_shares_L=np.zeros(problem.num_layers, dtype=np.bool_))[0]


def test_perfect_layer_binds_nothing() -> None:
    problem = make_problem([[2, 1, 1, 2]], make_cluster(4, 2))
    certificate = certify(problem, even(problem, [0, 1, 2, 3]), "global")
    assert (certificate.mean_L.tolist(), certificate.bound_L.tolist(), certificate.achieved_L.tolist()) == (
        [3],
        [3],
        [3],
    )
    assert certificate.is_optimal_L.all()
    assert certificate.binding_L == ("none",)
    assert (certificate.balancedness, certificate.bound_balancedness, certificate.gap) == (1, 1, 0)
    assert certificate.slots_for_target == 4


def test_too_few_slots() -> None:
    """Loads 9 1 1 1 on four GPUs of one slot: 9 stays whole, mean 3. With two slots a GPU 9 gets 3 copies or more."""
    problem = make_problem([[9, 1, 1, 1]], make_cluster(4, 4))
    certificate = certify(problem, even(problem, [0, 1, 2, 3]), "global")
    assert certificate.bound_L.tolist() == [9]
    assert certificate.is_optimal_L.all()
    assert certificate.binding_L == ("slots",)
    assert certificate.balancedness == pytest.approx(3 / 9)
    assert certificate.slots_for_target == 8


def test_a_bad_packing_is_told_from_a_bound() -> None:
    problem = make_problem([[1.0] * 10], make_cluster(10, 5))  # ten experts are too many for the exact search
    swapped = Solution(expert_of_slot_LP=np.arange(10)[None, :], share_LP=np.ones((1, 10)))
    assert certify(problem, swapped, "global").binding_L == ("none",)
    uneven = make_problem([[3.0, 3.0] + [1.0] * 8], make_cluster(10, 5))
    certificate = certify(uneven, swapped, "global")
    assert certificate.achieved_L.tolist() == [6]
    assert certificate.bound_L[0] == pytest.approx(4, rel=1e-4)  # 3 + 1
    assert certificate.mean_L.tolist() == [pytest.approx(2.8)]
    assert certificate.binding_L == ("packing",)
    assert certificate.gap == pytest.approx(0.5, rel=1e-3)


def test_whole_replicas_bind() -> None:
    """Loads 6 5 4 1 on two GPUs of three slots: mean 8, no replica above 6, and yet nothing is below 8.5."""
    problem = make_problem([[6, 5, 4, 1]], make_cluster(6, 2))
    solution = solve_exact(problem)
    assert isinstance(solution, Solution)
    certificate = certify(problem, solution, "global")
    assert certificate.bound_L.tolist() == [8.5]
    assert certificate.is_optimal_L.all()
    assert certificate.binding_L == ("replica granularity",)


def test_groups_kept_on_nodes_bind() -> None:
    """Groups of one expert, 5 1 1 1 on two nodes of one GPU: 5 + 1 against 1 + 1, mean 4."""
    problem = make_problem([[5, 1, 1, 1]], make_cluster(4, 2, 2), num_groups=4)
    certificate = certify(problem, even(problem, [0, 1, 2, 3]), "hierarchical")
    assert certificate.bound_L.tolist() == [6]
    assert certificate.binding_L == ("node partition",)
    assert certificate.slots_for_target is None
    assert certify(problem, even(problem, [0, 1, 2, 3]), "global").bound_L.tolist() == [6]  # the exact search
    assert counted_bound(problem).tolist() == [6]


def test_a_gpu_with_few_slots_binds() -> None:
    """A GPU of speed 3 with one slot and one of speed 1 with three, loads 4 of 1: at best 1 on the fast one."""
    problem = make_problem(
        [[1, 1, 1, 1]], make_cluster(None, 2, slots_of_gpu=[1, 3], speed_of_gpu=[3, 1]), split="uneven"
    )
    assert problem.mean_L.tolist() == [1]
    assert bounds.capacity_bound(problem).tolist() == [3]
    certificate = certify(problem, even(problem, [0, 1, 2, 3]), "global")
    assert certificate.is_optimal_L.all()
    assert certificate.binding_L == ("constraints",)


def test_pins_bind() -> None:
    """Both large experts on GPU 0: no spare slot, so it takes 4 + 4 of 10."""
    problem = make_problem([[4, 4, 1, 1]], make_cluster(4, 2), pins=[(0, 0), (1, 0)])
    assert bounds.pin_bound(problem).tolist() == [8]
    certificate = certify(problem, even(problem, [0, 1, 2, 3]), "global")
    assert certificate.bound_L.tolist() == [8]
    assert certificate.binding_L == ("constraints",)


def test_an_expert_that_is_everywhere_binds() -> None:
    """Speeds 4 and 1: two copies of the one expert go half and half, 1/2 on the slow GPU; one copy on the fast, 1/4."""
    problem = make_problem([[1.0, 1e-9]], make_cluster(2, 2, speed_of_gpu=[4, 1]))
    assert replica_bound(problem)[0] == pytest.approx(0.25)
    slower = make_problem([[1.0, 1e-9]], make_cluster(4, 2, speed_of_gpu=[1, 0.9]))
    certificate = certify(slower, even(slower, [0, 1, 0, 1]), "global")
    assert certificate.bound_L[0] == pytest.approx(0.5 / 0.9)
    assert certificate.is_optimal_L.all()
    assert certificate.binding_L == ("duplicates",)


def test_uneven_split_puts_the_speeds_to_work() -> None:
    problem = make_problem([[1.0, 1e-9]], make_cluster(4, 2, speed_of_gpu=[4, 1]), split="uneven")
    assert replica_bound(problem)[0] == pytest.approx(1 / 5)


def test_a_layer_with_repeats_gets_a_bound_that_holds_for_it() -> None:
    """Speeds 2 and 1: three copies, two of them on the fast GPU, split the load perfectly; else 1/2 is best."""
    problem = make_problem([[1.0]], make_cluster(None, 2, slots_of_gpu=[2, 1], speed_of_gpu=[2, 1]))
    assert replica_bound(problem).tolist() == [0.5]
    certificate = certify(problem, even(problem, [0, 0, 0]), "global")
    assert certificate.achieved_L[0] == pytest.approx(1 / 3)
    assert certificate.bound_L[0] == pytest.approx(1 / 3)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_bound_is_the_optimum_of_every_small_layer(data: st.DataObject) -> None:
    num_experts = data.draw(st.integers(1, 5), label="experts")
    num_gpus = data.draw(st.integers(1, 3), label="GPUs")
    fewest = -(-num_experts // num_gpus)
    slots = data.draw(st.integers(fewest, max(fewest, min(num_experts, 3))), label="slots")
    speeds = data.draw(st.lists(st.sampled_from([1.0, 0.5]), min_size=num_gpus, max_size=num_gpus), label="speeds")
    values = st.one_of(st.integers(1, 6).map(float), st.floats(0.1, 10))
    load_N = np.array(data.draw(st.lists(values, min_size=num_experts, max_size=num_experts), label="loads"))
    problem = make_problem(load_N, make_cluster(slots * num_gpus, num_gpus, speed_of_gpu=speeds))
    optimum = least_maximum(load_N, problem.capacity_LG[0], problem.cluster.speed_G)
    for solution in (solve_lpt_swaps(problem), solve_exact(problem)):
        assert isinstance(solution, Solution)
        certificate = certify(problem, solution, "global")
        assert certificate.bound_L[0] == pytest.approx(optimum, rel=1e-9)
        assert certificate.is_optimal_L[0] == (certificate.achieved_L[0] <= optimum * (1 + 1e-9))
    assert certificate.is_optimal_L[0]


def every_partition(groups: tuple[int, ...], room: int) -> list[list[tuple[int, ...]]]:
    """All ways to put groups on nodes of `room` groups each, whatever the order of the nodes."""
    if not groups:
        return [[]]
    first, rest = groups[0], groups[1:]
    return [
        [(first, *mates), *others]
        for mates in itertools.combinations(rest, room - 1)
        for others in every_partition(tuple(g for g in rest if g not in mates), room)
    ]


@pytest.mark.parametrize("kind", ["logn0.5", "logn1", "zipf1"])
def test_partition_bound_equals_every_partition_tried(kind: str) -> None:
    """8 groups on 4 nodes: 105 partitions. A node's bound: its load / GPUs, its largest replica under greedy counts."""
    loads = synthetic_loads(kind, 4, 64, seed=3)
    problem = make_problem(loads, make_cluster(96, 16, 4), num_groups=8)
    partitions = every_partition(tuple(range(8)), 2)
    assert len(partitions) == 105
    for layer, bound in enumerate(partition_bound(problem)):
        of_group_GM = loads[layer].reshape(8, 8)
        node_bounds = {}
        for pair in itertools.combinations(range(8), 2):
            mine_N = of_group_GM[list(pair)].ravel()
            copies_N = np.ones(16)
            for _ in range(24 - 16):
                copies_N[np.argmax(np.where(copies_N < 4, mine_N / copies_N, 0))] += 1
            node_bounds[pair] = max(mine_N.sum() / 4, (mine_N / copies_N).max())
        assert bound == pytest.approx(min(max(node_bounds[pair] for pair in pairs) for pairs in partitions), rel=1e-9)  # type: ignore[index]
        assert counted_bound(problem)[layer] <= bound * (1 + 1e-12)


def test_many_groups_are_counted() -> None:
    """64 groups on 4 nodes, one of them with 40 % of the load: its node has that and its 15 lightest mates."""
    loads = np.ones((1, 256))
    loads[0, :4] = 42  # group 0: 168; 63 others of 4 each: 420 in all
    problem = make_problem(loads, make_cluster(288, 32, 4), num_groups=64)
    assert counted_bound(problem)[0] == pytest.approx((168 + 15 * 4) / 8)
    assert partition_bound(problem)[0] == pytest.approx((168 + 15 * 4) / 8)


def test_slots_for_target_is_the_first_number_whose_bound_reaches_it() -> None:
    loads = synthetic_loads("logn1", 6, 32, seed=0)
    problem = make_problem(loads, make_cluster(32, 32))
    slots = certify(problem, solve_lpt_swaps(problem), "global").slots_for_target
    reached = []
    for num_slots in range(32, 129, 32):
        wider = make_problem(loads, make_cluster(num_slots, 32))
        bound_L = np.maximum(wider.mean_L, replica_bound(wider))
        reached.append((num_slots, float((wider.mean_L / bound_L).mean())))
    assert slots == next(num_slots for num_slots, balancedness in reached if balancedness >= 0.99)


def test_replica_bound_is_greedy_apportionment() -> None:
    loads = synthetic_loads("zipf1", 3, 20, seed=5)
    problem = make_problem(loads, make_cluster(30, 10))
    for load_N, bound in zip(loads, replica_bound(problem), strict=True):
        copies_N = np.ones(20)
        for _ in range(10):
            copies_N[np.argmax(load_N / copies_N)] += 1
        assert bound == pytest.approx((load_N / copies_N).max())


def test_two_slots_a_gpu_with_a_pencil() -> None:
    """Ten experts, five GPUs of two slots: 6 8s and 4 1s. Two of the 8s share a GPU, though the mean is 10.4."""
    problem = make_problem([[8.0] * 6 + [1.0] * 4], make_cluster(10, 5))
    solution = solve_lpt_swaps(problem)
    certificate = certify(problem, solution, "global")
    assert certificate.achieved_L.tolist() == [16]
    assert certificate.bound_L[0] == pytest.approx(16)
    assert certificate.is_optimal_L.all()
    assert certificate.binding_L == ("replica granularity",)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from([0.3, 1.0, 2.0]))
def test_two_slots_a_gpu_never_above_the_optimum(seed: int, num_gpus: int, sigma: float) -> None:
    random = np.random.default_rng(seed)
    load_N = random.lognormal(0, sigma, random.integers(num_gpus, 2 * num_gpus + 1))
    problem = make_problem(load_N, make_cluster(2 * num_gpus, num_gpus))
    lower_L, asked_L = np.maximum(problem.mean_L, replica_bound(problem)), np.array([True])
    optimum = best_even(load_N, problem.capacity_LG[0], np.ones(num_gpus), np.zeros(len(load_N), np.int64))[0]
    bound = fold_bound(problem, lower_L, np.array([optimum * 1.5]), asked_L)[0]
    assert lower_L[0] * (1 - 1e-9) <= bound <= optimum * (1 + 1e-9)


def test_two_slots_a_gpu_are_told_from_a_bad_packing() -> None:
    """No copy counts bring these loads above 0.86 (t* says 1; an integer program 0.828 for the first layer)."""
    problem = make_problem(synthetic_loads("zipf0.5", 3, 256, seed=0), make_cluster(288, 144))
    certificate = certify(problem, solve_lpt_swaps(problem), "global")
    assert 0.82 < certificate.bound_balancedness < 0.86
    assert set(certificate.binding_L) == {"replica granularity"}


def test_gap_and_balancedness_of_zeros() -> None:
    zero = np.zeros(2)
    certificate = Certificate(
        mean_L=zero,
        bound_L=zero,
        achieved_L=zero,
        is_optimal_L=zero == 0,
        binding_L=("none", "none"),
        target=0.99,
        slots_for_target=None,
    )
    assert (certificate.balancedness, certificate.bound_balancedness, certificate.gap) == (1, 1, 0)
    assert set(certificate.binding_L) <= set(get_args(Binding))

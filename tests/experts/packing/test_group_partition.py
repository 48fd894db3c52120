"""Homes for groups of experts: pencil cases, every partition by brute force, pins and short nodes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experts.problems import DEEPSEEK, problem_of
from tests.fuzz import examples
from weftrace.experts.arrays import Floats
from weftrace.experts.cluster import Cluster, make_cluster
from weftrace.experts.packing.group_partition import best_partition, group_of_expert
from weftrace.experts.problem import NotApplicable
from weftrace.experts.recorded.generator import synthetic_loads

# mean / largest node bound of 58 layers: what hierarchical placement cannot exceed on 32 GPUs in 4 nodes
PUBLISHED = {"logn0.5": 0.975, "logn1": 0.937, "real": 0.923, "zipf1": 0.771}


def test_experts_are_numbered_group_by_group() -> None:
    assert group_of_expert(6, 3).tolist() == [0, 0, 1, 1, 2, 2]


def test_heavy_and_light_groups_share_a_node() -> None:
    # groups of one expert weigh 4, 3, 2, 1: {4, 1} and {3, 2} carry 5 each, so 2.5 on each of two GPUs
    problem = problem_of(np.array([[4.0, 3, 2, 1]]), make_cluster(8, 4, 2), 4)
    partition = best_partition(problem)
    assert not isinstance(partition, NotApplicable)
    home_M = partition.node_of_group_LM[0]
    assert home_M[0] == home_M[3] != home_M[1] == home_M[2]
    assert partition.bound_L.tolist() == [2.5]
    assert partition.is_exact_L.all()


def test_a_hot_expert_bounds_its_node() -> None:
    # 10, 1 | 1, 1 on two nodes of two GPUs with one slot each: no copy is possible, so 10 stays on one GPU
    partition = best_partition(problem_of(np.array([[10.0, 1, 1, 1]]), make_cluster(4, 4, 2), 2))
    assert not isinstance(partition, NotApplicable)
    assert partition.bound_L.tolist() == [10.0]


def test_a_fast_node_takes_the_heavy_group() -> None:
    cluster = make_cluster(4, 4, 2, speed_of_gpu=[1, 1, 3, 3])
    partition = best_partition(problem_of(np.array([[6.0, 6, 2, 2]]), cluster, 2))
    assert not isinstance(partition, NotApplicable)
    assert partition.node_of_group_LM.tolist() == [[1, 0]]
    assert partition.bound_L.tolist() == [2.0]


@pytest.mark.parametrize("kind", PUBLISHED)
def test_published_bounds(kind: str) -> None:
    load_LN = synthetic_loads(kind, 58, 256)
    partition = best_partition(problem_of(load_LN, DEEPSEEK, 8))
    assert not isinstance(partition, NotApplicable)
    assert partition.is_exact_L.all()
    assert (load_LN.sum(axis=1) / 32 / partition.bound_L).mean() == pytest.approx(PUBLISHED[kind], abs=0.001)


def brute_force(load_N: Floats, num_groups: int, slots: int, speed_D: list[float], gpus: int) -> float:
    """Least largest node bound over all orders of groups; nodes of `gpus` GPUs with `slots` slots in all."""
    load_MI = load_N.reshape(num_groups, -1)
    room = num_groups // len(speed_D)

    def bound(groups: tuple[int, ...], speed: float) -> float:
        mine = load_MI[list(groups)].ravel()
        copies = np.ones(len(mine))
        for _ in range(slots - len(mine)):
            open_E = np.where(copies < gpus, mine / copies, -1)
            copies[open_E.argmax()] += open_E.max() >= 0
        return float(max(mine.sum() / (speed * gpus), (mine / copies).max() / speed))

    return min(
        max(bound(order[node * room : (node + 1) * room], speed) for node, speed in enumerate(speed_D))
        for order in permutations(range(num_groups))
    )


@settings(max_examples=examples(60), deadline=None)
@given(
    load_N=st.lists(st.integers(0, 50), min_size=12, max_size=12).filter(any),
    shape=st.sampled_from([(6, 2), (6, 3), (4, 2), (3, 3)]),
    extra=st.integers(0, 2),
    is_fast=st.booleans(),
)
def test_no_partition_is_better(load_N: list[int], shape: tuple[int, int], extra: int, is_fast: bool) -> None:
    num_groups, num_nodes = shape
    gpus, slots_a_gpu = 2, 12 // num_nodes // 2 + extra
    speed_D = [2.0 if is_fast and node == 0 else 1.0 for node in range(num_nodes)]
    cluster = make_cluster(
        slots_a_gpu * gpus * num_nodes, gpus * num_nodes, num_nodes, speed_of_gpu=np.repeat(speed_D, gpus).tolist()
    )
    load_LN = np.array([load_N], dtype=np.float64)
    partition = best_partition(problem_of(load_LN, cluster, num_groups))
    assert not isinstance(partition, NotApplicable)
    assert (np.bincount(partition.node_of_group_LM[0], minlength=num_nodes) == num_groups // num_nodes).all()
    expected = brute_force(load_LN[0], num_groups, slots_a_gpu * gpus, speed_D, gpus)
    assert partition.bound_L[0] == pytest.approx(expected, rel=1e-9)


def test_pins_hold_a_group_to_a_node() -> None:
    load_LN = np.array([[4.0, 3, 2, 1]])
    cluster = make_cluster(8, 4, 2)
    partition = best_partition(problem_of(load_LN, cluster, 4, pins=[(0, 0, 3), (0, 1, 2)]))
    assert not isinstance(partition, NotApplicable)
    assert partition.node_of_group_LM.tolist() == [[1, 1, 0, 0]]


@pytest.mark.parametrize(
    ("cluster", "num_groups", "pins", "why"),
    [
        (make_cluster(9, 3, 3), 4, [], "4 groups cannot be shared evenly by 3 nodes"),
        (make_cluster(8, 4, 2, dead=[1]), 2, [], "node 0 has 2 slots in service for the 4 experts of its groups"),
        (make_cluster(16, 4, 2), 2, [(0, 0, 0), (0, 1, 3)], "loads row 0: pins hold one group to two nodes"),
        (make_cluster(16, 4, 2), 4, [(0, 0, 0), (0, 2, 0), (0, 4, 0)], "pins hold more groups to a node than the 2"),
    ],
)
def test_refusals_say_why(cluster: Cluster, num_groups: int, pins: list[tuple[int, int, int]], why: str) -> None:
    partition = best_partition(problem_of(np.ones((1, 8)), cluster, num_groups, pins=pins))
    assert isinstance(partition, NotApplicable)
    assert why in partition.reason

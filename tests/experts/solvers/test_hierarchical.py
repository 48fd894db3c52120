"""Groups whole on nodes: pencil cases, what every answer keeps, and how near it comes to its bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experts.problems import DEEPSEEK, balancedness_of, check_answer, problem_of, repeats_of, worst_of
from tests.fuzz import examples
from weftrace.experts.cluster import make_cluster
from weftrace.experts.packing.group_partition import best_partition
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.solvers.deepseek import solve_deepseek
from weftrace.experts.solvers.hierarchical import solve_hierarchical
from weftrace.experts.solvers.semi_hierarchical import foreign_replicas

# what the published algorithm reaches, and what ours does
FIGURES = {"logn0.5": (0.967, 0.9750), "logn1": (0.932, 0.9370), "real": (0.919, 0.9230), "zipf1": (0.715, 0.760)}


def solved(problem: Problem) -> Solution:
    answer = solve_hierarchical(problem)
    assert isinstance(answer, Solution), answer
    check_answer(problem, answer)
    return answer


def test_groups_stay_whole_and_copies_stay_on_the_node() -> None:
    # groups (8, 0), (4, 0), (2, 0), (2, 0) on two nodes of two GPUs with three slots
    load_LN = np.array([[8.0, 0, 4, 0, 2, 0, 2, 0]])
    problem = problem_of(load_LN, make_cluster(12, 4, 2), 4)
    answer = solved(problem)
    assert foreign_replicas(answer.expert_of_slot_LP, problem.cluster, 4).tolist() == [[0, 0]]
    # {8, 2} and {4, 2}: 10 on two GPUs, 5 each, for the 8 and the 2 have two copies
    assert worst_of(problem, answer).tolist() == [5.0]


@pytest.mark.parametrize("kind", FIGURES)
def test_figures(kind: str) -> None:
    problem = problem_of(synthetic_loads(kind, 58, 256), DEEPSEEK, 8)
    published, ours = FIGURES[kind]
    reference = solve_deepseek(problem)
    assert isinstance(reference, Solution)
    assert balancedness_of(problem, reference) == pytest.approx(published, abs=0.01)
    answer = solved(problem)
    assert balancedness_of(problem, answer) >= ours
    assert repeats_of(problem, answer) == 0
    partition = best_partition(problem)
    assert not isinstance(partition, NotApplicable)
    assert (worst_of(problem, answer) >= partition.bound_L * (1 - 1e-9)).all()


@pytest.mark.parametrize("kind", FIGURES)
def test_uneven_shares_reach_the_bound(kind: str) -> None:
    problem = problem_of(synthetic_loads(kind, 12, 256), DEEPSEEK, 8, is_even=False)
    partition = best_partition(problem)
    assert not isinstance(partition, NotApplicable)
    np.testing.assert_allclose(worst_of(problem, solved(problem)), partition.bound_L, rtol=1e-6)


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 1000),
    shape=st.sampled_from([(16, 4, 2, 4), (24, 6, 3, 3), (24, 8, 2, 4), (12, 2, 2, 6), (16, 4, 4, 4)]),
    extra=st.integers(0, 4),
    is_even=st.booleans(),
    is_fast=st.booleans(),
)
def test_every_answer_keeps_groups_whole(
    seed: int, shape: tuple[int, int, int, int], extra: int, is_even: bool, is_fast: bool
) -> None:
    num_experts, num_gpus, num_nodes, num_groups = shape
    speed = np.random.default_rng(seed).uniform(0.5, 2, num_gpus).tolist() if is_fast else None
    slots = (num_experts // num_gpus + extra) * num_gpus
    cluster = make_cluster(slots, num_gpus, num_nodes, speed_of_gpu=speed)
    problem = problem_of(synthetic_loads("logn1", 3, num_experts, seed=seed), cluster, num_groups, is_even=is_even)
    answer = solved(problem)
    assert not foreign_replicas(answer.expert_of_slot_LP, cluster, num_groups).any()
    most = num_experts // num_nodes  # experts of a node; a GPU with more slots must repeat some
    repeats = max(0, slots // num_gpus - most) * num_gpus * problem.num_layers
    assert repeats_of(problem, answer) == repeats
    partition = best_partition(problem)
    assert not isinstance(partition, NotApplicable)
    assert (worst_of(problem, answer) >= partition.bound_L * (1 - 1e-9)).all()


def test_dead_gpus_pins_and_unequal_slots() -> None:
    cluster = make_cluster(None, 4, 2, slots_of_gpu=[6, 7, 8, 6], dead=[3])
    load_LN = synthetic_loads("logn1", 4, 16)
    with_pins = problem_of(load_LN, make_cluster(None, 4, 2, slots_of_gpu=[6, 7, 8, 6]), 4, pins=[(1, 0, 3), (2, 5, 0)])
    solved(with_pins)
    solved(problem_of(load_LN, cluster, 4))


def test_it_refuses_what_it_cannot_keep() -> None:
    answer = solve_hierarchical(problem_of(np.ones((2, 16)), make_cluster(18, 6, 3), 4))
    assert isinstance(answer, NotApplicable)
    assert answer.reason == "4 groups cannot be shared evenly by 3 nodes"


def test_the_same_loads_give_the_same_map() -> None:
    problem = problem_of(synthetic_loads("real", 6, 256), DEEPSEEK, 8)
    one, other = solved(problem), solved(problem)
    assert (one.expert_of_slot_LP == other.expert_of_slot_LP).all()

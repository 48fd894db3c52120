"""A few foreign replicas a node: how they are counted, that they stay few, and what they are worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experts.problems import DEEPSEEK, balancedness_of, check_answer, problem_of, repeats_of, worst_of
from tests.fuzz import examples
from weftrace.experts.cluster import make_cluster
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.solvers.hierarchical import solve_hierarchical
from weftrace.experts.solvers.semi_hierarchical import foreign_replicas, solve_semi_hierarchical


def solved(problem: Problem) -> Solution:
    answer = solve_semi_hierarchical(problem)
    assert isinstance(answer, Solution), answer
    check_answer(problem, answer)
    foreign_LD = foreign_replicas(answer.expert_of_slot_LP, problem.cluster, problem.num_groups)
    assert foreign_LD.max() <= problem.max_foreign
    return answer


def test_foreign_replicas_by_hand() -> None:
    # node 0: 0 0 1 | 2    node 1: 2 3 3 | 1    groups (0 1) and (2 3): expert 2 is a guest on node 0, 1 on node 1
    map_LP = np.array([[0, 0, 1, 2, 2, 3, 3, 1], [0, 1, 0, 1, 2, 3, 2, 3]])
    assert foreign_replicas(map_LP, make_cluster(8, 4, 2), 2).tolist() == [[1, 1], [0, 0]]


def test_an_empty_slot_is_no_replica() -> None:
    assert foreign_replicas(np.array([[0, -1, 1, -1]]), make_cluster(4, 2, 2), 2).tolist() == [[0, 0]]


def test_one_exchange_evens_two_nodes() -> None:
    # groups (5 3 2) and (3 2 1), each on a node of one GPU: 10 and 6; the first 5 for the other 3 makes both 8
    problem = problem_of(np.array([[5.0, 3, 2, 3, 2, 1]]), make_cluster(6, 2, 2), 2, max_foreign=1)
    answer = solved(problem)
    assert worst_of(problem, answer).tolist() == [8.0]
    assert foreign_replicas(answer.expert_of_slot_LP, problem.cluster, 2).tolist() == [[1, 1]]


@pytest.mark.parametrize(("kind", "ours"), [("logn0.5", 0.9998), ("logn1", 0.9995), ("real", 0.9992), ("zipf1", 0.996)])
def test_four_foreign_replicas_even_the_nodes(kind: str, ours: float) -> None:
    problem = problem_of(synthetic_loads(kind, 58, 256), DEEPSEEK, 8)
    answer = solved(problem)
    assert balancedness_of(problem, answer) >= ours
    assert repeats_of(problem, answer) == 0


def test_uneven_shares_even_the_hardest_loads() -> None:
    problem = problem_of(synthetic_loads("zipf1", 24, 256), DEEPSEEK, 8, is_even=False)
    assert balancedness_of(problem, solved(problem)) >= 0.999


def test_without_foreign_replicas_it_is_the_hierarchical_policy() -> None:
    problem = problem_of(synthetic_loads("real", 8, 256), DEEPSEEK, 8, max_foreign=0)
    whole = solve_hierarchical(problem)
    assert isinstance(whole, Solution)
    assert (worst_of(problem, solved(problem)) <= worst_of(problem, whole)).all()


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 1000),
    shape=st.sampled_from([(16, 4, 2, 4), (24, 6, 3, 3), (24, 8, 2, 4), (12, 2, 2, 6), (16, 4, 4, 4)]),
    extra=st.integers(0, 3),
    max_foreign=st.integers(0, 4),
    is_even=st.booleans(),
    is_fast=st.booleans(),
)
def test_it_is_never_worse_than_hierarchical(
    seed: int, shape: tuple[int, int, int, int], extra: int, max_foreign: int, is_even: bool, is_fast: bool
) -> None:
    num_experts, num_gpus, num_nodes, num_groups = shape
    speed = np.random.default_rng(seed).uniform(0.5, 2, num_gpus).tolist() if is_fast else None
    cluster = make_cluster((num_experts // num_gpus + extra) * num_gpus, num_gpus, num_nodes, speed_of_gpu=speed)
    load_LN = synthetic_loads("logn1", 3, num_experts, seed=seed)
    problem = problem_of(load_LN, cluster, num_groups, is_even=is_even, max_foreign=max_foreign)
    whole, answer = solve_hierarchical(problem), solved(problem)
    assert isinstance(whole, Solution)
    assert repeats_of(problem, answer) <= repeats_of(problem, whole)
    if repeats_of(problem, whole) == 0:
        assert (worst_of(problem, answer) <= worst_of(problem, whole) * (1 + 1e-12)).all()


def test_a_node_short_of_slots_sends_experts_abroad() -> None:
    # 256 experts on 288 slots; a dead GPU leaves its node 63 slots for its 64 experts
    cluster = make_cluster(288, 32, 4, dead=[5])
    problem = problem_of(synthetic_loads("logn1", 3, 256), cluster, 8)
    assert isinstance(solve_hierarchical(problem), NotApplicable)
    assert balancedness_of(problem, solved(problem)) > 0.97


def test_a_pin_may_be_foreign() -> None:
    # experts 0 and 1 are of one group, and pinned to two nodes
    problem = problem_of(synthetic_loads("logn1", 1, 16), make_cluster(20, 4, 2), 4, pins=[(0, 0, 0), (0, 1, 3)])
    assert isinstance(solve_hierarchical(problem), NotApplicable)
    solved(problem)


def test_too_many_pins_are_refused() -> None:
    pins = [(0, expert, 3 * (expert % 2)) for expert in range(8)]
    problem = problem_of(np.ones((1, 16)), make_cluster(20, 4, 2), 2, max_foreign=1, pins=pins)
    answer = solve_semi_hierarchical(problem)
    assert isinstance(answer, NotApplicable)
    assert answer.reason.startswith("loads row 0: the slots in service or the pins need more than 1 foreign replicas")

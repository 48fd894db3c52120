"""Wrap-around placements: exactly balanced whatever the loads, where there are N + G - 1 slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.experts.arrays import Floats
from weftrace.experts.cluster import make_cluster
from weftrace.experts.packing.shares import best_shares
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.recorded.generator import KINDS, synthetic_loads
from weftrace.experts.slots import copies_of, load_of_gpus, num_repeats
from weftrace.experts.solvers.wrap_around import solve_wrap_around


def asked(
    load_LN: Floats | list[list[float]],
    num_slots: int,
    num_gpus: int,
    *,
    is_even: bool = False,
    dead: Sequence[int] = (),
    speeds: Sequence[float] | None = None,
    pins: Sequence[tuple[int, int, int]] = (),
) -> Problem:
    load_LN = np.array(load_LN, dtype=np.float64)
    cluster = make_cluster(num_slots, num_gpus, dead=dead, speed_of_gpu=speeds)
    capacity_LG = np.minimum(np.tile(cluster.capacity_G, (len(load_LN), 1)), load_LN.shape[1])
    return Problem(
        load_LN=load_LN,
        cluster=cluster,
        capacity_LG=capacity_LG,
        num_groups=1,
        pins_K3=np.array(pins, dtype=np.int64).reshape(-1, 3),
        is_even=is_even,
    )


def solved(problem: Problem) -> Solution:
    """The solution, after a check of everything that a solver owes."""
    solution = solve_wrap_around(problem)
    assert isinstance(solution, Solution)
    first_slot_G = problem.cluster.first_slot_G
    copies_LN = copies_of(solution.expert_of_slot_LP, problem.num_experts)
    assert (copies_LN >= 1).all() and (copies_LN <= problem.cluster.num_gpus).all()
    assert not num_repeats(solution.expert_of_slot_LP, first_slot_G).any()
    for gpu in range(problem.cluster.num_gpus):
        filled_LS = solution.expert_of_slot_LP[:, first_slot_G[gpu] : first_slot_G[gpu + 1]] >= 0
        np.testing.assert_array_equal(filled_LS, np.arange(filled_LS.shape[1]) < problem.capacity_LG[:, gpu, None])
    for experts_P, share_P in zip(solution.expert_of_slot_LP, solution.share_LP, strict=True):
        used_P = experts_P >= 0
        assert (share_P >= 0).all() and not share_P[~used_P].any()
        np.testing.assert_allclose(np.bincount(experts_P[used_P], share_P[used_P]), 1, rtol=1e-12)
    return solution


def balancedness(problem: Problem, solution: Solution, load_LN: Floats | None = None) -> Floats:
    load_LN = problem.load_LN if load_LN is None else load_LN
    load_LG = load_of_gpus(solution.expert_of_slot_LP, solution.share_LP, load_LN, problem.cluster.first_slot_G)
    share: Floats = load_LN.sum(axis=1) / int(problem.cluster.usable_G.sum()) / load_LG.max(axis=1)
    return share


def test_two_gpus_by_pencil() -> None:
    # Loads 1, 2, 5: W = 8, 4 a GPU. The hottest is cut: GPU 0 takes the 1 and 3 of the 5, or the 2 and 2 of the 5.
    # Both are as far from half of 5, and then the higher window is taken. GPU 1 gets the 1 and the other 3.
    problem = asked([[1, 2, 5]], 4, 2)
    solution = solved(problem)
    assert solution.expert_of_slot_LP.tolist() == [[1, 2, 0, 2]]
    np.testing.assert_allclose(solution.share_LP, [[1, 2 / 5, 1, 3 / 5]])


def test_one_expert_is_shared_by_all_gpus() -> None:
    solution = solved(asked([[6]], 3, 3))
    assert solution.expert_of_slot_LP.tolist() == [[0, 0, 0]]
    np.testing.assert_allclose(solution.share_LP, 1 / 3)


def test_more_slots_than_needed_hold_copies_of_the_hottest() -> None:
    problem = asked([[1, 1, 10]], 6, 2)  # as many as every expert on every GPU
    assert copies_of(solved(problem).expert_of_slot_LP, 3).tolist() == [[2, 2, 2]]


def problems(draw: st.DrawFn) -> Problem:
    num_gpus, num_experts = draw(st.integers(1, 9)), draw(st.integers(1, 24))
    fewest = -(-(num_experts + num_gpus - 1) // num_gpus)  # S >= (N + G - 1) / G
    slots = draw(st.integers(fewest, num_experts))
    load = draw(
        st.sampled_from(
            [
                st.just(1.0),
                st.integers(0, 3).map(float),
                st.floats(1e-6, 1e6),
                st.sampled_from([0.0, 1e-9, 1.0, 1e9]),
            ]
        )
    )
    loads = draw(st.lists(load, min_size=num_experts, max_size=num_experts))
    return asked([loads, loads[::-1]] if any(loads) else [[1.0] * num_experts], slots * num_gpus, num_gpus)


@settings(max_examples=examples(400), deadline=None)
@given(st.composite(problems)())
def test_every_layer_is_exactly_balanced(problem: Problem) -> None:
    assert balancedness(problem, solved(problem)).min() > 1 - 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("num_experts", "num_slots"), [(256, 288), (128, 160), (384, 416), (256, 512)])
def test_figures(kind: str, num_experts: int, num_slots: int) -> None:
    problem = asked(synthetic_loads(kind, 12, num_experts, seed=1), num_slots, 32)
    assert balancedness(problem, solved(problem)).min() > 0.999999999


def test_a_new_split_follows_loads_that_change() -> None:
    """Loads move by 15 %: the same map keeps most of its balance if it is split anew, and loses it otherwise."""
    load_LN = synthetic_loads("real", 29, 256, seed=0)
    problem = asked(load_LN, 288, 32)
    solution = solved(problem)
    moved_LN = load_LN * np.exp(0.15 * np.random.default_rng(1).standard_normal(load_LN.shape))
    share_LP = best_shares(solution.expert_of_slot_LP, moved_LN, problem.cluster.first_slot_G, problem.cluster.speed_G)
    again = Solution(expert_of_slot_LP=solution.expert_of_slot_LP, share_LP=share_LP)
    assert balancedness(problem, solution, moved_LN).mean() < 0.90
    assert balancedness(problem, again, moved_LN).mean() > 0.97


def test_dead_gpus_are_left_out() -> None:
    problem = asked(synthetic_loads("logn1", 3, 32), 56, 8, dead=[0, 5])  # 42 slots in service, 37 needed
    assert balancedness(problem, solved(problem)).min() > 1 - 1e-9


def test_the_same_loads_give_the_same_placement() -> None:
    problem = asked(np.round(synthetic_loads("zipf1", 4, 64)), 80, 8)
    assert solved(problem).expert_of_slot_LP.tolist() == solved(problem).expert_of_slot_LP.tolist()


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (asked([[1] * 8], 8, 2), "needs P >= N + G - 1 = 9 slots, and P is 8"),
        (asked([[1] * 8], 10, 2, is_even=True), "the split is even"),
        (asked([[1] * 8], 10, 2, pins=[(0, 1, 1)]), "cannot keep pins"),
        (asked([[1] * 8], 10, 2, speeds=[1, 2]), "one speed"),
    ],
)
def test_refusals_say_why(problem: Problem, reason: str) -> None:
    answer = solve_wrap_around(problem)
    assert isinstance(answer, NotApplicable) and reason in answer.reason

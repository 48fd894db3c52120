"""The front door: what is asked is what comes, the best of each layer is kept, the policy is chosen by cost."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

from tests.fuzz import few
from weftrace.experts.certificate import Certificate
from weftrace.experts.cluster import make_cluster
from weftrace.experts.constraints import make_problem
from weftrace.experts.placement import Choice, Placement
from weftrace.experts.problem import NotApplicable
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.slots import num_repeats
from weftrace.experts.solvers.balance import balance
from weftrace.experts.solvers.candidates import POLICIES, best_of
from weftrace.experts.solvers.deepseek import published_placement, rebalance_experts

PUBLISHED = [  # the example of DeepSeek's README: 12 experts, 4 groups, 16 slots, 8 GPUs, 2 nodes
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]


def certificate_of(placement: Placement) -> Certificate:
    assert placement.certificate is not None
    return placement.certificate


def choice_of(placement: Placement) -> Choice:
    assert placement.choice is not None
    return placement.choice


def test_with_a_pencil() -> None:
    """Loads 4 3 2 1 on two GPUs of two slots: 4 + 1 and 3 + 2."""
    placement = balance([[4, 3, 2, 1]], 4, 2)
    assert sorted(sorted(gpu) for gpu in placement.phy2log.reshape(2, 2).tolist()) == [[0, 3], [1, 2]]
    assert placement.gpu_load([[4, 3, 2, 1]]).tolist() == [[5, 5]]
    assert (placement.policy, placement.is_even) == ("global", True)
    assert certificate_of(placement).is_optimal_L.all()
    assert choice_of(placement).costs == ()


def test_published_example_is_never_worse_than_published() -> None:
    published = rebalance_experts(PUBLISHED, 16, 4, 2, 8)[0]
    shares = 1 / np.take_along_axis(np.array([np.bincount(row) for row in published]), published, axis=1)
    load_LG = (np.take_along_axis(np.array(PUBLISHED), published, axis=1) * shares).reshape(2, 8, 2).sum(axis=2)
    placement = balance(PUBLISHED, 16, 8, 2, 4, policy="hierarchical")
    assert (placement.gpu_load(PUBLISHED).max(axis=1) <= load_LG.max(axis=1) * (1 + 1e-9)).all()
    groups = np.array([sorted({e // 3 for e in row[:8]}) for row in placement.phy2log.tolist()])
    assert groups.shape == (2, 2)  # two whole groups on the first node, so two on the second
    assert placement.policy == "hierarchical"


def test_the_policy_is_chosen_by_cost() -> None:
    placement = balance(synthetic_loads("real", 3, 64, seed=0), 96, 16, 4, 8, time_budget_s=0)
    costs = choice_of(placement).costs
    assert {cost.policy for cost in costs} == set(POLICIES)
    assert costs[0].policy == placement.policy
    assert [cost.total_us for cost in costs] == sorted(cost.total_us for cost in costs)
    of = {cost.policy: cost.balancedness for cost in costs}
    assert of["hierarchical"] <= of["semi-hierarchical"] * (1 + 1e-9)
    assert of["hierarchical"] < of["global"]
    for policy in POLICIES:
        asked = balance(synthetic_loads("real", 3, 64, seed=0), 96, 16, 4, 8, policy=policy, time_budget_s=0)
        assert asked.policy == policy
        assert asked.balancedness(synthetic_loads("real", 3, 64, seed=0)).mean() == pytest.approx(of[policy])


@pytest.mark.parametrize(
    ("numbers", "why"),
    [((8, 4), "there is one node"), ((8, 4, 2, 1), "1 groups cannot be shared evenly by 2 nodes")],
)
def test_says_why_a_policy_was_ruled_out(numbers: tuple[int, ...], why: str) -> None:
    choice = choice_of(balance([[4, 3, 2, 1]], *numbers))
    assert dict(choice.ruled_out) == {"hierarchical": why, "semi-hierarchical": why}


def test_where_every_gpu_holds_every_expert_there_is_nothing_to_choose() -> None:
    placement = balance([[4, 3, 2, 1]], 16, 4, 2, 2)
    assert placement.policy == "global"
    assert certificate_of(placement).balancedness == pytest.approx(1)
    assert dict(choice_of(placement).ruled_out)["hierarchical"] == "every GPU holds every expert"


def test_more_slots_than_copies_that_make_sense() -> None:
    """Two experts, three slots on each of two GPUs: both on each, and the third slots repeat the same expert."""
    placement = balance([[3, 1]], 6, 2)
    assert placement.logcnt.sum() == 6
    assert sorted(placement.logcnt[0].tolist()) == [2, 4]
    assert placement.gpu_load([[3, 1]]).tolist() == [[2, 2]]
    unequal = balance([[3, 1]], num_gpus=2, slots_of_gpu=[3, 2])
    assert (unequal.phy2log[0] == -1).sum() == 1
    assert unequal.gpu_load([[3, 1]]).tolist() == [[2, 2]]
    hierarchical = balance([[3, 1, 3, 1]], 24, 4, 2, 2, policy="hierarchical")
    assert hierarchical.gpu_load([[3, 1, 3, 1]]).tolist() == [[2, 2, 2, 2]]
    assert set(hierarchical.phy2log[0, :12].tolist()) in ({0, 1}, {2, 3})


def test_dead_and_draining_gpus_take_nothing() -> None:
    loads = synthetic_loads("logn1", 3, 16, seed=0)
    placement = balance(loads, 32, 8, dead=[2], draining=[5])
    by_gpu = placement.phy2log.reshape(3, 8, 4)
    assert (by_gpu[:, [2, 5]] == -1).all()
    assert (by_gpu[:, [0, 1, 3, 4, 6, 7]] >= 0).all()
    assert certificate_of(placement).balancedness > 0.97


def test_pins_are_kept() -> None:
    loads = synthetic_loads("logn1", 3, 16, seed=0)
    placement = balance(loads, 24, 8, pins=[(3, 7), (1, 5, 0)])
    by_gpu = placement.phy2log.reshape(3, 8, 3)
    assert (by_gpu[:, 7] == 3).any(axis=1).all()
    assert 5 in by_gpu[1, 0]


def test_speeds_are_used() -> None:
    loads = synthetic_loads("logn0.5", 4, 64, seed=0)
    speed = [1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0]
    placement = balance(loads, 80, 8, speed_of_gpu=speed)
    assert (placement.gpu_load(loads)[:, 3] < placement.gpu_load(loads)[:, 0] * 0.6).all()
    assert certificate_of(placement).balancedness > 0.98


def test_slots_of_layer_are_filled_and_no_more() -> None:
    loads = synthetic_loads("logn1", 3, 16, seed=0)
    placement = balance(loads, num_gpus=8, slots_of_layer=[16, 20, 24])
    assert placement.num_slots == 24
    assert placement.logcnt.sum(axis=1).tolist() == [16, 20, 24]
    filled_LG = (placement.phy2log.reshape(3, 8, 3) >= 0).sum(axis=2)
    assert filled_LG.max(axis=1).tolist() == [2, 3, 3]
    assert filled_LG.min(axis=1).tolist() == [2, 2, 3]


def test_gpus_that_take_one_more_rotate() -> None:
    placement = balance(synthetic_loads("logn1", 4, 16, seed=0), num_gpus=8, slots_of_layer=[20, 20, 20, 20])
    held_G = (placement.phy2log.reshape(4, 8, 3) >= 0).sum(axis=(0, 2))
    assert held_G.tolist() == [10] * 8


def test_uneven_split_is_perfect_with_enough_slots() -> None:
    loads = synthetic_loads("real", 4, 64, seed=0)
    placement = balance(loads, 80, 16, split="uneven")
    assert not placement.is_even
    assert certificate_of(placement).is_optimal_L.all()
    assert placement.balancedness(loads).min() == pytest.approx(1)


def test_no_layer_is_worse_with_more_time() -> None:
    loads = synthetic_loads("real", 6, 64, seed=0)
    quick, longer = (balance(loads, 72, 18, time_budget_s=seconds) for seconds in (0, 0.3))
    assert (longer.balancedness(loads) >= quick.balancedness(loads) * (1 - 1e-12)).all()
    assert longer.balancedness(loads).mean() > quick.balancedness(loads).mean()


def test_same_input_same_output() -> None:
    loads = synthetic_loads("logn1", 3, 32, seed=0)
    one, other = (balance(loads, 48, 8, 2, 4, time_budget_s=0.1) for _ in range(2))
    assert one.phy2log.tolist() == other.phy2log.tolist()
    assert one.share_of_slot_LP.tolist() == other.share_of_slot_LP.tolist()


def test_a_cluster_may_be_given_whole() -> None:
    cluster = make_cluster(8, 4, dead=[1])
    placement = balance([[4, 3, 2, 1]], cluster=cluster)
    assert placement.cluster is cluster


def test_one_slot_a_gpu_is_spread_over_nodes() -> None:
    """Experts in order put the copies of the hottest together; GPUs change places until nodes are loaded alike."""
    loads = synthetic_loads("zipf1", 4, 48, seed=0)
    load_LD = balance(loads, 64, 64, 8).gpu_load(loads).reshape(4, 8, 8).sum(axis=2)
    assert (load_LD.mean(axis=1) / load_LD.max(axis=1)).mean() > 0.98


def test_progress_names_each_step() -> None:
    steps: list[str] = []
    balance([[4, 3, 2, 1]], 8, 4, 2, 2, on_progress=steps.append)
    assert steps[0] == "global: deepseek"
    assert {step.split(":")[0] for step in steps} == set(POLICIES)


def test_every_candidate_is_named() -> None:
    loads = synthetic_loads("logn1", 5, 32, seed=0)
    placement = balance(loads, 48, 8, time_budget_s=0)
    tried: list[str] = []
    best = best_of(make_problem(loads, make_cluster(48, 8)), "global", tried.append)
    assert not isinstance(best, NotApplicable)
    assert set(placement.solver_of_layer) <= set(tried)
    assert "deepseek" in tried


def test_results_cannot_be_changed() -> None:
    placement = balance([[4, 3, 2, 1]], 4, 2)
    with pytest.raises(ValueError, match="read-only"):
        placement.phy2log[0, 0] = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        placement.policy = "hierarchical"  # type: ignore[misc]


def test_no_expert_twice_on_a_gpu_where_the_published_algorithm_puts_it() -> None:
    loads = synthetic_loads("zipf1", 6, 64, seed=1)
    published = rebalance_experts(loads, 288, 1, 1, 32, order="stable")[0]
    first_slot_G = make_cluster(288, 32).first_slot_G
    assert num_repeats(published, first_slot_G).any()
    assert not num_repeats(balance(loads, 288, 32).phy2log, first_slot_G).any()


def test_semi_hierarchical_takes_a_global_answer_that_keeps_to_it() -> None:
    """Two groups of two experts on two nodes of one GPU with three slots: one guest a node, and no repeats."""
    placement = balance([[5, 3, 2, 1]], 6, 2, 2, 2, policy="semi-hierarchical")
    assert placement.balancedness([[5, 3, 2, 1]]).tolist() == pytest.approx([5.5 / 6])
    assert all(len(set(gpu)) == 3 for gpu in placement.phy2log.reshape(2, 3).tolist())


@pytest.mark.parametrize(("slots", "gpus"), [(72, 36), (96, 24)])
def test_uneven_parts_are_never_worse_than_even_ones(slots: int, gpus: int) -> None:
    loads = synthetic_loads("real", 4, 64)
    even = balance(loads, slots, gpus, policy="global")
    uneven = balance(loads, slots, gpus, policy="global", split="uneven")
    assert (uneven.balancedness(loads) >= even.balancedness(loads) - 1e-9).all()


@pytest.mark.parametrize(
    ("num_layers", "num_experts", "num_slots", "num_gpus", "num_nodes", "num_groups"),
    few([(100, 8, 16, 4, 2, 2), (30, 128, 256, 128, 16, 16), (40, 512, 1024, 512, 64, 1)], 2),
)
def test_no_time_budget_answers_at_once(
    num_layers: int, num_experts: int, num_slots: int, num_gpus: int, num_nodes: int, num_groups: int
) -> None:
    """Shapes whose searches took 5 to 9 s each: what is cut off still is a placement, no worse than the published one.

    Seconds of this process, as other processes share the machine; the first call loads the compiled code.
    """
    loads = synthetic_loads("real", num_layers, num_experts)
    shape = (num_slots, num_gpus, num_nodes, num_groups)
    balance(loads[:1], *shape, time_budget_s=0)
    start = time.process_time()
    placement = balance(loads, *shape, time_budget_s=0)
    assert time.process_time() - start < 2.0
    assert (placement.logcnt >= 1).all() and placement.certificate is not None
    published = published_placement(loads, placement.cluster, num_groups)
    assert isinstance(published, Placement)
    if published.policy == placement.policy:  # which may put an expert twice on a GPU, and gains little by it
        assert placement.balancedness(loads).mean() >= published.balancedness(loads).mean() - 1e-3
    again = balance(loads, *shape, time_budget_s=0)
    np.testing.assert_array_equal(again.expert_of_slot_LP, placement.expert_of_slot_LP)

"""Re-plans: near the old placement, never worse, every rule kept, and close to a full plan under slow drift."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.errors import LoadsError, PlacementError
from weftrace.experts.arrays import Floats
from weftrace.experts.cluster import Cluster, make_cluster
from weftrace.experts.constraints import make_problem
from weftrace.experts.moves.moves import moves_between
from weftrace.experts.moves.replan import Replan, replan
from weftrace.experts.packing.packing import solve_lpt_swaps
from weftrace.experts.placement import Placement, make_placement
from weftrace.experts.problem import NotApplicable, Solver
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.slots import num_repeats
from weftrace.experts.solvers.balance import balance
from weftrace.experts.solvers.deepseek import solve_deepseek
from weftrace.experts.solvers.hierarchical import solve_hierarchical
from weftrace.experts.solvers.resplit import resplit
from weftrace.experts.solvers.semi_hierarchical import foreign_replicas, solve_semi_hierarchical
from weftrace.experts.solvers.wrap_around import solve_wrap_around


def placed(slots: list[list[int]], gpus: int, nodes: int = 1, **options: Any) -> Placement:
    return make_placement(slots, make_cluster(np.shape(slots)[1], gpus, nodes), int(np.max(slots)) + 1, **options)


def planned(
    solver: Solver, loads: Floats, cluster: Cluster, *, split: str = "even", groups: int = 1, policy: str = "global"
) -> Placement:
    solution = solver(make_problem(loads, cluster, num_groups=groups, split=split))
    assert not isinstance(solution, NotApplicable)
    shares = None if split == "even" else solution.share_LP
    return make_placement(solution.expert_of_slot_LP, cluster, loads.shape[1], shares=shares, policy=policy)


def drifted(loads: Floats, correlation: float, seed: int) -> Floats:
    """One window on: log-loads of "real" loads as an AR(1) process of the same spread."""
    sigma_L1 = np.linspace(0.6, 1.6, len(loads))[:, None]
    log_LN = np.log(loads) - np.log(loads).mean(axis=1, keepdims=True)
    noise_LN = np.random.default_rng(seed).standard_normal(loads.shape)
    next_LN = np.exp(correlation * log_LN + np.sqrt(1 - correlation**2) * sigma_L1 * noise_LN)
    scaled_LN: Floats = next_LN / next_LN.mean(axis=1, keepdims=True)
    return scaled_LN


def check(summary: Replan, old: Placement, max_moves: float | None) -> None:
    """What holds for every re-plan."""
    new, cluster = summary.placement, summary.placement.cluster
    filled_LP = new.expert_of_slot_LP >= 0
    assert (new.logcnt >= 1).all()
    assert not filled_LP[:, ~cluster.usable_G[cluster.gpu_of_slot_P]].any()
    make_placement(new.expert_of_slot_LP, cluster, new.num_experts, shares=new.share_of_slot_LP)  # shares sum to 1
    changed_LP = filled_LP & (new.expert_of_slot_LP != old.expert_of_slot_LP)
    assert summary.num_moves == changed_LP.sum() == moves_between(old, new).num_moves
    if max_moves is not None:
        assert summary.num_moves <= summary.num_forced + int(max_moves * (old.expert_of_slot_LP >= 0).sum())
    first_slot_G = cluster.first_slot_G
    assert (num_repeats(new.expert_of_slot_LP, first_slot_G) <= num_repeats(old.expert_of_slot_LP, first_slot_G)).all()


def test_one_swap_balances_two_gpus() -> None:
    old = placed([[0, 1, 2, 3]], 2)
    summary = replan(old, [[4, 3, 2, 1]], max_moves=None)  # 7 and 3; 1 for 2 swapped gives 5 and 5
    assert (summary.num_moves, summary.num_forced, summary.after) == (2, 0, 1)
    assert summary.before == pytest.approx(5 / 7)
    assert sorted(map(sorted, summary.placement.phy2log.reshape(2, 2).tolist())) == [[0, 3], [1, 2]]
    check(summary, old, None)


def test_one_copy_relieves_the_fullest() -> None:
    # 0 has become hot and 3, with two copies, cold: one slot of 3 becomes a copy of 0
    old = placed([[0, 1, 3, 2, 3, 4]], 3)
    summary = replan(old, [[6, 2, 2, 0.1, 2]], max_moves=1 / 6)
    assert summary.num_moves == 1
    assert summary.placement.logcnt.tolist() == [[2, 1, 1, 1, 1]]
    assert summary.after == pytest.approx(12.1 / 3 / 5)


def test_the_budget_holds_and_zero_moves_nothing() -> None:
    old = placed([[0, 1, 2, 3]], 2)
    for max_moves in (0, 0.25):  # a swap needs two of four
        assert replan(old, [[4, 3, 2, 1]], max_moves=max_moves).num_moves == 0


def test_a_gain_that_is_too_small_moves_nothing() -> None:
    old = placed([[0, 1, 2, 3]], 2)
    assert replan(old, [[4, 3, 2, 1]], max_moves=1, min_gain=0.14).num_moves == 2  # 2/7 of balancedness for two slots
    assert replan(old, [[4, 3, 2, 1]], max_moves=1, min_gain=0.15).num_moves == 0


def test_layers_without_load_stay() -> None:
    old = placed([[0, 1, 2, 3]] * 2, 2)
    summary = replan(old, [[0, 0, 0, 0], [4, 3, 2, 1]], max_moves=1)
    assert summary.placement.phy2log[0].tolist() == [0, 1, 2, 3]
    assert summary.after_L.tolist() == [1, 1]


def test_the_budget_goes_where_it_gains_most() -> None:
    old = placed([[0, 1, 2, 3]] * 2, 2)
    summary = replan(old, [[4, 3.5, 3, 2.5], [9, 8, 2, 1]], max_moves=0.25)  # two of eight slots
    assert summary.placement.phy2log[0].tolist() == [0, 1, 2, 3]
    assert summary.after_L[1] == 1


def test_a_dead_gpus_only_copies_come_first() -> None:
    old = placed([[0, 1, 2, 3, 0, 2]], 3)
    summary = replan(old, [[4, 1, 2, 1]], cluster=make_cluster(6, 3, dead=[0]), max_moves=0)
    assert (summary.num_forced, summary.num_moves) == (1, 1)
    # 0 survives on GPU 2; 1 takes the place of a 2, and GPUs of 3 and 5 are better than of 2 and 6
    assert summary.placement.phy2log.tolist() == [[-1, -1, 2, 3, 0, 1]]
    check(summary, old, 0)


def test_too_few_slots_are_left() -> None:
    with pytest.raises(PlacementError, match=r"5 experts do not fit into 4 slots in service \(2 on dead"):
        replan(placed([[0, 1, 2, 3, 0, 4]], 3), [[1, 1, 1, 1, 1]], cluster=make_cluster(6, 3, draining=[1]))


def test_a_gpu_that_comes_back_is_filled() -> None:
    loads = synthetic_loads("logn1", 3, 20)
    full, one_less = make_cluster(32, 8), make_cluster(32, 8, dead=[2])
    shrunk = replan(planned(solve_lpt_swaps, loads, full), loads, cluster=one_less).placement
    summary = replan(shrunk, loads, cluster=full, max_moves=0.1)
    assert summary.num_forced == 3 * 4
    assert (summary.placement.phy2log >= 0).all()
    check(summary, shrunk, 0.1)


def test_pins_are_made_true_and_kept() -> None:
    loads = synthetic_loads("real", 4, 24)
    old = planned(solve_lpt_swaps, loads, make_cluster(32, 8))
    pins = [(5, 1), (2, 9, 7), (2, 10, 7)]
    summary = replan(old, loads[::-1].copy(), pins=pins, max_moves=0.5)
    on_gpu = summary.placement.phy2log.reshape(4, 8, 4)
    assert (on_gpu[:, 1] == 5).any(axis=1).all()
    assert {9, 10} <= set(on_gpu[2, 7].tolist())
    check(summary, old, 0.5)


def test_a_pin_that_pushes_out_an_only_copy() -> None:
    # GPU 0's experts have no other copies; 2 is pinned there, so 0 or 1 has to go to the place of a 2
    summary = replan(placed([[0, 1, 2, 3, 2, 4]], 3), [[1, 1, 1, 1, 1]], pins=[(2, 0)], max_moves=0)
    assert (summary.placement.logcnt >= 1).all()
    assert 2 in summary.placement.phy2log[0, :2]
    with pytest.raises(PlacementError, match="GPU 0, which has 2 slots"):
        replan(placed([[0, 1, 2, 3, 2, 4]], 3), [[1, 1, 1, 1, 1]], pins=[(2, 0), (3, 0), (4, 0)])


def test_groups_stay_on_their_nodes() -> None:
    loads = synthetic_loads("real", 4, 64)
    old = planned(solve_hierarchical, loads, make_cluster(96, 16, 4), groups=8, policy="hierarchical")
    summary = replan(old, loads[::-1].copy(), max_moves=0.3, num_groups=8)
    check(summary, old, 0.3)
    assert summary.after > summary.before + 0.05
    for layer in range(4):
        nodes = summary.placement.phy2log[layer].reshape(4, 24) // 8
        assert sum(len(set(node.tolist())) for node in nodes) == 8
    free = replan(make_placement(old.phy2log, old.cluster, 64), loads[::-1].copy(), max_moves=0.3)
    assert free.after > summary.after


def test_foreign_replicas_do_not_multiply() -> None:
    loads = synthetic_loads("real", 4, 256)
    old = planned(solve_semi_hierarchical, loads, make_cluster(288, 32, 4), groups=8, policy="semi-hierarchical")
    summary = replan(old, drifted(loads, 0.98, seed=100), max_moves=0.06, num_groups=8)
    foreign = [foreign_replicas(each.expert_of_slot_LP, old.cluster, 8) for each in (old, summary.placement)]
    assert (foreign[1] <= np.maximum(foreign[0], 4)).all()
    assert foreign[0].any()
    assert summary.after > summary.before + 0.05


def test_a_slow_gpu_gets_less() -> None:
    loads = synthetic_loads("logn0.5", 4, 64)
    old = planned(solve_lpt_swaps, loads, make_cluster(80, 8))
    slow = make_cluster(80, 8, speed_of_gpu=[0.5] + [1] * 7)
    summary = replan(old, loads, cluster=slow, max_moves=0.3)
    gpu_load = summary.placement.gpu_load(loads).mean(axis=0)
    assert gpu_load[0] == pytest.approx(gpu_load[1:].mean() / 2, rel=0.05)
    assert summary.after > 0.98


def test_an_uneven_split_is_at_least_a_resplit() -> None:
    loads = synthetic_loads("real", 6, 64)
    old = planned(solve_wrap_around, loads, make_cluster(80, 16), split="uneven")
    later = drifted(loads, 0.9, seed=100)
    alone = resplit(old, later).balancedness(later)
    for max_moves in (0, 0.02, 0.06):
        summary = replan(old, later, max_moves=max_moves)
        assert (summary.after_L >= alone - 1e-9).all()
        check(summary, old, max_moves)
    assert summary.after > alone.mean() + 0.05


def test_bad_input() -> None:
    old = placed([[0, 1, 2, 3]], 2)
    with pytest.raises(LoadsError, match="not finite"):
        replan(old, [[1, 2, 3, float("nan")]])
    with pytest.raises(PlacementError, match="1 layers and 4 experts, and the loads of 1 and 3"):
        replan(old, [[1, 2, 3]])
    with pytest.raises(PlacementError, match="0 to 1, or None; not 6"):
        replan(old, [[1, 2, 3, 4]], max_moves=6)
    with pytest.raises(PlacementError, match="min_gain"):
        replan(old, [[1, 2, 3, 4]], min_gain=-1)
    with pytest.raises(PlacementError, match="num_paths"):
        replan(old, [[1, 2, 3, 4]], num_paths=0)
    with pytest.raises(PlacementError, match="on 2 GPUs in 1 nodes, and the new one on 4 in 1"):
        replan(old, [[1, 2, 3, 4]], cluster=make_cluster(4, 4))


@settings(max_examples=examples(80))
@given(data=st.data())
def test_any_replan(data: st.DataObject) -> None:
    gpus = data.draw(st.sampled_from([2, 3, 4, 6]))
    slots = data.draw(st.integers(1, 5))
    num_experts = data.draw(st.integers(slots, gpus * slots))
    dead = data.draw(st.sets(st.integers(0, gpus - 1), max_size=gpus - 1))
    max_moves = data.draw(st.sampled_from([None, 0, 0.1, 0.4]))
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    speed = random.choice([0.5, 1.0, 2.0], gpus).tolist() if data.draw(st.booleans()) else None
    old_loads, loads = random.exponential(1.0, (2, 2, num_experts))
    old = planned(solve_lpt_swaps, old_loads, make_cluster(gpus * slots, gpus))
    if data.draw(st.booleans()):
        old = resplit(old, old_loads)
    cluster = make_cluster(gpus * slots, gpus, speed_of_gpu=speed, dead=dead)
    if (gpus - len(dead)) * slots < num_experts:
        with pytest.raises(PlacementError, match="do not fit"):
            replan(old, loads, cluster=cluster, max_moves=max_moves)
        return
    summary = replan(old, loads, cluster=cluster, max_moves=max_moves)
    check(summary, old, max_moves)
    if not dead and speed is None:
        start = resplit(old, loads).balancedness(loads) if not old.is_even else old.balancedness(loads)
        assert (summary.after_L >= start - 1e-9).all()
    again = replan(old, loads, cluster=cluster, max_moves=max_moves)
    np.testing.assert_array_equal(summary.placement.phy2log, again.placement.phy2log)


def test_slow_drift_of_deepseek_v3_costs_eight_percent_of_the_slots() -> None:
    """58 layers, 256 experts on 288 slots of 32 GPUs; three windows of log-loads with a correlation of 0.98. A re-plan
    moves at most 8 % of the slots and is within 0.7 points of DeepSeek's full one, which moves 92 % and more."""
    cluster = make_cluster(288, 32)
    loads = synthetic_loads("real", 58, 256)
    now = planned(solve_lpt_swaps, loads, cluster)
    gaps = []
    for window in range(3):
        loads = drifted(loads, 0.98, seed=100 + window)
        summary = replan(now, loads, max_moves=0.08)
        full = planned(solve_deepseek, loads, cluster)
        gaps.append(full.balancedness(loads).mean() - summary.after)
        assert summary.moved_fraction <= 0.08
        assert summary.after > summary.before + 0.13
        assert moves_between(now, full).num_moves > 0.92 * now.num_layers * 288
        now = summary.placement
    assert np.mean(gaps) <= 0.007, gaps
    assert max(gaps) <= 0.0075, gaps


def test_slow_drift_with_uneven_shares_costs_four_percent() -> None:
    """The same with a split that is solved again: within a point of perfect balance for 4 % of the slots."""
    cluster = make_cluster(288, 32)
    loads = synthetic_loads("real", 58, 256)
    now = planned(solve_wrap_around, loads, cluster, split="uneven")
    loads = drifted(loads, 0.98, seed=100)
    summary = replan(now, loads, max_moves=0.04)
    assert summary.moved_fraction <= 0.04
    assert summary.after >= 0.99


def test_a_policy_that_a_lost_gpu_makes_impossible_is_not_claimed() -> None:
    loads = synthetic_loads("logn1", 3, 16)
    old = balance(loads, 24, 4, 2, 2, policy="hierarchical", time_budget_s=0)
    new = replan(old, loads, cluster=make_cluster(24, 4, 2, dead=[0]), num_groups=2).placement
    # node 0 has 6 slots left for the 8 experts of its group: two of them stand elsewhere
    assert old.policy == "hierarchical"
    assert new.policy in ("semi-hierarchical", "global")

"""Shares of a fixed map: by pencil, against a linear program, and with their proof."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.fuzz import examples
from weftrace.errors import LoadsError, PlacementError
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import make_cluster
from weftrace.experts.packing.shares import best_shares, tightest_gpus
from weftrace.experts.placement import Placement, make_placement
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.slots import load_of_gpus
from weftrace.experts.solvers.resplit import resplit


def shares(experts: list[int], loads: list[float], num_gpus: int, speeds: list[float] | None = None) -> list[float]:
    """The best shares of one layer with the same number of slots on every GPU."""
    first_slot_G = np.arange(num_gpus + 1) * (len(experts) // num_gpus)
    speed_G = np.array(speeds or [1.0] * num_gpus)
    share_LP = best_shares(np.array([experts]), np.array([loads], dtype=np.float64), first_slot_G, speed_G)
    return [round(float(share), 12) for share in share_LP[0]]


def test_a_copy_fills_what_its_gpu_has_room_for() -> None:
    # GPU 0 | GPU 1     loads 4, 1, 3: the mean is 4, so expert 0 gives GPU 0 three of its four and GPU 1 one
    #  0  1 |  0  2
    assert shares([0, 1, 0, 2], [4, 1, 3], 2) == [0.75, 1, 0.25, 1]


def test_load_passes_along_a_chain_of_copies() -> None:
    # 0 1 | 1 2 | 2 3    loads 6, 2, 2, 2: the mean 4 cannot be had, expert 0 alone is 6
    # GPU 0 keeps 6; experts 1, 2, 3 are 6 for two GPUs: 3 each, so all of expert 1 and half of expert 2 on GPU 1
    assert shares([0, 1, 1, 2, 2, 3], [6, 2, 2, 2], 3) == [1, 0, 1, 0.5, 0.5, 1]
    # loads 1, 4, 1, 6 (mean 4): GPU 2 has 6, GPU 0 takes 1 + 4w and GPU 1 the rest with all of expert 2: 3 and 3
    assert shares([0, 1, 1, 2, 2, 3], [1, 4, 1, 6], 3) == [1, 0.5, 0.5, 1, 0, 1]


def test_shares_follow_speed() -> None:
    # one expert on two GPUs, one three times as fast: it takes three quarters
    assert shares([0, 0], [8], 2, [3, 1]) == [0.75, 0.25]


def test_what_is_free_stays_even() -> None:
    assert shares([0, 1, 0, 1], [3, 5], 2) == [0.5, 0.5, 0.5, 0.5]  # balanced as it stands
    assert shares([0, 1, 0, 2], [0, 1, 1], 2) == [0.5, 1, 0.5, 1]  # no load, no reason
    assert shares([0, 1, 0, 2], [0, 0, 0], 2) == [0.5, 1, 0.5, 1]


def test_copies_on_one_gpu_take_equal_parts() -> None:
    # 0 0 | 0 1    loads 6, 2: GPU 0 takes four of expert 0's six, two in each slot
    assert shares([0, 0, 0, 1], [6, 2], 2) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1])


def test_empty_slots_and_empty_gpus_take_nothing() -> None:
    assert shares([0, -1, 0, 1, -1, -1], [4, 2], 3) == [0.75, 0, 0.25, 1, 0, 0]


def test_a_second_place_is_improved_too() -> None:
    # 0 | 1 | 1 with loads 9, 4: expert 0 sets the maximum, and expert 1 is still halved
    assert shares([0, 1, 1], [9, 4], 3) == [1, 0.5, 0.5]


@st.composite
def maps(draw: st.DrawFn) -> tuple[Ints, Floats, Ints, Floats]:
    """Any map of one layer: unequal GPUs, empty slots, repeats, loads over many orders of magnitude, zeros, ties."""
    slots_G = draw(st.lists(st.integers(0, 5), min_size=1, max_size=7).filter(any))
    num_slots = sum(slots_G)
    num_experts = draw(st.integers(1, num_slots))
    extra = draw(st.lists(st.integers(-1, num_experts - 1), min_size=num_slots - num_experts, max_size=num_slots))
    experts = draw(st.permutations([*range(num_experts), *extra[: num_slots - num_experts]]))
    load = st.one_of(st.integers(0, 4).map(float), st.floats(1e-3, 1e3))
    loads = draw(st.lists(load, min_size=num_experts, max_size=num_experts))
    speeds = draw(st.lists(st.sampled_from([1.0, 1.0, 0.5, 2.3]), min_size=len(slots_G), max_size=len(slots_G)))
    return np.array([experts]), np.array([loads]), np.concatenate([[0], np.cumsum(slots_G)]), np.array(speeds)


@settings(max_examples=examples(150), deadline=None)
@given(maps())
def test_shares_are_as_good_as_the_linear_program_and_prove_it(case: tuple[Ints, Floats, Ints, Floats]) -> None:
    expert_of_slot_LP, load_LN, first_slot_G, speed_G = case
    share_LP = best_shares(expert_of_slot_LP, load_LN, first_slot_G, speed_G)
    used_P = expert_of_slot_LP[0] >= 0
    sums_N = np.bincount(expert_of_slot_LP[0][used_P], share_LP[0][used_P])
    assert (share_LP >= 0).all() and not share_LP[0][~used_P].any()
    np.testing.assert_allclose(sums_N, 1, rtol=1e-12)

    most = (load_of_gpus(expert_of_slot_LP, share_LP, load_LN, first_slot_G)[0] / speed_G).max()
    assert most == pytest.approx(least_maximum(expert_of_slot_LP[0], load_LN[0], first_slot_G, speed_G), abs=1e-7)

    tight_G = tightest_gpus(expert_of_slot_LP, load_LN, first_slot_G, speed_G)[0]
    if load_LN.any():
        outside_P = used_P & ~np.repeat(tight_G, np.diff(first_slot_G))
        stuck_N = ~np.isin(np.arange(load_LN.shape[1]), expert_of_slot_LP[0][outside_P])
        assert load_LN[0][stuck_N].sum() / speed_G[tight_G].sum() == pytest.approx(most, rel=1e-9)


def least_maximum(expert_P: Ints, load_N: Floats, first_slot_G: Ints, speed_G: Floats) -> float:
    """Minimise t over shares x and t: sum of w x over a GPU's slots <= t speed, sum of an expert's x = 1, x >= 0."""
    num_slots, num_gpus = len(expert_P), len(speed_G)
    room_GV, whole_NV = np.zeros((num_gpus, num_slots + 1)), np.zeros((len(load_N), num_slots + 1))
    for slot, gpu in enumerate(np.repeat(np.arange(num_gpus), np.diff(first_slot_G))):
        if expert_P[slot] >= 0:
            room_GV[gpu, slot] = load_N[expert_P[slot]]
            whole_NV[expert_P[slot], slot] = 1
    room_GV[:, num_slots] = -speed_G
    cost_V = np.zeros(num_slots + 1)
    cost_V[num_slots] = 1
    answer = linprog(cost_V, room_GV, np.zeros(num_gpus), whole_NV, np.ones(len(load_N)), method="highs")
    return float(answer.fun)


def test_a_large_map_is_solved_to_the_linear_program() -> None:
    load_LN = synthetic_loads("real", 3, 64, seed=2)
    random = np.random.default_rng(3)
    expert_of_slot_LP = np.array(
        [random.permutation(np.concatenate([np.arange(64), random.integers(0, 64, 32)])) for _ in range(3)]
    )
    first_slot_G, speed_G = np.arange(17) * 6, random.uniform(0.5, 1.5, 16)
    share_LP = best_shares(expert_of_slot_LP, load_LN, first_slot_G, speed_G)
    most_L = (load_of_gpus(expert_of_slot_LP, share_LP, load_LN, first_slot_G) / speed_G).max(axis=1)
    expected_L = [
        least_maximum(expert_P, load_N, first_slot_G, speed_G)
        for expert_P, load_N in zip(expert_of_slot_LP, load_LN, strict=True)
    ]
    np.testing.assert_allclose(most_L, expected_L, rtol=1e-9)


@settings(max_examples=examples(60), deadline=None)
@given(maps(), st.floats(1e-200, 1e200))
def test_shares_do_not_depend_on_the_unit_of_loads(case: tuple[Ints, Floats, Ints, Floats], unit: float) -> None:
    expert_of_slot_LP, load_LN, first_slot_G, speed_G = case
    share_LP = best_shares(expert_of_slot_LP, load_LN, first_slot_G, speed_G)
    scaled_LP = best_shares(expert_of_slot_LP, load_LN * unit, first_slot_G, speed_G)
    most, scaled = (
        (load_of_gpus(expert_of_slot_LP, x_LP, load_LN, first_slot_G) / speed_G).max() for x_LP in (share_LP, scaled_LP)
    )
    assert scaled == pytest.approx(most, rel=1e-9)


def two_gpus() -> Placement:
    return make_placement([[0, 1, 0, 2]], make_cluster(4, 2), 3)


def test_resplit_keeps_the_map_and_balances_the_new_loads() -> None:
    placement = two_gpus()
    again = resplit(placement, [[4, 1, 3]])
    assert again.phy2log.tolist() == placement.phy2log.tolist()
    assert again.gpu_load([[4, 1, 3]]).tolist() == [[4, 4]]
    assert not again.is_even and again.certificate is None
    assert resplit(again, [[4, 3, 1]]).gpu_load([[4, 3, 1]]).tolist() == [[4, 4]]


def test_resplit_leaves_dead_gpus() -> None:
    placement = make_placement([[0, 1, 0, 1]], make_cluster(4, 2, dead=[1]), 2)
    assert resplit(placement, [[4, 1]]).share_of_slot_LP.tolist() == [[1, 1, 0, 0]]


def test_resplit_refuses() -> None:
    with pytest.raises(LoadsError, match="negative"):
        resplit(two_gpus(), [[1, -1, 1]])
    with pytest.raises(PlacementError, match="1 layers and 3 experts, and the loads of 1 and 2"):
        resplit(two_gpus(), [[1, 1]])

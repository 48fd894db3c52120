"""One budget of slots shared among layers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from weftrace.errors import PlacementError
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.solvers.slot_budget import share_slots_among_layers, slots_for_budget


def least_maximum(load_N: np.ndarray, slots: int, num_gpus: int) -> float:
    """max(W / G, largest replica under greedy counts), by the definition."""
    copies_N = np.ones(len(load_N))
    for _ in range(slots - len(load_N)):
        open_N = np.where(copies_N < num_gpus, load_N / copies_N, -1)
        copies_N[np.argmax(open_N)] += 1
    return float(max(load_N.sum() / num_gpus, (load_N / copies_N).max()))


def test_with_a_pencil() -> None:
    """Two GPUs, two experts. 3 : 1 needs a copy of each on both GPUs to become 2 : 2; a layer of 2 : 2 needs none."""
    assert share_slots_among_layers([[2, 2], [3, 1]], 6, 2).tolist() == [2, 4]
    assert share_slots_among_layers([[3, 1], [2, 2]], 6, 2).tolist() == [4, 2]


def test_sums_to_the_budget_in_multiples_of_the_gpus() -> None:
    loads = synthetic_loads("real", 10, 64, seed=0)
    slots_L = share_slots_among_layers(loads, 10 * 64 + 200, 16)
    assert slots_L.sum() == 10 * 64 + 192
    assert not (slots_L % 16).any()
    assert slots_L.min() >= 64


def test_beats_the_same_number_everywhere() -> None:
    loads = synthetic_loads("real", 12, 64, seed=1)
    slots_L = share_slots_among_layers(loads, 12 * 72, 32, multiple_of=1)
    shared = sum(least_maximum(row, slots, 32) for row, slots in zip(loads, slots_L.tolist(), strict=True))
    uniform = sum(least_maximum(row, 72, 32) for row in loads)
    assert slots_L.sum() == 12 * 72
    assert shared < uniform * 0.97
    assert slots_L[0] < slots_L[-1]  # sigma rises over these layers


@pytest.mark.parametrize("seed", range(4))
def test_near_every_way_to_share_a_small_budget(seed: int) -> None:
    loads = synthetic_loads("logn1", 3, 6, seed=seed)
    slots_L = share_slots_among_layers(loads, 3 * 6 + 6, 6, multiple_of=1)
    shared = sum(least_maximum(row, slots, 6) for row, slots in zip(loads, slots_L.tolist(), strict=True))
    ways = [way for way in itertools.product(range(6, 13), repeat=3) if sum(way) <= 24]
    best = min(sum(least_maximum(row, slots, 6) for row, slots in zip(loads, way, strict=True)) for way in ways)
    assert best <= shared <= best * 1.01


def test_layers_of_zeros_gain_nothing() -> None:
    assert share_slots_among_layers([[0, 0], [3, 1], [0, 0]], 8, 2).tolist() == [2, 4, 2]


def test_no_more_than_one_of_each_expert_a_gpu() -> None:
    assert share_slots_among_layers([[3, 1], [2, 2]], 100, 2).tolist() == [4, 4]


def test_says_what_is_wrong() -> None:
    with pytest.raises(PlacementError, match=r"5 slots do not hold 2 layers of 2 experts: .* needs 4, so 8 in all"):
        share_slots_among_layers([[1, 1], [1, 1]], 5, 4)
    with pytest.raises(PlacementError, match="num_gpus must be a whole number, 1 or more, not 0"):
        share_slots_among_layers([[1, 1]], 5, 0)
    with pytest.raises(PlacementError, match="total_slots must be a whole number"):
        share_slots_among_layers([[1, 1]], 5.5, 2)  # type: ignore[arg-type]


def test_a_budget_gives_the_slots_of_a_cluster_too() -> None:
    """Of 4 GPUs one is lost: layers get multiples of 3, and every GPU has what one in service needs for the largest."""
    loads = [[100.0, 1, 1, 1, 1, 1], [1.0, 1, 1, 1, 1, 1]]
    slots_L, num_slots = slots_for_budget(loads, 15, 4, num_lost=1)
    np.testing.assert_array_equal(slots_L, share_slots_among_layers(loads, 15, 3))
    assert slots_L.tolist() == [9, 6]
    assert num_slots == 3 * 4
    assert slots_for_budget(loads, 12, 1, num_lost=1)[1] == 6  # nothing is left: `make_cluster` says so

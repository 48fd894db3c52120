"""A placement's maps, shares, loads and balancedness, by pencil."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weftrace.errors import PlacementError
from weftrace.experts.cluster import make_cluster
from weftrace.experts.placement import make_placement

# GPU 0 | GPU 1      expert 0 has copies on both GPUs
#  0  1 |  0  2
TWO_GPUS = [[0, 1, 0, 2]]


def test_maps_agree() -> None:
    placement = make_placement(TWO_GPUS, make_cluster(4, 2), 3)
    assert placement.phy2log.tolist() == TWO_GPUS
    assert placement.logcnt.tolist() == [[2, 1, 1]]
    assert placement.log2phy.tolist() == [[[0, 2], [1, -1], [3, -1]]]
    assert placement.is_even


def test_even_shares_halve_the_load_of_an_expert_with_two_copies() -> None:
    placement = make_placement(TWO_GPUS, make_cluster(4, 2), 3)
    assert placement.share_of_slot_LP.tolist() == [[0.5, 1, 0.5, 1]]
    assert placement.gpu_load([[4, 1, 3]]).tolist() == [[3, 5]]
    assert placement.balancedness([[4, 1, 3]]).tolist() == [4 / 5]  # mean 4, most 5


def test_uneven_shares_are_used_as_given() -> None:
    placement = make_placement(TWO_GPUS, make_cluster(4, 2), 3, shares=[[0.75, 1, 0.25, 1]])
    assert placement.gpu_load([[4, 1, 3]]).tolist() == [[4, 4]]
    assert placement.balancedness([[4, 1, 3]]).tolist() == [1]
    assert not placement.is_even


def test_time_of_a_gpu_is_load_over_speed() -> None:
    cluster = make_cluster(4, 2, speed_of_gpu=[1, 3])
    placement = make_placement([[0, 1, 2, 3]], cluster, 4)
    # loads 2 and 6, times 2 and 2; perfect: 8 / (1 + 3) = 2
    assert placement.balancedness([[1, 1, 3, 3]]).tolist() == [1]


def test_a_dead_gpu_is_not_part_of_the_mean() -> None:
    cluster = make_cluster(6, 3, dead=[1])
    placement = make_placement([[0, 1, -1, -1, 2, 3]], cluster, 4)
    assert placement.balancedness([[1, 1, 1, 1]]).tolist() == [1]


def test_a_layer_of_zeros_is_balanced() -> None:
    placement = make_placement(TWO_GPUS, make_cluster(4, 2), 3)
    assert placement.balancedness([[0, 0, 0]]).tolist() == [1]


def test_empty_slots_carry_nothing() -> None:
    placement = make_placement([[0, -1, 1, 2]], make_cluster(4, 2), 3)
    assert placement.share_of_slot_LP.tolist() == [[1, 0, 1, 1]]
    assert placement.log2phy.tolist() == [[[0], [2], [3]]]


def test_a_placement_cannot_be_changed() -> None:
    placement = make_placement(TWO_GPUS, make_cluster(4, 2), 3)
    with pytest.raises(ValueError, match="read-only"):
        placement.expert_of_slot_LP[0, 0] = 2


@pytest.mark.parametrize(
    ("slots", "options", "text"),
    [
        ([[0, 1, 2]], {}, r"with 4 slots; this one is \[1, 3\]"),
        ([[0, 1, 2, 3]], {}, "layer 0, slot 3: expert 3 does not exist; there are 3"),
        ([[0, 1, 2, -2]], {}, "layer 0, slot 3: expert -2 does not exist"),
        ([[0, 1, 1, 0]], {}, "layer 0: expert 2 is in no slot"),
        ([[0.5, 1, 2, 0]], {}, "a table of whole numbers, not of float64"),
        (TWO_GPUS, {"shares": [[0.5, 1, 0.4, 1]]}, "the shares of expert 0 sum to 0.9, not to 1"),
        (TWO_GPUS, {"shares": [[1.5, 1, -0.5, 1]]}, "slot 2: a share of -0.5 cannot be taken"),
        (TWO_GPUS, {"shares": [[1, 1]]}, "shares are"),
        ([[0, 1], [2]], {}, r"tables \[layers, slots\] of numbers"),
        (TWO_GPUS, {"shares": [["all", 1, 0, 1]]}, r"tables \[layers, slots\] of numbers"),
    ],
)
def test_a_broken_map_is_refused(slots: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(PlacementError, match=text):
        make_placement(slots, make_cluster(4, 2), 3, **options)


def test_loads_of_another_shape_are_refused() -> None:
    placement = make_placement(TWO_GPUS, make_cluster(4, 2), 3)
    with pytest.raises(PlacementError, match="of 1 layers and 3 experts, and the loads of 1 and 2"):
        placement.gpu_load(np.ones((1, 2)))

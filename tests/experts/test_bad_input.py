"""What a user can get wrong: one error, one line, the numbers that disagree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from weftrace.errors import LoadsError, PlacementError, WeftraceError
from weftrace.experts.cluster import make_cluster
from weftrace.experts.solvers.balance import balance

GOOD = [[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]]


def refused(error: type[WeftraceError], text: str, loads: object = GOOD, *numbers: Any, **options: Any) -> None:
    """The call raises this error, with this text in its one line."""
    with pytest.raises(error) as caught:
        balance(loads, *(numbers or (8, 4)), **options)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("loads", "text"),
    [
        ([[1, math.nan]], "the load of expert 1 in layer 0 is not finite: nan"),
        ([[1, 2], [math.inf, 1]], "the load of expert 0 in layer 1 is not finite: inf"),
        ([[1, -2]], "the load of expert 1 in layer 0 is negative: -2.0"),
        ([[1, 2], [1]], "not an array of numbers"),
        ([[[1, 2]]], "these have shape [1, 1, 2]"),
        ([], "there is nothing to place"),
        (np.zeros((0, 4)), "0 layers of 4 experts"),
        ([[]], "1 layers of 0 experts"),
        (3, "these have shape []"),
        ([["a", "b"]], "not an array of numbers but of <U1"),
        (None, "loads must be [layers, experts]"),
        ([[1e308, 1e308]], "the sum of layer 0 is above the range of float64"),
    ],
)
def test_bad_loads(loads: object, text: str) -> None:
    refused(LoadsError, text, loads, 4, 2)


@pytest.mark.parametrize(
    ("numbers", "options", "text"),
    [
        ((3, 1), {}, "4 experts do not fit into 3 slots"),
        ((9, 4), {}, "9 slots cannot be shared evenly by 4 GPUs; 8 or 12 can"),
        ((8, 4, 3), {}, "4 GPUs cannot be shared evenly by 3 nodes"),
        ((8, 0), {}, "num_gpus must be at least 1, not 0"),
        ((8, 4, 0), {}, "num_nodes must be at least 1, not 0"),
        ((8.0, 4), {}, "num_slots must be a whole number, not 8.0"),
        ((8, 4, 2, 3), {}, "4 experts cannot form num_groups=3 groups"),
        ((8, 4, 2, 0), {}, "4 experts cannot form num_groups=0 groups"),
        ((8,), {}, "how many GPUs are there?"),
        ((None, 4), {}, "how many slots are there?"),
        ((8, 4), {"policy": "best"}, "no policy 'best'; choose from auto, global, hierarchical, semi-hierarchical"),
        ((8, 4), {"split": "fair"}, "no split 'fair'; choose from even, uneven"),
        ((8, 4, 4, 2), {"policy": "hierarchical"}, "2 groups cannot be shared evenly by 4 nodes"),
        ((8, 4, 4, 2), {"policy": "semi-hierarchical"}, "2 groups cannot be shared evenly by 4 nodes"),
        ((8, 4, 2, 2), {"policy": "hierarchical", "dead": [0, 1]}, "node 0 has 0 slots in service"),
        ((8, 4), {"dead": [4]}, "dead: GPU 4 does not exist"),
        ((8, 4), {"dead": [0, 1], "draining": [2]}, "do not fit into 2 slots in service (6 on dead or draining GPUs)"),
        ((8, 4), {"dead": [0, 1, 2, 3]}, "no GPU is left in service"),
        ((8, 4), {"speed_of_gpu": [1, 1, 0, 1]}, "GPU 2 has speed 0"),
        ((8, 4), {"speed_of_gpu": [1, 1]}, "speed_of_gpu has shape [2], and there are 4 GPUs"),
        ((8, 4), {"slots_of_gpu": [2, 2, 2, 1]}, "slots_of_gpu sums to 7 slots, and num_slots is 8"),
        ((None, 4), {"slots_of_gpu": [9, 0, 0, 0], "dead": [0]}, "no GPU is left in service"),
        ((8, 4), {"slots_of_layer": [8]}, "slots_of_layer names 1 layers, and the loads have 2"),
        ((8, 4), {"slots_of_layer": [8, 3]}, "layer 1 has 3 slots; they must fit its 4 experts"),
        ((8, 4), {"slots_of_layer": [9, 8]}, "layer 0 has 9 slots; they must fit the 8 slots in service"),
        ((8, 4), {"pins": [(4, 0)]}, "pins: expert 4 does not exist"),
        ((8, 4), {"pins": [(0, 4)]}, "pins: GPU 4 does not exist"),
        ((8, 4), {"pins": [(2, 0, 0)]}, "pins: layer 2 does not exist"),
        ((8, 4), {"pins": [(0, 1)], "dead": [1]}, "expert 0 is pinned to GPU 1, which is out of service"),
        ((8, 4), {"pins": [(0, 0), (1, 0), (2, 0)]}, "loads row 0 pins 3 experts to GPU 0, which has 2 slots"),
        ((4, 4), {"pins": [(0, 0), (0, 1)]}, "loads row 0 has 3 experts without a pin and 2 slots left for them"),
        ((8, 4), {"pins": [(1,)]}, "must be (expert, gpu) or (layer, expert, gpu)"),
        ((8, 4), {"pins": [3]}, "must be (expert, gpu) or (layer, expert, gpu)"),
        ((8, 4), {"max_foreign": -1}, "max_foreign must be a whole number of replicas, not -1"),
        ((8, 4), {"time_budget_s": -1}, "time_budget_s must be a number of seconds, not -1"),
        ((8, 4), {"time_budget_s": math.nan}, "time_budget_s must be a number of seconds"),
        ((8, 4), {"cluster": make_cluster(8, 4)}, "give either a cluster or num_slots"),
    ],
)
def test_numbers_that_disagree(numbers: tuple[Any, ...], options: dict[str, Any], text: str) -> None:
    refused(PlacementError, text, GOOD, *numbers, **options)


def test_pins_of_one_group_to_two_nodes_rule_hierarchical_out() -> None:
    refused(
        PlacementError,
        "pins hold one group to two nodes",
        GOOD,
        8,
        4,
        2,
        2,
        policy="hierarchical",
        pins=[(0, 0), (1, 3)],
    )


def test_lists_arrays_and_tensors_give_the_same() -> None:
    want = balance(GOOD, 8, 4).phy2log.tolist()
    for loads in (
        np.array(GOOD),
        np.array(GOOD, dtype=np.float32),
        np.array(GOOD, dtype=np.int32),
        torch.tensor(GOOD),
        torch.tensor(GOOD, dtype=torch.bfloat16, requires_grad=True),
        torch.tensor(GOOD).to(torch.int64),
        [tuple(row) for row in GOOD],
    ):
        assert balance(loads, 8, 4).phy2log.tolist() == want


def test_one_row_is_one_layer() -> None:
    assert balance([1.0, 2.0, 3.0], 4, 2).phy2log.shape == (1, 4)


def test_counts_above_2_to_the_53() -> None:
    placement = balance([[2**60, 2**60 + 1, 1, 1]], 4, 2)
    assert placement.balancedness([[2**60, 2**60 + 1, 1, 1]])[0] == pytest.approx(1)
    assert balance([[2**70, 1]], 2, 2).phy2log.tolist() in ([[0, 1]], [[1, 0]])


def test_layers_of_zeros_are_placed_as_equal_loads() -> None:
    placement = balance([[0, 0, 0, 0], [1, 1, 1, 1]], 8, 4)
    assert placement.phy2log[0].tolist() == placement.phy2log[1].tolist()
    assert placement.logcnt[0].tolist() == [2, 2, 2, 2]
    certificate = placement.certificate
    assert certificate is not None
    assert (certificate.achieved_L[0], certificate.bound_L[0], certificate.mean_L[0]) == (0, 0, 0)
    assert (certificate.balancedness, certificate.binding_L, certificate.gap) == (1, ("none", "none"), 0)


def test_callers_loads_stay_as_they_are() -> None:
    loads = np.array([[0.0, 0.0], [1.0, 2.0]])
    balance(loads, 2, 2)
    assert loads.tolist() == [[0, 0], [1, 2]]


def test_tiny_and_huge_loads() -> None:
    for scale in (1e-300, 1e300):
        placement = balance(np.array([[6.0, 5, 4, 1]]) * scale, 6, 2)
        assert placement.certificate is not None
        assert placement.certificate.balancedness == pytest.approx(8 / 8.5)

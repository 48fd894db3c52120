"""Slots, GPUs, nodes: numbering, capacity, and clear refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weftrace.errors import PlacementError
from weftrace.experts.cluster import Cluster, make_cluster


def test_slots_are_numbered_gpu_by_gpu_and_gpus_node_by_node() -> None:
    cluster = make_cluster(8, 4, 2)
    assert cluster.gpu_of_slot_P.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert cluster.node_of_gpu_G.tolist() == [0, 0, 1, 1]
    assert cluster.first_slot_G.tolist() == [0, 2, 4, 6, 8]
    assert (cluster.num_slots, cluster.num_gpus, cluster.gpus_per_node) == (8, 4, 2)
    assert cluster.is_uniform


def test_gpus_out_of_service_keep_their_numbers_and_lose_their_capacity() -> None:
    cluster = make_cluster(8, 4, dead=[1], draining=[1, 3])
    assert cluster.capacity_G.tolist() == [2, 0, 2, 0]
    assert cluster.usable_G.tolist() == [True, False, True, False]
    assert (cluster.dead, cluster.draining) == (frozenset([1]), frozenset([3]))  # who is dead is not draining
    assert cluster.gpu_of_slot_P.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert not cluster.is_uniform


def test_gpus_may_differ_in_slots_and_speed() -> None:
    cluster = make_cluster(None, 3, slots_of_gpu=[1, 0, 3], speed_of_gpu=[1.0, 0.5, 2.0])
    assert cluster.gpu_of_slot_P.tolist() == [0, 2, 2, 2]
    assert cluster.first_slot_G.tolist() == [0, 1, 1, 4]
    assert not cluster.is_uniform


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_slots": 10, "num_gpus": 4}, "10 slots cannot be shared evenly by 4 GPUs; 8 or 12 can"),
        ({"num_slots": 3, "num_gpus": 4}, "3 slots cannot be shared evenly by 4 GPUs; 4 can"),
        ({"num_slots": 8, "num_gpus": 4, "num_nodes": 3}, "4 GPUs cannot be shared evenly by 3 nodes"),
        ({"num_slots": 8, "num_gpus": 0}, "num_gpus must be at least 1, not 0"),
        ({"num_slots": 8, "num_gpus": 4, "num_nodes": 0}, "num_nodes must be at least 1, not 0"),
        ({"num_slots": 0, "num_gpus": 4}, "num_slots must be at least 1, not 0"),
        ({"num_slots": 8.0, "num_gpus": 4}, "num_slots must be a whole number, not 8.0"),
        ({"num_slots": 8, "num_gpus": True}, "num_gpus must be a whole number, not True"),
        ({"num_slots": None, "num_gpus": 4}, "how many slots are there"),
        ({"num_slots": None, "num_gpus": 3, "slots_of_gpu": [1, 2]}, "slots_of_gpu names 2 GPUs, and there are 3"),
        ({"num_slots": 4, "num_gpus": 2, "slots_of_gpu": [1, 2]}, "slots_of_gpu sums to 3 slots, and num_slots is 4"),
        ({"num_slots": 4, "num_gpus": 2, "speed_of_gpu": [1]}, "speed_of_gpu has shape"),
        ({"num_slots": 4, "num_gpus": 2, "speed_of_gpu": [1, 0]}, "GPU 1 has speed 0.0"),
        ({"num_slots": 4, "num_gpus": 2, "speed_of_gpu": [1, float("nan")]}, "GPU 1 has speed nan"),
        ({"num_slots": 4, "num_gpus": 2, "speed_of_gpu": ["a", "b"]}, "speed_of_gpu must be numbers"),
        ({"num_slots": 4, "num_gpus": 2, "dead": [2]}, "dead: GPU 2 does not exist; they are numbered 0 to 1"),
        ({"num_slots": 4, "num_gpus": 2, "dead": [0], "draining": [1]}, "no GPU is left in service"),
    ],
)
def test_numbers_that_disagree_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(PlacementError, match=text):
        make_cluster(**options)


def test_numbers_beyond_any_cluster_are_refused_before_memory_runs_out() -> None:
    with pytest.raises(PlacementError, match=r"num_slots must be at most 1,000,000, not 1,000,000,000,000"):
        make_cluster(10**12, 4)
    with pytest.raises(PlacementError, match=r"num_gpus must be at most 1,000,000"):
        make_cluster(8, 4 * 10**8)
    with pytest.raises(PlacementError, match=r"slots_of_gpu must be at most 1,000,000"):
        make_cluster(None, 1, slots_of_gpu=[10**20])
    with pytest.raises(PlacementError, match=r"slots_of_gpu must be at most 1,000,000"):  # and 8 in sum, modulo 2^64
        Cluster(num_nodes=1, slots_G=np.array([1 << 62, 1 << 62, 1 << 62, (1 << 62) + 8]), speed_G=np.ones(4))

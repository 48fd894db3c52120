"""Renumbered slots: nothing but the numbers changes, and more stays where it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.errors import PlacementError
from weftrace.experts.arrays import Ints
from weftrace.experts.cluster import make_cluster
from weftrace.experts.moves.relabel import relabel
from weftrace.experts.placement import Placement, make_placement


def placed(slots: Ints | list[list[int]], gpus: int, nodes: int = 1, dead: tuple[int, ...] = ()) -> Placement:
    cluster = make_cluster(np.shape(slots)[1], gpus, nodes, dead=dead)
    return make_placement(slots, cluster, int(np.max(slots)) + 1)


def test_slots_of_a_gpu_are_put_back() -> None:
    new = relabel(placed([[0, 1, 2, 3]], 2), placed([[1, 0, 3, 2]], 2))
    assert new.phy2log.tolist() == [[0, 1, 2, 3]]


def test_what_is_new_takes_what_is_left() -> None:
    new = relabel(placed([[0, 1, 2, 3, 4, 5]], 2), placed([[2, 3, 1, 0, 5, 4]], 2), gpus=False)
    # GPU 0 keeps 1 and 2 in their slots, 3 comes to slot 0; GPU 1 keeps 4 and 5
    assert new.phy2log.tolist() == [[3, 1, 2, 0, 4, 5]]


def test_gpus_are_exchanged_inside_a_node_only() -> None:
    old = placed([[0, 1, 2, 3, 4, 5, 6, 7]], 4, 2)
    assert relabel(old, placed([[2, 3, 0, 1, 4, 5, 6, 7]], 4, 2)).phy2log.tolist() == old.phy2log.tolist()
    across = [[4, 5, 6, 7, 0, 1, 2, 3]]
    assert relabel(old, placed(across, 4, 2)).phy2log.tolist() == across


def test_gpus_that_differ_keep_their_numbers() -> None:
    old = placed([[0, 1, 2, 3, 0, 1]], 3)
    new = make_placement([[3, 2, 1, 0, -1, -1]], make_cluster(6, 3, dead=[2]), 4)
    assert relabel(old, new).phy2log.tolist() == [[3, 2, 1, 0, -1, -1]]


def test_shares_go_with_their_experts() -> None:
    old = placed([[0, 1, 1, 2]], 2)
    new = make_placement([[1, 0, 2, 1]], old.cluster, 3, shares=[[0.3, 1, 1, 0.7]])
    summary = relabel(old, new)
    assert summary.phy2log.tolist() == [[0, 1, 1, 2]]
    assert summary.share_of_slot_LP.tolist() == [[1, 0.3, 0.7, 1]]


def test_another_shape_is_refused() -> None:
    with pytest.raises(PlacementError, match="1 layers of 4 experts, and the new one 2 of 4"):
        relabel(placed([[0, 1, 2, 3]], 2), placed([[0, 1, 2, 3]] * 2, 2))
    with pytest.raises(PlacementError, match="GPU 0 has 2 slots in the old placement and 1 in the new one"):
        relabel(
            placed([[0, 1, 2, 3]], 2),
            make_placement([[0, 1, 2, 3]], make_cluster(None, 2, slots_of_gpu=[1, 3]), 4),
        )


@settings(max_examples=examples(80))
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 2), st.integers(0, 1000))
def test_only_numbers_change(slots: int, gpus_per_node: int, nodes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    gpus = gpus_per_node * nodes
    num_experts = int(random.integers(1, gpus * slots + 1))
    filled = np.arange(gpus * slots) % num_experts
    old, new = (placed([random.permutation(filled).tolist() for _ in range(2)], gpus, nodes) for _ in range(2))
    summary = relabel(old, new)
    loads = random.random((2, num_experts))
    kept = [(old.phy2log == each.phy2log).sum() for each in (new, summary)]
    assert kept[1] >= kept[0]
    by_node = [np.sort(each.gpu_load(loads).reshape(2, nodes, -1), axis=2) for each in (new, summary)]
    np.testing.assert_allclose(by_node[0], by_node[1])
    for layer in range(2):  # whole GPUs only: the same sets of experts, in the same nodes
        for node in range(nodes):
            here = slice(node * gpus_per_node * slots, (node + 1) * gpus_per_node * slots)
            sets = [
                sorted(map(sorted, each.phy2log[layer, here].reshape(-1, slots).tolist())) for each in (new, summary)
            ]
            assert sets[0] == sets[1]

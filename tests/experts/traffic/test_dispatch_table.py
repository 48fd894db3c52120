"""Static dispatch: whole sources per copy, near ones first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.errors import PlacementError
from weftrace.experts.cluster import make_cluster
from weftrace.experts.placement import Placement, make_placement
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.solvers.resplit import resplit
from weftrace.experts.traffic.dispatch_table import dispatch_table, realised


def test_a_source_prefers_its_own_gpu_then_its_node() -> None:
    # node 0: GPU 0 (0 1), GPU 1 (2 3); node 1: GPU 2 (0 4), GPU 3 (5 6). Expert 0 stands in slots 0 and 4.
    placement = make_placement([[0, 1, 2, 3, 0, 4, 5, 6]], make_cluster(8, 4, 2), 7)
    table_LNR = dispatch_table(placement)
    assert table_LNR.shape == (1, 7, 4)
    assert table_LNR[0, 0].tolist() == [0, 0, 4, 4]  # each node has its copy
    assert table_LNR[0, 3].tolist() == [3, 3, 3, 3]  # one copy only
    result = realised(placement, table_LNR)
    assert result.largest_error == result.mean_error == 0
    # on its own GPU: 2 of 4 sources for expert 0, one of 4 for each of the others
    assert result.same_gpu == (2 + 6 * 1) / 28
    assert result.same_node == (4 + 6 * 2) / 28


def test_shares_outweigh_nearness() -> None:
    # four GPUs in two nodes, expert 0 on GPUs 0 and 2 with shares 3/4 and 1/4: GPU 3 goes to the other node
    placement = make_placement([[0, 1, 0, 2]], make_cluster(4, 4, 2), 3, shares=[[0.75, 1, 0.25, 1]])
    assert dispatch_table(placement)[0, 0].tolist() == [0, 0, 2, 0]


def test_sources_left_over_go_to_the_largest_remainders() -> None:
    # shares 0.6 and 0.4 of two sources: 1.2 and 0.8, so one each; of three: 1.8 and 1.2, so two and one
    placement = make_placement([[0, 0]], make_cluster(2, 2), 1, shares=[[0.6, 0.4]])
    assert dispatch_table(placement).tolist() == [[[0, 1]]]
    result = realised(placement, dispatch_table(placement))
    assert result.share_LP.tolist() == [[0.5, 0.5]]
    assert result.largest_error == pytest.approx(0.1) and result.mean_error == pytest.approx(0.1)
    assert sorted(dispatch_table(placement, 3)[0, 0].tolist()) == [0, 0, 1]


def test_equal_remainders_take_turns() -> None:
    # three sources, four experts halved between GPUs 0 and 1: 1.5 each, and the odd source goes to them in turn
    placement = make_placement([[0, 1, 2, 3, 0, 1, 2, 3, 4, 4, 4, 4]], make_cluster(12, 3), 5)
    share_LP = realised(placement, dispatch_table(placement)).share_LP
    np.testing.assert_allclose(share_LP[0, :4].sum(), 2)
    np.testing.assert_allclose(share_LP[0, 4:8].sum(), 2)


def test_a_dead_gpu_sends_nothing_and_gets_nothing() -> None:
    placement = resplit(make_placement([[0, 1, 0, 1, 0, 1]], make_cluster(6, 3, dead=[1]), 2), [[3, 5]])
    table_LNR = dispatch_table(placement)
    assert table_LNR[0, :, [0, 2]].tolist() == [[0, 1], [4, 5]]
    assert set(table_LNR.ravel().tolist()) <= {0, 1, 4, 5}
    assert realised(placement, table_LNR).largest_error == 0


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    num_nodes, per_node, slots = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    num_slots = num_nodes * per_node * slots
    num_experts = draw(st.integers(1, num_slots))
    extra = draw(
        st.lists(st.integers(0, num_experts - 1), min_size=num_slots - num_experts, max_size=num_slots - num_experts)
    )
    experts = draw(st.permutations([*range(num_experts), *extra]))
    placement = make_placement([experts], make_cluster(num_slots, num_nodes * per_node, num_nodes), num_experts)
    loads = draw(st.lists(st.integers(0, 9), min_size=num_experts, max_size=num_experts))
    return resplit(placement, [loads]) if draw(st.booleans()) else placement


@settings(max_examples=examples(200), deadline=None)
@given(placements(), st.integers(1, 20))
def test_every_copy_gets_its_share_to_one_source(placement: Placement, num_sources: int) -> None:
    table_LNR = dispatch_table(placement, num_sources)
    result = realised(placement, table_LNR)  # checks that every slot holds its expert
    due_LP, got_LP = placement.share_of_slot_LP * num_sources, result.share_LP * num_sources
    np.testing.assert_allclose(got_LP, np.round(got_LP), atol=1e-9)
    assert (got_LP >= np.floor(due_LP + 1e-6) - 1e-6).all() and (got_LP <= np.ceil(due_LP - 1e-6) + 1e-6).all()
    assert result.same_gpu <= result.same_node <= 1
    for expert in range(placement.num_experts):  # as many stay on a node as its sources and its copies' seats allow
        cluster = placement.cluster
        node_of_source_R = cluster.node_of_gpu_G[np.arange(num_sources) * cluster.num_gpus // num_sources]
        node_of_target_R = cluster.node_of_gpu_G[cluster.gpu_of_slot_P[table_LNR[0, expert]]]
        at_home = int((node_of_source_R == node_of_target_R).sum())
        per_node = [
            min(int((node_of_source_R == node).sum()), int((node_of_target_R == node).sum()))
            for node in range(cluster.num_nodes)
        ]
        assert at_home == sum(per_node)


def test_the_error_at_scale_is_small() -> None:
    load_LN = synthetic_loads("real", 4, 256, seed=1)
    experts_LP = np.concatenate([np.tile(np.arange(256), (4, 1)), np.argsort(-load_LN, axis=1)[:, :32]], axis=1)
    placement = resplit(make_placement(experts_LP, make_cluster(288, 32, 4), 256), load_LN)
    result = realised(placement, dispatch_table(placement))
    assert result.largest_error <= 1 / 32 and result.mean_error < 0.002


def test_refusals() -> None:
    placement = make_placement([[0, 1]], make_cluster(2, 2), 2)
    with pytest.raises(PlacementError, match="num_sources is 0"):
        dispatch_table(placement, 0)
    with pytest.raises(PlacementError, match=r"\[1, 2, 'R'\], not \[2, 2\]"):
        realised(placement, np.zeros((2, 2), dtype=np.int64))
    with pytest.raises(PlacementError, match="layer 0, source 1: slot 0 does not hold expert 1"):
        realised(placement, np.array([[[0, 0], [1, 0]]]))
    dead = make_placement([[0, 1, 0, 1]], make_cluster(4, 2, dead=[1]), 2)
    with pytest.raises(PlacementError, match="GPU 1, which is out of service"):
        dispatch_table(dead)

"""GPUs exchanged between nodes: each keeps what it carries."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experts.problems import problem_of
from tests.fuzz import examples
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import Cluster, make_cluster
from weftrace.experts.packing.packing import solve_lpt_swaps
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.slots import even_shares, load_of_gpus
from weftrace.experts.solvers.refine import node_balance, spread_over_nodes


def gpu_loads(map_LP: Ints, share_LP: Floats, load_LN: Floats, cluster: Cluster) -> Floats:
    return load_of_gpus(map_LP, share_LP, load_LN, cluster.first_slot_G)


def test_four_gpus_on_two_nodes() -> None:
    # GPUs carry 4, 3, 2, 1: nodes of 7 and 3 become 5 and 5, {4, 1} and {3, 2}
    cluster = make_cluster(4, 4, 2)
    map_LP = np.array([[0, 1, 2, 3]])
    new_LP, share_LP = spread_over_nodes(map_LP, np.ones((1, 4)), np.array([[4.0, 3, 2, 1]]), cluster)
    assert sorted(map(sorted, new_LP.reshape(2, 2).tolist())) == [[0, 3], [1, 2]]
    assert (share_LP == 1).all()


def test_one_slot_a_gpu_in_order_of_creation() -> None:
    """256 experts and 32 copies on 288 GPUs, as replication appends them: the copies fill the last nodes."""
    load_LN = synthetic_loads("real", 58, 256)
    cluster = make_cluster(288, 288, 36)
    counts = np.ones_like(load_LN)
    map_LP = np.empty((58, 288), dtype=np.int64)
    map_LP[:, :256] = np.arange(256)
    for slot in range(256, 288):
        map_LP[:, slot] = (load_LN / counts).argmax(axis=1)
        counts[np.arange(58), map_LP[:, slot]] += 1
    share_LP = even_shares(map_LP, 256)
    before_LG = gpu_loads(map_LP, share_LP, load_LN, cluster)
    assert node_balance(before_LG, None, cluster).mean() < 0.6
    after_LG = gpu_loads(*spread_over_nodes(map_LP, share_LP, load_LN, cluster), load_LN, cluster)
    assert node_balance(after_LG, None, cluster).mean() >= 0.985
    np.testing.assert_allclose(np.sort(after_LG, axis=1), np.sort(before_LG, axis=1))


def test_unequal_gpus_and_single_nodes_stay() -> None:
    map_LP, share_LP, load_LN = np.array([[0, 1, 2, 3]]), np.ones((1, 4)), np.array([[4.0, 3, 2, 1]])
    for cluster in (make_cluster(4, 4, 1), make_cluster(4, 4, 2, speed_of_gpu=[1, 1, 2, 2])):
        assert spread_over_nodes(map_LP, share_LP, load_LN, cluster)[0] is map_LP


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 1000), slots=st.integers(1, 3), nodes=st.sampled_from([1, 2, 3, 6]))
def test_gpus_keep_what_they_carry(seed: int, slots: int, nodes: int) -> None:
    cluster = make_cluster(12 * slots, 12, nodes)
    load_LN = synthetic_loads("logn1", 2, 10 * slots, seed=seed)
    solution = solve_lpt_swaps(problem_of(load_LN, cluster, 1))
    old = solution.expert_of_slot_LP, solution.share_LP
    new = spread_over_nodes(*old, load_LN, cluster)

    def rows(map_LP: Ints, share_LP: Floats) -> list[list[tuple[float, ...]]]:
        both = np.concatenate([map_LP.reshape(2, 12, slots), share_LP.reshape(2, 12, slots)], axis=2)
        return [sorted(map(tuple, layer.tolist())) for layer in both]

    assert rows(*new) == rows(*old)
    before_L = node_balance(gpu_loads(*old, load_LN, cluster), None, cluster)
    assert (node_balance(gpu_loads(*new, load_LN, cluster), None, cluster) >= before_L * (1 - 1e-12)).all()

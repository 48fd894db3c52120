"""Whole GPUs exchanged between nodes, so that nodes are loaded alike; what a GPU carries stays as it is."""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.packing.packing import pack
from weftrace.experts.slots import load_of_gpus


def spread_over_nodes(
    expert_of_slot_LP: Ints, share_LP: Floats, load_LN: Floats, cluster: Cluster
) -> tuple[Ints, Floats]:
    """The same placement with its GPUs in another order, so that the fullest node has as little as possible.

    The maximum over GPUs does not change; the traffic into the fullest node does. It matters most with one slot a GPU:
    experts in order of creation put the hottest copies together on the last nodes. GPUs are packed to nodes as replicas
    are to GPUs, longest first and then swaps; a layer that does not gain stays as it was.

    cluster: equal GPUs; under pins or unequal GPUs an exchange is not free, and the arguments come back unchanged.
    Returns int64 [L, P] and float64 [L, P].
    """
    if cluster.num_nodes == 1 or not cluster.is_uniform:
        return expert_of_slot_LP, share_LP
    load_LG = load_of_gpus(expert_of_slot_LP, share_LP, load_LN, cluster.first_slot_G)
    order_LG = np.argsort(-load_LG, axis=1, kind="stable")
    capacity_LD = np.full((len(load_LG), cluster.num_nodes), cluster.gpus_per_node, dtype=np.int64)
    node_of_LG = pack(order_LG, np.take_along_axis(load_LG, order_LG, axis=1), capacity_LD, np.ones(cluster.num_nodes))
    # GPUs in the order of their new nodes; in the order that they had inside a node
    gpu_LG = np.take_along_axis(order_LG, np.lexsort((order_LG, node_of_LG), axis=1), axis=1)
    gains_L = node_balance(load_LG, gpu_LG, cluster) > node_balance(load_LG, None, cluster) * (1 + 1e-9)
    gpu_LG = np.where(gains_L[:, None], gpu_LG, np.arange(cluster.num_gpus))
    slots = cluster.num_slots // cluster.num_gpus
    slot_LP = (gpu_LG[:, :, None] * slots + np.arange(slots)).reshape(expert_of_slot_LP.shape)
    return np.take_along_axis(expert_of_slot_LP, slot_LP, axis=1), np.take_along_axis(share_LP, slot_LP, axis=1)


def node_balance(load_LG: Floats, gpu_LG: Ints | None, cluster: Cluster) -> Floats:
    """[L] mean / maximum over nodes of the sum of their GPUs' loads; gpu_LG: which GPU stands at each place."""
    placed_LG = load_LG if gpu_LG is None else np.take_along_axis(load_LG, gpu_LG, axis=1)
    load_LD = placed_LG.reshape(len(load_LG), cluster.num_nodes, -1).sum(axis=2)
    worst_L = load_LD.max(axis=1)
    balance_L: Floats = np.divide(load_LD.mean(axis=1), worst_L, out=np.ones_like(worst_L), where=worst_L > 0)
    return balance_L

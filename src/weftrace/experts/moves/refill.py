"""How many slots of each GPU does a new placement fill, given the old one?"""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Bools, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.placement import Placement


def slots_to_keep_filled(old: Placement, cluster: Cluster, most_LG: Ints) -> Ints:
    """[L, G] slots to fill on what the cluster is now.

    As many as the old placement fills; on a GPU that came into service as many as the fullest other has; none on one
    that left. Where that is too few for all experts (a layer had a budget, and GPUs left), more, one by one on the GPU
    with most room. most_LG: no GPU fills more; all of them together hold all experts.
    """
    filled_LG = cluster.slots_G - _per_gpu(old.expert_of_slot_LP < 0, cluster)
    filled_LG = np.where(cluster.usable_G, filled_LG, 0)
    joined_G = cluster.usable_G & ~old.cluster.usable_G
    if joined_G.any():
        filled_LG = np.where(joined_G, np.minimum(most_LG, filled_LG.max(axis=1, keepdims=True)), filled_LG)
    for layer in np.flatnonzero(filled_LG.sum(axis=1) < old.num_experts):
        while filled_LG[layer].sum() < old.num_experts:
            filled_LG[layer, int(np.argmax(most_LG[layer] - filled_LG[layer]))] += 1
    return filled_LG


def empty_slots_to_fill(expert_of_slot_LP: Ints, capacity_LG: Ints, cluster: Cluster) -> Bools:
    """[L, P] the leading empty slots of each GPU, as many as it lacks to its capacity."""
    empty_LP = expert_of_slot_LP < 0
    first_P = cluster.first_slot_G[:-1][cluster.gpu_of_slot_P]
    before_LP: Ints = np.cumsum(empty_LP, axis=1) - empty_LP  # empty slots before each
    rank_LP: Ints = before_LP - before_LP[:, first_P]
    lacks_LG = capacity_LG - (cluster.slots_G - _per_gpu(empty_LP, cluster))
    to_fill_LP: Bools = empty_LP & (rank_LP < lacks_LG[:, cluster.gpu_of_slot_P])
    return to_fill_LP


def _per_gpu(marked_LP: Bools, cluster: Cluster) -> Ints:
    """[L, G] marked slots of each GPU."""
    total_LP = np.concatenate([np.zeros((len(marked_LP), 1), np.int64), np.cumsum(marked_LP, axis=1)], axis=1)
    marked_LG: Ints = np.diff(total_LP[:, cluster.first_slot_G], axis=1)
    return marked_LG

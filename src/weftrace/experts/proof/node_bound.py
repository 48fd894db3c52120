"""What does it cost to keep groups of experts whole on their nodes? A bound on the hierarchical policy."""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Floats
from weftrace.experts.packing.group_partition import best_partition
from weftrace.experts.problem import NotApplicable, Problem

MOST_STEPS = 300_000  # of the search of a layer


def partition_bound(problem: Problem) -> Floats:
    """[L] no placement with the same number of whole groups on every node has a lower maximum.

    Few groups: the best over all partitions of the largest node bound (`group_partition`), searched to the end. Many:
    `counted_bound`. 0 where no partition is possible.
    """
    partition = best_partition(problem, max_steps=MOST_STEPS)
    if isinstance(partition, NotApplicable):
        return np.zeros(problem.num_layers)
    return np.where(partition.is_exact_L, partition.bound_L, counted_bound(problem))


def counted_bound(problem: Problem) -> Floats:
    """[L] the same by counting alone: of the heaviest j D + 1 groups some node of the D has j + 1 or more.

    So it has at least the j + 1 lightest of those, and of all groups the lightest to make up its number.
    """
    cluster = problem.cluster
    load_LM = problem.load_LN.reshape(problem.num_layers, problem.num_groups, -1).sum(axis=2)
    load_LM = -np.sort(-load_LM, axis=1)  # heaviest first
    fastest = float(np.where(cluster.usable_G, cluster.speed_G, 0).reshape(cluster.num_nodes, -1).sum(axis=1).max())
    room = problem.num_groups // cluster.num_nodes
    bound_L = np.zeros(problem.num_layers)
    for j in range(room):
        last = j * cluster.num_nodes + 1
        rest = load_LM[:, problem.num_groups - (room - j - 1) :].sum(axis=1)
        bound_L = np.maximum(bound_L, load_LM[:, last - j - 1 : last].sum(axis=1) + rest)
    return bound_L / fastest

"""Which groups of experts live on which node, when a group's experts stay together?

D nodes, M groups, M / D groups a node. Balance under this rule is lost on the partition, hardly on the packing inside a
node, so the partition is searched: a first answer by longest-first and swaps, then a depth-first search that fills
node by node and drops what cannot beat the best one. Few groups (8 on 4 nodes: 105 partitions) are searched to the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.packing.partition_search import search_partitions
from weftrace.experts.problem import NotApplicable, Problem

MAX_STEPS = 20_000  # of the depth-first search, a layer: some 10 ms
STEP_S = 2e-6  # of that search, of which `balance` makes up to six, under its patience


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupPartition:
    """A home for every group.

    node_of_group_LM: int64 [L, M].
    bound_L: no placement with these homes has a lower maximum: the largest over nodes of the node's load / the speed
        of its GPUs, and of its hottest replica under the best counts / its fastest GPU.
    is_exact_L: every partition was searched or ruled out, so no other one has a lower bound.
    """

    node_of_group_LM: Ints
    bound_L: Floats
    is_exact_L: Bools


def group_of_expert(num_experts: int, num_groups: int) -> Ints:
    """[N] group of each expert: group g holds experts with n * groups // N = g."""
    return np.arange(num_experts, dtype=np.int64) * num_groups // num_experts


def best_partition(
    problem: Problem, *, must_fit: bool = True, max_steps: int = MAX_STEPS
) -> GroupPartition | NotApplicable:
    """The same number of groups on every node, so that the largest node bound is as low as found.

    Pins hold a group to the node that they name. `NotApplicable` where groups or experts do not divide, where a node
    has fewer slots in service than its experts need, or where pins contradict each other; with must_fit=False pins do
    not count and a node may be short of slots, as long as a GPU of it is in service.
    """
    num_experts, num_groups, num_nodes = problem.num_experts, problem.num_groups, problem.cluster.num_nodes
    if num_groups % num_nodes:
        return NotApplicable(reason=f"{num_groups} groups cannot be shared evenly by {num_nodes} nodes")
    if num_experts % num_groups:
        return NotApplicable(reason=f"{num_experts} experts do not divide into {num_groups} groups")
    slots_LD, gpus_LD, speed_LD, fastest_LD = nodes_of(problem)
    limit = problem.steps(STEP_S, max_steps)
    node_of_group_LM, bound_L, steps_L = search_partitions(
        problem.load_LN,
        num_groups,
        slots_LD if must_fit else np.maximum(slots_LD, num_experts // num_nodes),
        gpus_LD,
        speed_LD,
        fastest_LD,
        _pinned(problem) if must_fit else np.full((problem.num_layers, num_groups), -1, dtype=np.int64),
        bool(problem.cluster.is_uniform and (problem.capacity_LG == problem.capacity_LG[:, :1]).all()),
        limit,
    )
    if not np.isfinite(bound_L).all():
        return NotApplicable(reason=_why_not(problem, int(np.argmin(np.isfinite(bound_L)))))
    return GroupPartition(node_of_group_LM=node_of_group_LM, bound_L=bound_L, is_exact_L=steps_L <= limit)


def nodes_of(problem: Problem) -> tuple[Ints, Ints, Floats, Floats]:
    """[L, D] slots, GPUs with slots, and their speeds: the sum and the fastest."""
    shape = (problem.num_layers, problem.cluster.num_nodes, problem.cluster.gpus_per_node)
    capacity_LDG = problem.capacity_LG.reshape(shape)
    speed_LDG = np.where(capacity_LDG > 0, problem.cluster.speed_G.reshape(shape[1:]), 0.0)
    slots_LD: Ints = capacity_LDG.sum(axis=2)
    gpus_LD: Ints = (capacity_LDG > 0).sum(axis=2).astype(np.int64)
    return slots_LD, gpus_LD, speed_LDG.sum(axis=2), speed_LDG.max(axis=2)


def _pinned(problem: Problem) -> Ints:
    """[L, M] node that pins hold a group to; -1 where none does, -2 where two nodes are named."""
    pinned_LM = np.full((problem.num_layers, problem.num_groups), -1, dtype=np.int64)
    group_N = group_of_expert(problem.num_experts, problem.num_groups)
    node_G = problem.cluster.node_of_gpu_G
    for layer, expert, gpu in problem.pins_K3:
        known = pinned_LM[layer, group_N[expert]]
        pinned_LM[layer, group_N[expert]] = node_G[gpu] if known in (-1, node_G[gpu]) else -2
    return pinned_LM


def _why_not(problem: Problem, layer: int) -> str:
    if (_pinned(problem)[layer] == -2).any():
        return f"loads row {layer}: pins hold one group to two nodes"
    slots_D = nodes_of(problem)[0][layer]
    needed = problem.num_experts // problem.cluster.num_nodes
    if slots_D.min() < needed:
        node = int(slots_D.argmin())
        return (
            f"loads row {layer}: node {node} has {slots_D[node]} slots in service for the {needed} experts of "
            "its groups"
        )
    return f"loads row {layer}: pins hold more groups to a node than the {problem.num_groups // len(slots_D)} it takes"

"""Which groups of experts live on which node, when a group's experts stay together?

D nodes, M groups, M / D groups a node. Balance under this rule is lost on the partition, hardly on the packing inside a
node, so the partition is searched: a first answer by longest-first and swaps, then a depth-first search that fills
node by node and drops what cannot beat the best one. Few groups (8 on 4 nodes: 105 partitions) are searched to the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.experts.arrays import Bools, Floats, Ints
from weft.experts.compiled import compiled
from weft.experts.problem import NotApplicable, Problem

MAX_STEPS = 20_000  # of the depth-first search, a layer: some 5 ms


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
    node_of_group_LM, bound_L, steps_L = _search(
        problem.load_LN,
        num_groups,
        slots_LD if must_fit else np.maximum(slots_LD, num_experts // num_nodes),
        gpus_LD,
        speed_LD,
        fastest_LD,
        _pinned(problem) if must_fit else np.full((problem.num_layers, num_groups), -1, dtype=np.int64),
        bool(problem.cluster.is_uniform and (problem.capacity_LG == problem.capacity_LG[:, :1]).all()),
        max_steps,
    )
    if not np.isfinite(bound_L).all():
        return NotApplicable(reason=_why_not(problem, int(np.argmin(np.isfinite(bound_L)))))
    return GroupPartition(node_of_group_LM=node_of_group_LM, bound_L=bound_L, is_exact_L=steps_L <= max_steps)


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
        return f"layer {layer}: pins hold one group to two nodes"
    slots_D = nodes_of(problem)[0][layer]
    needed = problem.num_experts // problem.cluster.num_nodes
    if slots_D.min() < needed:
        node = int(slots_D.argmin())
        return f"layer {layer}: node {node} has {slots_D[node]} slots in service for the {needed} experts of its groups"
    return f"layer {layer}: pins hold more groups to a node than the {problem.num_groups // len(slots_D)} it takes"


@compiled
def _node_bound(
    load_N: Floats, members_K: Ints, size: int, slots: int, gpus: int, speed: float, fastest: float
) -> float:
    """Lower bound on the maximum of a node that holds groups members_K of `size` experts each."""
    num_experts = len(members_K) * size
    if slots < num_experts or gpus == 0:
        return np.inf
    total = 0.0
    mine_E = np.empty(num_experts)
    for k in range(len(members_K)):
        for i in range(size):
            mine_E[k * size + i] = load_N[members_K[k] * size + i]
            total += mine_E[k * size + i]
    mean = total / speed
    needed = 0
    for expert in range(num_experts):  # is every replica at or below the mean with the slots that there are?
        copies = max(1, int(np.ceil(mine_E[expert] / (mean * fastest) - 1e-12))) if mean > 0 else 1
        needed += copies if copies <= gpus else slots + 1
    if needed <= slots:
        return mean
    copies_E = np.ones(num_experts, dtype=np.int64)
    for _ in range(slots - num_experts + 1):  # Adams' apportionment; the last turn only reads the maximum
        hottest = np.argmax(mine_E / copies_E)
        if copies_E[hottest] == gpus:
            break
        copies_E[hottest] += 1
    else:
        copies_E[hottest] -= 1
    return float(max(mean, mine_E[hottest] / copies_E[hottest] / fastest))


@compiled
def _first_answer(
    load_N: Floats,
    load_M: Floats,
    order_M: Ints,
    slots_D: Ints,
    gpus_D: Ints,
    speed_D: Floats,
    fastest_D: Floats,
    pinned_M: Ints,
) -> Ints:
    """[D, K] groups of each node: longest first to the emptiest node with room, then swaps while the worst falls."""
    num_groups, num_nodes = len(load_M), len(slots_D)
    room = num_groups // num_nodes
    size = len(load_N) // num_groups
    groups_DK = np.full((num_nodes, room), -1, dtype=np.int64)
    taken_D = np.zeros(num_nodes, dtype=np.int64)
    sum_D = np.zeros(num_nodes)
    for is_free in range(2):  # pinned groups first
        for group in order_M:
            if (pinned_M[group] == -1) != (is_free == 1):
                continue
            best = -1
            for node in range(num_nodes):
                allowed = pinned_M[group] == -1 or pinned_M[group] == node
                if allowed and taken_D[node] < room and speed_D[node] > 0:
                    after = (sum_D[node] + load_M[group]) / speed_D[node]
                    if best < 0 or after < (sum_D[best] + load_M[group]) / speed_D[best]:
                        best = node
            if best < 0:
                groups_DK[:] = -1
                return groups_DK
            groups_DK[best, taken_D[best]] = group
            taken_D[best] += 1
            sum_D[best] += load_M[group]
    value_D = np.empty(num_nodes)
    for node in range(num_nodes):
        value_D[node] = _node_bound(
            load_N, groups_DK[node], size, slots_D[node], gpus_D[node], speed_D[node], fastest_D[node]
        )
    improved = True
    while improved:
        improved = False
        worst = np.argmax(value_D)
        for i in range(room):
            for other in range(num_nodes):
                for j in range(room):
                    a, b = groups_DK[worst, i], groups_DK[other, j]
                    if other == worst or pinned_M[a] >= 0 or pinned_M[b] >= 0:
                        continue
                    groups_DK[worst, i], groups_DK[other, j] = b, a
                    mine = _node_bound(
                        load_N, groups_DK[worst], size, slots_D[worst], gpus_D[worst], speed_D[worst], fastest_D[worst]
                    )
                    theirs = _node_bound(
                        load_N, groups_DK[other], size, slots_D[other], gpus_D[other], speed_D[other], fastest_D[other]
                    )
                    if max(mine, theirs) < value_D[worst] * (1 - 1e-12):
                        value_D[worst], value_D[other] = mine, theirs
                        improved = True
                        break
                    groups_DK[worst, i], groups_DK[other, j] = a, b
                if improved:
                    break
            if improved:
                break
    return groups_DK


@compiled
def _search(
    load_LN: Floats,
    num_groups: int,
    slots_LD: Ints,
    gpus_LD: Ints,
    speed_LD: Floats,
    fastest_LD: Floats,
    pinned_LM: Ints,
    is_symmetric: bool,
    max_steps: int,
) -> tuple[Ints, Floats, Ints]:
    """node_of_group_LM, bound_L and the steps taken (above max_steps where the search was cut off)."""
    num_layers, num_experts = load_LN.shape
    num_nodes = slots_LD.shape[1]
    size, room = num_experts // num_groups, num_groups // num_nodes
    node_of_group_LM = np.zeros((num_layers, num_groups), dtype=np.int64)
    bound_L = np.full(num_layers, np.inf)
    steps_L = np.zeros(num_layers, dtype=np.int64)
    for layer in range(num_layers):
        load_N, pinned_M = load_LN[layer], pinned_LM[layer]
        slots_D, gpus_D = slots_LD[layer], gpus_LD[layer]
        speed_D, fastest_D = speed_LD[layer], fastest_LD[layer]
        if pinned_M.min() < -1:
            continue
        load_M = load_N.reshape(num_groups, size).sum(axis=1)
        order_M = np.argsort(-load_M, kind="mergesort")
        groups_DK = _first_answer(load_N, load_M, order_M, slots_D, gpus_D, speed_D, fastest_D, pinned_M)
        if groups_DK[0, 0] < 0:
            continue
        best = 0.0
        for node in range(num_nodes):
            best = max(
                best,
                _node_bound(load_N, groups_DK[node], size, slots_D[node], gpus_D[node], speed_D[node], fastest_D[node]),
            )
            for k in range(room):
                node_of_group_LM[layer, groups_DK[node, k]] = node
        floor = load_M.sum() / speed_D.sum()
        may_mirror = is_symmetric and pinned_M.max() < 0  # equal nodes: the first one takes the heaviest group left

        chosen_M = np.full(num_groups, -1, dtype=np.int64)  # places in order_M; `room` of them a node
        used_M = np.zeros(num_groups, dtype=np.bool_)
        sum_D = np.zeros(num_nodes)
        at, steps = 0, 0
        while at >= 0 and best > floor * (1 + 1e-12):
            node, place = at // room, at % room
            previous = chosen_M[at]
            if previous >= 0:  # take the last choice back
                used_M[previous] = False
                sum_D[node] -= load_M[order_M[previous]]
            start = previous + 1
            if previous < 0 and place > 0:
                start = chosen_M[at - 1] + 1
            choice = -1
            if not (may_mirror and place == 0 and previous >= 0):
                for i in range(start, num_groups):
                    group = order_M[i]
                    if used_M[i] or (pinned_M[group] >= 0 and pinned_M[group] != node):
                        continue
                    if (sum_D[node] + load_M[group]) >= best * (1 - 1e-12) * speed_D[node]:
                        if may_mirror and place == 0:
                            break
                        continue
                    choice = i
                    break
            chosen_M[at] = choice
            if choice < 0:
                at -= 1
                continue
            steps += 1
            if steps > max_steps:
                break
            used_M[choice] = True
            sum_D[node] += load_M[order_M[choice]]
            if place == room - 1:
                for k in range(room):
                    groups_DK[node, k] = order_M[chosen_M[at - place + k]]
                value = _node_bound(
                    load_N, groups_DK[node], size, slots_D[node], gpus_D[node], speed_D[node], fastest_D[node]
                )
                left = load_M.sum() - sum_D[: node + 1].sum()
                if value >= best * (1 - 1e-12) or left >= best * speed_D[node + 1 :].sum() + 1e-12 * load_M.sum():
                    continue
                if at == num_groups - 1:
                    best = 0.0
                    for other in range(num_nodes):
                        best = max(
                            best,
                            _node_bound(
                                load_N,
                                groups_DK[other],
                                size,
                                slots_D[other],
                                gpus_D[other],
                                speed_D[other],
                                fastest_D[other],
                            ),
                        )
                        for k in range(room):
                            node_of_group_LM[layer, groups_DK[other, k]] = other
                    continue
            at += 1
            chosen_M[at] = -1
        bound_L[layer] = best
        steps_L[layer] = steps
    return node_of_group_LM, bound_L, steps_L

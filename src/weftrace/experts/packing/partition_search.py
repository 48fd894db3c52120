"""The search behind `group_partition`: M groups of equal size on D nodes, K = M / D on each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Bools, Floats, Ints


class _Layer(NamedTuple):
    """Loads of experts and groups of one layer; slots, GPUs, speeds of nodes; the node of a pinned group, else -1."""

    load_N: Floats
    load_M: Floats
    order_M: Ints  # groups, heaviest first
    slots_D: Ints
    gpus_D: Ints
    speed_D: Floats
    fastest_D: Floats
    pinned_M: Ints


@compiled
def search_partitions(
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
    """(node_of_group_LM, bound_L, steps_L); more steps than max_steps where a search was cut off.

    slots, GPUs, sum and maximum of speeds: of each node. pinned_LM: node of a group, -1 for any, -2 for none: such a
    layer, like one that does not fit, has an infinite bound. is_symmetric: nodes are equal, so homes may be renamed.
    """
    num_layers = len(load_LN)
    num_nodes, size = slots_LD.shape[1], load_LN.shape[1] // num_groups
    node_of_group_LM = np.zeros((num_layers, num_groups), dtype=np.int64)
    bound_L = np.full(num_layers, np.inf)
    steps_L = np.zeros(num_layers, dtype=np.int64)
    for at in range(num_layers):
        load_M = np.zeros(num_groups)
        for expert in range(num_groups * size):
            load_M[expert // size] += load_LN[at, expert]
        is_possible, is_pinned = True, False
        for group in range(num_groups):
            is_possible = is_possible and pinned_LM[at, group] >= -1
            is_pinned = is_pinned or pinned_LM[at, group] >= 0
        layer = _Layer(
            load_LN[at],
            load_M,
            _heaviest_first(load_M),
            slots_LD[at],
            gpus_LD[at],
            speed_LD[at],
            fastest_LD[at],
            pinned_LM[at],
        )
        best_DK = np.full((num_nodes, num_groups // num_nodes), -1, dtype=np.int64)
        if is_possible and _longest_first(layer, best_DK):
            _swap(layer, best_DK)
            may_rename = is_symmetric and not is_pinned
            steps_L[at], bound_L[at] = _depth_first(layer, best_DK, may_rename, max_steps)
            for node in range(num_nodes):
                for group in best_DK[node]:
                    node_of_group_LM[at, group] = node
    return node_of_group_LM, bound_L, steps_L


@compiled_part
def _heaviest_first(load_M: Floats) -> Ints:
    order_M = np.empty(len(load_M), dtype=np.int64)
    for group in range(len(load_M)):
        at = group
        while at > 0 and load_M[order_M[at - 1]] < load_M[group]:
            order_M[at] = order_M[at - 1]
            at -= 1
        order_M[at] = group
    return order_M


@compiled_part
def _sum(values_K: Floats, first: int, end: int) -> float:
    total = 0.0
    for at in range(first, end):
        total += values_K[at]
    return total


@compiled_part
def _bound(layer: _Layer, node: int, groups_K: Ints) -> float:
    """Lower bound on the maximum of a node that holds these groups: its mean, and its hottest replica."""
    size = len(layer.load_N) // len(layer.load_M)
    num_experts = len(groups_K) * size
    slots, gpus = layer.slots_D[node], layer.gpus_D[node]
    if slots < num_experts or gpus == 0:
        return np.inf
    load_E = np.empty(num_experts)
    for k in range(len(groups_K)):
        for i in range(size):
            load_E[k * size + i] = layer.load_N[groups_K[k] * size + i]
    mean = _sum(load_E, 0, num_experts) / layer.speed_D[node]
    needed = 0
    for load in load_E:  # can every replica be at or below the mean with the slots that there are?
        copies = max(1, int(np.ceil(load / (mean * layer.fastest_D[node]) - 1e-12))) if mean > 0 else 1
        needed += copies if copies <= gpus else slots + 1
    if needed <= slots:
        return float(mean)
    copies_E = np.ones(num_experts, dtype=np.int64)
    hottest = int(np.argmax(load_E))
    for _ in range(slots - num_experts):  # Adams' apportionment
        if copies_E[hottest] == gpus:
            break
        copies_E[hottest] += 1
        hottest = 0
        for expert in range(1, num_experts):
            if load_E[expert] / copies_E[expert] > load_E[hottest] / copies_E[hottest]:
                hottest = expert
    return float(max(mean, load_E[hottest] / copies_E[hottest] / layer.fastest_D[node]))


@compiled_part
def _longest_first(layer: _Layer, groups_DK: Ints) -> bool:
    """Fill groups_DK, pinned groups first: the heaviest to the node that ends earliest. False: pins leave no room."""
    num_nodes, room = groups_DK.shape
    taken_D = np.zeros(num_nodes, dtype=np.int64)
    sum_D = np.zeros(num_nodes)
    for is_free in (False, True):
        for group in layer.order_M:
            pin = layer.pinned_M[group]
            if (pin == -1) != is_free:
                continue
            best, soonest = -1, np.inf
            for node in range(num_nodes):
                if pin in (-1, node) and taken_D[node] < room and layer.speed_D[node] > 0:
                    end = (sum_D[node] + layer.load_M[group]) / layer.speed_D[node]
                    if end < soonest:
                        best, soonest = node, end
            if best < 0:
                return False
            groups_DK[best, taken_D[best]] = group
            taken_D[best] += 1
            sum_D[best] += layer.load_M[group]
    return True


@compiled_part
def _swap(layer: _Layer, groups_DK: Ints) -> None:
    """Exchange groups of the worst node with those of others as long as the larger of the two bounds falls."""
    num_nodes = len(groups_DK)
    bound_D = np.empty(num_nodes)
    for node in range(num_nodes):
        bound_D[node] = _bound(layer, node, groups_DK[node])
    while _swap_once(layer, groups_DK, bound_D):
        pass


@compiled_part
def _swap_once(layer: _Layer, groups_DK: Ints, bound_D: Floats) -> bool:
    num_nodes, room = groups_DK.shape
    worst = int(np.argmax(bound_D))
    for i in range(room):
        for other in range(num_nodes):
            for j in range(room):
                a, b = groups_DK[worst, i], groups_DK[other, j]
                if other == worst or layer.pinned_M[a] >= 0 or layer.pinned_M[b] >= 0:
                    continue
                groups_DK[worst, i], groups_DK[other, j] = b, a
                mine, theirs = _bound(layer, worst, groups_DK[worst]), _bound(layer, other, groups_DK[other])
                if max(mine, theirs) < bound_D[worst] * (1 - 1e-12):
                    bound_D[worst], bound_D[other] = mine, theirs
                    return True
                groups_DK[worst, i], groups_DK[other, j] = a, b
    return False


@compiled_part
def _depth_first(layer: _Layer, best_DK: Ints, may_rename: bool, max_steps: int) -> tuple[int, float]:
    """(steps, bound): fill node by node, heavier groups first, and drop what cannot beat best_DK, which is improved.

    Within a node groups come in order, so no set of them comes twice. Among equal nodes the first to be filled takes
    the heaviest group that is left.
    """
    num_nodes, room = best_DK.shape
    num_groups = num_nodes * room
    total = _sum(layer.load_M, 0, num_groups)
    floor = total / _sum(layer.speed_D, 0, num_nodes) * (1 + 1e-12)
    best = 0.0
    for node in range(num_nodes):
        best = max(best, _bound(layer, node, best_DK[node]))
    chosen_M = np.full(num_groups, -1, dtype=np.int64)  # places in order_M, `room` of them a node
    groups_DK = np.empty_like(best_DK)
    bound_D = np.zeros(num_nodes)
    used_M = np.zeros(num_groups, dtype=np.bool_)
    sum_D = np.zeros(num_nodes)
    at, steps = 0, 0
    while at >= 0 and best > floor:
        node, place = at // room, at % room
        previous = chosen_M[at]
        if previous >= 0:  # take the last choice back
            used_M[previous] = False
            sum_D[node] -= layer.load_M[layer.order_M[previous]]
        is_first = may_rename and place == 0
        start = previous + 1
        if previous < 0 and place > 0:
            start = chosen_M[at - 1] + 1
        choice = -1
        if not (is_first and previous >= 0):
            choice = _next_group(layer, node, start, used_M, best * layer.speed_D[node] - sum_D[node], is_first)
        chosen_M[at] = choice
        if choice < 0:
            at -= 1
            continue
        steps += 1
        if steps > max_steps:
            break
        used_M[choice] = True
        groups_DK[node, place] = layer.order_M[choice]
        sum_D[node] += layer.load_M[layer.order_M[choice]]
        if place == room - 1:
            bound_D[node] = _bound(layer, node, groups_DK[node])
            left = total - _sum(sum_D, 0, node + 1)
            speed_left = _sum(layer.speed_D, node + 1, num_nodes)
            if bound_D[node] >= best * (1 - 1e-12) or left >= best * speed_left + 1e-12 * total:
                continue
            if node == num_nodes - 1:
                best = bound_D[0]
                for which in range(1, num_nodes):
                    best = max(best, bound_D[which])
                for which in range(num_groups):  # assigning whole arrays takes Numba seconds to compile
                    best_DK[which // room, which % room] = groups_DK[which // room, which % room]
                continue
        at += 1
        chosen_M[at] = -1
    return steps, best


@compiled_part
def _next_group(layer: _Layer, node: int, start: int, used_M: Bools, room: float, is_first: bool) -> int:
    """Place in order_M of the next group that the node may take and that is lighter than `room`; -1 for none."""
    for place in range(start, len(used_M)):
        group = layer.order_M[place]
        if used_M[place] or (layer.pinned_M[group] >= 0 and layer.pinned_M[group] != node):
            continue
        if layer.load_M[group] < room * (1 - 1e-12):
            return place
        if is_first:
            return -1
    return -1

"""The same placement under other slot numbers, so that more of the old one stays where it is.

The slots of a GPU are interchangeable, and so are the GPUs of a node where all are alike: to exchange them changes no
load. A new plan knows nothing of the old numbers; giving it those that fit best saves moves for nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.errors import PlacementError
from weftrace.experts.arrays import Ints, frozen
from weftrace.experts.cluster import Cluster
from weftrace.experts.placement import Placement


def relabel(old: Placement, new: Placement, *, gpus: bool = True) -> Placement:
    """`new` with its slots renumbered within each GPU, and its GPUs within each node, to hold what `old` has there.

    gpus: also exchange whole GPUs of a node, layer by layer, where the cluster is uniform (elsewhere GPUs differ, and
    only slots are exchanged); not for placements with pins, which it does not know. GPUs are matched greedily by the
    experts that they share, then by exchanging pairs while that helps. Loads of GPUs are the same numbers in another
    order, those of nodes are the same; so the certificate stays true.
    Raises `PlacementError` where the two are of different layers, experts or slots.
    """
    check_same_shape(old, new)
    first_slot_G = new.cluster.first_slot_G
    map_LP, share_LP = new.expert_of_slot_LP, new.share_of_slot_LP
    old_LP = old.expert_of_slot_LP
    if gpus and new.cluster.is_uniform:
        order_LG = _match_gpus(old_LP, map_LP, new.num_experts, first_slot_G, new.cluster.gpus_per_node)
        slots = int(new.cluster.slots_G[0])
        order_LP = (order_LG[:, :, None] * slots + np.arange(slots)).reshape(map_LP.shape)
        map_LP = np.take_along_axis(map_LP, order_LP, axis=1)
        share_LP = np.take_along_axis(share_LP, order_LP, axis=1)
    order_LP = kept_slots(old_LP, map_LP, first_slot_G)
    return replace(
        new,
        expert_of_slot_LP=frozen(np.take_along_axis(map_LP, order_LP, axis=1)),
        share_of_slot_LP=frozen(np.take_along_axis(share_LP, order_LP, axis=1)),
    )


def check_same_shape(old: Placement, new: Placement) -> None:
    """Raise `PlacementError` unless both have the same layers, experts, and slots on each GPU."""
    if (old.num_layers, old.num_experts) != (new.num_layers, new.num_experts):
        raise PlacementError(
            f"the old placement has {old.num_layers} layers of {old.num_experts} experts, "
            f"and the new one {new.num_layers} of {new.num_experts}"
        )
    check_same_slots(old.cluster, new.cluster)


def check_same_slots(old: Cluster, new: Cluster) -> None:
    """Raise `PlacementError` unless both have the same nodes, and the same slots on each GPU."""
    if (old.num_gpus, old.num_nodes) != (new.num_gpus, new.num_nodes):
        raise PlacementError(
            f"the old placement is on {old.num_gpus} GPUs in {old.num_nodes} nodes, and the new one on "
            f"{new.num_gpus} in {new.num_nodes}; a GPU that left is one of dead or draining"
        )
    if not np.array_equal(old.slots_G, new.slots_G):
        gpu = int(np.argmax(old.slots_G != new.slots_G))
        raise PlacementError(
            f"GPU {gpu} has {old.slots_G[gpu]} slots in the old placement and {new.slots_G[gpu]} in the new one; "
            "moves cannot change that"
        )


def kept_slots(old_LP: Ints, new_LP: Ints, first_slot_G: Ints) -> Ints:
    """[L, P] for each slot, which slot of `new_LP`, on the same GPU, to take its expert from.

    Experts that the GPU held before return to their old slots, the others take what is left in their own order. The
    same slots are filled as before the exchange.
    """
    return _kept_slots(np.require(old_LP, np.int64, ["C", "W"]), np.require(new_LP, np.int64, ["C", "W"]), first_slot_G)


@compiled
def _kept_slots(old_LP: Ints, new_LP: Ints, first_slot_G: Ints) -> Ints:
    num_layers, num_slots = new_LP.shape
    order_LP = np.full((num_layers, num_slots), -1, dtype=np.int64)
    for layer in range(num_layers):
        for gpu in range(len(first_slot_G) - 1):
            first, end = first_slot_G[gpu], first_slot_G[gpu + 1]
            used_P = np.zeros(end - first, dtype=np.bool_)
            for slot in range(first, end):
                if new_LP[layer, slot] < 0:  # an empty slot stays one
                    order_LP[layer, slot] = slot
                    used_P[slot - first] = True
            for own in range(2):  # first what is in its place already, of two copies not the other one
                for slot in range(first, end):
                    if order_LP[layer, slot] >= 0:
                        continue
                    for source in range(first, end):
                        is_own = source == slot or own == 1
                        if is_own and not used_P[source - first] and new_LP[layer, source] == old_LP[layer, slot]:
                            order_LP[layer, slot] = source
                            used_P[source - first] = True
                            break
            source = first
            for slot in range(first, end):
                if order_LP[layer, slot] < 0:
                    while used_P[source - first]:
                        source += 1
                    order_LP[layer, slot] = source
                    used_P[source - first] = True
    return order_LP


def _match_gpus(old_LP: Ints, new_LP: Ints, num_experts: int, first_slot_G: Ints, gpus_per_node: int) -> Ints:
    return _matched_gpus(
        np.require(old_LP, np.int64, ["C", "W"]),
        np.require(new_LP, np.int64, ["C", "W"]),
        num_experts,
        first_slot_G,
        gpus_per_node,
    )


@compiled
def _matched_gpus(old_LP: Ints, new_LP: Ints, num_experts: int, first_slot_G: Ints, gpus_per_node: int) -> Ints:
    """[L, G] for each GPU, which GPU of `new_LP`, of the same node, to take the experts from."""
    num_layers, num_gpus = len(new_LP), len(first_slot_G) - 1
    order_LG = np.full((num_layers, num_gpus), -1, dtype=np.int64)
    common_GG = np.zeros((gpus_per_node, gpus_per_node), dtype=np.int64)  # old GPU, new GPU
    for layer in range(num_layers):
        for node_start in range(0, num_gpus, gpus_per_node):
            node_end = node_start + gpus_per_node
            for old in range(node_start, node_end):
                for new in range(node_start, node_end):
                    common_GG[old - node_start, new - node_start] = _common(
                        old_LP[layer, first_slot_G[old] : first_slot_G[old + 1]],
                        new_LP[layer, first_slot_G[new] : first_slot_G[new + 1]],
                    )
            choice_G = _assign(common_GG)
            for gpu in range(node_start, node_end):
                order_LG[layer, gpu] = node_start + choice_G[gpu - node_start]
    return order_LG


@compiled_part
def _common(one_S: Ints, other_S: Ints) -> int:
    """How many experts both have, copies counted."""
    used_S = np.zeros(len(other_S), dtype=np.bool_)
    num = 0
    for expert in one_S:
        for at in range(len(other_S)):
            if expert >= 0 and not used_S[at] and other_S[at] == expert:
                used_S[at] = True
                num += 1
                break
    return num


@compiled_part
def _assign(common_GG: Ints) -> Ints:
    """A permutation with a large sum of common_GG[i, choice[i]]: largest first, ties to itself, then exchanges."""
    num = len(common_GG)
    choice_G = np.full(num, -1, dtype=np.int64)
    taken_G = np.zeros(num, dtype=np.bool_)
    for _ in range(num):
        best, row, column = -1, 0, 0
        for i in range(num):
            if choice_G[i] >= 0:
                continue
            for j in range(num):
                worth = 2 * common_GG[i, j] + (1 if i == j else 0)
                if not taken_G[j] and worth > best:
                    best, row, column = worth, i, j
        choice_G[row] = column
        taken_G[column] = True
    better = True
    while better:
        better = False
        for i in range(num):
            for j in range(i):
                now = common_GG[i, choice_G[i]] + common_GG[j, choice_G[j]]
                if common_GG[i, choice_G[j]] + common_GG[j, choice_G[i]] > now:
                    choice_G[i], choice_G[j] = choice_G[j], choice_G[i]
                    better = True
    return choice_G

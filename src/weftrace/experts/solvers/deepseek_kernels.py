"""The loops of DeepSeek's balancer, compiled: copies, packing, slots. Loads are float32, as published.

The published code looks through all experts for each extra slot and through all GPUs for each replica. Here tournaments
(complete binary trees, the best of two children in each parent) give the same answers in a logarithm of the time. They
are of whole numbers, load above position: a root names its winner, ties settle themselves, and no branch is guessed.

And what the published code lacks, `part_copies`: two copies of an expert on one GPU do the work of one and cost two
slots, so they are parted where that can be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weftrace.compiled import compiled, compiled_part, compiled_when_slow
from weftrace.experts.arrays import Floats, Ints

Float32s = NDArray[np.float32]

LAST = 0xFFFFFFFF  # the lower half of a key, where the position stands
FULL = 2**63 - 1


@compiled
def replicate(
    load_LN: Float32s, load_LK: Float32s, order_LK: Ints, num_nodes: int, num_slots: int
) -> tuple[Ints, Ints, Float32s, Ints]:
    """Groups to nodes, then extra copies within each node: replicas [L, P], node by node, in order of creation.

    load_LK, order_LK: load of each group, and the groups from the heaviest down.
    Returns the expert of each replica, which of its expert's copies it is, its load, and the copies of each expert.
    """
    num_layers, num_experts = load_LN.shape
    num_groups = load_LK.shape[1]
    per_group, per_node, slots_per_node = num_experts // num_groups, num_experts // num_nodes, num_slots // num_nodes
    expert_LR = np.empty((num_layers, num_slots), dtype=np.int64)
    creation_LR = np.empty((num_layers, num_slots), dtype=np.int64)
    value_LR = np.empty((num_layers, num_slots), dtype=np.float32)
    copies_LN = np.ones((num_layers, num_experts), dtype=np.int64)
    place_K = np.empty(num_groups, dtype=np.int64)
    tree_of_nodes = np.empty(2 * _leaves(num_nodes), dtype=np.int64)
    load_G = np.empty(num_nodes, dtype=np.float32)
    held_G = np.empty(num_nodes, dtype=np.int64)
    expert_N = np.empty(num_experts, dtype=np.int64)  # in the order in which they stand on the nodes
    tree = np.empty(2 * _leaves(per_node), dtype=np.int64)
    for layer in range(num_layers):
        _pack(load_LK[layer], order_LK[layer], num_nodes, tree_of_nodes, load_G, held_G, place_K)
        for group in range(num_groups):
            for member in range(per_group):
                expert_N[place_K[group] * per_group + member] = group * per_group + member
        for node in range(num_nodes):
            expert_M = expert_N[node * per_node : (node + 1) * per_node]
            first, last = node * slots_per_node, (node + 1) * slots_per_node
            for m in range(per_node):
                expert_LR[layer, first + m] = expert_M[m]
                creation_LR[layer, first + m] = 0
            _copy_hottest(
                load_LN[layer],
                expert_M,
                copies_LN[layer],
                tree,
                expert_LR[layer, first + per_node : last],
                creation_LR[layer, first + per_node : last],
            )
        for replica in range(num_slots):
            expert = expert_LR[layer, replica]
            value_LR[layer, replica] = load_LN[layer, expert] / np.float32(copies_LN[layer, expert])
    return expert_LR, creation_LR, value_LR, copies_LN


@compiled_part
def _copy_hottest(
    load_N: Float32s, expert_M: Ints, copies_N: Ints, tree: Ints, expert_R: Ints, creation_R: Ints
) -> None:
    """Each extra slot to the expert of the node with the largest load a copy, the first of equals; counts the copies.

    tree: room for a tournament of keys, in which a larger load a copy, or an earlier place, is a larger key.
    """
    num_leaves = len(tree) >> 1
    tree[:] = -1
    for m in range(len(expert_M)):
        tree[num_leaves + m] = _bits(load_N[expert_M[m]]) << 32 | (LAST - m)
    for i in range(num_leaves - 1, 0, -1):
        tree[i] = max(tree[2 * i], tree[2 * i + 1])
    for replica in range(len(expert_R)):
        m = LAST - (tree[1] & LAST)
        expert = expert_M[m]
        expert_R[replica] = expert
        creation_R[replica] = copies_N[expert]
        copies_N[expert] += 1
        i = num_leaves + m
        best = _bits(load_N[expert] / np.float32(copies_N[expert])) << 32 | (LAST - m)
        tree[i] = best
        while i > 1:
            best = max(best, tree[i ^ 1])
            i >>= 1
            tree[i] = best


@compiled
def pack_on_gpus(
    expert_LR: Ints, creation_LR: Ints, value_LR: Float32s, order_LR: Ints, num_nodes: int, num_gpus: int
) -> tuple[Ints, Ints]:
    """Replicas to slots, node by node: the expert of each slot, and which of its copies that is."""
    num_layers, num_slots = expert_LR.shape
    slots_per_node = num_slots // num_nodes
    ordered_per_node = order_LR.shape[1] // num_nodes
    phy2log_LP = np.empty((num_layers, num_slots), dtype=np.int64)
    creation_LP = np.empty((num_layers, num_slots), dtype=np.int64)
    place_R = np.empty(slots_per_node, dtype=np.int64)
    gpus_per_node = num_gpus // num_nodes
    tree = np.empty(2 * _leaves(gpus_per_node), dtype=np.int64)
    load_G = np.empty(gpus_per_node, dtype=np.float32)
    held_G = np.empty(gpus_per_node, dtype=np.int64)
    for layer in range(num_layers):
        for node in range(num_nodes):
            first = node * slots_per_node
            value_R = value_LR[layer, first : first + slots_per_node]
            order_R = order_LR[layer, node * ordered_per_node : (node + 1) * ordered_per_node]
            _pack(value_R, order_R, gpus_per_node, tree, load_G, held_G, place_R)
            for replica in range(slots_per_node):
                phy2log_LP[layer, first + place_R[replica]] = expert_LR[layer, first + replica]
                creation_LP[layer, first + place_R[replica]] = creation_LR[layer, first + replica]
    return phy2log_LP, creation_LP


@compiled_part
def _pack(
    value_K: Float32s, order_K: Ints, num_packs: int, tree: Ints, load_G: Float32s, held_G: Ints, place_K: Ints
) -> None:
    """Each item, in order, goes to the first of the least loaded packs that have room; loads add up in float32.

    Writes place_K: pack * (items a pack) + position in the pack. One item a pack: item k is pack k, whatever the order.
    tree, load_G, held_G: room for a tournament of the packs, in which a smaller load, or an earlier pack, is a smaller
    key; the packs' loads; and the items that they hold.
    """
    num_items = len(value_K)
    per_pack = num_items // num_packs
    if per_pack == 1:
        for item in range(num_items):
            place_K[item] = item
        return
    num_leaves = len(tree) >> 1
    tree[:] = FULL
    for pack in range(num_packs):
        tree[num_leaves + pack] = pack  # the key of a load of 0
    for i in range(num_leaves - 1, 0, -1):
        tree[i] = min(tree[2 * i], tree[2 * i + 1])
    load_G[:] = 0.0
    held_G[:] = 0
    for item in order_K:
        pack = tree[1] & LAST
        place_K[item] = pack * per_pack + held_G[pack]
        load_G[pack] += value_K[item]
        held_G[pack] += 1
        i = num_leaves + pack
        best = _bits(load_G[pack]) << 32 | pack if held_G[pack] < per_pack else FULL
        tree[i] = best
        while i > 1:
            best = min(best, tree[i ^ 1])
            i >>= 1
            tree[i] = best


@compiled_part
def _bits(load: np.float32) -> np.int64:
    """A whole number below 2^31 that grows with a load of 0 or more; -0 is 0."""
    return np.int64(np.float32(load + np.float32(0)).view(np.int32))


@compiled_part
def _leaves(num_players: int) -> int:
    """Leaves of a tournament: the next power of two."""
    num_leaves = 1
    while num_leaves < num_players:
        num_leaves *= 2
    return num_leaves


def slots_by_creation(phy2log_LP: Ints, creation_LP: Ints, num_experts: int, most: int) -> Ints:
    """[L, N, X] slots of each expert in the order in which its copies were made, -1 after the last."""
    # NumPy asks the system for huge pages and Numba does not; for 1000 layers that is a quarter of the time.
    log2phy_LNX = np.full((len(phy2log_LP), num_experts, most), -1, dtype=np.int64)
    _enter_slots(phy2log_LP, creation_LP, log2phy_LNX)
    return log2phy_LNX


@compiled_when_slow
def _enter_slots(phy2log_LP: Ints, creation_LP: Ints, log2phy_LNX: Ints) -> None:
    num_layers, num_slots = phy2log_LP.shape
    for layer in range(num_layers):
        for slot in range(num_slots):
            log2phy_LNX[layer, phy2log_LP[layer, slot], creation_LP[layer, slot]] = slot


@compiled
def part_copies(expert_of_slot_LP: Ints, load_LN: Floats, num_nodes: int, num_gpus: int) -> None:
    """Change a map with an even split, in place, so that no GPU holds an expert twice where that can be had.

    int64 [L, P], all slots filled, P / G of them on each GPU. Experts stay on their nodes (num_nodes 1: anywhere).
    First, an expert with more copies than its node has GPUs gives copies to the experts of the node with the largest
    load a copy that have room. Then each repeat is swapped with a replica of another GPU, so that repeats grow fewer:
    with the one that leaves the larger of the two GPUs' loads least. There always is one: some GPU lacks the expert,
    and holds either a repeat of its own or an expert that the first GPU lacks. Nodes without repeats are left alone.
    """
    num_layers, num_slots = expert_of_slot_LP.shape
    node_slots, gpu_slots = num_slots // num_nodes, num_slots // num_gpus
    held_GN = np.zeros((num_gpus // num_nodes, load_LN.shape[1]), dtype=np.int64)
    copies_N = np.zeros(load_LN.shape[1], dtype=np.int64)
    for layer in range(num_layers):
        for node in range(num_nodes):
            expert_S = expert_of_slot_LP[layer, node * node_slots : (node + 1) * node_slots]
            if _has_repeat(expert_S, gpu_slots):
                for slot in range(node_slots):
                    held_GN[slot // gpu_slots, expert_S[slot]] += 1
                    copies_N[expert_S[slot]] += 1
                _cap_copies(expert_S, load_LN[layer], copies_N, held_GN, gpu_slots)
                _swap_repeats(expert_S, load_LN[layer], copies_N, held_GN, gpu_slots)
                for slot in range(node_slots):  # back to 0, cheaper than all of the table
                    held_GN[slot // gpu_slots, expert_S[slot]] = 0
                    copies_N[expert_S[slot]] = 0


@compiled_part
def _has_repeat(expert_S: Ints, gpu_slots: int) -> bool:
    for slot in range(len(expert_S)):
        for other in range(slot // gpu_slots * gpu_slots, slot):
            if expert_S[other] == expert_S[slot]:
                return True
    return False


@compiled_part
def _cap_copies(expert_S: Ints, load_N: Floats, copies_N: Ints, held_GN: Ints, gpu_slots: int) -> None:
    """No expert keeps more copies than the node has GPUs (or, where a GPU has more slots than the node experts, more
    than it takes to fill them equally)."""
    node_gpus = len(held_GN)
    num_experts = (copies_N > 0).sum()
    most = node_gpus if gpu_slots <= num_experts else -(-len(expert_S) // num_experts)
    for slot in range(len(expert_S) - 1, -1, -1):
        expert, gpu = expert_S[slot], slot // gpu_slots
        if copies_N[expert] <= most or held_GN[gpu, expert] < 2:
            continue
        neediest = -1
        for other in range(len(load_N)):
            if 0 < copies_N[other] < most and (
                neediest < 0 or load_N[other] / copies_N[other] > load_N[neediest] / copies_N[neediest]
            ):
                neediest = other
        expert_S[slot] = neediest
        copies_N[expert] -= 1
        copies_N[neediest] += 1
        held_GN[gpu, expert] -= 1
        held_GN[gpu, neediest] += 1


@compiled_part
def _swap_repeats(expert_S: Ints, load_N: Floats, copies_N: Ints, held_GN: Ints, gpu_slots: int) -> None:
    """Swap repeats away, as long as a swap leaves fewer of them."""
    value_N = load_N / np.maximum(copies_N, 1)
    load_G = np.zeros(len(held_GN))
    for slot in range(len(expert_S)):
        load_G[slot // gpu_slots] += value_N[expert_S[slot]]
    is_changing = True
    while is_changing:
        is_changing = False
        for slot in range(len(expert_S)):
            expert, gpu = expert_S[slot], slot // gpu_slots
            if held_GN[gpu, expert] < 2:
                continue
            other = _best_swap(expert_S, value_N, load_G, held_GN, slot, gpu_slots)
            if other < 0:
                continue
            expert_there, gpu_there = expert_S[other], other // gpu_slots
            expert_S[slot], expert_S[other] = expert_there, expert
            held_GN[gpu, expert] -= 1
            held_GN[gpu, expert_there] += 1
            held_GN[gpu_there, expert_there] -= 1
            held_GN[gpu_there, expert] += 1
            load_G[gpu] += value_N[expert_there] - value_N[expert]
            load_G[gpu_there] += value_N[expert] - value_N[expert_there]
            is_changing = True


@compiled_part
def _best_swap(expert_S: Ints, value_N: Floats, load_G: Floats, held_GN: Ints, slot: int, gpu_slots: int) -> int:
    """The slot to swap a repeat with: repeats grow fewer and the larger of the two loads is least; -1 if none does."""
    expert, gpu = expert_S[slot], slot // gpu_slots
    best, best_load = -1, np.inf
    for other in range(len(expert_S)):
        expert_there, gpu_there = expert_S[other], other // gpu_slots
        if gpu_there == gpu or expert_there == expert:
            continue
        gained = (held_GN[gpu, expert_there] > 0) + (held_GN[gpu_there, expert] > 0)
        lost = 1 + (held_GN[gpu_there, expert_there] > 1)
        change = value_N[expert_there] - value_N[expert]
        load = max(load_G[gpu] + change, load_G[gpu_there] - change)
        if gained < lost and load < best_load:
            best, best_load = other, load
    return best

"""No expert twice on a GPU: a map that a simple balancer made, repaired where it can be.

Two copies of an expert on one GPU do the work of one and cost two slots.
"""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.compiled import compiled


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


@compiled
def _has_repeat(expert_S: Ints, gpu_slots: int) -> bool:
    for slot in range(len(expert_S)):
        for other in range(slot // gpu_slots * gpu_slots, slot):
            if expert_S[other] == expert_S[slot]:
                return True
    return False


@compiled
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


@compiled
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


@compiled
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

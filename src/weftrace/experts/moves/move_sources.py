"""From which slot does a moved expert come?"""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Bools, Ints
from weftrace.experts.compiled import compiled


@compiled
def find_sources(
    old_LP: Ints,
    layer_M: Ints,
    slot_M: Ints,
    expert_M: Ints,
    gpu_of_slot_P: Ints,
    alive_G: Bools,
    gpus_per_node: int,
    num_experts: int,
) -> Ints:
    """[M] for each move a slot of the old map that holds the expert: on the same GPU, else in the same node, else
    anywhere; among equals the one whose GPU sends least so far, then the lowest. -1 where no GPU alive holds it.

    The moves must be sorted by layer. Experts with one copy choose first, for the others can still go round them.
    """
    num_slots, num_moves = old_LP.shape[1], len(slot_M)
    from_slot_M = np.full(num_moves, -1, dtype=np.int64)
    sends_G = np.zeros(len(alive_G), dtype=np.int64)
    first_N = np.empty(num_experts, dtype=np.int64)
    next_P = np.empty(num_slots, dtype=np.int64)
    for is_choice in range(2):
        layer = -1
        for move in range(num_moves):
            if layer_M[move] != layer:
                layer = layer_M[move]
                first_N[:] = -1
                for slot in range(num_slots - 1, -1, -1):
                    expert = old_LP[layer, slot]
                    if expert >= 0 and alive_G[gpu_of_slot_P[slot]]:
                        next_P[slot], first_N[expert] = first_N[expert], slot
            first = int(first_N[expert_M[move]])
            if first < 0 or (next_P[first] >= 0) != (is_choice == 1):
                continue
            to_gpu = gpu_of_slot_P[slot_M[move]]
            best, chosen, at = 0, -1, first
            while at >= 0:
                gpu = gpu_of_slot_P[at]
                distance = 0 if gpu == to_gpu else 1 if gpu // gpus_per_node == to_gpu // gpus_per_node else 2
                cost = distance * (num_moves + 1) + (sends_G[gpu] if distance else 0)
                if chosen < 0 or cost < best:
                    best, chosen = int(cost), int(at)
                at = int(next_P[at])
            from_slot_M[move] = chosen
            if gpu_of_slot_P[chosen] != to_gpu:
                sends_G[gpu_of_slot_P[chosen]] += 1
    return from_slot_M

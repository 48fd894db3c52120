"""Arithmetic on a map of slots: copies, shares, loads. Maps are int64 [L, P], -1 for an empty slot."""

from __future__ import annotations

import numpy as np

from weftrace.compiled import compiled, compiled_when_slow
from weftrace.experts.arrays import Floats, Ints


def copies_of(expert_of_slot_LP: Ints, num_experts: int) -> Ints:
    """[L, N] how many slots hold each expert."""
    layer_F, slot_F = np.nonzero(expert_of_slot_LP >= 0)  # F: slots that are filled, of all layers
    cell_F = layer_F * num_experts + expert_of_slot_LP[layer_F, slot_F]
    num_layers = len(expert_of_slot_LP)
    return np.bincount(cell_F, minlength=num_layers * num_experts).reshape(num_layers, num_experts)


def slots_of(expert_of_slot_LP: Ints, num_experts: int) -> Ints:
    """[L, N, X] slots of each expert, ascending, -1 after the last; X is the largest copy count."""
    copies_LN = copies_of(expert_of_slot_LP, num_experts)
    return _slots_of(expert_of_slot_LP, num_experts, int(copies_LN.max(initial=0)))


@compiled_when_slow
def _slots_of(expert_of_slot_LP: Ints, num_experts: int, most: int) -> Ints:
    num_layers, num_slots = expert_of_slot_LP.shape
    slots_LNX = np.full((num_layers, num_experts, most), -1, dtype=np.int64)
    for layer in range(num_layers):
        seen_N = np.zeros(num_experts, dtype=np.int64)
        for slot in range(num_slots):
            expert = expert_of_slot_LP[layer, slot]
            if expert >= 0:
                slots_LNX[layer, expert, seen_N[expert]] = slot
                seen_N[expert] += 1
    return slots_LNX


def even_shares(expert_of_slot_LP: Ints, num_experts: int) -> Floats:
    """[L, P] 1 / copies of the slot's expert; 0 in an empty slot."""
    copies_LN = copies_of(expert_of_slot_LP, num_experts)
    copies_LP = np.take_along_axis(copies_LN, np.maximum(expert_of_slot_LP, 0), axis=1)
    filled_LP = expert_of_slot_LP >= 0
    share_LP: Floats = np.divide(1.0, copies_LP, out=np.zeros(copies_LP.shape), where=filled_LP)
    return share_LP


def load_of_gpus(expert_of_slot_LP: Ints, share_LP: Floats, load_LN: Floats, first_slot_G: Ints) -> Floats:
    """[L, G] load of each GPU. first_slot_G: [G + 1], first slot of each GPU, then P."""
    num_layers, num_gpus = len(expert_of_slot_LP), len(first_slot_G) - 1
    gpu_P = np.repeat(np.arange(num_gpus), np.diff(first_slot_G))
    layer_F, slot_F = np.nonzero(expert_of_slot_LP >= 0)
    load_F = load_LN[layer_F, expert_of_slot_LP[layer_F, slot_F]] * share_LP[layer_F, slot_F]
    cell_F = layer_F * num_gpus + gpu_P[slot_F]
    load_X = np.bincount(cell_F, weights=load_F, minlength=num_layers * num_gpus)
    return np.asarray(load_X, dtype=np.float64).reshape(num_layers, num_gpus)


@compiled
def lay_out(expert_LR: Ints, gpu_of_replica_LR: Ints, first_slot_G: Ints) -> Ints:
    """[L, P] map of slots from replicas with a GPU each, in the order of the replicas; -1 in slots left over.

    A replica on GPU -1 is left out. No GPU may have more replicas than slots.
    """
    num_layers, num_replicas = expert_LR.shape
    num_gpus = len(first_slot_G) - 1
    expert_of_slot_LP = np.full((num_layers, first_slot_G[num_gpus]), -1, dtype=np.int64)
    for layer in range(num_layers):
        next_slot_G = first_slot_G[:num_gpus].copy()
        for replica in range(num_replicas):
            gpu = gpu_of_replica_LR[layer, replica]
            if gpu >= 0:
                assert next_slot_G[gpu] < first_slot_G[gpu + 1]
                expert_of_slot_LP[layer, next_slot_G[gpu]] = expert_LR[layer, replica]
                next_slot_G[gpu] += 1
    return expert_of_slot_LP


@compiled
def num_repeats(expert_of_slot_LP: Ints, first_slot_G: Ints) -> Ints:
    """[L] slots that hold an expert which a lower slot of the same GPU holds already."""
    num_layers = len(expert_of_slot_LP)
    repeats_L = np.zeros(num_layers, dtype=np.int64)
    for layer in range(num_layers):
        for gpu in range(len(first_slot_G) - 1):
            for slot in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
                for other in range(first_slot_G[gpu], slot):
                    expert = expert_of_slot_LP[layer, slot]
                    if expert >= 0 and expert_of_slot_LP[layer, other] == expert:
                        repeats_L[layer] += 1
                        break
    return repeats_L

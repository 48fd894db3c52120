"""From which slot does a moved expert come, and in which order do moves run, so that every GPU talks to one other at a
time and nothing is lost on the way?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Bools, Ints


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


class Order(NamedTuple):
    """order_M: the moves in the order of their rounds. Of the moves in that order: round_M; staged_M, whether the slot
    that they read is overwritten in an earlier round. most_staged: experts in a GPU's staging memory."""

    order_M: Ints
    round_M: Ints
    staged_M: Bools
    most_staged: int


def in_rounds(layer_M: Ints, slot_M: Ints, from_slot_M: Ints, gpu_of_slot_P: Ints) -> Order:
    """Rounds in which a GPU exchanges with at most one other, one move each way.

    from_slot_M: -1 for what comes from storage. Such moves, and those inside a GPU, stand in round 0.
    """
    num_slots, num_gpus = len(gpu_of_slot_P), int(gpu_of_slot_P.max(initial=-1)) + 1
    from_gpu_M = np.where(from_slot_M >= 0, gpu_of_slot_P[from_slot_M], -1)
    to_gpu_M = gpu_of_slot_P[slot_M]
    writes_M = layer_M * num_slots + slot_M
    reads_M = np.where(from_slot_M >= 0, layer_M * num_slots + from_slot_M, -1)
    round_M = _rounds(from_gpu_M, to_gpu_M, writes_M, reads_M, num_gpus)
    order_M = np.lexsort((slot_M, layer_M, round_M)).astype(np.int64)
    round_M, writes_M, reads_M = round_M[order_M], writes_M[order_M], reads_M[order_M]
    overwritten = dict(zip(writes_M.tolist(), round_M.tolist(), strict=True))
    staged_M = np.array(
        [overwritten.get(place, at) < at for place, at in zip(reads_M.tolist(), round_M.tolist(), strict=True)],
        dtype=np.bool_,
    )
    most = _most_staged(round_M, writes_M, reads_M, to_gpu_M[order_M], from_gpu_M[order_M], staged_M, num_gpus)
    return Order(order_M, round_M, staged_M, most)


def _most_staged(
    round_M: Ints, writes_M: Ints, reads_M: Ints, to_gpu_M: Ints, from_gpu_M: Ints, staged_M: Bools, num_gpus: int
) -> int:
    """Largest number of experts, over GPUs and rounds, that arrive or wait to be read after they were overwritten."""
    if not len(round_M):
        return 0
    num_rounds = int(round_M[-1]) + 1
    held = np.zeros((num_rounds + 1, num_gpus), dtype=np.int64)
    arrives_M = from_gpu_M != to_gpu_M
    np.add.at(held, (round_M[arrives_M], to_gpu_M[arrives_M]), 1)
    np.add.at(held, (round_M[arrives_M] + 1, to_gpu_M[arrives_M]), -1)
    last_read: dict[int, tuple[int, int]] = {}
    for place, at, gpu in zip(
        reads_M[staged_M].tolist(), round_M[staged_M].tolist(), from_gpu_M[staged_M].tolist(), strict=True
    ):
        last_read[place] = (max(at, last_read.get(place, (0, 0))[0]), gpu)
    written = dict(zip(writes_M.tolist(), round_M.tolist(), strict=True))
    for place, (at, gpu) in last_read.items():  # kept from its slot's new expert's arrival to its last reading
        held[written[place], gpu] += 1
        held[at + 1, gpu] -= 1
    return int(held.cumsum(axis=0).max())


@compiled
def _rounds(from_gpu_M: Ints, to_gpu_M: Ints, writes_M: Ints, reads_M: Ints, num_gpus: int) -> Ints:
    """[M] round of each move, filled greedily.

    The GPU with most moves left comes first and takes the partner, of those that are free, with most left. Among equal
    partners, and among the moves of a pair, it prefers what overwrites no slot that is still to be read.
    """
    num_moves = len(writes_M)
    round_M = np.zeros(num_moves, dtype=np.int64)
    first_GG = np.full((num_gpus, num_gpus), -1, dtype=np.int64)  # moves from one GPU to another, as linked lists
    next_M = np.full(num_moves, -1, dtype=np.int64)
    left_G = np.zeros(num_gpus, dtype=np.int64)  # moves in or out, whichever are more; of equals, both
    out_G, in_G = np.zeros(num_gpus, dtype=np.int64), np.zeros(num_gpus, dtype=np.int64)
    readers = np.zeros(max(writes_M.max(), reads_M.max()) + 1 if num_moves else 0, dtype=np.int64)
    left = 0
    for move in range(num_moves - 1, -1, -1):
        source, target = from_gpu_M[move], to_gpu_M[move]
        if source >= 0 and source != target:
            next_M[move], first_GG[source, target] = first_GG[source, target], move
            out_G[source] += 1
            in_G[target] += 1
            readers[reads_M[move]] += 1
            left += 1
    busy_G = np.zeros(num_gpus, dtype=np.bool_)
    now = 0
    while left:
        busy_G[:] = False
        for gpu in range(num_gpus):
            left_G[gpu] = max(out_G[gpu], in_G[gpu]) * (num_moves + 1) + out_G[gpu] + in_G[gpu]
        order_G = np.argsort(-left_G, kind="mergesort")
        for gpu in order_G:
            if busy_G[gpu] or not left_G[gpu]:
                continue
            partner, most = -1, -1
            for other in order_G:
                out, back = first_GG[gpu, other], first_GG[other, gpu]
                if busy_G[other] or (out < 0 and back < 0):
                    continue
                both_ways = 1 if out >= 0 and back >= 0 else 0  # which halves the rounds
                worth = 2 * (left_G[other] + both_ways * (num_moves + 2) ** 2)
                if _is_safe(out, next_M, writes_M, readers) and _is_safe(back, next_M, writes_M, readers):
                    worth += 1
                if worth > most:
                    partner, most = other, worth
            if partner < 0:
                continue
            busy_G[gpu] = True
            busy_G[partner] = True
            for source, target in ((gpu, partner), (partner, gpu)):
                move = _take(source, target, first_GG, next_M, writes_M, readers)
                if move >= 0:
                    round_M[move] = now
                    readers[reads_M[move]] -= 1
                    out_G[source] -= 1
                    in_G[target] -= 1
                    left -= 1
        now += 1
    return round_M


@compiled_part
def _is_safe(move: int, next_M: Ints, writes_M: Ints, readers: Ints) -> bool:
    """Is there a move in this list that overwrites nothing still to be read, or none at all?"""
    if move < 0:
        return True
    while move >= 0:
        if not readers[writes_M[move]]:
            return True
        move = next_M[move]
    return False


@compiled_part
def _take(source: int, target: int, first_GG: Ints, next_M: Ints, writes_M: Ints, readers: Ints) -> int:
    """Remove and return a move between two GPUs, one that overwrites nothing still to be read if there is one."""
    before, chosen_before, chosen = -1, -1, -1
    move = first_GG[source, target]
    while move >= 0:
        if chosen < 0 or not readers[writes_M[move]]:
            chosen_before, chosen = before, move
            if not readers[writes_M[move]]:
                break
        before, move = move, next_M[move]
    if chosen >= 0:
        if chosen_before < 0:
            first_GG[source, target] = next_M[chosen]
        else:
            next_M[chosen_before] = next_M[chosen]
    return chosen

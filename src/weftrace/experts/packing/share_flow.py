"""The flow under `best_shares`: load on slots, moved along chains of copies until no GPU can be relieved.

With the map fixed, the shares that minimise the maximum of load / speed over the GPUs are a maximum flow: an expert's
load may stand on any GPU that holds a copy, and a GPU's room is a target times its speed. The flow starts at even
shares and moves load along shortest chains of copies, from GPUs above their target to GPUs below it. The target of a
block of GPUs is its load over its speed. Where a block cannot all meet it, the GPUs that the overload can reach are a
set that nothing can leave: they are split off with a higher target of their own, and the rest gets a lower one. This
is the decomposition algorithm for lexicographically optimal bases (Megiddo 1974, Fujishige 1980): after at most G - 1
splits the maximum is at its minimum, then the second largest GPU, and so on. The block with the highest target is the
proof: its load can go nowhere else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Bools, Floats, Ints

_ROUNDING = 1e-13  # an overload below this part of a GPU's target is rounding: sums of some hundred float64 numbers


class _Flow(NamedTuple):
    """One layer's load on its slots, and the room to search in; made once, filled again for every layer.

    Slots of an expert are slot_J[first_N[e] : first_N[e + 1]], ascending, so GPU by GPU. Blocks are ranges of gpu_B.
    """

    first_slot_G: Ints
    speed_G: Floats
    gpu_P: Ints
    expert_P: Ints
    amount_P: Floats  # load in each slot, in parts of the layer's
    first_N: Ints
    slot_J: Ints
    excess_G: Floats  # load above the target of the block
    block_G: Ints  # first position of the GPU's block in gpu_B
    gpu_B: Ints
    level_B: Floats  # load / speed of the block that starts here
    reached_G: Bools
    seen_N: Bools
    queue_G: Ints
    from_slot_G: Ints  # the step into a reached GPU: load leaves this slot, -1 at a source,
    to_slot_G: Ints  # and enters this one, of the same expert


@compiled
def level_gpus(expert_of_slot_LP: Ints, load_LN: Floats, first_slot_G: Ints, speed_G: Floats) -> tuple[Floats, Bools]:
    """[L, P] shares and [L, G] the GPUs of the highest block; see `best_shares` and `tightest_gpus`."""
    num_layers, num_slots = expert_of_slot_LP.shape
    num_experts, num_gpus = load_LN.shape[1], len(speed_G)
    flow = _Flow(
        first_slot_G,
        speed_G,
        np.empty(num_slots, np.int64),
        np.empty(num_slots, np.int64),
        np.empty(num_slots, np.float64),
        np.empty(num_experts + 1, np.int64),
        np.empty(num_slots, np.int64),
        np.empty(num_gpus, np.float64),
        np.empty(num_gpus, np.int64),
        np.empty(num_gpus, np.int64),
        np.empty(num_gpus, np.float64),
        np.empty(num_gpus, np.bool_),
        np.empty(num_experts, np.bool_),
        np.empty(num_gpus, np.int64),
        np.empty(num_gpus, np.int64),
        np.empty(num_gpus, np.int64),
    )
    for gpu in range(num_gpus):
        flow.gpu_P[first_slot_G[gpu] : first_slot_G[gpu + 1]] = gpu
    share_LP = np.zeros((num_layers, num_slots), np.float64)
    tight_LG = np.zeros((num_layers, num_gpus), np.bool_)
    for layer in range(num_layers):
        total = load_LN[layer].sum()
        _spread_evenly(flow, expert_of_slot_LP[layer], load_LN[layer], total)
        if total > 0:
            _start_blocks(flow)
            first = 0
            while first < num_gpus:
                end = first + 1
                while end < num_gpus and flow.block_G[flow.gpu_B[end]] == first:
                    end += 1
                if not _splits(flow, first, end):
                    first = end
            top = flow.block_G[np.argmax(flow.level_B[flow.block_G])]
            tight_LG[layer] = flow.block_G == top
        _write_shares(flow, share_LP[layer])
    return share_LP, tight_LG


@compiled_part
def _spread_evenly(flow: _Flow, expert_P: Ints, load_N: Floats, total: float) -> None:
    """List the slots of each expert and put 1 / copies of its load in each of them."""
    num_experts = len(load_N)
    first_N = flow.first_N
    flow.expert_P[:] = expert_P
    first_N[:] = 0
    for expert in expert_P:
        if expert >= 0:
            first_N[expert + 1] += 1
    first_N[:] = np.cumsum(first_N)
    next_N = first_N[:num_experts].copy()
    flow.amount_P[:] = 0.0
    for slot in range(len(expert_P)):
        expert = expert_P[slot]
        if expert >= 0:
            flow.slot_J[next_N[expert]] = slot
            next_N[expert] += 1
            if total > 0:
                flow.amount_P[slot] = load_N[expert] / total / (first_N[expert + 1] - first_N[expert])


@compiled_part
def _start_blocks(flow: _Flow) -> None:
    """One block for each set of GPUs that copies connect: load cannot pass between sets, so each is solved alone."""
    num_gpus = len(flow.speed_G)
    flow.block_G[:] = -1
    flow.seen_N[:] = False
    filled = 0
    for source in range(num_gpus):
        if flow.block_G[source] >= 0:
            continue
        first, done = filled, filled
        flow.block_G[source] = first
        flow.gpu_B[filled] = source
        filled += 1
        while done < filled:
            gpu = flow.gpu_B[done]
            done += 1
            for slot in range(flow.first_slot_G[gpu], flow.first_slot_G[gpu + 1]):
                expert = flow.expert_P[slot]
                if expert < 0 or flow.seen_N[expert] or flow.amount_P[slot] <= 0:
                    continue
                flow.seen_N[expert] = True
                for other in flow.slot_J[flow.first_N[expert] : flow.first_N[expert + 1]]:
                    neighbour = flow.gpu_P[other]
                    if flow.block_G[neighbour] < 0:
                        flow.block_G[neighbour] = first
                        flow.gpu_B[filled] = neighbour
                        filled += 1


@compiled_part
def _splits(flow: _Flow, first: int, end: int) -> bool:
    """Level a block of GPUs; False when done, True when it fell into two blocks that are still to level."""
    load, speed = 0.0, 0.0
    for gpu in flow.gpu_B[first:end]:
        flow.excess_G[gpu] = flow.amount_P[flow.first_slot_G[gpu] : flow.first_slot_G[gpu + 1]].sum()
        load += flow.excess_G[gpu]
        speed += flow.speed_G[gpu]
    level = load / speed
    flow.level_B[first] = level
    if end == first + 1:
        return False
    for gpu in flow.gpu_B[first:end]:
        flow.excess_G[gpu] -= level * flow.speed_G[gpu]
    while True:
        num_reached, num_sinks = _search(flow, first, end, level)
        if num_sinks == 0:
            break
        _push(flow, num_reached)
    if num_reached == 0 or num_reached == end - first:  # level; all reached: what is left over is rounding
        return False
    middle = first
    for position in range(first, end):
        gpu = flow.gpu_B[position]
        if flow.reached_G[gpu]:
            flow.gpu_B[position] = flow.gpu_B[middle]
            flow.gpu_B[middle] = gpu
            middle += 1
    for gpu in flow.gpu_B[middle:end]:
        flow.block_G[gpu] = middle
    return True


@compiled_part
def _search(flow: _Flow, first: int, end: int, level: float) -> tuple[int, int]:
    """Mark the GPUs of a block that its overload can reach, in breadth; how many, and how many have room."""
    filled, done, num_sinks = 0, 0, 0
    for gpu in flow.gpu_B[first:end]:
        flow.reached_G[gpu] = flow.excess_G[gpu] > _ROUNDING * level * flow.speed_G[gpu]
        if flow.reached_G[gpu]:
            flow.from_slot_G[gpu] = -1
            flow.queue_G[filled] = gpu
            filled += 1
    if filled == 0:
        return 0, 0
    flow.seen_N[:] = False
    while done < filled:
        gpu = flow.queue_G[done]
        done += 1
        for slot in range(flow.first_slot_G[gpu], flow.first_slot_G[gpu + 1]):
            expert = flow.expert_P[slot]
            if expert < 0 or flow.amount_P[slot] <= 0 or flow.seen_N[expert]:
                continue
            flow.seen_N[expert] = True
            for other in flow.slot_J[flow.first_N[expert] : flow.first_N[expert + 1]]:
                neighbour = flow.gpu_P[other]
                if flow.block_G[neighbour] == first and not flow.reached_G[neighbour]:
                    flow.reached_G[neighbour] = True
                    flow.from_slot_G[neighbour] = slot
                    flow.to_slot_G[neighbour] = other
                    flow.queue_G[filled] = neighbour
                    filled += 1
                    num_sinks += flow.excess_G[neighbour] < 0
    return filled, num_sinks


@compiled_part
def _push(flow: _Flow, num_reached: int) -> None:
    """Move load along the chain into each reached GPU that has room, nearest first, as much as it still takes."""
    for sink in flow.queue_G[:num_reached]:
        if flow.excess_G[sink] >= 0:
            continue
        amount, gpu = -flow.excess_G[sink], sink
        while flow.from_slot_G[gpu] >= 0:
            amount = min(amount, flow.amount_P[flow.from_slot_G[gpu]])
            gpu = flow.gpu_P[flow.from_slot_G[gpu]]
        amount = min(amount, flow.excess_G[gpu])
        if amount <= 0:
            continue
        flow.excess_G[gpu] -= amount
        flow.excess_G[sink] += amount
        gpu = sink
        while flow.from_slot_G[gpu] >= 0:
            flow.amount_P[flow.from_slot_G[gpu]] -= amount
            flow.amount_P[flow.to_slot_G[gpu]] += amount
            gpu = flow.gpu_P[flow.from_slot_G[gpu]]


@compiled_part
def _write_shares(flow: _Flow, share_P: Floats) -> None:
    """Loads of slots to shares of experts; copies on one GPU take equal parts."""
    for expert in range(len(flow.first_N) - 1):
        slots = flow.slot_J[flow.first_N[expert] : flow.first_N[expert + 1]]
        total = 0.0
        for slot in slots:
            total += flow.amount_P[slot]
        begin = 0
        while begin < len(slots):
            end, amount = begin, 0.0
            while end < len(slots) and flow.gpu_P[slots[end]] == flow.gpu_P[slots[begin]]:
                amount += flow.amount_P[slots[end]]
                end += 1
            part = amount / total if total > 0 else (end - begin) / len(slots)
            for slot in slots[begin:end]:
                share_P[slot] = part / (end - begin)
            begin = end

"""Perfect balance by construction, where copies may take unequal parts of their expert's tokens.

A wrap-around rule in McNaughton's manner (1959), with a limit of S pieces a GPU. Every GPU's target is W / G, and
there are (S - 1) G + 1 pieces of load, sorted ascending. The S - 1 smallest together are at most the target, and with
the largest added the S largest are at least that. So a window of S - 1 neighbours that slides up comes to a place
where it is below the target, and reaches it with the largest piece added: that piece is cut at the boundary, and its
rest goes back in order. One GPU is exactly full, and (S - 1)(G - 1) + 1 pieces are left for G - 1 GPUs: the same
question again.

Any piece can be cut; the hottest is, as near to its half as the window allows. Each cut is an expert that the GPU
shares with one filled later, so the cuts join all GPUs into a tree, and the more load stands on both sides of a cut,
the more `best_shares` can move when loads change. (The rule's usual form cuts the largest of a window of S neighbours;
for "real" loads on 288 slots of 32 GPUs that then move by 15 %, it re-splits to 0.961, and this one to 0.979.)

N experts are N pieces; up to (S - 1) G + 1 = P - G + 1 are made up with pieces of load 0. Their slots then take
further copies of the experts with the most load a copy, as a later re-split can use them.
"""

from __future__ import annotations

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.packing.shares import best_shares
from weftrace.experts.problem import NotApplicable, Problem, Solution


def solve_wrap_around(problem: Problem) -> Solution | NotApplicable:
    """A placement in which every GPU in service has exactly W / G: balancedness 1, which nothing can beat.

    Needs uneven shares, P >= N + G - 1 slots in every layer, no pins, and GPUs in service of one speed with the same
    number of slots to fill (P and G count those alone). No expert stands twice on a GPU. The shares are `best_shares`
    of the finished map, which also uses the copies that the construction did not need.
    """
    usable_G = problem.cluster.usable_G
    num_gpus = int(usable_G.sum())
    if problem.is_even:
        return NotApplicable(reason="needs copies that may take unequal parts, and the split is even")
    if len(problem.pins_K3):
        return NotApplicable(reason="cannot keep pins")
    speed_U, capacity_LU = problem.cluster.speed_G[usable_G], problem.capacity_LG[:, usable_G]
    if (speed_U != speed_U[0]).any() or (capacity_LU != capacity_LU[:, :1]).any():
        return NotApplicable(reason="needs GPUs of one speed with the same number of slots")
    fewest = int(problem.replicas_L.min())
    if fewest < problem.num_experts + num_gpus - 1:
        return NotApplicable(
            reason=f"needs P >= N + G - 1 = {problem.num_experts + num_gpus - 1} slots, and P is {fewest}"
        )
    first_slot_G = problem.cluster.first_slot_G
    expert_of_slot_LP = _wrap_around(
        np.require(problem.load_LN, np.float64, ["C", "W"]),
        np.ascontiguousarray(capacity_LU[:, 0]),
        first_slot_G[:-1][usable_G],
        problem.cluster.num_slots,
    )
    share_LP = best_shares(expert_of_slot_LP, problem.load_LN, first_slot_G, problem.cluster.speed_G)
    return Solution(expert_of_slot_LP=expert_of_slot_LP, share_LP=share_LP)


@compiled
def _wrap_around(load_LN: Floats, capacity_L: Ints, first_slot_U: Ints, num_slots: int) -> Ints:
    """[L, P] the map. capacity_L: slots to fill on each GPU in service; first_slot_U: the first slot of each."""
    num_layers = len(load_LN)
    expert_of_slot_LP = np.full((num_layers, num_slots), -1, np.int64)
    for layer in range(num_layers):
        capacity = capacity_L[layer]
        if load_LN[layer].sum() > 0:
            _cut(load_LN[layer], capacity, first_slot_U, expert_of_slot_LP[layer])
        else:
            _cut(np.ones_like(load_LN[layer]), capacity, first_slot_U, expert_of_slot_LP[layer])
        _fill(load_LN[layer], capacity, first_slot_U, expert_of_slot_LP[layer])
    return expert_of_slot_LP


@compiled_part
def _cut(load_N: Floats, capacity: int, first_slot_U: Ints, expert_P: Ints) -> None:
    """Fill GPU after GPU with a window of pieces and a cut; pieces without an expert leave -1 in the last slots."""
    num_gpus, num_experts = len(first_slot_U), len(load_N)
    left = (capacity - 1) * num_gpus + 1
    order_N = np.argsort(load_N, kind="mergesort")
    expert_R = np.full(left, -1, np.int64)
    load_R = np.zeros(left, np.float64)
    expert_R[left - num_experts :] = order_N
    load_R[left - num_experts :] = load_N[order_N]
    target = load_N.sum() / num_gpus
    for gpu in range(num_gpus):
        last = left - 1
        hottest, expert = load_R[last], expert_R[last]
        window, end, below = _window(load_R[:last], capacity - 1, target, hottest)
        slot = first_slot_U[gpu]
        for piece in range(window, end):
            if expert_R[piece] >= 0:
                expert_P[slot] = expert_R[piece]
                slot += 1
        expert_P[slot] = expert
        for piece in range(end, last):
            load_R[piece - end + window], expert_R[piece - end + window] = load_R[piece], expert_R[piece]
        # A rest of 0 stays a piece: the number of pieces is what makes the next window exist.
        rest = max(0.0, hottest - max(0.0, target - below))
        left -= capacity - 1
        position = left - 1
        while position > 0 and load_R[position - 1] > rest:
            load_R[position], expert_R[position] = load_R[position - 1], expert_R[position - 1]
            position -= 1
        load_R[position], expert_R[position] = rest, expert


@compiled_part
def _window(load_R: Floats, size: int, target: float, hottest: float) -> tuple[int, int, float]:
    """First, end and load of the window that leaves nearest to half of the hottest piece to fill the target.

    Sliding up by one adds at most `hottest`, so no step jumps over the places where load <= target <= load + hottest.
    """
    below = load_R[:size].sum()
    start = 0
    while start + size < len(load_R):
        higher = below - load_R[start] + load_R[start + size]
        if abs(target - hottest / 2 - higher) > abs(target - hottest / 2 - below):
            break
        below = higher
        start += 1
    return start, start + size, below


@compiled_part
def _fill(load_N: Floats, capacity: int, first_slot_U: Ints, expert_P: Ints) -> None:
    """Give every open slot the expert with the most load a copy that its GPU does not hold yet."""
    num_experts = len(load_N)
    copies_N = np.zeros(num_experts, np.int64)
    for expert in expert_P:
        if expert >= 0:
            copies_N[expert] += 1
    held_N = np.full(num_experts, -1, np.int64)
    for depth in range(capacity):  # a slot on every GPU before a second on any, so that all get some of the hottest
        for gpu in range(len(first_slot_U)):
            first = first_slot_U[gpu]
            slot = first + capacity - 1 - depth
            if expert_P[slot] >= 0:
                continue
            for other in range(first, first + capacity):
                if expert_P[other] >= 0:
                    held_N[expert_P[other]] = slot
            best = -1
            for expert in range(num_experts):
                if held_N[expert] != slot and (
                    best < 0 or load_N[expert] * copies_N[best] > load_N[best] * copies_N[expert]
                ):
                    best = expert
            expert_P[slot] = best
            copies_N[best] += 1

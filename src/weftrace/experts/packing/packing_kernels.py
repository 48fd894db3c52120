"""The inner loops of packing: place, swap, kick. `packing` says what they are for.

One file because a compiled function may only call its neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Bools, Floats, Ints

WIDEST_PAIRS = 16  # replicas a GPU up to which two-for-two swaps are tried; lists of pairs grow with the square


class Layer(NamedTuple):
    """One layer's packing as it stands. H counts slots that are filled, GPU by GPU."""

    load_N: Floats  # loads of the experts
    counts_N: Ints  # their copies
    expert_R: Ints
    value_R: Floats
    is_pinned_R: Bools
    first_G: Ints  # [G + 1] first slot of each GPU, then H
    used_G: Ints  # slots of each GPU that hold a replica
    speed_G: Floats
    load_G: Floats
    replica_H: Ints  # the replica in each slot; the slots of a GPU are sorted, largest value first
    value_H: Floats  # its value
    gpu_H: Ints  # the GPU of each slot
    held_GN: Ints  # copies of each expert on each GPU
    is_stale_G: Bools  # whether a GPU's pairs have changed since they were sorted
    num_pairs_G: Ints
    sum_GQ: Floats  # values of pairs of replicas on a GPU, largest first
    pair_GQ2: Ints  # the two replicas


@compiled
def pack_layers(
    expert_LR: Ints,
    value_LR: Floats,
    num_experts: int,
    capacity_LG: Ints,
    widest: int,
    speed_G: Floats,
    pinned_LR: Ints,
    is_pinned_LR: Bools,
    rounds: int,
    goal_L: Floats,
    may_recount: bool,
) -> tuple[Ints, Ints]:
    """(expert_LR, gpu_LR): `packing.packed` says what goes in and what comes out.

    widest: `WIDEST_PAIRS`, or the most slots of a GPU if they are fewer. goal_L: time at which a layer's search ends.
    """
    num_layers, most = expert_LR.shape
    num_gpus = len(speed_G)
    expert_LR = expert_LR.copy()
    gpu_LR = np.full((num_layers, most), -1, dtype=np.int64)
    sum_GQ = np.empty((num_gpus, widest * (widest - 1) // 2), dtype=np.float64)
    pair_GQ2 = np.empty((num_gpus, widest * (widest - 1) // 2, 2), dtype=np.int64)
    for layer in range(num_layers):
        first_G = np.zeros(num_gpus + 1, dtype=np.int64)
        for gpu in range(num_gpus):
            first_G[gpu + 1] = first_G[gpu] + capacity_LG[layer, gpu]
        size = first_G[num_gpus]
        held_GN = np.zeros((num_gpus, num_experts), dtype=np.int64)
        state = Layer(
            np.zeros(num_experts, dtype=np.float64),
            np.zeros(num_experts, dtype=np.int64),
            expert_LR[layer, :size],
            value_LR[layer, :size].copy(),
            is_pinned_LR[layer, :size],
            first_G,
            np.zeros(num_gpus, dtype=np.int64),
            speed_G,
            np.zeros(num_gpus, dtype=np.float64),
            np.full(size, -1, dtype=np.int64),
            np.zeros(size, dtype=np.float64),
            np.zeros(size, dtype=np.int64),
            held_GN,
            np.ones(num_gpus, dtype=np.bool_),
            np.zeros(num_gpus, dtype=np.int64),
            sum_GQ,
            pair_GQ2,
        )
        for gpu in range(num_gpus):
            for slot in range(first_G[gpu], first_G[gpu + 1]):
                state.gpu_H[slot] = gpu
        for replica in range(size):
            state.load_N[state.expert_R[replica]] += state.value_R[replica]
            state.counts_N[state.expert_R[replica]] += 1
        _place(state, pinned_LR[layer, :size])
        _search(state, goal_L[layer], rounds, may_recount)
        for slot in range(size):
            gpu_LR[layer, state.replica_H[slot]] = state.gpu_H[slot]
    return expert_LR, gpu_LR


@compiled_part
def _place(layer: Layer, pinned_R: Ints) -> None:
    """Fill every slot: pinned replicas first, the others largest first where they end soonest."""
    for replica in range(len(pinned_R)):
        if pinned_R[replica] >= 0:
            _put(layer, replica, pinned_R[replica])
    unplaced, unplaced_R = 0, np.empty(len(pinned_R), dtype=np.int64)
    for replica in range(len(pinned_R)):
        if pinned_R[replica] >= 0:
            continue
        expert = layer.expert_R[replica]
        gpu = _soonest(layer, replica, expert)
        if gpu < 0:
            gpu = _make_way(layer, expert)
        if gpu < 0:
            unplaced_R[unplaced] = replica
            unplaced += 1
        else:
            _put(layer, replica, gpu)
    for at in range(unplaced):  # nothing can keep these from standing beside another copy
        replica = unplaced_R[at]
        _put(layer, replica, _soonest(layer, replica, -1))


@compiled_part
def _put(layer: Layer, replica: int, gpu: int) -> None:
    layer.replica_H[layer.first_G[gpu] + layer.used_G[gpu]] = replica
    layer.used_G[gpu] += 1
    layer.load_G[gpu] += layer.value_R[replica]
    layer.held_GN[gpu, layer.expert_R[replica]] += 1


@compiled_part
def _soonest(layer: Layer, replica: int, expert: int) -> int:
    """The GPU with room and without the expert (-1: any) where a replica would end soonest; -1 if there is none."""
    best, best_time = -1, np.inf
    for gpu in range(len(layer.speed_G)):
        time = (layer.load_G[gpu] + layer.value_R[replica]) / layer.speed_G[gpu]
        has_room = layer.used_G[gpu] < layer.first_G[gpu + 1] - layer.first_G[gpu]
        if time < best_time and has_room and (expert < 0 or layer.held_GN[gpu, expert] == 0):
            best, best_time = gpu, time
    return best


@compiled_part
def _make_way(layer: Layer, expert: int) -> int:
    """Free a slot on a GPU without the expert, by moving others along a shortest augmenting path; -1 if none exists.

    A path starts at a GPU that lacks the expert and hands a replica on from GPU to GPU, each to one that lacks it,
    until one has room.
    """
    num_gpus = len(layer.speed_G)
    slot_G = np.full(num_gpus, -1, dtype=np.int64)  # the slot whose replica would be handed to this GPU
    seen_G = np.zeros(num_gpus, dtype=np.bool_)
    queue_G = np.empty(num_gpus, dtype=np.int64)
    head, tail = 0, 0
    for gpu in range(num_gpus):
        if layer.first_G[gpu] == layer.first_G[gpu + 1]:
            seen_G[gpu] = True  # without slots it can take nothing
        elif layer.held_GN[gpu, expert] == 0:
            seen_G[gpu] = True
            queue_G[tail] = gpu
            tail += 1
    while head < tail:
        gpu = queue_G[head]
        head += 1
        if layer.used_G[gpu] < layer.first_G[gpu + 1] - layer.first_G[gpu]:
            while slot_G[gpu] >= 0:
                slot = slot_G[gpu]
                _put(layer, layer.replica_H[slot], gpu)
                gpu = layer.gpu_H[slot]
                _take(layer, slot)
            return int(gpu)
        for slot in range(layer.first_G[gpu], layer.first_G[gpu] + layer.used_G[gpu]):
            replica = layer.replica_H[slot]
            if layer.is_pinned_R[replica]:
                continue
            for taker in range(num_gpus):
                if not seen_G[taker] and layer.held_GN[taker, layer.expert_R[replica]] == 0:
                    seen_G[taker] = True
                    slot_G[taker] = slot
                    queue_G[tail] = taker
                    tail += 1
    return -1


@compiled_part
def _take(layer: Layer, slot: int) -> None:
    """Empty a slot; the last replica of its GPU moves into it."""
    gpu, replica = layer.gpu_H[slot], layer.replica_H[slot]
    layer.used_G[gpu] -= 1
    layer.load_G[gpu] -= layer.value_R[replica]
    layer.held_GN[gpu, layer.expert_R[replica]] -= 1
    layer.replica_H[slot] = layer.replica_H[layer.first_G[gpu] + layer.used_G[gpu]]


@compiled_part
def _search(layer: Layer, goal: float, rounds: int, may_recount: bool) -> None:
    """Descend; then kick, descend again and keep what is better, until the goal is reached or the rounds are over."""
    for slot in range(len(layer.replica_H)):
        layer.value_H[slot] = layer.value_R[layer.replica_H[slot]]
        _move_up(layer, slot)
    best = _descend(layer, goal)
    best_H, expert_R, value_R = layer.replica_H.copy(), layer.expert_R.copy(), layer.value_R.copy()
    random = 1
    for _ in range(rounds):
        if best <= goal:
            return
        random = _recount(layer, random) if may_recount else _kick(layer, random)
        found = _descend(layer, goal)
        if found <= best:
            best = found
            for at in range(len(best_H)):  # assigning whole arrays takes Numba seconds to compile
                best_H[at], expert_R[at], value_R[at] = layer.replica_H[at], layer.expert_R[at], layer.value_R[at]
        else:
            _restore(layer, best_H, expert_R, value_R)


@compiled_part
def _restore(layer: Layer, replica_H: Ints, expert_R: Ints, value_R: Floats) -> None:
    """Go back to a packing; loads are summed afresh, so that rounding does not pile up."""
    for slot in range(len(replica_H)):
        expert = layer.expert_R[layer.replica_H[slot]]
        layer.held_GN[layer.gpu_H[slot], expert] -= 1
        layer.counts_N[expert] -= 1
    for replica in range(len(expert_R)):
        layer.expert_R[replica], layer.value_R[replica] = expert_R[replica], value_R[replica]
    for gpu in range(len(layer.load_G)):
        layer.load_G[gpu], layer.is_stale_G[gpu] = 0.0, True
    for slot in range(len(replica_H)):
        gpu, replica = layer.gpu_H[slot], replica_H[slot]
        layer.replica_H[slot], layer.value_H[slot] = replica, value_R[replica]
        layer.held_GN[gpu, expert_R[replica]] += 1
        layer.counts_N[expert_R[replica]] += 1
        layer.load_G[gpu] += value_R[replica]


@compiled_part
def _recount(layer: Layer, random: int) -> int:
    """Another expert for a slot at random: a further copy of one on the GPU that ends last, or one copy less there."""
    gpu = _last(layer)
    time = layer.load_G[gpu] / layer.speed_G[gpu]
    for _ in range(60):
        random = (random * 1103515245 + 12345) % 2147483648
        one = layer.first_G[gpu] + (random >> 8) % layer.used_G[gpu]
        random = (random * 1103515245 + 12345) % 2147483648
        other = (random >> 8) % len(layer.replica_H)
        expert, other_expert = layer.expert_R[layer.replica_H[one]], layer.expert_R[layer.replica_H[other]]
        if layer.gpu_H[other] == gpu:
            continue
        random = (random * 1103515245 + 12345) % 2147483648
        if (random >> 8) % 2 == 0:
            slot, gains, loses = other, expert, other_expert
        else:
            slot, gains, loses = one, other_expert, expert
        if (
            layer.counts_N[loses] > 1
            and not layer.is_pinned_R[layer.replica_H[slot]]
            and layer.held_GN[layer.gpu_H[slot], gains] == 0
            and layer.load_N[loses] / (layer.counts_N[loses] - 1) < time * layer.speed_G[gpu]
            and (slot == other or layer.load_N[gains] / (layer.counts_N[gains] + 1) < layer.value_H[slot])
        ):
            _give(layer, slot, gains)
            break
    return random


@compiled_part
def _give(layer: Layer, slot: int, expert: int) -> None:
    """Put another copy of an expert in a slot; what each copy of it and of the slot's old expert carries follows."""
    old = layer.expert_R[layer.replica_H[slot]]
    layer.expert_R[layer.replica_H[slot]] = expert
    layer.held_GN[layer.gpu_H[slot], old] -= 1
    layer.held_GN[layer.gpu_H[slot], expert] += 1
    layer.counts_N[old] -= 1
    layer.counts_N[expert] += 1
    for at in range(len(layer.replica_H)):
        mine = layer.expert_R[layer.replica_H[at]]
        if mine in (old, expert):
            value = layer.load_N[mine] / layer.counts_N[mine]
            layer.load_G[layer.gpu_H[at]] += value - layer.value_H[at]
            layer.value_R[layer.replica_H[at]] = value
            layer.value_H[at] = value
    for at in range(len(layer.replica_H)):
        mine = layer.expert_R[layer.replica_H[at]]
        if mine in (old, expert):
            layer.is_stale_G[layer.gpu_H[at]] = True
    for gpu in range(len(layer.speed_G)):
        if layer.is_stale_G[gpu]:
            for at in range(layer.first_G[gpu] + 1, layer.first_G[gpu + 1]):
                _move_up(layer, at)


@compiled_part
def _move_up(layer: Layer, slot: int) -> int:
    """Move a slot's replica up to where its value belongs among its GPU's; its slot then."""
    replica, value = layer.replica_H[slot], layer.value_H[slot]
    while slot > layer.first_G[layer.gpu_H[slot]] and layer.value_H[slot - 1] < value:
        layer.replica_H[slot], layer.value_H[slot] = layer.replica_H[slot - 1], layer.value_H[slot - 1]
        slot -= 1
    layer.replica_H[slot], layer.value_H[slot] = replica, value
    return slot


@compiled_part
def _kick(layer: Layer, random: int) -> int:
    """Two swaps at random, the first of them on the GPU that ends last; the generator's next state."""
    gpu = _last(layer)
    first, size = layer.first_G[gpu], layer.used_G[gpu]
    for _ in range(2):
        for _ in range(20):
            random = (random * 1103515245 + 12345) % 2147483648
            one = first + (random >> 8) % size
            random = (random * 1103515245 + 12345) % 2147483648
            other = (random >> 8) % len(layer.replica_H)
            if _may_swap(layer, one, other):
                _swap(layer, one, other)
                break
        first, size = 0, len(layer.replica_H)
    return random


@compiled_part
def _last(layer: Layer) -> int:
    """The GPU that ends last."""
    last, last_time = 0, -1.0
    for gpu in range(len(layer.load_G)):
        time = layer.load_G[gpu] / layer.speed_G[gpu]
        if time > last_time:
            last, last_time = gpu, time
    return last


@compiled_part
def _may_swap(layer: Layer, one: int, other: int) -> bool:
    """Whether two slots' replicas can change places without putting an expert on a GPU that has it."""
    replica, other_replica = layer.replica_H[one], layer.replica_H[other]
    return bool(
        layer.held_GN[layer.gpu_H[other], layer.expert_R[replica]] == 0
        and layer.held_GN[layer.gpu_H[one], layer.expert_R[other_replica]] == 0
        and not layer.is_pinned_R[replica]
        and not layer.is_pinned_R[other_replica]
    )


@compiled_part
def _swap(layer: Layer, one: int, other: int) -> None:
    """Exchange the replicas of two slots on different GPUs; each GPU's slots stay in the order of the replicas."""
    replica, other_replica = layer.replica_H[one], layer.replica_H[other]
    _replace(layer, one, other_replica)
    _replace(layer, other, replica)


@compiled_part
def _replace(layer: Layer, slot: int, replica: int) -> None:
    gpu, old = layer.gpu_H[slot], layer.replica_H[slot]
    layer.load_G[gpu] += layer.value_R[replica] - layer.value_R[old]
    layer.held_GN[gpu, layer.expert_R[old]] -= 1
    layer.held_GN[gpu, layer.expert_R[replica]] += 1
    layer.is_stale_G[gpu] = True
    layer.replica_H[slot], layer.value_H[slot] = replica, layer.value_R[replica]
    slot = _move_up(layer, slot)
    for below in range(slot + 1, layer.first_G[gpu + 1]):
        if _move_up(layer, below) == below:
            break


@compiled_part
def _descend(layer: Layer, goal: float) -> float:
    """Swap as long as the GPU that ends last can be helped; the time at which the last one ends then."""
    last = _last(layer)
    for _ in range(20 * len(layer.replica_H)):  # a bound that rounding cannot break; a descent takes far fewer
        if layer.load_G[last] / layer.speed_G[last] <= goal:
            break
        if not (_swap_one(layer, last, goal) or _swap_two(layer, last, goal)):
            break
        last = _last(layer)
    return float(layer.load_G[last] / layer.speed_G[last])


@compiled_part
def _swap_one(layer: Layer, gpu: int, goal: float) -> bool:
    """Make the swap after which the later of this GPU and another ends soonest; False if none helps.

    That time is lowest where the load that changes sides is just right, and grows to both sides of it. So for each
    replica here the replicas there, which are sorted, are tried from the right value outwards, while they are better
    than the best and not allowed.
    """
    load, speed = layer.load_G[gpu], layer.speed_G[gpu]
    best = load / speed * (1 - 1e-12)
    best_one, best_other = -1, -1
    for other_gpu in range(len(layer.speed_G)):
        if best <= goal:
            break
        other_load, other_speed = layer.load_G[other_gpu], layer.speed_G[other_gpu]
        right = (load * other_speed - other_load * speed) / (speed + other_speed)
        if (load - right) >= best * speed:
            continue
        first, end = layer.first_G[other_gpu], layer.first_G[other_gpu + 1]
        below = first  # the first slot there from which at least the right load comes back
        for one in range(layer.first_G[gpu], layer.first_G[gpu + 1]):
            value = layer.value_H[one]
            while below < end and value - layer.value_H[below] < right:
                below += 1
            for other in range(below, end):
                time = (other_load + value - layer.value_H[other]) / other_speed
                if time >= best:
                    break
                if _may_swap(layer, one, other):
                    best, best_one, best_other = time, one, other
                    break
            for other in range(below - 1, first - 1, -1):
                time = (load - value + layer.value_H[other]) / speed
                if time >= best:
                    break
                if _may_swap(layer, one, other):
                    best, best_one, best_other = time, one, other
                    break
    if best_one >= 0:
        _swap(layer, best_one, best_other)
    return best_one >= 0


@compiled_part
def _swap_two(layer: Layer, gpu: int, goal: float) -> bool:
    """The same with two replicas of this GPU for two of another; pairs are kept sorted by their sum."""
    if not _sort_pairs(layer, gpu):
        return False
    load, speed = layer.load_G[gpu], layer.speed_G[gpu]
    best = load / speed * (1 - 1e-12)
    best_gpu, best_pair, best_other = -1, -1, -1
    num_pairs = layer.num_pairs_G[gpu]
    for other_gpu in range(len(layer.speed_G)):
        if best <= goal:
            break
        other_load, other_speed = layer.load_G[other_gpu], layer.speed_G[other_gpu]
        right = (load * other_speed - other_load * speed) / (speed + other_speed)
        if (load - right) >= best * speed or not _sort_pairs(layer, other_gpu):
            continue
        below, end = 0, layer.num_pairs_G[other_gpu]
        for pair in range(num_pairs):
            value = layer.sum_GQ[gpu, pair]
            while below < end and value - layer.sum_GQ[other_gpu, below] < right:
                below += 1
            for other in range(below, end):
                time = (other_load + value - layer.sum_GQ[other_gpu, other]) / other_speed
                if time >= best:
                    break
                if _may_swap_pairs(layer, gpu, pair, other_gpu, other):
                    best, best_gpu, best_pair, best_other = time, other_gpu, pair, other
                    break
            for other in range(below - 1, -1, -1):
                time = (load - value + layer.sum_GQ[other_gpu, other]) / speed
                if time >= best:
                    break
                if _may_swap_pairs(layer, gpu, pair, other_gpu, other):
                    best, best_gpu, best_pair, best_other = time, other_gpu, pair, other
                    break
    if best_gpu >= 0:
        one, two = layer.pair_GQ2[gpu, best_pair]
        three, four = layer.pair_GQ2[best_gpu, best_other]
        for replica, other_replica in ((one, three), (two, four)):
            _swap(layer, _slot_of(layer, gpu, replica), _slot_of(layer, best_gpu, other_replica))
    return best_gpu >= 0


@compiled_part
def _slot_of(layer: Layer, gpu: int, replica: int) -> int:
    slot = layer.first_G[gpu]
    while layer.replica_H[slot] != replica:
        slot += 1
    return int(slot)


@compiled_part
def _may_swap_pairs(layer: Layer, gpu: int, pair: int, other_gpu: int, other_pair: int) -> bool:
    for side in range(2):
        expert = layer.expert_R[layer.pair_GQ2[gpu, pair, side]]
        other_expert = layer.expert_R[layer.pair_GQ2[other_gpu, other_pair, side]]
        if layer.held_GN[other_gpu, expert] > 0 or layer.held_GN[gpu, other_expert] > 0:
            return False
    return True


@compiled_part
def _sort_pairs(layer: Layer, gpu: int) -> bool:
    """Bring the list of a GPU's pairs of replicas that may move up to date; False where it has too many or none."""
    first, end = layer.first_G[gpu], layer.first_G[gpu + 1]
    if end - first > WIDEST_PAIRS:
        return False
    if layer.is_stale_G[gpu]:
        layer.is_stale_G[gpu] = False
        num_pairs = 0
        for slot in range(first, end):
            for mate in range(slot + 1, end):
                one, two = layer.replica_H[slot], layer.replica_H[mate]
                if layer.is_pinned_R[one] or layer.is_pinned_R[two]:
                    continue
                value = layer.value_R[one] + layer.value_R[two]
                at = num_pairs
                while at > 0 and layer.sum_GQ[gpu, at - 1] < value:
                    layer.sum_GQ[gpu, at] = layer.sum_GQ[gpu, at - 1]
                    layer.pair_GQ2[gpu, at, 0] = layer.pair_GQ2[gpu, at - 1, 0]
                    layer.pair_GQ2[gpu, at, 1] = layer.pair_GQ2[gpu, at - 1, 1]
                    at -= 1
                layer.sum_GQ[gpu, at] = value
                layer.pair_GQ2[gpu, at, 0] = one
                layer.pair_GQ2[gpu, at, 1] = two
                num_pairs += 1
        layer.num_pairs_G[gpu] = num_pairs
    return bool(layer.num_pairs_G[gpu] > 0)

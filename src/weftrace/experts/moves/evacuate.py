"""Which slots have to change before anything else: experts that lost every copy, pins, slots that wait to be filled;
and how many slots of each GPU a new placement fills, given the old one."""

from __future__ import annotations

import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.compiled import compiled
from weftrace.experts.placement import Placement
from weftrace.experts.slots import copies_of, even_shares, load_of_gpus


def evacuate(
    expert_of_slot_LP: Ints,
    to_fill_LP: Bools,
    load_LN: Floats,
    first_slot_G: Ints,
    speed_G: Floats,
    *,
    pins_K3: Ints,
    home_LN: Ints,
    node_of_gpu_G: Ints,
) -> Ints:
    """[L, P] the map with every expert in some slot, every pin kept and every slot of `to_fill_LP` filled.

    expert_of_slot_LP: -1 on GPUs out of service and in slots that are empty. to_fill_LP: empty slots that must be
    filled. pins_K3: rows (layer, expert, gpu). home_LN: the node on which an expert without a copy is put if it can, -1
    for any. An expert without a copy takes the place of a copy whose expert has others: the place after which the
    latest GPU it touches is earliest.
    Raises `PlacementError` where pins leave an expert without a place.
    """
    copies_LN = copies_of(expert_of_slot_LP, load_LN.shape[1])
    share_LP = even_shares(expert_of_slot_LP, load_LN.shape[1])
    load_LG = load_of_gpus(expert_of_slot_LP, share_LP, load_LN, first_slot_G)
    map_LP = expert_of_slot_LP.copy()
    layer, expert = _evacuate(
        map_LP,
        to_fill_LP.copy(),
        load_LN,
        copies_LN,
        load_LG,
        first_slot_G,
        1.0 / speed_G,
        pins_K3,
        home_LN,
        node_of_gpu_G,
    )
    if layer >= 0:
        raise PlacementError(
            f"layer {layer}: no place is left for expert {expert}: every slot is pinned or holds an expert's only copy"
        )
    return map_LP


@compiled
def _evacuate(
    map_LP: Ints,
    to_fill_LP: Bools,
    load_LN: Floats,
    copies_LN: Ints,
    load_LG: Floats,
    first_slot_G: Ints,
    pace_G: Floats,
    pins_K3: Ints,
    home_LN: Ints,
    node_of_gpu_G: Ints,
) -> tuple[int, int]:
    """Change the map in place; returns the layer and expert for which there is no place, or -1, -1."""
    num_layers, num_experts, num_gpus = len(map_LP), load_LN.shape[1], len(pace_G)
    next_pin = 0
    for layer in range(num_layers):
        expert_P, fill_P, load_N = map_LP[layer], to_fill_LP[layer], load_LN[layer]
        copies_N, load_G, home_N = copies_LN[layer], load_LG[layer], home_LN[layer]
        first_pin = next_pin
        while next_pin < len(pins_K3) and pins_K3[next_pin, 0] == layer:
            next_pin += 1
        pins_K = pins_K3[first_pin:next_pin]
        for pin in range(len(pins_K)):
            expert, gpu = pins_K[pin, 1], pins_K[pin, 2]
            if not _holds(expert_P, first_slot_G, gpu, expert):
                slot = _place_on(gpu, pins_K, expert_P, fill_P, load_N, copies_N, first_slot_G)
                if slot < 0:
                    return layer, expert
                _put(slot, gpu, expert, expert_P, fill_P, load_N, copies_N, load_G, first_slot_G)
        while True:
            expert = -1
            for other in range(num_experts):
                if copies_N[other] == 0 and (expert < 0 or load_N[other] > load_N[expert]):
                    expert = other
            if expert < 0:
                break
            best, chosen, where = 0.0, -1, -1
            for anywhere in range(2):
                for gpu in range(num_gpus):
                    if not anywhere and home_N[expert] >= 0 and home_N[expert] != node_of_gpu_G[gpu]:
                        continue
                    for slot in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
                        old = expert_P[slot]
                        if (
                            not fill_P[slot]
                            if old < 0
                            else copies_N[old] < 2 or _is_pinned(pins_K, expert_P, first_slot_G, gpu, old)
                        ):
                            continue
                        time = _time_after(slot, gpu, expert, expert_P, load_N, copies_N, load_G, pace_G, first_slot_G)
                        if chosen < 0 or time < best:
                            best, chosen, where = time, slot, gpu
                if chosen >= 0:
                    break
            if chosen < 0:
                return layer, expert
            _put(chosen, where, expert, expert_P, fill_P, load_N, copies_N, load_G, first_slot_G)
        for gpu in range(num_gpus):
            for slot in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
                if fill_P[slot]:
                    expert = _worth_a_copy(gpu, expert_P, load_N, copies_N, home_N, node_of_gpu_G, first_slot_G)
                    _put(slot, gpu, expert, expert_P, fill_P, load_N, copies_N, load_G, first_slot_G)
    return -1, -1


@compiled
def _holds(expert_P: Ints, first_slot_G: Ints, gpu: int, expert: int) -> int:
    """How many slots of the GPU hold the expert."""
    num = 0
    for slot in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
        if expert_P[slot] == expert:
            num += 1
    return num


@compiled
def _is_pinned(pins_K: Ints, expert_P: Ints, first_slot_G: Ints, gpu: int, expert: int) -> bool:
    """Must this GPU keep the copy that it has of the expert? Of two copies, one may go."""
    for pin in range(len(pins_K)):
        if pins_K[pin, 1] == expert and pins_K[pin, 2] == gpu:
            return _holds(expert_P, first_slot_G, gpu, expert) < 2
    return False


@compiled
def _place_on(
    gpu: int, pins_K: Ints, expert_P: Ints, fill_P: Bools, load_N: Floats, copies_N: Ints, first_slot_G: Ints
) -> int:
    """The slot of the GPU for a pinned expert: an empty one, else that of the smallest copy of those with others, else
    of the smallest expert, which then needs another place; -1 where all are pinned."""
    chosen, rank, least = -1, 3, 0.0
    for slot in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
        old = expert_P[slot]
        if old < 0:
            if fill_P[slot]:
                return slot
            continue
        if _is_pinned(pins_K, expert_P, first_slot_G, gpu, old):
            continue
        mine, part = 1 if copies_N[old] > 1 else 2, load_N[old] / copies_N[old]
        if mine < rank or (mine == rank and part < least):
            chosen, rank, least = slot, mine, part
    return chosen


@compiled
def _time_after(
    slot: int,
    gpu: int,
    expert: int,
    expert_P: Ints,
    load_N: Floats,
    copies_N: Ints,
    load_G: Floats,
    pace_G: Floats,
    first_slot_G: Ints,
) -> float:
    """Time of the latest GPU that is touched if the slot gets an expert that has no copy."""
    old = expert_P[slot]
    if old < 0:
        return float((load_G[gpu] + load_N[expert]) * pace_G[gpu])
    part = load_N[old] / copies_N[old]
    more = load_N[old] / (copies_N[old] - 1) - part
    time = (load_G[gpu] - part + load_N[expert]) * pace_G[gpu]
    for other in range(len(pace_G)):
        copies = _holds(expert_P, first_slot_G, other, old)
        if other != gpu and copies:
            time = max(time, (load_G[other] + copies * more) * pace_G[other])
    return float(time)


@compiled
def _worth_a_copy(
    gpu: int,
    expert_P: Ints,
    load_N: Floats,
    copies_N: Ints,
    home_N: Ints,
    node_of_gpu_G: Ints,
    first_slot_G: Ints,
) -> int:
    """The expert with the largest copies of those that the GPU lacks, of its own node's if there are any."""
    chosen, rank, most = 0, 4, 0.0
    for expert in range(len(load_N)):
        at_home = home_N[expert] < 0 or home_N[expert] == node_of_gpu_G[gpu]
        mine = (0 if at_home else 1) + (2 if _holds(expert_P, first_slot_G, gpu, expert) else 0)
        part = load_N[expert] / copies_N[expert]
        if mine < rank or (mine == rank and part > most):
            chosen, rank, most = expert, mine, part
    return chosen


@compiled
def _put(
    slot: int,
    gpu: int,
    expert: int,
    expert_P: Ints,
    fill_P: Bools,
    load_N: Floats,
    copies_N: Ints,
    load_G: Floats,
    first_slot_G: Ints,
) -> None:
    for who in (expert_P[slot], expert):
        if who >= 0:
            _add_load(who, -1.0, expert_P, load_N, copies_N, load_G, first_slot_G)
    if expert_P[slot] >= 0:
        copies_N[expert_P[slot]] -= 1
    old = expert_P[slot]
    expert_P[slot] = expert
    copies_N[expert] += 1
    fill_P[slot] = False
    for who in (old, expert):
        if who >= 0:
            _add_load(who, 1.0, expert_P, load_N, copies_N, load_G, first_slot_G)


@compiled
def _add_load(
    expert: int, sign: float, expert_P: Ints, load_N: Floats, copies_N: Ints, load_G: Floats, first_slot_G: Ints
) -> None:
    """Add the load of all copies of an expert to their GPUs, or take it away."""
    if copies_N[expert]:
        for gpu in range(len(load_G)):
            load_G[gpu] += sign * load_N[expert] / copies_N[expert] * _holds(expert_P, first_slot_G, gpu, expert)


def slots_to_keep_filled(old: Placement, cluster: Cluster, most_LG: Ints) -> Ints:
    """[L, G] slots to fill on what the cluster is now.

    As many as the old placement fills; on a GPU that came into service as many as the fullest other has; none on one
    that left. Where that is too few for all experts (a layer had a budget, and GPUs left), more, one by one on the GPU
    with most room. most_LG: no GPU fills more; all of them together hold all experts.
    """
    filled_LG = cluster.slots_G - _per_gpu(old.expert_of_slot_LP < 0, cluster)
    filled_LG = np.where(cluster.usable_G, filled_LG, 0)
    joined_G = cluster.usable_G & ~old.cluster.usable_G
    if joined_G.any():
        filled_LG = np.where(joined_G, np.minimum(most_LG, filled_LG.max(axis=1, keepdims=True)), filled_LG)
    for layer in np.flatnonzero(filled_LG.sum(axis=1) < old.num_experts):
        while filled_LG[layer].sum() < old.num_experts:
            filled_LG[layer, int(np.argmax(most_LG[layer] - filled_LG[layer]))] += 1
    return filled_LG


def empty_slots_to_fill(expert_of_slot_LP: Ints, capacity_LG: Ints, cluster: Cluster) -> Bools:
    """[L, P] the leading empty slots of each GPU, as many as it lacks to its capacity."""
    empty_LP = expert_of_slot_LP < 0
    first_P = cluster.first_slot_G[:-1][cluster.gpu_of_slot_P]
    before_LP: Ints = np.cumsum(empty_LP, axis=1) - empty_LP  # empty slots before each
    rank_LP: Ints = before_LP - before_LP[:, first_P]
    lacks_LG = capacity_LG - (cluster.slots_G - _per_gpu(empty_LP, cluster))
    to_fill_LP: Bools = empty_LP & (rank_LP < lacks_LG[:, cluster.gpu_of_slot_P])
    return to_fill_LP


def _per_gpu(marked_LP: Bools, cluster: Cluster) -> Ints:
    """[L, G] marked slots of each GPU."""
    total_LP = np.concatenate([np.zeros((len(marked_LP), 1), np.int64), np.cumsum(marked_LP, axis=1)], axis=1)
    marked_LG: Ints = np.diff(total_LP[:, cluster.first_slot_G], axis=1)
    return marked_LG

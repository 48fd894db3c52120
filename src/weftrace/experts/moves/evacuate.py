"""Which slots have to change before anything else: experts that lost every copy, pins, slots that wait to be filled;
and how many slots of each GPU a new placement fills, given the old one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.errors import PlacementError
from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.placement import Placement
from weftrace.experts.slots import copies_of, even_shares, load_of_gpus


def evacuate(
    expert_of_slot_LP: Ints,
    to_fill_LP: Bools,
    load_LN: Floats,
    cluster: Cluster,
    *,
    pins_K3: Ints,
    home_LN: Ints,
) -> Ints:
    """[L, P] the map with every expert in some slot, every pin kept and every slot of `to_fill_LP` filled.

    expert_of_slot_LP: -1 on GPUs out of service and in slots that are empty. to_fill_LP: empty slots that must be
    filled. pins_K3: rows (layer, expert, gpu). home_LN: the node on which an expert without a copy is put if it can, -1
    for any. An expert without a copy takes the place of a copy whose expert has others: the place after which the
    latest GPU it touches is earliest.
    Raises `PlacementError` where pins leave an expert without a place.
    """
    first_slot_G, node_of_gpu_G = cluster.first_slot_G, cluster.node_of_gpu_G
    copies_LN = copies_of(expert_of_slot_LP, load_LN.shape[1])
    share_LP = even_shares(expert_of_slot_LP, load_LN.shape[1])
    load_LG = load_of_gpus(expert_of_slot_LP, share_LP, load_LN, first_slot_G)
    map_LP, left_LP, pace_G = expert_of_slot_LP.copy(), to_fill_LP.copy(), 1.0 / cluster.speed_G
    for layer in range(len(map_LP)):
        state = _Layer(
            map_LP[layer], left_LP[layer], load_LN[layer], copies_LN[layer], home_LN[layer], load_LG[layer], pace_G,
            node_of_gpu_G, first_slot_G, pins_K3[pins_K3[:, 0] == layer],
        )  # fmt: skip
        expert = _evacuate(state)
        if expert >= 0:
            raise PlacementError(
                f"loads row {layer}: no place is left for expert {expert}: every slot is pinned or holds an expert's "
                "only copy"
            )
    return map_LP


class _Layer(NamedTuple):
    """One layer on its way: everything that a change touches."""

    expert_P: Ints
    fill_P: Bools  # empty slots still to be filled
    load_N: Floats
    copies_N: Ints
    home_N: Ints
    load_G: Floats
    pace_G: Floats  # 1 / speed
    node_of_gpu_G: Ints
    first_slot_G: Ints
    pins_K3: Ints  # of this layer: rows (layer, expert, gpu)


@compiled
def _evacuate(layer: _Layer) -> int:
    """Change the layer's map in place; returns the expert for which there is no place, or -1."""
    for pin in range(len(layer.pins_K3)):
        expert, gpu = layer.pins_K3[pin, 1], layer.pins_K3[pin, 2]
        if not _holds(layer.expert_P, layer.first_slot_G, gpu, expert):
            slot = _place_on(layer, gpu)
            if slot < 0:
                return int(expert)
            _put(layer, slot, expert)
    while True:
        expert = -1
        for other in range(len(layer.load_N)):
            if layer.copies_N[other] == 0 and (expert < 0 or layer.load_N[other] > layer.load_N[expert]):
                expert = other
        if expert < 0:
            break
        slot, gpu = _place_for(layer, expert)
        if slot < 0:
            return int(expert)
        _put(layer, slot, expert)
    for gpu in range(len(layer.pace_G)):
        for slot in range(layer.first_slot_G[gpu], layer.first_slot_G[gpu + 1]):
            if layer.fill_P[slot]:
                _put(layer, slot, _worth_a_copy(layer, gpu))
    return -1


@compiled_part
def _place_for(layer: _Layer, expert: int) -> tuple[int, int]:
    """(slot, its GPU) for an expert without a copy, on its home if it can be: the place after which the latest GPU that
    is touched is earliest; -1, -1 where there is none."""
    home = layer.home_N[expert]
    best, chosen, where = 0.0, -1, -1
    for anywhere in range(2):
        for gpu in range(len(layer.pace_G)):
            if not anywhere and home >= 0 and home != layer.node_of_gpu_G[gpu]:
                continue
            for slot in range(layer.first_slot_G[gpu], layer.first_slot_G[gpu + 1]):
                old = layer.expert_P[slot]
                if not layer.fill_P[slot] if old < 0 else layer.copies_N[old] < 2 or _is_pinned(layer, gpu, old):
                    continue
                time = _time_after(layer, slot, gpu, expert)
                if chosen < 0 or time < best:
                    best, chosen, where = time, slot, gpu
        if chosen >= 0:
            break
    return chosen, where


@compiled_part
def _holds(expert_P: Ints, first_slot_G: Ints, gpu: int, expert: int) -> int:
    """How many slots of the GPU hold the expert."""
    num = 0
    for slot in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
        if expert_P[slot] == expert:
            num += 1
    return num


@compiled_part
def _is_pinned(layer: _Layer, gpu: int, expert: int) -> bool:
    """Must this GPU keep the copy that it has of the expert? Of two copies, one may go."""
    for pin in range(len(layer.pins_K3)):
        if layer.pins_K3[pin, 1] == expert and layer.pins_K3[pin, 2] == gpu:
            return _holds(layer.expert_P, layer.first_slot_G, gpu, expert) < 2
    return False


@compiled_part
def _place_on(layer: _Layer, gpu: int) -> int:
    """The slot of the GPU for a pinned expert: an empty one, else that of the smallest copy of those with others, else
    of the smallest expert, which then needs another place; -1 where all are pinned."""
    chosen, rank, least = -1, 3, 0.0
    for slot in range(layer.first_slot_G[gpu], layer.first_slot_G[gpu + 1]):
        old = layer.expert_P[slot]
        if old < 0:
            if layer.fill_P[slot]:
                return slot
            continue
        if _is_pinned(layer, gpu, old):
            continue
        mine, part = 1 if layer.copies_N[old] > 1 else 2, layer.load_N[old] / layer.copies_N[old]
        if mine < rank or (mine == rank and part < least):
            chosen, rank, least = slot, mine, part
    return chosen


@compiled_part
def _time_after(layer: _Layer, slot: int, gpu: int, expert: int) -> float:
    """Time of the latest GPU that is touched if the slot gets an expert that has no copy."""
    load_N, load_G, pace_G = layer.load_N, layer.load_G, layer.pace_G
    old = layer.expert_P[slot]
    if old < 0:
        return float((load_G[gpu] + load_N[expert]) * pace_G[gpu])
    part = load_N[old] / layer.copies_N[old]
    more = load_N[old] / (layer.copies_N[old] - 1) - part
    time = (load_G[gpu] - part + load_N[expert]) * pace_G[gpu]
    for other in range(len(pace_G)):
        copies = _holds(layer.expert_P, layer.first_slot_G, other, old)
        if other != gpu and copies:
            time = max(time, (load_G[other] + copies * more) * pace_G[other])
    return float(time)


@compiled_part
def _worth_a_copy(layer: _Layer, gpu: int) -> int:
    """The expert with the largest copies of those that the GPU lacks, of its own node's if there are any."""
    chosen, rank, most = 0, 4, 0.0
    for expert in range(len(layer.load_N)):
        at_home = layer.home_N[expert] < 0 or layer.home_N[expert] == layer.node_of_gpu_G[gpu]
        is_held = _holds(layer.expert_P, layer.first_slot_G, gpu, expert)
        mine = (0 if at_home else 1) + (2 if is_held else 0)
        part = layer.load_N[expert] / layer.copies_N[expert]
        if mine < rank or (mine == rank and part > most):
            chosen, rank, most = expert, mine, part
    return chosen


@compiled_part
def _put(layer: _Layer, slot: int, expert: int) -> None:
    old = layer.expert_P[slot]
    for who in (old, expert):
        if who >= 0:
            _add_load(layer, who, -1.0)
    if old >= 0:
        layer.copies_N[old] -= 1
    layer.expert_P[slot] = expert
    layer.copies_N[expert] += 1
    layer.fill_P[slot] = False
    for who in (old, expert):
        if who >= 0:
            _add_load(layer, who, 1.0)


@compiled_part
def _add_load(layer: _Layer, expert: int, sign: float) -> None:
    """Add the load of all copies of an expert to their GPUs, or take it away."""
    if layer.copies_N[expert]:
        for gpu in range(len(layer.load_G)):
            copies = _holds(layer.expert_P, layer.first_slot_G, gpu, expert)
            layer.load_G[gpu] += sign * layer.load_N[expert] / layer.copies_N[expert] * copies


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

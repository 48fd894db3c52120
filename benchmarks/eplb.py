"""DeepSeek's balancer as others run it, for weftrace to be compared with: three ways to write the same algorithm in
Python.

`by_tensors` is built as the published code is: tensors for what goes over all layers at once, Python loops for what
does not. `by_lists` is what a careful person makes of it without leaving Python. `by_arrays` is built as the version in
vLLM is: NumPy, replication over all layers at once, packing layer by layer. All give the same maps where no two loads
are equal; the benchmark checks that they do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Array = NDArray[Any]
Arrays = tuple[Array, Array, Array]
Lists = tuple[list[list[int]], list[list[list[int]]], list[list[int]]]


def tensor_packing(load: torch.Tensor, num_packs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """[R, K] pack of each item and its position there, row by row and item by item."""
    num_rows, num_items = load.shape
    room = num_items // num_packs
    if room == 1:
        return torch.arange(num_items).expand(num_rows, -1), torch.zeros(num_rows, num_items, dtype=torch.int64)
    order = load.sort(-1, descending=True).indices
    pack_of, position_of = torch.empty_like(order), torch.empty_like(order)
    for row in range(num_rows):
        sums: list[int | torch.Tensor] = [0] * num_packs
        held = [0] * num_packs
        for item in order[row]:
            open_packs = (pack for pack in range(num_packs) if held[pack] < room)
            pack = min(open_packs, key=sums.__getitem__)  # compares tensors of one number
            pack_of[row, item], position_of[row, item] = pack, held[pack]
            sums[pack] += load[row, item]
            held[pack] += 1
    return pack_of, position_of


def tensor_replication(load: torch.Tensor, num_slots: int) -> Tensors:
    """[R, slots] expert of each replica, which of its copies it is, and [R, experts] counts; one slot at a time."""
    num_rows, num_experts = load.shape
    rows = torch.arange(num_rows)
    expert_of = torch.arange(num_slots).repeat(num_rows, 1)
    rank_of = torch.zeros_like(expert_of)
    counts = torch.ones(num_rows, num_experts, dtype=torch.int64)
    for slot in range(num_experts, num_slots):
        hottest = (load / counts).max(-1).indices
        expert_of[:, slot], rank_of[:, slot] = hottest, counts[rows, hottest]
        counts[rows, hottest] += 1
    return expert_of, rank_of, counts


def inverse(order: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).expand_as(order))


def by_tensors(weight: torch.Tensor, num_slots: int, num_groups: int, num_nodes: int, num_gpus: int) -> Tensors:
    """As the published code: tensors and Python loops."""
    load = weight.float().cpu()
    num_layers, num_experts = load.shape
    if num_groups % num_nodes:
        num_groups = num_nodes = 1
    size, per_node, slots_per_node = num_experts // num_groups, num_experts // num_nodes, num_slots // num_nodes

    node_of, position = tensor_packing(load.view(num_layers, num_groups, size).sum(-1), num_nodes)
    start = (node_of * (num_groups // num_nodes) + position) * size
    place_of_expert = (start.unsqueeze(-1) + torch.arange(size)).flatten(-2)
    expert_of_place = inverse(place_of_expert)

    placed = load.gather(-1, expert_of_place).view(-1, per_node)
    member_of, rank_of, counts = tensor_replication(placed, slots_per_node)

    gpu_of, position = tensor_packing((placed / counts).gather(-1, member_of), num_gpus // num_nodes)
    replica_of_slot = inverse(gpu_of * (num_slots // num_gpus) + position)
    member_of_slot = member_of.gather(-1, replica_of_slot).view(num_layers, num_nodes, -1)
    place_of_slot = (member_of_slot + torch.arange(0, num_experts, per_node).view(1, -1, 1)).flatten(-2)
    phy2log = expert_of_place.gather(-1, place_of_slot)
    rank_of_slot = rank_of.gather(-1, replica_of_slot).view(num_layers, -1)
    logcnt = counts.view(num_layers, -1).gather(-1, place_of_expert)

    most = int(logcnt.max())
    log2phy = torch.full((num_layers, num_experts * most), -1)
    log2phy.scatter_(-1, phy2log * most + rank_of_slot, torch.arange(num_slots).expand(num_layers, -1))
    return phy2log, log2phy.view(num_layers, num_experts, most), logcnt


def list_packing(load: list[float], num_packs: int) -> list[list[int]]:
    room = len(load) // num_packs
    if room == 1:
        return [[item] for item in range(num_packs)]
    sums = [0.0] * num_packs
    packs: list[list[int]] = [[] for _ in range(num_packs)]
    open_packs = list(range(num_packs))
    for item in sorted(range(len(load)), key=load.__getitem__, reverse=True):
        pack = min(open_packs, key=sums.__getitem__)
        packs[pack].append(item)
        sums[pack] += load[item]
        if len(packs[pack]) == room:
            open_packs.remove(pack)
    return packs


def by_lists(weight: list[list[float]], num_slots: int, num_groups: int, num_nodes: int, num_gpus: int) -> Lists:
    """The same in plain lists and Python's own floats: no tensor is indexed item by item."""
    if num_groups % num_nodes:
        num_groups = num_nodes = 1
    num_experts = len(weight[0])
    size = num_experts // num_groups
    phy2log, log2phy, logcnt = [], [], []
    for load in weight:
        counts = [1] * num_experts
        slots: list[int] = []
        copies: list[list[tuple[int, int]]] = [[] for _ in range(num_experts)]
        groups = [sum(load[group * size : (group + 1) * size]) for group in range(num_groups)]
        for home in list_packing(groups, num_nodes):
            experts = [group * size + member for group in home for member in range(size)]
            each = [load[expert] for expert in experts]
            replicas = [(member, 0) for member in range(len(experts))]
            while len(replicas) < num_slots // num_nodes:
                member = each.index(max(each))
                expert = experts[member]
                replicas.append((member, counts[expert]))
                counts[expert] += 1
                each[member] = load[expert] / counts[expert]
            for gpu in list_packing([each[member] for member, _ in replicas], num_gpus // num_nodes):
                for replica in gpu:
                    member, rank = replicas[replica]
                    copies[experts[member]].append((rank, len(slots)))
                    slots.append(experts[member])
        phy2log.append(slots)
        log2phy.append([[slot for _, slot in sorted(ranked)] for ranked in copies])
        logcnt.append(counts)
    most = max(map(max, logcnt))
    return phy2log, [[slots + [-1] * (most - len(slots)) for slots in layer] for layer in log2phy], logcnt


def array_packing(load: Array, num_packs: int) -> tuple[Array, Array]:
    num_rows, num_items = load.shape
    room = num_items // num_packs
    if room == 1:
        return np.tile(np.arange(num_items), (num_rows, 1)), np.zeros((num_rows, num_items), dtype=np.int64)
    order = np.argsort(-load, axis=-1)
    pack_of, position_of = np.empty_like(order), np.empty_like(order)
    for row in range(num_rows):
        sums, held = np.zeros(num_packs, dtype=load.dtype), [0] * num_packs
        for item in order[row]:
            pack = sums.argmin()
            pack_of[row, item], position_of[row, item] = pack, held[pack]
            held[pack] += 1
            sums[pack] = sums[pack] + load[row, item] if held[pack] < room else np.inf
    return pack_of, position_of


def by_arrays(weight: Array, num_slots: int, num_groups: int, num_nodes: int, num_gpus: int) -> Arrays:
    """As in vLLM: NumPy, copies for all layers at once, packing by layer."""
    if num_groups % num_nodes:
        num_groups = num_nodes = 1
    load = weight.astype(np.float32)
    num_layers, num_experts = load.shape
    size, per_node, slots_per_node = num_experts // num_groups, num_experts // num_nodes, num_slots // num_nodes

    node_of, position = array_packing(load.reshape(num_layers, num_groups, size).sum(-1), num_nodes)
    start = (node_of * (num_groups // num_nodes) + position) * size
    place_of_expert = (start[:, :, None] + np.arange(size)).reshape(num_layers, -1)
    expert_of_place = place_of_expert.argsort(-1)

    placed = np.take_along_axis(load, expert_of_place, -1).reshape(-1, per_node)
    rows = np.arange(len(placed))
    member_of = np.tile(np.arange(slots_per_node), (len(placed), 1))
    rank_of, counts = np.zeros_like(member_of), np.ones(placed.shape, dtype=np.int64)
    for slot in range(per_node, slots_per_node):
        hottest = (placed / counts.astype(np.float32)).argmax(-1)
        member_of[:, slot], rank_of[:, slot] = hottest, counts[rows, hottest]
        counts[rows, hottest] += 1

    each = np.take_along_axis(placed / counts.astype(np.float32), member_of, -1)
    gpu_of, position = array_packing(each, num_gpus // num_nodes)
    replica_of_slot = (gpu_of * (num_slots // num_gpus) + position).argsort(-1)
    member_of_slot = np.take_along_axis(member_of, replica_of_slot, -1).reshape(num_layers, num_nodes, -1)
    place_of_slot = (member_of_slot + np.arange(0, num_experts, per_node)[:, None]).reshape(num_layers, -1)
    phy2log = np.take_along_axis(expert_of_place, place_of_slot, -1)
    rank_of_slot = np.take_along_axis(rank_of, replica_of_slot, -1).reshape(num_layers, -1)
    logcnt = np.take_along_axis(counts.reshape(num_layers, -1), place_of_expert, -1)

    log2phy = np.full((num_layers, num_experts, logcnt.max()), -1)
    log2phy[np.arange(num_layers)[:, None], phy2log, rank_of_slot] = np.arange(num_slots)
    return phy2log, log2phy, logcnt

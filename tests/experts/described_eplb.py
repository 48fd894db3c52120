"""DeepSeek's expert balancer as it is described, written for reading and not for speed: one item at a time.

It shares nothing with weftrace's own. Loads are NumPy float32 scalars, so each addition and division rounds as a
float32 tensor's would; only what cannot be described, the order that torch leaves equal values in and the order in
which it adds, is asked of torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def rebalance(
    weight: torch.Tensor, num_replicas: int, num_groups: int, num_nodes: int, num_gpus: int
) -> tuple[list[list[int]], list[list[list[int]]], list[list[int]]]:
    """(expert of each slot, slots of each expert in order of creation, copies of each expert), by layer."""
    if num_groups % num_nodes != 0:
        num_groups, num_nodes = 1, 1
    loads = weight.float().cpu()
    num_experts = loads.shape[1]
    group_loads = loads.view(len(loads), num_groups, -1).sum(-1)
    group_orders = group_loads.sort(-1, descending=True).indices.tolist()
    group_rows = group_loads.numpy()

    # Every replica of every node first, for torch sorts them all in one call.
    nodes: list[list[dict[str, list[Any]]]] = []
    for layer, load_N in enumerate(loads.numpy()):
        homes = pack(group_rows[layer], group_orders[layer], num_nodes)
        nodes.append([replicate(load_N, home, num_groups, num_replicas // num_nodes) for home in homes])
    flat = torch.tensor(np.array([node["loads"] for layer in nodes for node in layer], dtype=np.float32))
    orders = iter(flat.sort(-1, descending=True).indices.tolist())

    phy2log, log2phy, logcnt = [], [], []
    for layer_nodes in nodes:
        slots: list[int] = []
        places: dict[tuple[int, int], int] = {}
        for node in layer_nodes:
            for gpu in pack(node["loads"], next(orders), num_gpus // num_nodes):
                for replica in gpu:
                    places[node["experts"][replica], node["ranks"][replica]] = len(slots)
                    slots.append(node["experts"][replica])
        counts = [slots.count(expert) for expert in range(num_experts)]
        phy2log.append(slots)
        logcnt.append(counts)
        log2phy.append([[places[expert, rank] for rank in range(counts[expert])] for expert in range(num_experts)])
    return phy2log, log2phy, logcnt


def pack(loads: list[np.float32], order: list[int], num_packs: int) -> list[list[int]]:
    """The items of each pack: in the order given, each to the least loaded pack with room, the first of equals."""
    room = len(loads) // num_packs
    if room == 1:
        return [[item] for item in range(num_packs)]
    packs: list[list[int]] = [[] for _ in range(num_packs)]
    sums = [np.float32(0)] * num_packs
    for item in order:
        chosen = min((p for p in range(num_packs) if len(packs[p]) < room), key=lambda p: sums[p])
        packs[chosen].append(item)
        sums[chosen] = np.float32(sums[chosen] + loads[item])
    return packs


def replicate(load_N: list[np.float32], groups: list[int], num_groups: int, num_slots: int) -> dict[str, list[Any]]:
    """One node's replicas: its experts once each, group by group, then copies of whichever has most load a copy."""
    group_size = len(load_N) // num_groups
    experts = [group * group_size + member for group in groups for member in range(group_size)]
    copies = dict.fromkeys(experts, 1)
    replicas, ranks = list(experts), [0] * len(experts)
    while len(replicas) < num_slots:
        hottest = max(experts, key=lambda e: load_N[e] / np.float32(copies[e]))  # max takes the first of equals
        replicas.append(hottest)
        ranks.append(copies[hottest])
        copies[hottest] += 1
    loads = [load_N[e] / np.float32(copies[e]) for e in replicas]
    return {"experts": replicas, "ranks": ranks, "loads": loads}

"""How many copies does each expert get?

Splitting a load evenly over c copies makes replicas of load w / c. Handing each further slot to the expert whose
replica is the largest minimises the largest replica: the apportionment of Adams, "smallest divisors" (M. L. Balinski
and H. P. Young, *Fair Representation*, 1982), with the slots as seats and the loads as votes.
"""

from __future__ import annotations

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Floats, Ints


def greedy_counts(load_LN: Floats, replicas_L: Ints, most_copies: int | Ints, least_LN: Ints | None = None) -> Ints:
    """int64 [L, N] copies of each expert whose largest load a copy is as small as the slots allow.

    load_LN: [L, N] loads. replicas_L: [L] slots to fill, N at least. most_copies: no expert gets more, the number of
    GPUs say; one number or one a layer. least_LN: [L, N] copies that an expert has to have (its pins), 1 at least.
    Each row sums to replicas_L. A slot goes to the largest load a copy; among equals (zeros) to the expert with fewer
    copies, then to the lower number. Asserts that the slots suffice and that most_copies leaves room for all.
    """
    num_layers, num_experts = load_LN.shape
    least_LN = np.ones((num_layers, num_experts), dtype=np.int64) if least_LN is None else np.maximum(least_LN, 1)
    most_L = np.empty(num_layers, dtype=np.int64)
    most_L[:] = most_copies
    room_L = np.maximum(least_LN, most_L[:, None]).sum(axis=1)
    assert (least_LN.sum(axis=1) <= replicas_L).all(), (least_LN.sum(axis=1), replicas_L)
    assert (replicas_L <= room_L).all(), (replicas_L, room_L)
    return _greedy_counts(
        np.ascontiguousarray(load_LN, dtype=np.float64),
        np.ascontiguousarray(replicas_L, dtype=np.int64),
        most_L,
        np.ascontiguousarray(least_LN, dtype=np.int64),
    )


@compiled
def _greedy_counts(load_LN: Floats, replicas_L: Ints, most_L: Ints, least_LN: Ints) -> Ints:
    """Hands out slots from a heap of experts, the next to get one on top."""
    num_layers, num_experts = load_LN.shape
    counts_LN = least_LN.copy()
    heap_N = np.empty(num_experts, dtype=np.int64)
    for layer in range(num_layers):
        load_N, counts_N = load_LN[layer], counts_LN[layer]
        size = 0
        for expert in range(num_experts):
            if counts_N[expert] < most_L[layer]:
                heap_N[size] = expert
                size += 1
        for at in range(size // 2 - 1, -1, -1):
            _sink(heap_N, size, at, load_N, counts_N)
        for _ in range(replicas_L[layer] - counts_N.sum()):
            top = heap_N[0]
            counts_N[top] += 1
            if counts_N[top] == most_L[layer]:
                size -= 1
                heap_N[0] = heap_N[size]
            _sink(heap_N, size, 0, load_N, counts_N)
    return counts_LN


@compiled_part
def _sink(heap_N: Ints, size: int, at: int, load_N: Floats, counts_N: Ints) -> None:
    """Restore the heap below a position."""
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _precedes(heap_N[child + 1], heap_N[child], load_N, counts_N):
            child += 1
        if not _precedes(heap_N[child], heap_N[at], load_N, counts_N):
            return
        heap_N[child], heap_N[at] = heap_N[at], heap_N[child]
        at = child


@compiled_part
def _precedes(one: int, other: int, load_N: Floats, counts_N: Ints) -> bool:
    """Whether the next slot goes to one rather than other."""
    value, other_value = load_N[one] / counts_N[one], load_N[other] / counts_N[other]
    if value != other_value:
        return bool(value > other_value)
    if counts_N[one] != counts_N[other]:
        return bool(counts_N[one] < counts_N[other])
    return bool(one < other)


def replicas_of(counts_LN: Ints, load_LN: Floats) -> tuple[Ints, Floats]:
    """(expert_LR, value_LR): the replicas of each layer, largest first, with R the most replicas of any layer.

    A replica's value is its expert's load / copies. Copies of an expert stand together; among equal values the lower
    expert comes first. A layer of fewer replicas is padded with expert -1, value 0.
    """
    value_LN = np.divide(load_LN, counts_LN, out=np.zeros(load_LN.shape), where=counts_LN > 0)
    order_LN = np.argsort(-value_LN, axis=1, kind="stable")
    num_LN = np.take_along_axis(counts_LN, order_LN, axis=1)
    replicas_L = counts_LN.sum(axis=1)
    shape = len(counts_LN), int(replicas_L.max(initial=0))
    is_filled_LR = np.arange(shape[1]) < replicas_L[:, None]
    expert_LR = np.full(shape, -1, dtype=np.int64)
    value_LR = np.zeros(shape)
    expert_LR[is_filled_LR] = np.repeat(order_LN.ravel(), num_LN.ravel())
    value_LR[is_filled_LR] = np.repeat(np.take_along_axis(value_LN, order_LN, axis=1).ravel(), num_LN.ravel())
    return expert_LR, value_LR

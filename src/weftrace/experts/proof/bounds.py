"""How low could the largest GPU time of a layer be? Bounds that no placement can beat, by layer.

A time is load / speed. Each bound is proved on its own, so the largest of them is a bound too.
"""

from __future__ import annotations

import numpy as np

from weftrace.compiled import compiled_part, compiled_when_slow
from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.packing.group_partition import best_partition
from weftrace.experts.problem import NotApplicable, Problem


def replica_bound(problem: Problem, *, any_shares_L: Bools) -> tuple[Floats, Bools]:
    """([L] bound, [L] whether the expert that sets it has a copy on every GPU already).

    Some expert's replica takes that long even under the best copy counts: minimum over counts, 1 to one a GPU and no
    more in sum than there are slots, of the maximum over experts of load / reach(copies). reach(c) is how much speed c
    copies put to work. Even split, and no expert twice on a GPU: each copy gets load / c and the slowest of the GPUs
    decides, so reach(c) = max over c' <= c of c' x (speed of the c'-th fastest GPU). Any shares, or an expert twice on
    a GPU (any_shares_L): the sum of the c fastest speeds. Equal speeds: c either way, and the counts are Adams'
    apportionment, which greedy replication finds.
    """
    return _replica_bound(
        problem.load_LN, problem.capacity_LG, problem.cluster.speed_G, any_shares_L | (not problem.is_even)
    )


@compiled_when_slow
def _replica_bound(load_LN: Floats, capacity_LG: Ints, speed_G: Floats, any_shares_L: Bools) -> tuple[Floats, Bools]:
    num_layers, num_experts = load_LN.shape
    bound_L = np.zeros(num_layers, dtype=np.float64)
    is_everywhere_L = np.zeros(num_layers, dtype=np.bool_)
    copies_N = np.empty(num_experts, dtype=np.int64)
    time_N = np.empty(num_experts, dtype=np.float64)
    for layer in range(num_layers):
        reach_K = _reach(speed_G[capacity_LG[layer] > 0], any_shares_L[layer])
        spare = capacity_LG[layer].sum() - num_experts
        copies_N[:] = 1
        time_N[:] = load_LN[layer] / reach_K[1]
        spare, bound_L[layer] = _replicate(load_LN[layer], reach_K, copies_N, time_N, spare, 0.0)
        is_everywhere_L[layer] = copies_N[np.argmax(time_N)] == len(reach_K) - 1
    return bound_L, is_everywhere_L


@compiled_part
def _reach(speed_K: Floats, any_shares: bool) -> Floats:
    """[K + 1] speed that 0, 1, .. K copies put to work."""
    fastest_K = np.sort(speed_K)[::-1]
    reach_K = np.zeros(len(speed_K) + 1, dtype=np.float64)
    for copies in range(1, len(speed_K) + 1):
        here = reach_K[copies - 1] + fastest_K[copies - 1] if any_shares else copies * fastest_K[copies - 1]
        reach_K[copies] = max(reach_K[copies - 1], here)
    return reach_K


@compiled_part
def _replicate(
    load_N: Floats, reach_K: Floats, copies_N: Ints, time_N: Floats, spare: int, enough: float
) -> tuple[int, float]:
    """Give the slowest expert one more copy until no slot is spare, it is everywhere, or its time is `enough`."""
    slowest = np.argmax(time_N)
    while spare > 0 and time_N[slowest] > enough and copies_N[slowest] < len(reach_K) - 1:
        copies_N[slowest] += 1
        time_N[slowest] = load_N[slowest] / reach_K[copies_N[slowest]]
        spare -= 1
        slowest = np.argmax(time_N)
    return spare, time_N[slowest]


def capacity_bound(problem: Problem) -> Floats:
    """[L] smallest T at which all load fits: sum over GPUs of min(T x speed, the loads that fill its slots) >= W.

    A GPU with c slots cannot hold more than the c largest loads, however fast it is.
    """
    return _capacity_bound(problem.load_LN, problem.capacity_LG, problem.cluster.speed_G)


@compiled_when_slow
def _capacity_bound(load_LN: Floats, capacity_LG: Ints, speed_G: Floats) -> Floats:
    num_layers, num_experts = load_LN.shape
    bound_L = np.zeros(num_layers, dtype=np.float64)
    for layer in range(num_layers):
        most_N = np.zeros(num_experts + 1, dtype=np.float64)  # largest load of 0, 1, .. N experts
        most_N[1:] = np.cumsum(np.sort(load_LN[layer])[::-1])
        most_G = most_N[np.minimum(capacity_LG[layer], num_experts)]
        left, speed = most_N[num_experts], 0.0
        for gpu in range(len(speed_G)):
            if capacity_LG[layer, gpu] > 0:
                speed += speed_G[gpu]
        for gpu in np.argsort(most_G / speed_G, kind="mergesort"):  # the first to be full comes first
            if capacity_LG[layer, gpu] > 0:
                if left <= most_G[gpu] / speed_G[gpu] * speed:
                    break
                left -= most_G[gpu]
                speed -= speed_G[gpu]
        if speed > 0:  # by rounding nothing may be left when every GPU is full
            bound_L[layer] = left / speed if left > 0 else 0.0
    return bound_L


def pin_bound(problem: Problem) -> Floats:
    """[L] what the pinned experts alone put on a GPU, split among as many copies as slots and GPUs allow.

    0 where copies may take any share: a pinned copy may then take none.
    """
    if not problem.is_even or not len(problem.pins_K3):
        return np.zeros(problem.num_layers)
    spare_L = problem.replicas_L - problem.num_experts
    copies_L = np.minimum((problem.capacity_LG > 0).sum(axis=1), 1 + spare_L)
    load_LG = np.zeros(problem.capacity_LG.shape)
    for layer, expert, gpu in problem.pins_K3:
        load_LG[layer, gpu] += problem.load_LN[layer, expert] / copies_L[layer]
    return problem.cluster.worst_time(load_LG)


def bound_by_slots(problem: Problem, base_L: Floats, multiple: int) -> Floats:
    """[L, ..] the larger of base_L and the replica bound with 0, 1, 2 .. times `multiple` slots, up to N on each GPU.

    The GPUs are those in service. Infinite where so few slots do not hold all experts.
    """
    speed_K = problem.cluster.speed_G[problem.cluster.usable_G]
    return _bound_by_slots(problem.load_LN, speed_K, base_L, not problem.is_even, multiple)


@compiled_when_slow
def _bound_by_slots(load_LN: Floats, speed_K: Floats, base_L: Floats, any_shares: bool, multiple: int) -> Floats:
    num_layers, num_experts = load_LN.shape
    reach_K = _reach(speed_K, any_shares)
    num_steps = num_experts * len(speed_K) // multiple
    bound_LS = np.full((num_layers, num_steps + 1), np.inf)
    copies_N = np.empty(num_experts, dtype=np.int64)
    time_N = np.empty(num_experts, dtype=np.float64)
    for layer in range(num_layers):
        copies_N[:] = 1
        time_N[:] = load_LN[layer] / reach_K[1]
        placed = num_experts
        for step in range(1, num_steps + 1):
            spare = step * multiple - placed
            if spare >= 0:
                left, bound = _replicate(load_LN[layer], reach_K, copies_N, time_N, spare, base_L[layer])
                placed += spare - left
                bound_LS[layer, step] = max(bound, base_L[layer])
                if bound <= base_L[layer]:
                    bound_LS[layer, step:] = base_L[layer]
                    break
    return bound_LS


MOST_STEPS = 300_000  # of the search of a layer


def partition_bound(problem: Problem) -> Floats:
    """[L] no placement with the same number of whole groups on every node has a lower maximum.

    Few groups: the best over all partitions of the largest node bound (`group_partition`), searched to the end. Many:
    `counted_bound`. 0 where no partition is possible.
    """
    partition = best_partition(problem, max_steps=MOST_STEPS)
    if isinstance(partition, NotApplicable):
        return np.zeros(problem.num_layers)
    return np.where(partition.is_exact_L, partition.bound_L, counted_bound(problem))


def counted_bound(problem: Problem) -> Floats:
    """[L] the same by counting alone: of the heaviest j D + 1 groups some node of the D has j + 1 or more.

    So it has at least the j + 1 lightest of those, and of all groups the lightest to make up its number.
    """
    cluster = problem.cluster
    load_LM = problem.load_LN.reshape(problem.num_layers, problem.num_groups, -1).sum(axis=2)
    load_LM = -np.sort(-load_LM, axis=1)  # heaviest first
    fastest = float(np.where(cluster.usable_G, cluster.speed_G, 0).reshape(cluster.num_nodes, -1).sum(axis=1).max())
    room = problem.num_groups // cluster.num_nodes
    bound_L = np.zeros(problem.num_layers)
    for j in range(room):
        last = j * cluster.num_nodes + 1
        rest = load_LM[:, problem.num_groups - (room - j - 1) :].sum(axis=1)
        bound_L = np.maximum(bound_L, load_LM[:, last - j - 1 : last].sum(axis=1) + rest)
    return bound_L / fastest

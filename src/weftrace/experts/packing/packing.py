"""Which GPU does each replica stand on?

Longest processing time first (R. L. Graham, *Bounds on multiprocessing timing anomalies*, 1969) with a fixed number of
replicas a GPU, then a search that swaps replicas between the GPU that finishes last and another: one for one, two for
two, and, when nothing helps, a seeded kick and another descent.
"""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.packing.packing_kernels import WIDEST_PAIRS, pack_layers
from weftrace.experts.packing.replication import greedy_counts, replicas_of
from weftrace.experts.packing.shares import best_shares
from weftrace.experts.problem import Problem, Solution
from weftrace.experts.slots import lay_out, num_repeats

ROUNDS = 8
CLOSE_ENOUGH = 7e-5  # above the bound: far finer than expected loads are known


def pack(
    expert_LR: Ints,
    value_LR: Floats,
    capacity_LG: Ints,
    speed_G: Floats,
    *,
    pinned_LR: Ints | None = None,
    rounds: int = ROUNDS,
    close_enough: float = CLOSE_ENOUGH,
) -> Ints:
    """int64 [L, R] GPU of each replica, -1 for padding, such that the largest load / speed of a GPU is small.

    expert_LR, value_LR: replicas as `replicas_of` gives them, largest first, expert -1 for padding. capacity_LG: how
    many replicas each GPU gets, exactly; its rows sum to the replicas of the layer. speed_G: speeds of the GPUs.
    pinned_LR: the GPU that a replica must be on, -1 where it may be on any.
    No expert is twice on a GPU where the counts, the capacities and the pins allow it (found by augmenting paths).
    rounds: kicks after the first descent; close_enough: the search ends at this much above a bound, relative.
    The same input gives the same output.
    """
    if pinned_LR is None:
        pinned_LR = np.full(expert_LR.shape, -1, dtype=np.int64)
    _, gpu_LR = packed(expert_LR, value_LR, capacity_LG, speed_G, pinned_LR, rounds=rounds, close_enough=close_enough)
    return gpu_LR


def packed(
    expert_LR: Ints,
    value_LR: Floats,
    capacity_LG: Ints,
    speed_G: Floats,
    pinned_LR: Ints,
    *,
    rounds: int,
    close_enough: float = CLOSE_ENOUGH,
    may_recount: bool = False,
) -> tuple[Ints, Ints]:
    """(expert_LR, gpu_LR): `pack`, which may also change the copy counts where `may_recount` says so.

    Then kicks give a slot to another expert, and every copy takes an equal part again; the experts of replicas that are
    not pinned may come back changed.
    """
    assert (capacity_LG.sum(axis=1) == (expert_LR >= 0).sum(axis=1)).all(), "the replicas are not as many as the slots"
    return pack_layers(
        np.ascontiguousarray(expert_LR, dtype=np.int64),
        np.ascontiguousarray(value_LR, dtype=np.float64),
        int(expert_LR.max()) + 1,
        np.ascontiguousarray(capacity_LG, dtype=np.int64),
        min(int(capacity_LG.max()), WIDEST_PAIRS),
        np.array(speed_G, dtype=np.float64),
        np.ascontiguousarray(pinned_LR, dtype=np.int64),
        pinned_LR >= 0,
        rounds,
        _least_times(value_LR, capacity_LG, speed_G) * (1 + close_enough),
        may_recount,
    )


def _least_times(value_LR: Floats, capacity_LG: Ints, speed_G: Floats) -> Floats:
    """[L] no packing of these replicas ends sooner: the mean time, or that of the largest replica by itself."""
    has_slots_LG = capacity_LG > 0
    mean_L = value_LR.sum(axis=1) / (has_slots_LG * speed_G).sum(axis=1)
    fastest_L = (has_slots_LG * speed_G).max(axis=1)
    return np.asarray(np.maximum(mean_L, value_LR.max(axis=1) / fastest_L))


def solve_lpt_swaps(problem: Problem) -> Solution:
    """Greedy copy counts, longest processing time first, then swaps; for any problem.

    Where pins or unequal slots would put an expert twice on a GPU, the second copy makes way for an expert that the
    GPU lacks, and the replicas are packed again. With an uneven split the shares are then the best for the map.
    """
    cluster, load_LN = problem.cluster, problem.load_LN
    most_L = (problem.capacity_LG > 0).sum(axis=1)
    counts_LN = greedy_counts(load_LN, problem.replicas_L, most_L, problem.pinned_LN)
    expert_of_slot_LP = pack_counts(problem, counts_LN)
    if num_repeats(expert_of_slot_LP, cluster.first_slot_G).any():
        counts_LN = _without_repeats(expert_of_slot_LP, counts_LN, problem)
        expert_of_slot_LP = pack_counts(problem, counts_LN)
    if problem.is_even:
        return problem.evenly(expert_of_slot_LP)
    share_LP = best_shares(expert_of_slot_LP, load_LN, cluster.first_slot_G, cluster.speed_G)
    return Solution(expert_of_slot_LP=expert_of_slot_LP, share_LP=share_LP)


def pack_counts(problem: Problem, counts_LN: Ints, *, rounds: int = ROUNDS) -> Ints:
    """[L, P] map of slots with so many copies of each expert, packed with an even split in mind."""
    expert_LR, value_LR = replicas_of(counts_LN, problem.load_LN)
    pinned_LR = pinned_replicas(expert_LR, problem.pins_K3)
    speed_G = problem.cluster.speed_G
    gpu_LR = pack(expert_LR, value_LR, problem.capacity_LG, speed_G, pinned_LR=pinned_LR, rounds=rounds)
    return lay_out(expert_LR, gpu_LR, problem.cluster.first_slot_G)


def pinned_replicas(expert_LR: Ints, pins_K3: Ints) -> Ints:
    """[L, R] the GPU that each replica is pinned to, -1 for none: an expert's first copies take its pins."""
    pinned_LR = np.full(expert_LR.shape, -1, dtype=np.int64)
    for layer, expert, gpu in pins_K3:
        free_R = (expert_LR[layer] == expert) & (pinned_LR[layer] < 0)
        assert free_R.any(), (layer, expert, gpu)
        pinned_LR[layer, np.argmax(free_R)] = gpu
    return pinned_LR


def _without_repeats(expert_of_slot_LP: Ints, counts_LN: Ints, problem: Problem) -> Ints:
    """Counts that can be placed without repeats: each repeat gives its slot to the largest replica the GPU lacks."""
    counts_LN = counts_LN.copy()
    first_slot_G = problem.cluster.first_slot_G
    for layer in np.flatnonzero(num_repeats(expert_of_slot_LP, first_slot_G)):
        for gpu in range(problem.cluster.num_gpus):
            experts = expert_of_slot_LP[layer, first_slot_G[gpu] : first_slot_G[gpu + 1]]
            on_gpu_N = np.bincount(experts[experts >= 0], minlength=problem.num_experts)
            for expert in np.repeat(np.arange(problem.num_experts), np.maximum(on_gpu_N - 1, 0)):
                value_N = np.where(on_gpu_N == 0, problem.load_LN[layer] / counts_LN[layer], -1.0)
                missing = int(value_N.argmax())  # a GPU has no more slots than there are experts
                on_gpu_N[missing] = 1
                counts_LN[layer, missing] += 1
                counts_LN[layer, expert] -= 1
    return counts_LN

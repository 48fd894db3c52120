"""How low could the largest GPU time be with two slots a GPU and an even split?

With two slots a GPU every replica has one companion. If no GPU is above T, then for every theta from T / 2 to T a
replica above theta stands beside one of at most T - theta, so

    replicas above theta  <=  replicas of at most T - theta.

Whether some copy counts meet this, for one theta, is a small knapsack: which experts are worth further copies?
"""

from __future__ import annotations

import numpy as np

from weftrace.compiled import compiled_part, compiled_when_slow
from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.problem import Problem

NUM_THETAS = 24
BISECTIONS = 14


def fold_s(problem: Problem) -> float:
    """About how long `fold_bound` takes, and the search of such counts: by layers, experts and slots."""
    return 1.5e-10 * problem.num_layers * problem.num_experts * problem.cluster.num_slots**2


def fold_bound(problem: Problem, lower_L: Floats, achieved_L: Floats, asked_L: Bools) -> Floats:
    """[L] a lower bound between lower_L (a bound) and achieved_L; 0 in layers not asked for or not of this kind.

    Needs an even split, and in the layer two slots on each GPU that has any, all of one speed. Holds where no expert
    is twice on a GPU. Each theta is tried alone, so it can be below the optimum: 0.849 for 0.828 in balancedness, where
    the mean and the replicas leave it at 1 (Zipf 0.5, 256 experts, 144 GPUs; the optimum by integer programming).
    """
    capacity_LG, speed_G = problem.capacity_LG, problem.cluster.speed_G
    used_LG = capacity_LG > 0
    speed_LG = np.where(used_LG, speed_G, np.nan)
    is_kind_L = (capacity_LG == np.where(used_LG, 2, 0)).all(axis=1) & (
        np.nanmin(speed_LG, axis=1) == np.nanmax(speed_LG, axis=1)
    )
    if not problem.is_even:
        is_kind_L[:] = False
    pace_L = np.nanmax(speed_LG, axis=1)
    bound_L = _fold_bound(
        problem.load_LN, used_LG.sum(axis=1), lower_L * pace_L, achieved_L * pace_L, is_kind_L & asked_L
    )
    return np.asarray(bound_L / pace_L, dtype=np.float64)


@compiled_when_slow
def _fold_bound(load_LN: Floats, gpus_L: Ints, lower_L: Floats, upper_L: Floats, asked_L: Bools) -> Floats:
    bound_L = np.zeros(len(load_LN), dtype=np.float64)
    for layer in range(len(load_LN)):
        if not asked_L[layer]:
            continue
        lower, upper = lower_L[layer], upper_L[layer]
        just_below = upper * (1 - 5e-10)
        if not _may_fold(load_LN[layer], gpus_L[layer], just_below):
            bound_L[layer] = just_below  # nothing is better than what is achieved
            continue
        for _ in range(BISECTIONS):
            middle = (lower + upper) / 2
            if _may_fold(load_LN[layer], gpus_L[layer], middle):
                upper = middle
            else:
                lower = middle
        bound_L[layer] = lower
    return bound_L


@compiled_part
def _may_fold(load_N: Floats, num_gpus: int, most: float) -> bool:
    """Whether counts may exist that leave no GPU above `most`; false is a proof that none do."""
    least_N = np.ones(len(load_N), dtype=np.int64)
    for expert in range(len(load_N)):
        if load_N[expert] > most:
            least_N[expert] = np.int64(np.ceil(load_N[expert] / most - 1e-12))
        if least_N[expert] > num_gpus:
            return False
    spare = 2 * num_gpus - least_N.sum()
    if spare < 0:
        return False
    for step in range(NUM_THETAS):
        theta = most / 2 * (1 + step / NUM_THETAS)
        if _fewest_lonely(load_N, least_N, spare, num_gpus, theta, most - theta) > 0:
            return False
    return True


@compiled_part
def _fewest_lonely(load_N: Floats, least_N: Ints, spare: int, num_gpus: int, large: float, small: float) -> int:
    """Least (replicas above `large`) - (replicas of at most `small`), or less: copies to spare all count as small."""
    lonely = 0
    gain_S = np.full(spare + 1, -1, dtype=np.int64)  # what s of the spare copies can take off; -1: not these s exactly
    gain_S[0] = 0
    for expert in range(len(load_N)):
        copies = least_N[expert]
        not_large = max(copies, np.int64(np.ceil(load_N[expert] / large - 1e-12)))
        are_small = max(copies, np.int64(np.ceil(load_N[expert] / small - 1e-12)))
        if copies >= are_small:
            lonely -= copies
            continue
        now = copies if copies < not_large else 0
        lonely += now
        first, second = not_large - copies, are_small - copies
        for used in range(spare, 0, -1):
            if 0 < first <= used and gain_S[used - first] >= 0:
                gain_S[used] = max(gain_S[used], gain_S[used - first] + now)
            if are_small <= num_gpus and second <= used and gain_S[used - second] >= 0:
                gain_S[used] = max(gain_S[used], gain_S[used - second] + now + are_small)
    best = 0
    for used in range(spare + 1):
        if gain_S[used] >= 0:
            best = max(best, gain_S[used] + spare - used)
    return lonely - best

"""Which slots should get another expert, all layers together, when only so many may?"""

from __future__ import annotations

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.packing.improve import Paths, follow, improve
from weftrace.experts.packing.shares import best_shares
from weftrace.experts.problem import Problem
from weftrace.experts.slots import load_of_gpus

SLACKS = (0.01, 0.02, 0.005, 0.03)  # of the paths, in turn: a small budget is best spent with much slack
MOST_OF_A_LAYER = 2  # times the average: as much of the budget as one layer looks for
MOST_UNEVEN = 3  # paths where every point costs the solving of its shares


def few_moves(
    problem: Problem,
    start_LP: Ints,
    before_LP: Ints,
    *,
    home_LN: Ints,
    locked_LP: Bools,
    budget: int,
    min_gain: float,
    num_paths: int,
) -> Ints:
    """[L, P] the map after steps from `start_LP` that change at most `budget` slots in sum.

    before_LP: the map that changes are counted from; those that `start_LP` has are free. Several paths are searched in
    each layer (`improve`), and the budget goes to those of their points that gain most balancedness a slot, `min_gain`
    at least (`share_moves`). A path is one for an even split; where the split is uneven, each of its points is judged
    by the best shares that its map allows.
    """
    cluster = problem.cluster
    a_layer = min(budget, max(MOST_OF_A_LAYER * budget // problem.num_layers, 8), cluster.num_slots)
    paths = [
        improve(
            start_LP,
            before_LP,
            problem.load_LN,
            cluster,
            home_LN=home_LN,
            locked_LP=locked_LP,
            slack=SLACKS[number % len(SLACKS)],
            max_changed=a_layer,
            seed=number,
        )
        for number in range(num_paths if problem.is_even else min(num_paths, MOST_UNEVEN))
    ]
    most = max(int(path.num_steps_L.max()) for path in paths) + 1  # points of the longest path
    changed_LK = np.concatenate([path.changed_LK[:, :most] for path in paths], axis=1)
    value_LK = np.concatenate([_values(problem, path, start_LP, most) for path in paths], axis=1)
    point_L = share_moves(changed_LK, value_LK, budget, min_gain)
    map_LP = start_LP
    for number, path in enumerate(paths):
        step_L = np.where(point_L // most == number, point_L % most, 0)
        map_LP = follow(map_LP, path.put_LJ2, path.num_puts_LK[np.arange(problem.num_layers), step_L])
    return map_LP


def _values(problem: Problem, path: Paths, start_LP: Ints, most: int) -> Floats:
    """[L, most] balancedness after each number of steps; -1 beyond the end of a path."""
    real_LK = np.arange(most) <= path.num_steps_L[:, None]
    worst_LK = path.worst_LK[:, :most].copy()
    if not problem.is_even:
        for step in range(most):
            layers_K = np.flatnonzero(real_LK[:, step])
            map_KP = follow(start_LP[layers_K], path.put_LJ2[layers_K], path.num_puts_LK[layers_K, step])
            worst_LK[layers_K, step] = _best_worst(problem, map_KP, problem.load_LN[layers_K])
    has_load_LK = worst_LK > 0
    value_LK: Floats = np.where(real_LK, np.where(has_load_LK, 1.0 / np.where(has_load_LK, worst_LK, 1.0), 1.0), -1.0)
    return value_LK


def _best_worst(problem: Problem, map_KP: Ints, load_KN: Floats) -> Floats:
    """[K] time of the latest GPU over the mean time, under the best shares for each map."""
    cluster = problem.cluster
    share_KP = best_shares(map_KP, load_KN, cluster.first_slot_G, cluster.speed_G)
    load_KG = load_of_gpus(map_KP, share_KP, load_KN, cluster.first_slot_G)
    mean_K, worst_K = cluster.mean_time(load_KN), cluster.worst_time(load_KG)
    over_mean_K: Floats = np.divide(worst_K, mean_K, out=np.zeros_like(mean_K), where=mean_K > 0)
    return over_mean_K


@compiled
def share_moves(changed_LK: Ints, value_LK: Floats, budget: int, min_gain: float) -> Ints:
    """[L] the point of each layer that makes the sum of values large with `budget` changed slots, all layers together.

    changed_LK, value_LK: what each point costs and is worth. Point 0 is where a layer starts, its cost is not charged;
    points that do not exist have a worth of -1. Each layer's points are thinned to their upper concave hull, whose
    segments are taken in order of gain a slot, as long as they gain `min_gain` a slot: the greedy solution of the
    multiple-choice knapsack, which is within one segment of the best (P. Sinha and A. Zoltners, "The multiple-choice
    knapsack problem", 1979).
    """
    num_layers, num_points = changed_LK.shape
    hull_LK = np.zeros((num_layers, num_points), dtype=np.int64)
    size_L = np.ones(num_layers, dtype=np.int64)
    for layer in range(num_layers):
        size_L[layer] = _hull(changed_LK[layer], value_LK[layer], hull_LK[layer])
    at_L = np.zeros(num_layers, dtype=np.int64)
    left = budget
    for layer in range(num_layers):
        left += changed_LK[layer, 0] - changed_LK[layer, hull_LK[layer, 0]]
    while True:
        best, chosen = 0.0, -1
        for layer in range(num_layers):
            if at_L[layer] + 1 < size_L[layer]:
                here, there = hull_LK[layer, at_L[layer]], hull_LK[layer, at_L[layer] + 1]
                cost = changed_LK[layer, there] - changed_LK[layer, here]
                slope = (value_LK[layer, there] - value_LK[layer, here]) / cost
                if slope >= min_gain and slope > best and cost <= left:
                    best, chosen = slope, layer
        if chosen < 0:
            break
        here, there = hull_LK[chosen, at_L[chosen]], hull_LK[chosen, at_L[chosen] + 1]
        left -= changed_LK[chosen, there] - changed_LK[chosen, here]
        at_L[chosen] += 1
    point_L = np.zeros(num_layers, dtype=np.int64)
    for layer in range(num_layers):
        point_L[layer] = hull_LK[layer, at_L[layer]]
    return point_L


@compiled_part
def _hull(changed_K: Ints, value_K: Floats, hull_K: Ints) -> int:
    """Upper concave hull from the best of the points that cost no more than point 0; returns how many points it has."""
    start = 0
    for point in range(len(value_K)):
        if changed_K[point] <= changed_K[0] and value_K[point] > value_K[start]:
            start = point
    hull_K[0] = start
    size = 1
    while True:
        here = hull_K[size - 1]
        best, chosen = 0.0, -1
        for point in range(len(value_K)):
            cost = changed_K[point] - changed_K[here]
            if cost > 0 and value_K[point] > value_K[here]:
                slope = (value_K[point] - value_K[here]) / cost
                if slope > best or (slope == best and changed_K[point] > changed_K[chosen]):
                    best, chosen = slope, point
        if chosen < 0:
            return size
        hull_K[size] = chosen
        size += 1

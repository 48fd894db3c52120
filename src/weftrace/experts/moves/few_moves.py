"""Which slots should get another expert, all layers together, when only so many may?"""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.moves.move_budget import share_moves
from weftrace.experts.packing.improve import Paths, follow, improve
from weftrace.experts.problem import Problem
from weftrace.experts.slots import load_of_gpus
from weftrace.experts.solvers.resplit import best_shares

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
            cluster.first_slot_G,
            cluster.speed_G,
            node_of_gpu_G=cluster.node_of_gpu_G,
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

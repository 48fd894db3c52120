"""Which layers get how many of the slots that may change?"""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.compiled import compiled


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


@compiled
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

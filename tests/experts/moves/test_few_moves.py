"""A budget of changed slots shared among layers, by pencil and against every possibility."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.experts.moves.few_moves import share_moves


def points(*values: float) -> tuple[list[int], list[float]]:
    return list(range(len(values))), list(values)


def chosen(layers: list[tuple[list[int], list[float]]], budget: int, min_gain: float = 0.0) -> list[int]:
    changed, value = (np.array(each) for each in zip(*layers, strict=True))
    point_L = share_moves(changed.astype(np.int64), value.astype(np.float64), budget, min_gain)
    return [int(point) for point in point_L]


def test_the_steepest_slots_come_first() -> None:
    # gains a slot: 0.2, 0.1 in the first layer; 0.15, 0.01 in the second
    layers = [points(0.5, 0.7, 0.8), points(0.5, 0.65, 0.66)]
    assert [chosen(layers, budget) for budget in range(5)] == [[0, 0], [1, 0], [1, 1], [2, 1], [2, 2]]
    assert chosen(layers, 4, min_gain=0.05) == [2, 1]


def test_a_dip_is_crossed_when_it_pays() -> None:
    # the first slot gains nothing, two gain 0.4: 0.2 a slot
    assert chosen([points(0.5, 0.5, 0.9), points(0.5, 0.6, 0.6)], 2) == [2, 0]
    assert chosen([points(0.5, 0.5, 0.9), points(0.5, 0.6, 0.6)], 1) == [0, 1]


def test_what_is_free_is_taken() -> None:
    # a layer that starts with 3 changed slots and can undo one for a gain, which the other may use
    assert chosen([([3, 2, 4], [0.5, 0.6, 0.6]), points(0.5, 0.6, 0.6)], 0) == [1, 1]


def test_points_that_do_not_exist_are_never_chosen() -> None:
    assert chosen([([0, 0, 0], [0.5, -1.0, -1.0])], 9) == [0]


@settings(max_examples=examples(60))
@given(st.lists(st.lists(st.floats(0, 0.25), min_size=4, max_size=4), min_size=1, max_size=4), st.integers(0, 20))
def test_within_one_segment_of_the_best(gains: list[list[float]], budget: int) -> None:
    layers = [points(*np.cumsum([0.0, *row]).tolist()) for row in gains]
    choice = chosen(layers, budget)
    assert sum(choice) <= budget
    value = sum(layer[1][at] for layer, at in zip(layers, choice, strict=True))
    best = max(
        sum(layer[1][at] for layer, at in zip(layers, option, strict=True))
        for option in product(range(5), repeat=len(layers))
        if sum(option) <= budget
    )
    assert value >= best - max(map(sum, gains)) - 1e-9

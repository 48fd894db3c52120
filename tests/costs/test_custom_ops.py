"""Operators of other libraries, as their arguments are recorded."""

from __future__ import annotations

import json

import pytest

from weftrace.costs.cost import Cost, Status
from weftrace.costs.recorded import RecordedCall, cost_of

PRODUCT = 2 * 2048 * 1024 * 3072


def of(name: str, *shapes: list[int]) -> Cost:
    """The cost of a call with tensors of bf16 of these shapes; an empty one is no tensor."""
    types = ["c10::BFloat16" if shape else "" for shape in shapes]
    values = json.dumps([""] * len(shapes))
    cost = cost_of(RecordedCall(name, json.dumps(shapes), json.dumps(types), None, values))
    assert cost is not None
    return cost


@pytest.mark.parametrize(
    "shapes",
    [
        ([3072, 1024], [512, 4, 1024], [3072]),  # transformer_engine: weight, input, bias
        ([4, 512, 1024], [3072, 1024], [3072]),  # others: input, weight, bias
        ([2048, 1024], [3072, 1024]),
    ],
)
def test_a_linear_layer_costs_the_same_whichever_factor_comes_first(shapes: tuple[list[int], ...]) -> None:
    cost = of("_Linear", *shapes)
    assert (cost.flops, cost.status) == (PRODUCT, Status.ESTIMATE)


def test_layer_norm_and_linear_in_one() -> None:
    assert of("_LayerNormLinear", [512, 4, 1024], [1024], [1024], [3072, 1024], []).flops == PRODUCT


def test_arguments_that_fit_no_formula_are_said_in_words() -> None:
    cost = of("_Linear", [3072, 1024], [], [], [2048, 1024], [3072])  # as older versions have them
    assert (cost.flops, cost.status) == (0, Status.UNKNOWN)
    assert cost.note == "its formula does not fit the arguments that were recorded"

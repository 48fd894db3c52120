"""An order of F, I and W made for costs: never slower than the published one, in its memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.pipeline.passes.orders import of_lines
from weftrace.errors import ScheduleError
from weftrace.pipeline import Costs, check, fit_order, simulate
from weftrace.pipeline.generators.dualpipe import dualpipe_v
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.generators.looped import interleaved
from weftrace.pipeline.generators.v_shape import zbv
from weftrace.pipeline.passes.weight_placement import most_held, place_weights
from weftrace.pipeline.simulation import Boundary

#: Steps in units of the orders that zero-bubble's own heuristics make at the same memory (its `initial_solution` with
#: room for 2 D chunks, and ZBV's `create_schedule`), run apart from this test.
ZERO_BUBBLE = [
    ("zb2p", 4, 16, (1, 1.2, 0.3), 44.5),
    ("zb2p", 8, 32, (1, 1.5, 0.5), 106.0),
    ("zbv", 4, 8, (1, 1, 2), 67.0),
    ("zbv", 4, 16, (1, 1.2, 0.3), 85.1),
    ("zbv", 8, 32, (1, 1, 2), 263.0),
    ("zbv", 8, 32, (1, 1.5, 0.5), 205.5),
]


@pytest.mark.parametrize(("name", "ranks", "micro_batches", "times", "step"), ZERO_BUBBLE)
def test_it_is_as_quick_as_zero_bubbles_own_scheduler(
    name: str, ranks: int, micro_batches: int, times: tuple[float, float, float], step: float
) -> None:
    given, costs = generate(name, num_ranks=ranks, num_micro_batches=micro_batches), Costs.units(*times)
    fitted = fit_order(given, costs)
    check(fitted)
    assert most_held(fitted) <= most_held(given)
    assert simulate(fitted, costs).makespan_ns <= step * 1_000 < simulate(given, costs).makespan_ns


def test_on_any_costs_it_is_no_slower_than_its_input_and_w_placed_within_the_cap() -> None:
    """Stages, ranks and messages that differ, few micro-batches, and activations that go with their I."""
    chance = random.Random(4)
    quicker = 0
    for _ in range(12):
        name = chance.choice(("zb1p", "zb2p", "zbv", "v-half", "v-min", "interleaved-zb", "1f1b", "gpipe"))
        ranks = chance.choice((1, 2, 3, 4))
        given = generate(name, num_ranks=ranks, num_micro_batches=chance.choice((1, 2, ranks, 2 * ranks + 1)))
        stages = given.num_stages
        costs = Costs(
            forward_ns=tuple(chance.randint(1, 40) for _ in range(stages)),
            input_ns=tuple(chance.randint(0, 40) for _ in range(stages)),
            weight_ns=tuple(chance.randint(0, 60) for _ in range(stages)),
            rank_factor=tuple(chance.choice((1, 1.5)) for _ in range(ranks)),
            latency_ns=chance.choice((0, 7)),
            activation_bytes=tuple(chance.choice((3, 4)) for _ in range(stages)),
            pending_bytes=chance.choice((None, 0)),
        )
        boundary: Boundary = chance.choice(("barrier", "span"))
        fitted, placed = fit_order(given, costs, boundary=boundary), place_weights(given, costs, boundary=boundary)
        check(fitted)
        runs = [simulate(each, costs, boundary) for each in (fitted, placed, given)]
        assert runs[0].step_ns <= runs[1].step_ns <= runs[2].step_ns
        assert max(runs[0].ranks["peak_bytes"]) <= max(runs[2].ranks["peak_bytes"])
        quicker += runs[0].step_ns < runs[1].step_ns
    assert quicker > 1


def test_memory_buys_time() -> None:
    costs = Costs.units(1, 1.2, 0.8)
    steps = [simulate(fit_order(zbv(8, 24), costs, cap), costs).makespan_ns for cap in (10, 12, 14, 16)]
    assert steps == sorted(steps, reverse=True) and steps[0] > steps[-1]
    assert most_held(fit_order(zbv(8, 24), costs, 12)) <= 12


def test_the_step_that_is_asked_for_is_the_one_that_gets_shorter() -> None:
    costs = Costs.units(2, 1, 2)
    spans = [
        simulate(fit_order(zbv(6, 12), costs, boundary=each), costs, "span").step_ns for each in ("barrier", "span")
    ]
    assert spans[1] <= spans[0]


def test_what_it_makes_no_order_for_is_refused_with_the_reason() -> None:
    with pytest.raises(ScheduleError, match="has F&B, for which no order is made"):
        fit_order(dualpipe_v(2, 4), Costs.units())
    with pytest.raises(ScheduleError, match="slices of sequences"):
        fit_order(generate("seq1f1b", num_ranks=2, num_micro_batches=2), Costs.units())
    with pytest.raises(ScheduleError, match="has no backward"):
        fit_order(of_lines("0F0 0F1", replicas="0", num_micro_batches=2), Costs.units())
    with pytest.raises(
        ScheduleError, match="may hold 2 chunks of activations, but needs 3, one for each of its stages"
    ):
        fit_order(interleaved(2, 4, 3), Costs.units(), 2)


def test_it_makes_the_same_order_again() -> None:
    costs = Costs.units(1, 1, 2)
    assert fit_order(zbv(4, 8), costs) == fit_order(zbv(4, 8), costs)
    assert np.diff(fit_order(zbv(4, 8), costs).rank_N).min() >= 0

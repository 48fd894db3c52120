"""Weight gradients go where a rank would wait, within a cap, and never make a schedule slower."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.pipeline.passes.orders import lines_of, of_lines
from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.dualpipe import dualpipe
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.generators.looped import interleaved
from weftrace.pipeline.generators.one_stage import gpipe, one_f_one_b, zb1p, zb2p
from weftrace.pipeline.passes.splitting import split_backward
from weftrace.pipeline.passes.weight_placement import most_held, place_weights
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import simulate


def makespan(schedule: Schedule, costs: Costs) -> int:
    return simulate(schedule, costs).makespan_ns


@pytest.mark.parametrize("stages", [2, 4, 8, 16])
def test_of_1f1b_with_equal_times_it_makes_zb1ps_order(stages: int) -> None:
    placed = place_weights(one_f_one_b(stages, 2 * stages), Costs.units())
    assert placed == zb1p(stages, 2 * stages)
    assert placed.name == "1F1B, W placed"


def test_a_w_runs_while_its_rank_would_wait() -> None:
    # Rank 1 gives I0 and I1 back to back, so rank 0 has nothing to do between its own: W0 fits there.
    schedule = of_lines("0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1", replicas="0 1", num_micro_batches=2)
    placed = place_weights(schedule, Costs.units())
    assert lines_of(placed) == ["0F0 0F1 0I0 0W0 0I1 0W1", "1F0 1I0 1F1 1I1 1W0 1W1"]
    assert makespan(placed, Costs.units()) == 7_000
    assert makespan(schedule, Costs.units()) == 9_000


def test_a_forward_that_would_hold_too_many_waits_for_a_w() -> None:
    schedule = of_lines("0F0 0B0 0F1 0B1 0F2 0B2", replicas="0", num_micro_batches=3)
    assert lines_of(place_weights(schedule, Costs.units(), 2)) == ["0F0 0I0 0F1 0I1 0W0 0F2 0I2 0W1 0W2"]
    assert lines_of(place_weights(schedule, Costs.units())) == ["0F0 0I0 0W0 0F1 0I1 0W1 0F2 0I2 0W2"]


def test_on_any_costs_it_is_no_slower_than_its_input_and_zb1ps_law_within_the_cap() -> None:
    chance = random.Random(5)
    for _ in range(25):
        stages = chance.choice((2, 4, 6))
        num = chance.randint(stages, 3 * stages)
        forward, gradient, weight = (chance.randint(1, 40) for _ in range(3))
        costs = Costs(forward_ns=forward, input_ns=gradient, weight_ns=weight)
        given = chance.choice((gpipe, one_f_one_b, zb1p, zb2p))(stages, num)
        cap = chance.choice((None, stages, 2 * stages))
        cap = cap if cap is None or cap >= most_held(split_backward(given)) else None
        placed = place_weights(given, costs, cap)
        check(placed)
        assert most_held(placed) <= (cap or most_held(given))
        assert makespan(placed, costs) <= makespan(given, costs)
        law = (stages - 1) * (forward + gradient - min(forward, gradient, weight))
        assert simulate(placed, costs).bubble_ns <= law


@pytest.mark.parametrize("name", ["interleaved", "zbv", "v-min", "interleaved-zb", "dualpipe", "dualpipev"])
def test_it_takes_schedules_of_any_shape_and_costs_by_stage(name: str) -> None:
    given = generate(name, num_ranks=4, num_micro_batches=16)
    chance = np.random.default_rng(1)
    forward, gradient, weight = chance.integers(1, 40, (3, given.num_stages)).tolist()
    costs = Costs(forward_ns=forward, input_ns=gradient, weight_ns=weight, latency_ns=2)
    placed = place_weights(given, costs)
    check(placed)
    assert makespan(placed, costs) <= makespan(given, costs)
    assert most_held(placed) <= most_held(given)


def test_interleaved_1f1b_gains_what_interleaved_zero_bubble_has() -> None:
    costs = Costs.units()
    placed = place_weights(interleaved(4, 8), costs)
    assert makespan(placed, costs) < makespan(interleaved(4, 8), costs)


def test_the_activations_that_are_held_are_counted_while_an_action_runs() -> None:
    assert [most_held(generate(name, num_ranks=4, num_micro_batches=16)) for name in ("1f1b", "zb1p", "zb2p")] == [
        4,
        4,
        8,
    ]
    assert most_held(dualpipe(4, 8)) == 5
    assert max(simulate(dualpipe(4, 8), Costs.units()).ranks["peak_activations"]) == 5


def test_what_cannot_be_is_refused_with_the_reason() -> None:
    with pytest.raises(ScheduleError, match=r"may hold 3 chunks .* needs 4 even with every W right after its I"):
        place_weights(one_f_one_b(4, 8), Costs.units(), 3)
    forwards_only = of_lines("0F0 0F1", replicas="0", num_micro_batches=2)
    with pytest.raises(ScheduleError, match="no B that could be split"):
        place_weights(forwards_only, Costs.units())

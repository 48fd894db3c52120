"""Activations go to the host where a rank would hold too many: the fewest, and in time."""

from __future__ import annotations

import random
from collections.abc import Callable

import polars as pl
import pytest

from tests.pipeline.passes.orders import lines_of, one_f_one_b
from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.dualpipe import dualpipe, dualpipe_v
from weftrace.pipeline.passes.offloading import offload_activations
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import simulate

UNIT_A_COPY = Costs.units(offload_bytes_per_s=1e6)  # a chunk is a byte, and a unit 1,000 ns


def test_the_chunk_whose_backward_is_furthest_away_goes_of_those_that_can() -> None:
    # Rank 0 holds 4 while F3 runs. F2 is being copied until F3 ends, so F1 goes; it comes back during F4, for which
    # F3 goes; and so on. No other rank holds more than 3.
    schedule = offload_activations(one_f_one_b(4, 8), UNIT_A_COPY, 3)
    assert lines_of(schedule)[0] == "0F0 0F1^ 0F2 0F3^ 0B0 0F4 0B1 0F5^ 0B2 0F6 0B3 0F7^ 0B4 0B5 0B6 0B7"
    assert schedule.actions.filter(pl.col("rank") > 0)["offload"].sum() == 0


def test_a_cap_that_holds_already_marks_nothing_and_marks_are_made_anew() -> None:
    plain = one_f_one_b(4, 8)
    assert offload_activations(plain, UNIT_A_COPY, 4) == plain
    marked = offload_activations(plain, UNIT_A_COPY, 3)
    assert offload_activations(marked, UNIT_A_COPY, 4) == plain
    assert offload_activations(marked, UNIT_A_COPY, 3) == marked


def test_1f1b_needs_two_chunks_where_copies_take_half_a_forward_and_no_longer_time() -> None:
    schedule, costs = one_f_one_b(4, 8), Costs.units(offload_bytes_per_s=2e6)
    run = simulate(offload_activations(schedule, costs, 2), costs)
    assert run.ranks["peak_activations"].to_list() == [2, 2, 2, 1]
    assert run.makespan_ns == simulate(schedule, costs).makespan_ns


def test_a_copy_that_takes_no_time_begins_before_its_backward() -> None:
    costs = Costs.units(offload_bytes_per_s=1e12)  # a chunk is a byte, so its copy takes less than a nanosecond
    schedule = offload_activations(one_f_one_b(4, 8), costs, 2)
    assert simulate(schedule, costs).makespan_ns == 33_000


@pytest.mark.parametrize("make", [one_f_one_b, dualpipe, dualpipe_v])
def test_whatever_is_returned_keeps_the_cap_in_the_simulation(make: Callable[[int, int], Schedule]) -> None:
    chance, kept = random.Random(3), 0
    for _ in range(25):
        forward, gradient, weight, rate = (chance.randint(1, 9) for _ in range(4))
        costs = Costs.units(forward, gradient, weight, offload_bytes_per_s=rate * 1e5)
        schedule, cap = make(4, 12), chance.randint(2, 8)
        try:
            kept_to = offload_activations(schedule, costs, cap)
        except ScheduleError:
            continue
        kept += 1
        assert max(simulate(kept_to, costs).ranks["peak_activations"]) <= cap
    assert kept > 5


def test_what_no_choice_can_keep_is_refused_with_the_reason() -> None:
    with pytest.raises(
        ScheduleError, match=r"rank 0 may hold 2 chunks .* at 3,000 ns it holds 3, and none can be away"
    ):
        offload_activations(one_f_one_b(4, 8), UNIT_A_COPY, 2)
    with pytest.raises(ScheduleError, match="costs need offload_bytes_per_s"):
        offload_activations(one_f_one_b(4, 8), Costs.units(), 3)
    with pytest.raises(ScheduleError, match="most_activations = 0"):
        offload_activations(one_f_one_b(4, 8), UNIT_A_COPY, 0)


def test_a_copy_that_takes_no_time_is_back_when_it_is_needed() -> None:
    """Activations of a stage may be nothing, and a rate may be a large one; the copy ends as its backward begins."""
    costs = Costs.units(activation_bytes=1, offload_bytes_per_s=1e12)
    schedule = offload_activations(one_f_one_b(3, 6), costs, 2)
    found = simulate(schedule, costs)
    assert schedule.actions["offload"].any()
    assert found.makespan_ns == simulate(one_f_one_b(3, 6), costs).makespan_ns
    assert found.ranks["peak_activations"].max() == 2

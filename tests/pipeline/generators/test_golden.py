"""Makespans, bubbles and peaks of the published schedules, at F = I = W = 1 and B = 2 for each chunk."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weftrace.pipeline import Costs, Schedule, Simulation, check, simulate
from weftrace.pipeline.costs import UNIT_NS
from weftrace.pipeline.generators.looped import interleaved, interleaved_zb
from weftrace.pipeline.generators.one_stage import gpipe, one_f_one_b, zb1p, zb2p
from weftrace.pipeline.generators.v_shape import v_half, v_min, zbv

Make = Callable[[int, int], Schedule]
Column = tuple[int, ...]
#: (ranks, micro-batches) -> the column of the tables below.
SIZES = (4, 8, 16)


def units(nanoseconds: float) -> float:
    return nanoseconds / UNIT_NS


def idle(simulation: Simulation) -> set[float]:
    return {units(nanoseconds) for nanoseconds in simulation.ranks["idle_ns"]}


def held(schedule: Schedule, **costs: int) -> list[int]:
    return simulate(schedule, Costs.units(**costs)).ranks["peak_activations"].to_list()


@pytest.mark.parametrize(
    ("make", "twice", "four_times", "bubble", "peak"),
    [
        (gpipe, (33, 69, 141), (57, 117, 237), (9, 21, 45), None),
        (one_f_one_b, (33, 69, 141), (57, 117, 237), (9, 21, 45), (4, 8, 16)),
        (zb1p, (27, 55, 111), (51, 103, 207), (3, 7, 15), (4, 8, 16)),
        (zb2p, (27, 55, 111), (51, 103, 207), (3, 7, 15), (8, 16, 32)),
    ],
)
@pytest.mark.parametrize("column", range(3))
def test_a_stage_a_rank(
    make: Make,
    twice: Column,
    four_times: Column,
    bubble: Column,
    peak: Column | None,
    column: int,
) -> None:
    num_stages = SIZES[column]
    for times, makespans in ((2, twice), (4, four_times)):
        schedule = make(num_stages, times * num_stages)
        check(schedule)
        found = simulate(schedule, Costs.units())
        assert units(found.makespan_ns) == makespans[column]
        assert idle(found) == {bubble[column]}
        assert found.ranks["peak_activations"].max() == (peak[column] if peak else times * num_stages)


@pytest.mark.parametrize(
    ("make", "bubble", "peak"),
    [
        (interleaved, (9, 21, 45), (11, 23, 47)),
        (interleaved_zb, (3, 7, 15), (8, 16, 32)),
        (zbv, (3, 7, 15), (8, 16, 32)),
        (v_half, (5, 17, 41), (6, 10, 18)),
        (v_min, (11, 27, 59), (4, 8, 12)),
    ],
)
@pytest.mark.parametrize("column", range(3))
def test_two_stages_a_rank(make: Make, bubble: Column, peak: Column, column: int) -> None:
    num_ranks = SIZES[column]
    for num_micro_batches in (2 * num_ranks, 4 * num_ranks):
        schedule = make(num_ranks, num_micro_batches)
        check(schedule)
        found = simulate(schedule, Costs.units())
        assert units(found.makespan_ns) == 6 * num_micro_batches + bubble[column]
        assert idle(found) == {bubble[column]}
        assert found.ranks["peak_activations"].max() == peak[column]


@pytest.mark.parametrize("num_stages", SIZES)
def test_what_each_rank_holds(num_stages: int) -> None:
    """1F1B holds less at the end of the pipeline; zero bubble fills each rank up to what the first one needs."""
    many = 4 * num_stages
    assert held(one_f_one_b(num_stages, many)) == [num_stages - rank for rank in range(num_stages)]
    assert held(zb1p(num_stages, many)) == [num_stages] * num_stages
    assert held(zb2p(num_stages, many)) == [2 * num_stages] * num_stages
    assert max(held(zb2p(num_stages, many), pending_bytes=0)) == 2 * num_stages - 1


@pytest.mark.parametrize("num_ranks", SIZES)
def test_no_bubble_at_all_when_each_rank_counts_from_its_own_first_action(num_ranks: int) -> None:
    for schedule in (zb2p(num_ranks, 2 * num_ranks), zbv(num_ranks, 2 * num_ranks)):
        assert idle(simulate(schedule, Costs.units(), "span")) == {0}


def test_equal_devices() -> None:
    """8 ranks, 32 micro-batches: 96 units of work a rank, the model in 8 stages of 1 unit or in 16 of a half."""
    one = Costs.units()
    whole = [simulate(make(8, 32), one) for make in (zb1p, one_f_one_b)]
    halves = [simulate(make(8, 32), one.split(2)) for make in (zbv, interleaved_zb, v_half, interleaved)]
    assert [units(found.makespan_ns) for found in whole] == [103, 117]
    assert [units(found.makespan_ns) for found in halves] == [99.5, 99.5, 104.5, 106.5]

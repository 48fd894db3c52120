"""Makespans, bubbles and peaks of DualPipe, DualPipeV and interleaved F&B against published and derived numbers.

Times are in units of F = I = W = 1 where nothing else is said; of `Costs.units`, 1,000 ns each.
"""

from __future__ import annotations

import pytest

from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.dualpipe import dualpipe, dualpipe_v
from weftrace.pipeline.generators.overlapped import interleaved_overlapped
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import simulate


def summary(schedule: Schedule, costs: Costs, *, times: float = 1) -> tuple[float, float, set[int]]:
    """Makespan and bubble in units of so many thousand ns, and the peaks of all ranks."""
    run = simulate(schedule, costs)
    return run.makespan_ns / 1000 / times, run.bubble_ns / 1000 / times, set(run.ranks["peak_activations"])


@pytest.mark.parametrize(
    ("stages", "micro_batches", "makespan", "bubble"),
    [(4, 8, 26, 2), (8, 16, 54, 6), (16, 32, 110, 14), (4, 16, 50, 2), (8, 32, 102, 6), (16, 64, 206, 14)],
)
def test_dualpipe_without_gain_of_overlap(stages: int, micro_batches: int, makespan: int, bubble: int) -> None:
    assert summary(dualpipe(stages, micro_batches), Costs.units()) == (makespan, bubble, {stages + 1})


@pytest.mark.parametrize(
    ("stages", "micro_batches", "makespan", "bubble"),
    [(4, 8, 24.4, 1.6), (8, 16, 50, 4.8), (16, 32, 101.2, 11.2), (4, 16, 45.2, 1.6), (8, 32, 91.6, 4.8),
     (16, 64, 184.4, 11.2)],
)  # fmt: skip
def test_dualpipe_where_f_and_b_overlapped_take_2_6(
    stages: int, micro_batches: int, makespan: float, bubble: float
) -> None:
    assert summary(dualpipe(stages, micro_batches), Costs.units(FB=2.6)) == (makespan, bubble, {stages + 1})


@pytest.mark.parametrize(("ranks", "makespan", "bubble"), [(4, 54, 6), (8, 110, 14), (16, 222, 30)])
def test_dualpipev_holds_two_halves_of_a_stage_for_each_rank_and_one(ranks: int, makespan: int, bubble: int) -> None:
    assert summary(dualpipe_v(ranks, 2 * ranks), Costs.units()) == (makespan, bubble, {2 * ranks + 1})


def test_at_equal_devices_dualpipe_is_one_unit_ahead_of_dualpipev() -> None:
    costs = Costs.units()
    assert summary(dualpipe(8, 32), costs)[0] == 102
    assert summary(dualpipe_v(8, 32), costs.split(2))[0] == 103
    with_messages = Costs.units(FB=2.6, latency=0.05)
    assert summary(dualpipe(8, 32), with_messages)[0] == 93.45
    assert summary(dualpipe_v(8, 32), with_messages.split(2))[0] == 95.8


def test_deepseeks_measured_costs_put_interleaved_with_merged_f_and_b_first() -> None:
    ms = {"F": 97.392, "I": 111.612, "W": 29.808}  # published means of four layers, of which a chunk is one each
    costs = Costs.units(**ms, FB=129.012)
    assert round(summary(interleaved_overlapped(8, 32), costs.split(2))[0]) == 5502
    assert round(summary(dualpipe(8, 32), costs)[0]) == 5691  # 5,692 with the means before they are rounded
    assert round(summary(dualpipe_v(8, 32), costs.split(2))[0]) == 5733
    assert summary(interleaved_overlapped(8, 32), costs.split(2))[2] == {24, 22, 20, 18, 16, 14, 12, 10}  # halves
    assert summary(dualpipe(8, 32), costs)[2] == {9}
    assert summary(dualpipe_v(8, 32), costs.split(2))[2] == {17}

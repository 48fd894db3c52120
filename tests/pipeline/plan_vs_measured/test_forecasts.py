"""Costs of some steps forecast another, and rare events are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.pipeline.measured.framework_traces import NAMES, write_devices
from weftrace.pipeline import Costs, Simulation, generate, simulate
from weftrace.pipeline.measured.runs import MeasuredRun, run_of
from weftrace.pipeline.plan_vs_measured.forecasts import forecast_ns, step_forecasts
from weftrace.pipeline.plan_vs_measured.outliers import outliers
from weftrace.pipeline.plan_vs_measured.planned_and_measured import slip
from weftrace.trace import open_trace

US = 1_000
COSTS = Costs(forward_ns=90 * US, input_ns=100 * US, weight_ns=60 * US, overlapped_ns=170 * US, latency_ns=10 * US)
SLOWER = replace(COSTS, forward_ns=99 * US, input_ns=110 * US, weight_ns=66 * US, overlapped_ns=187 * US)


def simulated(name: str, costs: Costs = COSTS) -> Simulation:
    return simulate(generate(name, num_ranks=4, num_micro_batches=8), costs)


def read(folder: Path, *steps: Simulation, gap: float = 0) -> MeasuredRun:
    return run_of(open_trace(write_devices(folder, steps, NAMES["weftrace"], gap=gap)), workers=1)


@pytest.mark.parametrize("name", ["1f1b", "dualpipe"])
def test_a_step_is_forecast_from_the_others(tmp_path: Path, name: str) -> None:
    """Alike steps exactly; of one usual and one slower step each from the other, so the errors are the slow one's."""
    usual, slow = simulated(name), simulated(name, SLOWER)
    for each in step_forecasts(usual.schedule, read(tmp_path / "alike", usual, usual, usual)):
        assert (each.measured_ns, each.error) == (usual.makespan_ns, 0)
    first, second = step_forecasts(usual.schedule, read(tmp_path / "two", usual, slow))
    assert (first.measured_ns, second.measured_ns) == (usual.makespan_ns, slow.makespan_ns)
    assert (first.forecast_ns, second.forecast_ns) == (slow.makespan_ns, usual.makespan_ns)
    (alone,) = step_forecasts(usual.schedule, read(tmp_path / "one", usual))
    assert alone.forecast_ns is None and alone.error is None


def test_what_passes_between_actions_is_forecast_too(tmp_path: Path) -> None:
    """10 us of each action the device waits for its host: 80 of 90 us are the forward's, and it comes again."""
    usual = simulated("1f1b")
    run = read(tmp_path, usual, usual, gap=10)
    by_medians = slip(usual.schedule, run, step=1)
    assert by_medians.costs.forward_ns == (80 * US,) * 4 and by_medians.between_ns >= 16 * 10 * US
    assert by_medians.error < -0.05  # and the forecast is as long, but for what held up the step's very first action
    assert forecast_ns(usual.schedule, run.of_step(0)) == pytest.approx(usual.makespan_ns, abs=11 * 10 * US / 8)


def took(run: MeasuredRun, longer: dict[int, int]) -> MeasuredRun:
    """The run with some rows that end later."""
    later = np.zeros(run.actions.height, np.int64)
    later[list(longer)] = list(longer.values())
    return replace(run, actions=run.actions.with_columns(pl.col("end_ns") + pl.Series(later)))


@pytest.mark.parametrize(
    ("longer", "named"),
    [
        ({}, []),
        ({0: 900 * US}, ["0F0 on rank 0 took 900 µs longer than its 7 peers (90.0 µs)"]),
        ({0: 20 * US}, []),  # less than a quarter
        ({0: 30 * US, 2: 40 * US}, ["0F2 on rank 0 took 40.0 µs", "0F0 on rank 0 took 30.0 µs"]),
        ({row: 20 * US * row for row in range(16)}, []),  # nothing is usual: no action is rare
    ],
)  # fmt: skip
def test_outliers_by_hand(tmp_path: Path, longer: dict[int, int], named: list[str]) -> None:
    """Rows 0 to 15 are rank 0's; a forward takes 90 us."""
    run = took(read(tmp_path, simulated("1f1b")), longer)
    said = [each.sentence for each in outliers(run, run.actions.head(1))]
    assert len(said) == len(named)
    assert all(sentence.startswith(start) for sentence, start in zip(said, named, strict=True))


def test_few_peers_name_no_outlier(tmp_path: Path) -> None:
    two = simulate(generate("1f1b", num_ranks=2, num_micro_batches=3), COSTS)
    run = took(read(tmp_path, two), {0: 9_000 * US})
    assert outliers(run, run.actions) == ()

"""How well do the costs of some steps forecast another? Each recorded step, predicted from the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Count
from weftrace.pipeline.measured.run_costs import costs_of_forecast
from weftrace.pipeline.measured.runs import MeasuredRun
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import simulate

_MOST_ACTIONS: Final = 2_000_000  # of all steps together, that are simulated


@dataclass(frozen=True, slots=True, kw_only=True)
class StepForecast:
    """A recorded step, and what the costs of the other steps forecast of it."""

    step: Count
    measured_ns: Annotated[Count, Meta(description="From the first start to the last end over all ranks.")]
    forecast_ns: Annotated[
        int | None, Meta(description="The simulation with the costs of the other steps; null where it was not made.")
    ] = None
    error: Annotated[float | None, Meta(description="(forecast - measured) / measured.")] = None


def forecast_ns(schedule: Schedule, run: MeasuredRun) -> int:
    """How long another step of the schedule takes, by the costs of the steps of a run (`costs_of_forecast`).

    Raises `TraceError` where the run is not one of the schedule.
    """
    return simulate(schedule, costs_of_forecast(run, schedule)).makespan_ns


def step_forecasts(schedule: Schedule, run: MeasuredRun) -> tuple[StepForecast, ...]:
    """Each step of a run, on one clock, forecast from all others; of a run of one step, or of more than two million
    actions, the measured times alone."""
    steps = run.steps
    is_few = len(steps) > 1 and run.actions.height <= _MOST_ACTIONS
    found = []
    for step in steps:
        measured = run.of_step(step).makespan_ns
        others = replace(run, actions=run.actions.filter(pl.col("step") != step))
        forecast = forecast_ns(schedule, others) if is_few else None
        error = None if forecast is None or not measured else (forecast - measured) / measured
        found.append(StepForecast(step=step, measured_ns=measured, forecast_ns=forecast, error=error))
    return tuple(found)

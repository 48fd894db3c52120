"""HTML of a slip: the step as it was planned and as it ran, on one scale of time."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from weftrace.errors import OutputError
from weftrace.pipeline.plan_vs_measured.document import SlipReport
from weftrace.pipeline.plan_vs_measured.planned_and_measured import Slip
from weftrace.pipeline.render.page import picture_block, render_pictures
from weftrace.pipeline.simulation import Simulation, at_times, simulate
from weftrace.plan import Plan, Timetable


def render_slip_html(report: SlipReport) -> str:
    """One self-contained page of a slip, as text.

    Raises `OutputError` for one that was read from a file: it holds no schedule to draw; and where activations are
    offloaded, whose copies a trace does not tell.
    """
    found = report.found
    if found is None:
        raise OutputError(
            "a saved slip holds no schedule to draw: make the page with the command that makes the slip, "
            "`weftrace pipeline slip ... -o slip.html`."
        )
    if found.schedule.actions.get_column("offload").any():
        raise OutputError("a slip of a schedule that offloads activations is not drawn: no trace tells their copies.")
    planned = "planned" if found.costs_from == "plan" else "predicted from its own costs"
    pictures = [(planned, simulate(found.schedule, found.costs)), ("measured", measured_simulation(found))]
    return render_pictures(
        [picture_block(each, name) for name, each in pictures],
        title=f"{report.schedule}: planned and measured",
        headline=report.headline,
    )


def measured_simulation(found: Slip) -> Simulation:
    """The measured step in the form of a simulation: of a plan in which actions wait for their causes as they did."""
    actions = found.actions
    start, end = (actions.get_column(name) for name in ("start_ns", "end_ns"))
    costs = replace(found.costs, bytes_per_s=None, blocking=False)
    ops = actions.select("rank", name=pl.col("kind").cast(pl.String), duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    waits = actions.select(op=pl.int_range(pl.len(), dtype=pl.UInt32), on="cause", start_ns="start_ns").drop_nulls("on")
    lag = waits.get_column("start_ns") - end.gather(waits.get_column("on"))
    plan = Plan(
        name=found.schedule.name,
        ops=ops,
        waits=waits.select("op", "on").with_columns(lag_ns=lag),
    )
    times = Timetable(plan=plan, start_ns=start.to_numpy(), end_ns=end.to_numpy())
    return at_times(found.schedule, costs, times)

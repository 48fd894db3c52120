"""What a schedule takes when messages cost nothing: makespan, bubble and the chunks that a rank holds, by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline import Schedule
from weftrace.pipeline.dependencies import messages
from weftrace.plan import Plan, timetable

#: Duration of each kind of action, in the unit of the golden numbers.
UNITS = {"F": 1, "I": 1, "W": 1, "B": 2, "F&B": 3}


@dataclass(frozen=True, slots=True)
class Timed:
    """makespan; bubble_R: makespan - busy of each rank; span_R: last end - first start - busy, of each rank."""

    makespan: int
    bubble_R: NDArray[np.int64]
    span_R: NDArray[np.int64]


def timed(schedule: Schedule, units: dict[str, int] = UNITS) -> Timed:
    kinds = schedule.actions.get_column("kind").cast(pl.String)
    durations = kinds.replace_strict(units, return_dtype=pl.Int64).alias("duration_ns")
    ops = pl.DataFrame([kinds.alias("name"), schedule.actions.get_column("rank"), durations])
    times = timetable(Plan(name=schedule.name, ops=ops, waits=messages(schedule).select("op", "on")))
    frame = times.ops.group_by("rank").agg(
        busy=pl.col("duration_ns").sum(), first=pl.col("start_ns").min(), end=pl.col("end_ns").max()
    )
    busy, first, end = (frame.sort("rank").get_column(name).to_numpy() for name in ("busy", "first", "end"))
    return Timed(times.makespan_ns, times.makespan_ns - busy, end - first - busy)


def held_peaks(schedule: Schedule, released: str = "W") -> list[int]:
    """Most chunks whose activations each rank holds at once: from their F to their B, or to their I or W."""
    change = {"F": 1, "B": -1, "I": 0, "W": 0, "F&B": 0} | {released: -1}
    steps = schedule.actions.select(
        "rank", step=pl.col("kind").cast(pl.String).replace_strict(change, return_dtype=pl.Int64)
    )
    held = steps.select("rank", held=pl.col("step").cum_sum().over("rank"))
    return held.group_by("rank").agg(pl.col("held").max()).sort("rank").get_column("held").to_list()

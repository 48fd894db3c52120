"""A schedule without its backward: for evaluation and inference."""

from __future__ import annotations

import polars as pl

from weftrace.pipeline.schedule import Schedule, need_schedule


def forward_only(schedule: Schedule) -> Schedule:
    """The forwards of a schedule, on each rank in their order: of an F&B its forward, of other backwards nothing.

    It can run wherever the schedule can, since leaving actions out closes no circle. Nothing is kept for a backward,
    so nothing is offloaded.
    """
    need_schedule(schedule)
    forwards = schedule.actions.filter(pl.col("kind").is_in(["F", "F&B"])).select("rank", "stage", "micro_batch")
    return schedule.with_actions(forwards.with_columns(kind=pl.lit("F")), name=f"{schedule.name}, forward only")

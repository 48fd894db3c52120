"""Cut a full backward in two, so that what nobody waits for can wait."""

from __future__ import annotations

import polars as pl

from weftrace.pipeline.schedule import Schedule, need_schedule


def split_backward(schedule: Schedule) -> Schedule:
    """Each B becomes I and W, in its place: the order in which other passes move the W.

    The backward of an F&B stays whole: to overlap it is what it is for.
    """
    need_schedule(schedule)
    is_full = pl.col("kind") == "B"
    parts = pl.when(is_full).then(pl.lit(["I", "W"])).otherwise(pl.concat_list(pl.col("kind").cast(pl.String)))
    halved = schedule.actions.with_columns(kind=parts).explode("kind")
    return schedule.with_actions(halved.cast({"kind": schedule.actions.schema["kind"]}))

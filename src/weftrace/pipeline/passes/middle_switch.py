"""Should the ranks in the middle of two directions begin overlapped?"""

from __future__ import annotations

import numpy as np
import polars as pl

from weftrace.errors import ScheduleError
from weftrace.pipeline.schedule import Schedule, need_schedule


def switch_middle(schedule: Schedule) -> Schedule:
    """The first F&B of each middle rank runs as F, then B.

    A rank in the middle holds the two stages in the middle of the model, so one direction turns into the other there.
    Its first F&B would hold the forward back until the first backward has come, and all other ranks wait for what
    comes of this forward. Run apart, the forward leaves at once: the bubble is never larger. But what this one F&B
    gains over F and B is given away, so where F&B is much quicker than both the makespan may grow: simulate both. No
    circle can come of it: what each half needs, the whole needed.

    Raises `ScheduleError` where no rank holds both middle stages, or those that do have no F&B.
    """
    need_schedule(schedule)
    if schedule.num_stages % 2:
        raise ScheduleError(
            f"schedule {schedule.name!r}: an odd number of stages, {schedule.num_stages}, has no two in the middle."
        )
    middle = (schedule.num_stages // 2 - 1, schedule.num_stages // 2)
    holds_both = (schedule.replica_of_rank_stage[:, middle] >= 0).all(axis=1)
    ranks = np.flatnonzero(holds_both).tolist()
    if not ranks:
        raise ScheduleError(
            f"schedule {schedule.name!r}: no rank holds both stages in the middle, {middle[0]} and {middle[1]} of "
            f"{schedule.num_stages}, so nothing turns there; DualPipe and DualPipeV have such ranks."
        )
    rows = schedule.actions.with_row_index("row")
    firsts = rows.filter(pl.col("rank").is_in(ranks), kind="F&B").group_by("rank").agg(pl.col("row").min())
    if len(firsts) < len(ranks):
        raise ScheduleError(f"schedule {schedule.name!r}: the ranks in the middle run no F&B that could be parted.")
    return schedule.with_actions(_parted(rows, firsts["row"].to_list()).drop("row"))


def _parted(rows: pl.DataFrame, which: list[int]) -> pl.DataFrame:
    """The frame with some of its F&B as F, then B; "row" keeps the order."""
    kind = rows.schema["kind"]
    none = {"back_stage": pl.lit(None, pl.Int32), "back_micro_batch": pl.lit(None, pl.Int32)}
    pairs = rows.filter(pl.col("row").is_in(which))
    forward = pairs.with_columns(kind=pl.lit("F", kind), **none)
    backward = pairs.with_columns(
        kind=pl.lit("B", kind), stage="back_stage", micro_batch="back_micro_batch", offload=pl.lit(False)
    ).with_columns(**none)
    others = rows.filter(~pl.col("row").is_in(which))
    return pl.concat([others, forward, backward]).sort("row", maintain_order=True)

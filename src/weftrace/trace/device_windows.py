"""Over which stretch of the device's time does each step run? Windows that touch, one after the other."""

from __future__ import annotations

import polars as pl

_COLUMNS = {"step": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}


def step_windows(events: pl.DataFrame) -> pl.DataFrame:
    """The window of each step that launched device work: step, start_ns, end_ns (absolute), by number.

    A window begins with the first device event that its step launched and ends where the next step's begins; the last
    ends with the last event that any step launched. So windows touch, and their lengths add up. A copy that ran ahead
    begins none (see `_first_copies`). A step whose first event starts before that of the step before it begins with
    that one: no window is negative, and the earlier one is empty.

    events: `Work.events`, in order of start. What has no launch begins a window only where all of its step is so: its
    step is a guess.
    """
    own = events.filter(pl.col("step").is_not_null())
    if own.is_empty():
        return pl.DataFrame(schema=_COLUMNS)
    kernels = events.filter(pl.col("kind") != "memory")
    first = pl.col("start_ns").filter(pl.col("link").is_not_null()).min()
    starts = (
        kernels.filter(pl.col("step").is_not_null())
        .group_by("step")
        .agg(pl.coalesce(first, pl.col("start_ns").min()).alias("kernel_ns"))
    )
    copies = _first_copies(own.filter(pl.col("kind") == "memory"), starts, kernels)
    starts = starts.join(copies, on="step", how="full", coalesce=True).sort("step")
    start = pl.min_horizontal("kernel_ns", "copy_ns").cum_max()
    last_end = own.get_column("end_ns").max()
    return starts.select("step", start.alias("start_ns"), start.shift(-1).fill_null(last_end).alias("end_ns"))


def _first_copies(copies: pl.DataFrame, starts: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """The first copy of each step that did not run ahead: step, copy_ns.

    A prefetched batch is copied while the step before still computes. So a copy ran ahead where a kernel that started
    before the step's first kernel was still to end. Of a step that launched copies alone, none is said to.
    """
    reach = kernels.select("start_ns", pl.col("end_ns").cum_max().alias("reach_ns"))
    opened = starts.sort("kernel_ns").join_asof(
        reach, left_on="kernel_ns", right_on="start_ns", strategy="backward", allow_exact_matches=False
    )
    ahead = (pl.col("start_ns") < pl.col("reach_ns")).fill_null(False)
    return (
        copies.join(opened.select("step", "reach_ns"), on="step", how="left")
        .filter(~ahead)
        .group_by("step")
        .agg(pl.col("start_ns").min().alias("copy_ns"))
    )

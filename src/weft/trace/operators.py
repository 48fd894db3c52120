"""Which operator launched each device event: the innermost `cpu_op` of the launching thread, open at the call."""

from __future__ import annotations

import numpy as np
import polars as pl

from weft.trace.phases import innermost


def operator_rows(events: pl.DataFrame, linked: pl.DataFrame) -> pl.Series:
    """The operator of each device event, as its row in `events`; null where the launch is unknown or lies in none.

    events: a trace's events. linked: device events with launch_ts_ns, launch_pid, launch_tid. Containment in time is
    used rather than External ids, which profilers of different ages put on different events.
    """
    operators = events.select("pid", "tid", "ts_ns", "dur_ns", "cat").with_row_index("row")
    operators = operators.filter(pl.col("cat") == "cpu_op")
    return operators.get_column("row").cast(pl.Int64).gather(open_at_launch(operators, linked)).alias("operator")


def open_at_launch(ranges: pl.DataFrame, linked: pl.DataFrame) -> pl.Series:
    """For each device event the row in `ranges` of the innermost one that was open at its launch; null without one.

    ranges: host events with pid, tid, ts_ns, dur_ns. linked: device events with launch_ts_ns, launch_pid, launch_tid.
    Only ranges of the launching thread count.
    """
    launches = (
        linked.select(pl.col("launch_pid").alias("pid"), pl.col("launch_tid").alias("tid"), "launch_ts_ns")
        .with_row_index("at")
        .drop_nulls()
    )
    ranges = (
        ranges.select("pid", "tid", "ts_ns", "dur_ns")
        .with_row_index("row")
        .sort("ts_ns", "dur_ns", descending=[False, True], maintain_order=True)
    )
    out = np.full(linked.height, -1, np.int64)
    by_thread = ranges.partition_by("pid", "tid", as_dict=True)
    for thread, mine in launches.partition_by("pid", "tid", as_dict=True).items():
        if (candidates := by_thread.get(thread)) is None:
            continue
        starts = candidates.get_column("ts_ns").to_numpy()
        ends = starts + candidates.get_column("dur_ns").to_numpy()
        found = innermost(starts, ends, mine.get_column("launch_ts_ns").to_numpy())
        rows = candidates.get_column("row").cast(pl.Int64).to_numpy()
        out[mine.get_column("at").to_numpy()] = np.where(found >= 0, rows[np.maximum(found, 0)], -1)
    return pl.Series("range", out).set(pl.Series(out < 0), None)

"""Which operator launched each device event: the innermost `cpu_op` of the launching thread, open at the call."""

from __future__ import annotations

import polars as pl

from weftrace.trace.containment import open_at_launch


def operator_rows(events: pl.DataFrame, linked: pl.DataFrame) -> pl.Series:
    """The operator of each device event, as its row in `events`; null where the launch is unknown or lies in none.

    events: a trace's events. linked: device events with launch_ts_ns, launch_pid, launch_tid. Containment in time is
    used rather than External ids, which profilers of different ages put on different events.
    """
    operators = events.select("pid", "tid", "ts_ns", "dur_ns", "cat").with_row_index("row")
    operators = operators.filter(pl.col("cat") == "cpu_op")
    return operators.get_column("row").cast(pl.Int64).gather(open_at_launch(operators, linked)).alias("operator")

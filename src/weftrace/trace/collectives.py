"""What a collective's host record says of its kernels.

Newer profilers copy the metadata of a collective (name, sizes, process group) onto its kernel. Older ones leave it on
the `record_param_comms` operator that was open when the kernel was launched; from there it is carried over.
"""

from __future__ import annotations

import polars as pl

from weftrace.trace.containment import open_at_launch

METADATA = ("collective", "in_elems", "out_elems", "dtype", "group", "group_size", "group_ranks", "comm_seq")


def with_host_metadata(rows: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Fill the metadata of kernels that have none from the record that was open at their launch, on the same thread.

    rows: device events with launch_ts_ns, launch_pid, launch_tid and `eligible`, whether a record may speak for them.
    events: the trace's events.
    """
    records = events.filter(pl.col("cat") == "cpu_op", pl.col("collective").is_not_null())
    if records.is_empty():
        return rows
    bare = rows.with_row_index("at").filter(pl.col("collective").is_null(), pl.col("eligible").fill_null(False))
    said = bare.select("at").hstack(records.select(pl.col(METADATA).gather(open_at_launch(records, bare))))
    joined = rows.with_row_index("at").join(said, on="at", how="left", suffix="_said", maintain_order="left")
    return joined.with_columns(pl.coalesce(name, f"{name}_said").alias(name) for name in METADATA).select(rows.columns)

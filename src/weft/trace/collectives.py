"""What a collective's host record says of its kernels.

Newer profilers copy the metadata of a collective (name, sizes, process group) onto its kernel. Older ones leave it on
the `record_param_comms` operator that was open when the kernel was launched; from there it is carried over.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from weft.trace.phases import innermost

METADATA = ("collective", "in_elems", "out_elems", "dtype", "group", "group_size", "group_ranks", "comm_seq")


def with_host_metadata(rows: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Fill the metadata of kernels that have none from the record that was open at their launch, on the same thread.

    rows: device events with launch_ts_ns, launch_pid, launch_tid and `eligible`, whether a record may speak for them.
    events: the trace's events.
    """
    records = events.filter(pl.col("cat") == "cpu_op", pl.col("collective").is_not_null())
    if records.is_empty():
        return rows
    records = records.sort("ts_ns", "dur_ns", descending=[False, True], maintain_order=True)
    bare = rows.with_row_index("at").filter(pl.col("collective").is_null(), pl.col("eligible").fill_null(False))
    bare = bare.select("at", pl.col("launch_pid").alias("pid"), pl.col("launch_tid").alias("tid"), "launch_ts_ns")
    by_thread = records.partition_by("pid", "tid", as_dict=True)
    found = []
    for thread, mine in bare.drop_nulls().partition_by("pid", "tid", as_dict=True).items():
        if (candidates := by_thread.get(thread)) is None:
            continue
        starts = candidates.get_column("ts_ns").to_numpy()
        ends = starts + candidates.get_column("dur_ns").to_numpy()
        inside = innermost(starts, ends, mine.get_column("launch_ts_ns").to_numpy())
        known = np.flatnonzero(inside >= 0)
        said = candidates.select(METADATA)[inside[known]]
        found.append(said.with_columns(mine.get_column("at").gather(known)))
    if not found:
        return rows
    said = pl.concat(found)
    joined = rows.with_row_index("at").join(said, on="at", how="left", suffix="_said", maintain_order="left")
    return joined.with_columns(pl.coalesce(name, f"{name}_said").alias(name) for name in METADATA).select(rows.columns)

"""What keeps ops apart between which work ran that the file does not hold?"""

from __future__ import annotations

import polars as pl

from weftrace.plan.inference.streams.launches import linked


def unrecorded_waits(ops: pl.DataFrame, holes: pl.DataFrame) -> pl.DataFrame:
    """Of each op that ends a hole a wait that keeps the hole as long as it was: op, on, since, lag_ns, why, source.

    It waits for the op before the hole, or for its own launch where that came later: what runs in the hole is not
    known, so that nothing makes it shorter. ops: all of the plan. holes: `row` of the device event that ends each and
    `before` of the one that ended last before it, rows of the trace's events.
    """
    device = ops.filter(pl.col("event").is_not_null())
    ended = device.select(pl.col("row").alias("before"), pl.col("op").alias("on_device"), "end_ns")
    called = linked(ops).select("op", pl.col("on").alias("on_call"), "call_end_ns")
    found = (
        holes.select("row", "before")
        .unique("row")
        .join(device.select("row", "op", "start_ns"), on="row")
        .join(ended, on="before")
        .join(called, on="op", how="left")
    )
    later = (pl.col("call_end_ns") > pl.col("end_ns")).fill_null(False)
    since = pl.when(later).then("call_end_ns").otherwise("end_ns")
    return found.sort("op").select(
        "op", pl.when(later).then("on_call").otherwise("on_device").alias("on"), pl.lit("end").alias("since"),
        (pl.col("start_ns") - since).alias("lag_ns"), pl.lit("data").alias("why"),
        pl.lit("unrecorded").alias("source"),
    ).filter(pl.col("lag_ns") > 0)  # fmt: skip

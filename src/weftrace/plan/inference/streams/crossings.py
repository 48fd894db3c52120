"""How soon after what it waited for does an op on another stream start?"""

from __future__ import annotations

import polars as pl

from weftrace.plan.inference.medians import median_ns

#: A start later than this after the end of what was waited for had another reason.
MOST_LATENCY_NS = 30_000


def wait_latency_ns(ops: pl.DataFrame, waits: pl.DataFrame, gap_ns: int, launch_latency_ns: int) -> int:
    """From the end of an op to the start of one on another stream that waited for nothing else by then: the median;
    0 where no op tells.

    ops: all of the plan, with op, stream, start_ns, end_ns. waits: op, on, source: launches, and those between streams.
    """
    end = ops.select(pl.col("op").alias("on"), pl.col("end_ns").alias("on_end_ns"))
    launches = pl.col("source").is_in(("launch", "graph"))
    ready = (
        waits.filter(launches).join(end, on="on")
        .group_by("op").agg(pl.col("on_end_ns").max() + launch_latency_ns)
        .rename({"on_end_ns": "launched_ns"})
    )  # fmt: skip
    free = ops.select("op", "start_ns", free_ns=pl.col("end_ns").shift(1).over("stream") + gap_ns)
    crossings = waits.filter(~launches).join(end, on="on").group_by("op").agg(pl.col("on_end_ns").max())
    told = crossings.join(free, on="op").join(ready, on="op", how="left")
    told = told.filter(pl.col("on_end_ns") >= pl.max_horizontal("free_ns", "launched_ns").fill_null(0))
    latency = told.select(pl.col("start_ns") - pl.col("on_end_ns")).to_series()
    return median_ns(latency.filter(latency.is_between(0, MOST_LATENCY_NS)))

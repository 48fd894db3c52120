"""Which call put each op on its stream, and how soon after the call's end it could run."""

from __future__ import annotations

import polars as pl

#: A start later than this after its call's end had another reason.
MOST_LATENCY_NS = 30_000


def launch_waits(ops: pl.DataFrame, latency_ns: int) -> pl.DataFrame:
    """Of each op on a device the wait for its launch: op, on, lag_ns, why, source."""
    return linked(ops).select(
        "op", "on", lag_ns=pl.lit(latency_ns), why=pl.lit("launch"),
        source=pl.when(pl.col("graph_id").is_not_null()).then(pl.lit("graph")).otherwise(pl.lit("launch")),
    )  # fmt: skip


def launch_latency_ns(ops: pl.DataFrame) -> int:
    """From the end of a launch call to the start of what it launched: the median over ops before which the device had
    nothing to do since the call began. Where it always had, the lowest quarter of those whose stream was free: others
    may have waited for another stream. Negative where ops start before their calls return; 0 where no op tells.
    """
    device = ops.filter(pl.col("event").is_not_null())
    device = device.with_columns(
        free_ns=pl.col("end_ns").shift(1).over("stream").fill_null(pl.col("start_ns").min() - 1),
        idle_ns=pl.col("end_ns").cum_max().shift(1).fill_null(pl.col("start_ns").min() - 1),
    )
    told = linked(ops).join(device.select("op", "free_ns", "idle_ns"), on="op")
    told = told.filter(pl.col("free_ns") <= pl.col("call_start_ns"), pl.col("graph_id").is_null())
    told = told.with_columns(latency=pl.col("start_ns") - pl.col("call_end_ns"))
    told = told.filter(pl.col("latency").abs() <= MOST_LATENCY_NS)
    idle = told.filter(pl.col("idle_ns") <= pl.col("call_start_ns")).get_column("latency")
    return int((idle.median() if len(idle) else told.get_column("latency").quantile(0.25)) or 0)  # type: ignore[arg-type]


def linked(ops: pl.DataFrame) -> pl.DataFrame:
    """Ops on a device with the call that launched them: op, on (the call's op), start_ns, call_start_ns, call_end_ns,
    graph_id."""
    device = ops.filter(pl.col("event").is_not_null(), pl.col("launch_ts_ns").is_not_null())
    calls = ops.filter(pl.col("call").is_not_null()).select(
        pl.col("op").alias("on"), "call_ts_ns", "pid", "tid",
        pl.col("start_ns").alias("call_start_ns"), pl.col("end_ns").alias("call_end_ns"),
    ).unique(("pid", "tid", "call_ts_ns"), keep="first", maintain_order=True)  # fmt: skip
    return device.join(
        calls, left_on=("launch_pid", "launch_tid", "launch_ts_ns"), right_on=("pid", "tid", "call_ts_ns"),
        how="inner", maintain_order="left",
    ).select("op", "on", "start_ns", "call_start_ns", "call_end_ns", "graph_id", "stream")  # fmt: skip

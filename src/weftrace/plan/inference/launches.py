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


def launch_latency_ns(on_device: pl.DataFrame, calls: pl.DataFrame) -> int:
    """From the end of a launch call to the start of what it launched: the median over ops before which the device had
    nothing to do since the call began. Where it always had, the lowest quarter of those whose stream was free: others
    may have waited for another stream. Negative where ops start before their calls return; 0 where no op tells.

    on_device: of `device_ops`. calls: of `host_calls`.
    """
    none = pl.col("start_ns").min() - 1
    told = with_calls(
        on_device.with_columns(
            free_ns=pl.col("end_ns").shift(1).over("stream").fill_null(none),
            idle_ns=pl.col("end_ns").cum_max().shift(1).fill_null(none),
        ),
        calls,
    )
    told = told.filter(pl.col("free_ns") <= pl.col("call_start_ns"), pl.col("graph_id").is_null())
    told = told.filter(
        (pl.col("kind") != "memory") | (pl.col("end_ns") > pl.col("call_end_ns"))
    )  # waited for by its call
    told = told.with_columns(latency=pl.col("start_ns") - pl.col("call_end_ns"))
    told = told.filter(pl.col("latency").abs() <= MOST_LATENCY_NS)
    idle = told.filter(pl.col("idle_ns") <= pl.col("call_start_ns")).get_column("latency")
    return int((idle.median() if len(idle) else told.get_column("latency").quantile(0.25)) or 0)  # type: ignore[arg-type]


def linked(ops: pl.DataFrame) -> pl.DataFrame:
    """Ops on a device with the call that launched them: op, on (the call's op), start_ns, call_start_ns, call_end_ns,
    graph_id, stream. ops: all of the plan."""
    calls = ops.filter(pl.col("call_ts_ns").is_not_null()).with_columns(pl.col("op").alias("on"))
    device = ops.filter(pl.col("event").is_not_null()).drop("call_ts_ns", "pid", "tid")
    found = with_calls(device, calls.select("on", "pid", "tid", "call_ts_ns", "start_ns", "end_ns"))
    return found.select("op", "on", "start_ns", "call_start_ns", "call_end_ns", "graph_id", "stream")


def with_calls(on_device: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Events on a device that have a launch, with the columns of its call, whose times are call_start_ns and
    call_end_ns. A launch inside another call belongs to the outer: calls holds only those."""
    launched = on_device.filter(pl.col("launch_ts_ns").is_not_null()).with_row_index("place").sort("launch_ts_ns")
    calls = calls.rename({"start_ns": "call_start_ns", "end_ns": "call_end_ns"})
    calls = calls.select(pl.exclude(set(on_device.columns))).sort("call_ts_ns")
    found = launched.join_asof(
        calls, left_on="launch_ts_ns", right_on="call_ts_ns", by_left=("launch_pid", "launch_tid"),
        by_right=("pid", "tid"), check_sortedness=False,
    )  # fmt: skip
    inside = pl.col("launch_ts_ns") - pl.col("call_ts_ns") <= pl.col("call_end_ns") - pl.col("call_start_ns")
    found = found.filter(inside)
    return found.sort("place").drop("place")

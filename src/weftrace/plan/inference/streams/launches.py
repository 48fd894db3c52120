"""Which call put each op on its stream, and how soon after the call's end it could run."""

from __future__ import annotations

import polars as pl

from weftrace.plan.inference.medians import median_ns
from weftrace.plan.inference.replaying import LATE_NS
from weftrace.units import US

#: A start later than this after what let it start (its call, or the op that it waited for) had another reason.
MOST_LATENCY_NS = 30 * US
#: Clocks of streams agree to this.
CLOCK_NS = 1 * US


def launch_waits(ops: pl.DataFrame, latency_ns: int, graph_ns: int) -> pl.DataFrame:
    """Of each op on a device the wait for its launch: op, on, since, lag_ns, why, source.

    latency_ns: from the end of a call; graph_ns: from the start of one that replays a graph.
    """
    in_graph = pl.when("in_graph")
    return linked(ops).select(
        "op", "on", in_graph.then(pl.lit("start")).otherwise(pl.lit("end")).alias("since"),
        in_graph.then(graph_ns).otherwise(latency_ns).alias("lag_ns"), pl.lit("launch").alias("why"),
        in_graph.then(pl.lit("graph")).otherwise(pl.lit("launch")).alias("source"),
    )  # fmt: skip


def origin_waits(ops: pl.DataFrame, latency_ns: int) -> pl.DataFrame:
    """Of ops that something before the recording held up, a wait until they started: op, on, since, lag_ns, why,
    source.

    The first op of a stream, where no call in the file launched it, or where it started late and nothing on the device
    had ended before, so that nothing in the file can have held it up. All are pinned to the first op of a host thread
    that begins with the plan; without a host, to the first op of all.
    """
    calls = linked(ops).select("op", "in_graph", "call_start_ns", "call_end_ns")
    first = ops.filter(pl.col("event").is_not_null()).unique("stream", keep="first", maintain_order=True)
    first = first.select("op", "start_ns").join(calls, on="op", how="left", maintain_order="left")
    came = pl.when("in_graph").then("call_start_ns").otherwise("call_end_ns") + latency_ns
    nothing_ended = pl.col("start_ns") + CLOCK_NS < ops.filter(pl.col("event").is_not_null()).get_column("end_ns").min()
    held = first.filter(came.is_null() | ((pl.col("start_ns") - came > LATE_NS) & nothing_ended))
    host = ops.filter(pl.col("event").is_null(), pl.col("start_ns") == 0, pl.col("released_ns").is_null())
    on = int(host.item(0, "op")) if len(host) else 0
    return held.filter(pl.col("op") != on).select(
        "op", pl.lit(on, pl.UInt32).alias("on"), pl.lit("start").alias("since"), pl.col("start_ns").alias("lag_ns"),
        pl.lit("launch").alias("why"), pl.lit("origin").alias("source"),
    )  # fmt: skip


def launch_latency_ns(on_device: pl.DataFrame, calls: pl.DataFrame) -> int:
    """From the end of a launch call to the start of what it launched: the median over ops before which the device had
    nothing to do since the call began. Where it always had, the lowest quarter of those whose stream was free: others
    may have waited for another stream. Negative where ops start before their calls return; 0 where no op tells.

    on_device: of `device_ops`. calls: of `host_calls`.
    """
    none = pl.col("start_ns").min() - 1
    summary = with_calls(
        on_device.with_columns(
            free_ns=pl.col("end_ns").shift(1).over("stream").fill_null(none),
            idle_ns=pl.col("end_ns").cum_max().shift(1).fill_null(none),
        ),
        calls,
    )
    summary = summary.filter(pl.col("free_ns") <= pl.col("call_start_ns"), pl.col("graph_id").is_null())
    summary = summary.filter(
        (pl.col("kind") != "memory") | (pl.col("end_ns") > pl.col("call_end_ns"))
    )  # waited for by its call
    summary = summary.with_columns(latency=pl.col("start_ns") - pl.col("call_end_ns"))
    summary = summary.filter(pl.col("latency").abs() <= MOST_LATENCY_NS)
    idle = summary.filter(pl.col("idle_ns") <= pl.col("call_start_ns")).get_column("latency")
    if len(idle):
        return median_ns(idle)
    return int(summary.get_column("latency").quantile(0.25) or 0)


def linked(ops: pl.DataFrame) -> pl.DataFrame:
    """Ops on a device with the call that launched them: op, on (the call's op), start_ns, call_start_ns, call_end_ns,
    put_ns (when it was put on its stream, latencies apart), in_graph, stream. ops: all of the plan."""
    calls = ops.filter(pl.col("call_ts_ns").is_not_null()).with_columns(pl.col("op").alias("on"))
    needed = ("op", "stream", "start_ns", "launch_ts_ns", "launch_pid", "launch_tid", "graph_id")
    device = ops.filter(pl.col("event").is_not_null()).select(needed)
    found = with_calls(device, calls.select("on", "pid", "tid", "call_ts_ns", "start_ns", "end_ns", call_name="name"))
    put = pl.when("in_graph").then("call_start_ns").otherwise("call_end_ns").alias("put_ns")
    return found.select("op", "on", "start_ns", "call_start_ns", "call_end_ns", put, "in_graph", "stream")


def with_calls(on_device: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Events on a device that have a launch, with the columns of its call, whose times are call_start_ns and
    call_end_ns, and in_graph: whether a graph's replay launched it. A launch inside another call belongs to the outer:
    calls holds only those."""
    launched = on_device.filter(pl.col("launch_ts_ns").is_not_null()).with_row_index("place").sort("launch_ts_ns")
    names = {"start_ns": "call_start_ns", "end_ns": "call_end_ns", "name": "call_name"}
    calls = calls.rename(names, strict=False)
    calls = calls.select(pl.exclude(set(on_device.columns))).sort("call_ts_ns")
    found = launched.join_asof(
        calls, left_on="launch_ts_ns", right_on="call_ts_ns", by_left=("launch_pid", "launch_tid"),
        by_right=("pid", "tid"), check_sortedness=False,
    )  # fmt: skip
    inside = pl.col("launch_ts_ns") - pl.col("call_ts_ns") <= pl.col("call_end_ns") - pl.col("call_start_ns")
    found = found.filter(inside)
    replays = pl.col("graph_id").is_not_null() | pl.col("call_name").str.contains("GraphLaunch")
    return found.sort("place").drop("place").with_columns(in_graph=replays)

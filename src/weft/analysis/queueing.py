"""How far the device ran behind the host: launch delays, queue length, and calls in which the host was blocked."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from weft.trace.model import Trace, is_launch
from weft.trace.work import Work, as_work

_WAITS = r"(?i)synchroni|StreamWaitValue|EventQuery|^cudaFree$|^cudaMalloc$|^hipFree$|^hipMalloc$"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Queueing:
    """Launches against starts. Times in ns.

    num_linked: device events with a launch. delay: device start - start of the host's launch call; p50, p99 and max
    over linked events, None without any. queue length at t: launches made minus device events started, by t; its
    largest value and its mean over time.
    host_calls: runtime calls that wait, free or allocate rather than launch, longest total first: name, num_events,
    total_ns.
    """

    num_linked: int
    delay_p50_ns: int | None
    delay_p99_ns: int | None
    delay_max_ns: int | None
    queue_max: int
    queue_mean: float
    host_calls: pl.DataFrame


def queueing(source: Trace | Work) -> Queueing:
    """Launch delay and queue length of a device."""
    work = as_work(source)
    linked = work.events.filter(pl.col("launch_ts_ns").is_not_null())
    delay = (linked.get_column("start_ns") - linked.get_column("launch_ts_ns")).sort()
    length = queue_length(work)
    held = length.select(
        pl.col("queue_length"), (pl.col("ts_ns").shift(-1) - pl.col("ts_ns")).fill_null(0).alias("held_ns")
    )
    held_ns = held.get_column("held_ns").sum()
    on_host = work.basis == "host"
    return Queueing(
        num_linked=0 if on_host else linked.height,
        delay_p50_ns=_quantile(delay, 0.5) if not on_host else None,
        delay_p99_ns=_quantile(delay, 0.99) if not on_host else None,
        delay_max_ns=_quantile(delay, 1.0) if not on_host else None,
        queue_max=int(length.get_column("queue_length").max() or 0),  # type: ignore[arg-type]
        queue_mean=float((held.get_column("queue_length") * held.get_column("held_ns")).sum() / held_ns) if held_ns else 0.0,
        host_calls=_host_calls(work),
    )


def queue_length(source: Trace | Work) -> pl.DataFrame:
    """Launches made minus device events started, at every time it changes: ts_ns (absolute), queue_length.

    Counts linked events only. An event that starts before its launch call was recorded (clocks of host and device
    differ by microseconds) counts as started at its launch.
    """
    work = as_work(source)
    linked = work.events.filter(pl.col("launch_ts_ns").is_not_null(), pl.lit(work.basis != "host"))
    launched = linked.select(pl.col("launch_ts_ns").alias("ts_ns"), pl.lit(1, dtype=pl.Int64).alias("change"))
    started = linked.select(
        pl.max_horizontal("start_ns", "launch_ts_ns").alias("ts_ns"), pl.lit(-1, dtype=pl.Int64).alias("change")
    )
    changes = pl.concat([launched, started]).group_by("ts_ns").agg(pl.col("change").sum()).sort("ts_ns")
    return changes.select("ts_ns", pl.col("change").cum_sum().alias("queue_length"))


def _quantile(values: pl.Series, fraction: float) -> int | None:
    return int(values.quantile(fraction, "nearest")) if len(values) else None  # type: ignore[arg-type]


def _host_calls(work: Work) -> pl.DataFrame:
    return (
        work.trace.events.filter(is_launch())
        .group_by("name")
        .agg(pl.len().cast(pl.Int64).alias("num_events"), pl.col("dur_ns").sum().alias("total_ns"))
        .with_columns(pl.col("name").cast(pl.String))
        .filter(pl.col("name").str.contains(_WAITS))
        .sort("total_ns", "name", descending=[True, False])
    )

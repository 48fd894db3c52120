"""Which calls of the device's runtime blocked the host, for how long, and on what? By time, not by name alone."""

from __future__ import annotations

from typing import Annotated, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.analysis.intervals import Intervals, covered, of_events
from weftrace.analysis.waiting.call_names import ALLOCATION, COPY, GRAPH, PAGEABLE, SYNC
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Count
from weftrace.trace.model import is_launch
from weftrace.trace.work import Work
from weftrace.units import US

#: A call that is shorter blocked nobody to speak of.
_LEAST_NS = 20 * US
#: A launch is longer than usual from so many times the median of its kind on, and from so long on.
_TIMES, _LONG_NS = 10, 100 * US
#: A call that waited returns so soon after what it waited for.
_NEAR_NS = 50 * US
#: Launches ahead of the device from which on a queue may be full: CUDA's holds 1,024.
_FULL = 1_000


class BlockingCallRow(TypedDict):
    """Calls of the host that blocked for one reason: as long as their work on the device, or many times as long as
    usual. Most of it may be while the device is busy, and costs nothing then: idle time of the device is apart."""

    reason: Annotated[
        str,
        Meta(
            description="sync: waited for the device; copy: returned when its copy had ended; allocation; full queue: "
            "a thousand launches were ahead; graph launch; first use: the first launch of a kernel: its code is "
            "loaded; long launch: none of these."
        ),
        Shown("reason"),
    ]
    call: Annotated[str, Meta(description="Its name."), Shown("call")]
    on: Annotated[str, Meta(description="Of a copy: its direction and kinds of memory."), Shown("on")]
    num_calls: Annotated[Count, Shown("calls")]
    total_ns: Annotated[int, Meta(ge=0, description="Time in them."), Shown("time")]
    longest_ns: Annotated[int, Meta(ge=0, description="The longest."), Shown("longest")]
    usual_ns: Annotated[int, Meta(ge=0, description="Median of all calls of this name."), Shown("usual")]
    idle_ns: Annotated[
        int, Meta(ge=0, description="The part of the time in which the device was idle."), Shown("device idle")
    ]
    moved_bytes: Annotated[Count | None, Meta(description="Of copies."), Shown("bytes")]


def blocking_calls(work: Work) -> pl.DataFrame:
    """A frame of `BlockingCallRow`, the longest time first; empty of a host's work."""
    schema = frame_schema(BlockingCallRow)
    if work.basis != "device":
        return pl.DataFrame(schema=schema)
    calls = _calls(work)
    start, end = calls.get_column("ts_ns").to_numpy(), calls.get_column("end_ns").to_numpy()
    busy = of_events(work.events)
    idle = end - start - covered(_within(busy, work), start, end)
    took = pl.col("end_ns") - pl.col("ts_ns")
    rows = calls.with_columns(pl.Series("idle_ns", np.maximum(idle, 0)), reason=_reason(), took=took)
    rows = rows.filter(pl.col("reason").is_not_null())
    grouped = rows.group_by("reason", pl.col("name").cast(pl.String).alias("call"), pl.col("on").fill_null("")).agg(
        pl.len().cast(pl.Int64).alias("num_calls"), pl.col("took").sum().alias("total_ns"),
        pl.col("took").max().alias("longest_ns"), pl.col("usual_ns").first().cast(pl.Int64),
        pl.col("idle_ns").sum(), pl.when(pl.col("moved_bytes").count() > 0).then(pl.col("moved_bytes").sum()),
    )  # fmt: skip
    grouped = grouped.sort("total_ns", "reason", "call", "on", descending=[True, False, False, False])
    return grouped.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def _within(busy: Intervals, work: Work) -> Intervals:
    """Busy time, with all before the first work and after the last, which is no idle time of the device's span."""
    far = 1 << 61
    return busy | Intervals(np.array([-far, work.end_ns]), np.array([work.start_ns, far]))


def _calls(work: Work) -> pl.DataFrame:
    """Calls of the processes that launched work here, from 20 µs on, with what they launched."""
    pids = work.events.get_column("launch_pid").drop_nulls().unique().implode()
    events = work.trace.events.select("cat", "name", "pid", "tid", "ts_ns", "dur_ns")
    every = events.filter(is_launch(), pl.col("pid").is_in(pids))
    usual = every.group_by("name").agg(pl.col("dur_ns").median().alias("usual_ns"))
    calls = every.filter(pl.col("dur_ns") >= _LEAST_NS).join(usual, on="name")
    calls = calls.with_columns((pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")).sort("ts_ns")
    if work.window_ns is not None:
        calls = calls.filter(pl.col("ts_ns").is_between(*work.window_ns, closed="left"))
    launched = work.around.events.filter(pl.col("launch_ts_ns").is_not_null())
    starts = np.sort(launched.get_column("start_ns").to_numpy())
    launches = np.sort(launched.get_column("launch_ts_ns").to_numpy())
    now = calls.get_column("end_ns").to_numpy()
    ahead = np.searchsorted(launches, now, "right") - np.searchsorted(starts, now, "right")
    first = launched.group_by("name").agg(pl.col("launch_ts_ns").min().alias("first_ns"))
    own = launched.select(
        pl.col("launch_pid").alias("pid"), pl.col("launch_tid").alias("tid"), pl.col("launch_ts_ns").alias("ts_ns"),
        pl.col("name").alias("device_name"), "start_ns", pl.col("end_ns").alias("done_ns"), "moved_bytes", "kind",
    ).join(first, left_on="device_name", right_on="name")  # fmt: skip
    own = own.unique(("pid", "tid", "ts_ns"), keep="first", maintain_order=True)
    calls = calls.with_columns(pl.Series("ahead", ahead))
    calls = calls.join(own, on=("pid", "tid", "ts_ns"), how="left", maintain_order="left")
    names = calls.select("name").unique().with_columns(pl.col("name").cast(pl.String).alias("call"))
    calls = calls.join(names, on="name", maintain_order="left")
    copied = pl.when(pl.col("kind") == "memory").then(pl.col("device_name").cast(pl.String))
    return calls.with_columns(copied.alias("on"))


def _reason() -> pl.Expr:
    """Why a call blocked; null where it did not."""
    call, took = pl.col("call"), pl.col("end_ns") - pl.col("ts_ns")
    is_copy = call.str.contains(COPY)
    returned_after = (pl.col("done_ns") <= pl.col("end_ns")) & (pl.col("end_ns") - pl.col("done_ns") <= _NEAR_NS)
    waits_for_copy = is_copy & (pl.col("on").fill_null("").str.contains(PAGEABLE) | returned_after)
    long = (took >= _LONG_NS) & (took >= _TIMES * pl.col("usual_ns"))
    launches = pl.col("device_name").is_not_null()
    return (
        pl.when(call.str.contains(SYNC)).then(pl.lit("sync"))
        .when(call.str.contains(ALLOCATION)).then(pl.lit("allocation"))
        .when(call.str.contains(GRAPH) & (took >= _LONG_NS)).then(pl.lit("graph launch"))
        .when(launches & (pl.col("ahead") >= _FULL)).then(pl.lit("full queue"))
        .when(waits_for_copy).then(pl.lit("copy"))
        .when(launches & long & (pl.col("ts_ns") == pl.col("first_ns"))).then(pl.lit("first use"))
        .when(launches & long).then(pl.lit("long launch"))
    )  # fmt: skip

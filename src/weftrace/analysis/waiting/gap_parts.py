"""What made each idle stretch last: the host, the launch call, the way to the device, or what held the work there?

A gap is cut at the launch of the device event that ends it:

    device  ████████·················································████████
    host              Python, operators   [launch call]
    part             │host               │call        │launch latency│held│
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.intervals import Array
from weftrace.trace.model import is_launch
from weftrace.trace.work import Work
from weftrace.units import US

#: Parts of a gap, in order of time; the last two stand for a whole gap.
HOST, CALL, LATENCY, HELD, TURNAROUND, UNKNOWN = PARTS = (
    "host", "call", "launch_latency", "held", "turnaround", "unknown",
)  # fmt: skip

#: A gap before an event that was queued in time is a turnaround up to here. HolisticTraceAnalysis uses the same.
TURNAROUND_NS = 30 * US
#: A launch latency is never taken to be longer: where most launches of a kind were held, their median is no latency.
_MOST_LATENCY_NS = 100 * US

#: Columns of `Gaps.events`: what ends each gap, a row a gap.
GAP_SCHEMA: dict[str, pl.DataType] = {
    "row": pl.UInt32(),  # of the device event that ends it, in the trace's events
    "name": pl.Categorical(),
    "before": pl.UInt32(),  # of the device event that ended last before it
    "before_name": pl.Categorical(),
    "stream": pl.Int64(),
    "step": pl.Int64(),
    "from_ns": pl.Int64(),  # absolute
    "until_ns": pl.Int64(),
    "launch_ts_ns": pl.Int64(),  # null where no launch is known
    "launch_end_ns": pl.Int64(),
    "launch_pid": pl.Categorical(),
    "launch_tid": pl.Categorical(),
    "call": pl.String(),  # name of the launch call
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gaps:
    """Idle stretches of a device and their parts.

    events: frame of `GAP_SCHEMA`, in order of time. part, gap, start, end: of each part of a gap its number in PARTS,
    the row of its gap, and its absolute times in ns, in order of time; those of a window are cut at its ends.
    arrived_ns: of each row of events when what ends the gap is expected on the device: its call's end and the usual
    latency. latency_ns: name of a launch call -> its usual latency, from the call's end to the start on the device.
    """

    events: pl.DataFrame
    part: NDArray[np.int8]
    gap: Array
    start: Array
    end: Array
    arrived_ns: Array
    latency_ns: dict[str, int]

    @property
    def length(self) -> Array:
        return self.end - self.start


def gaps_of(work: Work) -> Gaps:
    """Every stretch in which a device ran nothing, cut into its parts, which add up to the idle time exactly.

    Of a work on a host's basis an event has no launch, and its gap is all the host's. Of plain ranges nothing is known.
    """
    events = _ending(work)
    begin, end = (events.get_column(name).to_numpy() for name in ("from_ns", "until_ns"))
    unknown = events.get_column("launch_ts_ns").is_null().to_numpy()
    call = np.clip(events.get_column("launch_ts_ns").fill_null(0).to_numpy(), begin, end)
    returned = np.clip(events.get_column("launch_end_ns").fill_null(0).to_numpy(), call, end)
    queued = ~unknown & (events.get_column("launch_end_ns").fill_null(0).to_numpy() <= begin)
    latency_ns = _latencies(events)
    usual = events.get_column("call").replace_strict(latency_ns, default=0, return_dtype=pl.Int64).fill_null(0)
    others = int(np.median(list(latency_ns.values()))) if latency_ns else 0  # of a kind that was always queued
    expected = events.get_column("launch_end_ns").fill_null(0).to_numpy() + np.where(usual == 0, others, usual)
    arrived = np.minimum(returned + usual.to_numpy(), end)
    short = queued & (end - begin <= TURNAROUND_NS)
    bounds = np.stack([begin, call, returned, arrived, end])  # of host, call, latency, held
    bounds[1:4, queued | unknown] = begin[queued | unknown]
    last = np.where(unknown, PARTS.index(UNKNOWN), np.where(short, PARTS.index(TURNAROUND), PARTS.index(HELD)))
    parts = np.stack([np.full(len(begin), k, np.int8) for k in range(3)] + [last.astype(np.int8)])
    rows = np.tile(np.arange(len(begin)), (4, 1))
    part, gap = parts.T.ravel(), rows.T.ravel()
    start, stop = bounds[:-1].T.ravel(), bounds[1:].T.ravel()
    if work.window_ns is not None:
        start, stop = np.clip(start, *work.window_ns), np.clip(stop, *work.window_ns)
    kept = stop > start
    return Gaps(
        events=events, part=part[kept], gap=gap[kept], start=start[kept], end=stop[kept],
        arrived_ns=expected, latency_ns=latency_ns,
    )  # fmt: skip


def _ending(work: Work) -> pl.DataFrame:
    """A frame of `GAP_SCHEMA`; of a window, those gaps that reach into it."""
    every = work.around.events  # the event that ends a gap may lie past a window
    every = every.select(
        "row", "name", "stream", "step", "start_ns", "end_ns", "launch_ts_ns", "launch_pid", "launch_tid"
    ).sort("start_ns", maintain_order=True)
    reach = every.get_column("end_ns").cum_max()
    latest = (reach == every.get_column("end_ns")).to_numpy()
    holder = np.maximum.accumulate(np.where(latest, np.arange(every.height), 0))
    gaps = every.with_columns(
        reach.shift(1).alias("from_ns"),
        *(
            every.get_column(name).gather(holder).shift(1).alias(alias)
            for name, alias in (("row", "before"), ("name", "before_name"))
        ),
    ).filter(pl.col("start_ns") > pl.col("from_ns"))
    if work.window_ns is not None:
        low, high = work.window_ns
        gaps = gaps.filter(pl.col("start_ns") > low, pl.col("from_ns") < high)
    gaps = gaps.rename({"start_ns": "until_ns"})
    if work.basis == "host":  # an operator is its own launch
        ends = pl.col("until_ns")
        gaps = gaps.with_columns(ends.alias("launch_ts_ns"), ends.alias("launch_end_ns"), call=pl.lit("operator"))
    else:
        gaps = _with_calls(gaps, work.trace.events)
    return gaps.select(pl.col(name).cast(dtype) for name, dtype in GAP_SCHEMA.items())


def _with_calls(gaps: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """The gaps with the name and the end of the call that launched what ends each."""
    asked = events.select("cat", "name", "pid", "tid", "ts_ns", "dur_ns").filter(is_launch())
    asked = asked.filter(pl.col("ts_ns").is_in(gaps.get_column("launch_ts_ns").drop_nulls().unique().implode()))
    calls = asked.select(
        pl.col("pid").alias("launch_pid"), pl.col("tid").alias("launch_tid"), pl.col("ts_ns").alias("launch_ts_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("launch_end_ns"), pl.col("name").cast(pl.String).alias("call"),
    )  # fmt: skip
    place = ("launch_pid", "launch_tid", "launch_ts_ns")
    calls = calls.sort("launch_end_ns", descending=True).unique(place, keep="first", maintain_order=True)
    gaps = gaps.join(calls, on=place, how="left", maintain_order="left")
    return gaps.with_columns(pl.coalesce("launch_end_ns", "launch_ts_ns"))


def _latencies(gaps: pl.DataFrame) -> dict[str, int]:
    """Usual latency of each kind of launch call: the median over the launches made while the device was idle."""
    delay = (pl.col("until_ns") - pl.col("launch_end_ns")).clip(lower_bound=0)
    idle = gaps.filter(pl.col("launch_ts_ns") >= pl.col("from_ns"))
    medians = idle.group_by("call").agg(delay.median().cast(pl.Int64).clip(upper_bound=_MOST_LATENCY_NS)).sort("call")
    return {str(call): int(ns) for call, ns in medians.rows() if call is not None}

"""How far the device ran behind the host: launch delays, queue length, and calls in which the host was blocked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.analysis.intervals import grouped_union
from weftrace.files.columns import Shown
from weftrace.files.schemas import Count, Ns
from weftrace.files.values import As
from weftrace.notebook import InNotebook
from weftrace.trace.model import Trace, is_launch
from weftrace.trace.phases import assign_phases, find_steps
from weftrace.trace.work import Work, as_work
from weftrace.units import MS

DEFAULT_STALL_NS = 1 * MS
_AT_ONCE = 1 << 18  # events of the host that are looked at together, in little memory

_WAITS = r"(?i)synchroni|StreamWaitValue|EventQuery|^cudaFree$|^cudaMalloc$|^hipFree$|^hipMalloc$"


class HostCallRow(TypedDict):
    """Host calls that wait for the device."""

    name: Annotated[str, Shown("host waits in", wide=True)]
    num_events: Annotated[Count, Shown("calls")]
    total_ns: Annotated[Ns, Shown(term="host_blocked")]


class HostStallRow(TypedDict):
    """Phases in which the host recorded nothing, neither operator nor call, for a millisecond or more at a stretch.

    There it computes, or waits without a call, as DeepEP's dispatch polls for the number of tokens to receive.
    """

    name: Annotated[str, Shown("host silent in", wide=True)]
    num_events: Annotated[Count, Meta(description="Stretches."), Shown("times")]
    total_ns: Annotated[Ns, Shown(term="host_silent")]
    longest_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Queueing(InNotebook):
    """Launches against starts, and the queue: launches made minus device events started. Of a window of time: of the
    events that start in it."""

    num_linked: Annotated[Count, Meta(description="Device events with a launch.")]
    delay_p50_ns: Annotated[
        int | None, Meta(description="Device start less start of the launch call, median; null without a launch.")
    ]
    delay_p99_ns: int | None
    delay_max_ns: int | None
    queue_max: Annotated[Count, Meta(description="Longest queue.")]
    queue_mean: Annotated[float, Meta(description="Its mean over time.")]
    host_blocked: Annotated[
        pl.DataFrame,
        As(list[HostCallRow]),
        Meta(description="Runtime calls that wait, free or allocate rather than launch, longest total first."),
    ]
    host_stalls: Annotated[pl.DataFrame, As(list[HostStallRow])]


def queueing(source: Trace | Work) -> Queueing:
    """Launch delay and queue length of a device."""
    work = as_work(source)
    linked = work.started.select("start_ns", "launch_ts_ns").filter(pl.col("launch_ts_ns").is_not_null())
    delay = (linked.get_column("start_ns") - linked.get_column("launch_ts_ns")).sort()
    length = queue_length(work)
    held = length.select(
        pl.col("queue_length"), (pl.col("ts_ns").shift(-1) - pl.col("ts_ns")).fill_null(0).alias("held_ns")
    )
    held_ns = int(held.get_column("held_ns").sum())
    on_host = work.basis == "host"
    return Queueing(
        num_linked=0 if on_host else linked.height,
        delay_p50_ns=_quantile(delay, 0.5) if not on_host else None,
        delay_p99_ns=_quantile(delay, 0.99) if not on_host else None,
        delay_max_ns=_quantile(delay, 1.0) if not on_host else None,
        queue_max=int(length.get_column("queue_length").max() or 0),  # type: ignore[arg-type]
        queue_mean=float(held.select(pl.col("queue_length").dot(pl.col("held_ns").cast(pl.Float64))).item()) / held_ns
        if held_ns
        else 0.0,
        host_blocked=_host_blocked(work),
        host_stalls=host_stalls(work),
    )


def queue_length(source: Trace | Work, *, stream: int | None = None) -> pl.DataFrame:
    """Launches made minus device events started, at every time it changes: ts_ns (absolute), queue_length.

    stream: of that stream; of the whole device by default. Counts linked events only. An event that starts before its
    launch call was recorded (clocks of host and device differ by microseconds) counts as started at its launch.
    Of a window of time: the whole device's queue during it, with what it held at the start, and at the end again.
    """
    work = as_work(source)
    linked = work.around.events.select("stream", "start_ns", "launch_ts_ns")
    linked = linked.filter(pl.col("launch_ts_ns").is_not_null(), pl.lit(work.basis != "host"))
    if stream is not None:
        linked = linked.filter(pl.col("stream") == stream)
    launched = linked.select(pl.col("launch_ts_ns").alias("ts_ns"), pl.lit(1, dtype=pl.Int64).alias("change"))
    started = linked.select(
        pl.max_horizontal("start_ns", "launch_ts_ns").alias("ts_ns"), pl.lit(-1, dtype=pl.Int64).alias("change")
    )
    changes = pl.concat([launched, started])
    if work.window_ns is not None:
        start, end = work.window_ns
        ends = pl.DataFrame({"ts_ns": [start, end], "change": [0, 0]})
        changes = pl.concat([changes.with_columns(pl.col("ts_ns").clip(start)), ends]).filter(pl.col("ts_ns") <= end)
    at = changes.get_column("ts_ns").to_numpy()
    order = np.argsort(at, kind="stable")
    length = np.cumsum(changes.get_column("change").to_numpy()[order])
    at = at[order]
    last = np.concatenate([at[1:] != at[:-1], np.ones(min(1, len(at)), np.bool_)])  # of all changes of one time
    return pl.DataFrame({"ts_ns": at[last], "queue_length": length[last]})


def _quantile(values: pl.Series, fraction: float) -> int | None:
    return int(values.quantile(fraction, "nearest")) if len(values) else None  # type: ignore[arg-type]


def _host_blocked(work: Work) -> pl.DataFrame:
    names = work.trace.events.get_column("name").unique()
    waits = names.filter(names.cast(pl.String).str.contains(_WAITS))
    calls = work.trace.events.select("cat", "name", "ts_ns", "dur_ns")
    return (
        _in_step(calls.filter(pl.col("name").is_in(waits.implode()) & is_launch()), work)
        .group_by("name")
        .agg(pl.len().cast(pl.Int64).alias("num_events"), pl.col("dur_ns").sum().alias("total_ns"))
        .with_columns(pl.col("name").cast(pl.String))
        .sort("total_ns", "name", descending=[True, False])
    )


def host_stalls(source: Trace | Work, *, threshold_ns: int = DEFAULT_STALL_NS) -> pl.DataFrame:
    """Where the host recorded nothing in a phase for `threshold_ns` or more: name, num_events, total_ns, longest_ns.

    A stretch lies between consecutive ends and starts of operators, runtime calls and phases on one thread. Longest
    total first.
    """
    work = as_work(source)
    thread = ("pid", "tid")
    start, end = pl.col("host_start_ns"), pl.col("host_end_ns")
    host = work.trace.events.select("cat", *thread, "ts_ns", "dur_ns")
    begins = work.phases.select(*thread, start.alias("start_ns"), start.alias("end_ns"))
    finishes = work.phases.select(*thread, end.alias("start_ns"), end.alias("end_ns"))
    busy = [_busy(part, threshold_ns) for part in host.iter_slices(_AT_ONCE)]
    quiet = (
        pl.concat([part.join(begins, on=thread, how="semi") for part in busy] + [begins, finishes])
        .sort("start_ns", "end_ns")
        .with_columns(_quiet_from(thread).alias("launch_ts_ns"))
        .with_columns((pl.col("start_ns") - pl.col("launch_ts_ns")).alias("quiet_ns"))
        .filter(pl.col("quiet_ns") >= threshold_ns)
        .rename({"pid": "launch_pid", "tid": "launch_tid", "start_ns": "until_ns"})
    )
    quiet = quiet.with_columns(assign_phases(work.phases, quiet, work.trace.events))
    stalls = quiet.join(work.phases.select("phase", "name", pl.col("host_start_ns").alias("ts_ns")), on="phase")
    return (
        _in_step(stalls, work)
        .group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("num_events"),
            pl.col("quiet_ns").sum().alias("total_ns"),
            pl.col("quiet_ns").max().alias("longest_ns"),
        )
        .sort("total_ns", "name", descending=[True, False])
    )


def _busy(events: pl.DataFrame, threshold_ns: int) -> pl.DataFrame:
    """Stretches of a thread's operators and calls, joined where less than the threshold is quiet between them: few, in
    place of all events at once."""
    busy = events.filter(is_launch() | (pl.col("cat") == "cpu_op"))
    pid, tid = (pl.col(name).to_physical().cast(pl.Int64) for name in ("pid", "tid"))
    busy = busy.select("pid", "tid", "ts_ns", "dur_ns", thread=pid * (1 << 32) + tid)
    start, least_ns = busy.get_column("ts_ns").to_numpy(), max(threshold_ns - 1, 1)
    thread, joined = grouped_union(
        busy.get_column("thread").to_numpy(), start, start + busy.get_column("dur_ns").to_numpy() + least_ns
    )
    found = pl.DataFrame({"thread": thread, "start_ns": joined.starts, "end_ns": joined.ends - least_ns})
    named = found.join(busy.select("thread", "pid", "tid").unique("thread"), on="thread")
    return named.select("pid", "tid", "start_ns", "end_ns")


def _quiet_from(thread: tuple[str, str]) -> pl.Expr:
    """Of events in order of start: the latest end of those before, on the same thread."""
    return pl.col("end_ns").cum_max().shift(1).over(thread)


def _in_step(events: pl.DataFrame, work: Work) -> pl.DataFrame:
    """Host events that start in the step that a Work is of; all of them where it is of the whole trace."""
    if work.step is None:
        return events
    step = find_steps(work.trace.events).filter(pl.col("step") == work.step)
    start, end = step.select(pl.col("host_start_ns").min(), pl.col("host_end_ns").max()).row(0)
    return events.filter(pl.col("ts_ns").is_between(start, end, closed="left"))

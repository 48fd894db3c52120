"""Which calls of the host returned only when work on the device had ended, and which work was that?

Records tell it of some (`recorded`). Of the others their names tell what may block, and times whether it did, and for
what: a call that waited returns just after the awaited work has ended.
"""

from __future__ import annotations

import polars as pl

from weftrace.plan.inference.confidence import BY_TIMES
from weftrace.plan.inference.streams.recorded import TOLERANCE_NS, Recorded
from weftrace.units import US

#: Calls that wait for work.
BLOCKS = r"(?i)^(cuda|hip|cu)(Device|Stream|Event|Ctx)Synchronize"
#: Calls that wait for all work before some of their memory can be had or given back.
ALLOCATES = r"^(cuda|hip)(Malloc|Free|HostAlloc|HostMalloc|HostFree)"

#: A call that waited returns within this of the end of what it waited for.
NEAR_NS = 50 * US
#: A call shorter than this did not visibly wait, unless its name says that it does.
VISIBLE_NS = 20 * US

_OF_EVENT = r"EventSynchronize"
_COPIES = r"(?i)memcpy"
_ASYNC = r"Async"
_PAGEABLE = r"Pageable"

_COLUMNS = ("call", "on_event", "confidence")


def blocking_waits(calls: pl.DataFrame, on_device: pl.DataFrame, recorded: Recorded) -> pl.DataFrame:
    """Which device events each call waited for: call, on_event, confidence. An event that its thread has waited for
    already is left out.

    calls: of `host_calls`. on_device: of `device_ops`.
    """
    summary = recorded.calls.select("call", pl.col("on").alias("on_event"), pl.lit(1.0).alias("confidence"))
    unnamed = calls.filter(pl.col("call").is_in(pl.Series(recorded.unnamed, dtype=pl.UInt32).implode()))
    of_event = pl.col("name").str.contains(_OF_EVENT)
    found = [
        summary.with_columns(pl.col("on_event").cast(pl.UInt32)),
        _of_streams(unnamed.filter(~of_event), on_device),
        _of_events(unnamed.filter(of_event), on_device),
        _of_allocations(calls.filter(pl.col("name").str.contains(ALLOCATES)), on_device),
    ]
    waits = pl.concat(part.select(_COLUMNS) for part in found)
    waits = waits.join(calls.select("call", "thread", "pid", "start_ns"), on="call")
    of_process = on_device.select(pl.col("event").alias("on_event"), pl.col("launch_pid").alias("pid"))
    waits = waits.join(of_process, on=("on_event", "pid"), how="semi", nulls_equal=False)
    first = waits.sort("start_ns", "on_event").unique(("thread", "on_event"), keep="first", maintain_order=True)
    return first.select(_COLUMNS)


def own_copies(calls: pl.DataFrame, on_device: pl.DataFrame, latency_ns: int) -> pl.DataFrame:
    """Calls that copy and return when their own copy has ended: call, on_event, confidence, launched_ns: until when
    they had put the copy on its stream.

    By name, where the copy did end before the call; of those named async, copies from or to pageable memory, or such
    as took visibly long. Where the stream was free, the copy began a launch's latency after it was put there; where it
    was not, that took as long as an ordinary call.
    """
    copies = on_device.with_columns(free_ns=pl.col("end_ns").shift(1).over("stream")).select(
        pl.col("event").alias("on_event"), pl.col("name").cast(pl.String).alias("copy"), "free_ns",
        pl.col("start_ns").alias("copy_start_ns"), pl.col("end_ns").alias("copy_end_ns"),
        "launch_pid", "launch_tid", "launch_ts_ns",
    )  # fmt: skip
    dur = pl.col("end_ns") - pl.col("start_ns")
    usual_ns = int(calls.filter(what="launch").select(dur.median()).item() or 0)
    both = calls.filter(pl.col("name").str.contains(_COPIES)).join(
        copies, left_on=("pid", "tid", "call_ts_ns"), right_on=("launch_pid", "launch_tid", "launch_ts_ns")
    )
    by_name = ~pl.col("name").str.contains(_ASYNC) | pl.col("copy").str.contains(_PAGEABLE)
    both = both.filter(pl.col("copy_end_ns") <= pl.col("end_ns"), by_name | (dur >= VISIBLE_NS))
    was_free = pl.col("free_ns").fill_null(0) <= pl.col("start_ns")
    launched = pl.when(was_free).then(pl.col("copy_start_ns") - latency_ns).otherwise(pl.col("start_ns") + usual_ns)
    return both.unique("call", keep="last", maintain_order=True).select(
        "call", "on_event", pl.when(by_name).then(1.0).otherwise(BY_TIMES).alias("confidence"),
        launched.clip(pl.col("start_ns"), pl.min_horizontal("end_ns", "copy_end_ns")).alias("launched_ns"),
    )  # fmt: skip


def _last_launched(calls: pl.DataFrame, on_device: pl.DataFrame) -> pl.DataFrame:
    """A row a call and stream: the event that the call's process launched last there before the call began; call,
    start_ns, end_ns (of the call), on_event, event_end_ns."""
    launched = on_device.filter(pl.col("launch_ts_ns").is_not_null()).select(
        "stream", pl.col("launch_pid").alias("pid"), pl.col("launch_ts_ns").alias("at_ns"),
        pl.col("event").alias("on_event"), pl.col("end_ns").alias("event_end_ns"),
    ).sort("at_ns", "on_event")  # fmt: skip
    asked = calls.select("call", "pid", "start_ns", "end_ns").sort("start_ns")
    asked = asked.join(launched.select("stream").unique().sort("stream"), how="cross", maintain_order="left")
    found = asked.join_asof(
        launched, left_on="start_ns", right_on="at_ns", by=("stream", "pid"), check_sortedness=False
    )
    return found.filter(pl.col("on_event").is_not_null())


def _of_streams(calls: pl.DataFrame, on_device: pl.DataFrame) -> pl.DataFrame:
    """Calls that wait for a stream which no record names: of the streams whose last event had ended by the return, the
    one that ended last, where the call did wait for it or there is no other stream."""
    streams = _last_launched(calls, on_device)
    only = pl.len().over("call") == 1
    ended = streams.with_columns(only.alias("only")).filter(pl.col("event_end_ns") <= pl.col("end_ns") + TOLERANCE_NS)
    waited = ended.filter(pl.col("only") | ((pl.col("event_end_ns") > pl.col("start_ns")) & _near()))
    in_time = pl.col("event_end_ns") <= pl.col("end_ns")  # one that had not is believed only where none had
    last = waited.sort(in_time, "event_end_ns").unique("call", keep="last", maintain_order=True)
    return last.with_columns(pl.when("only").then(1.0).otherwise(BY_TIMES).alias("confidence"))


def _of_events(calls: pl.DataFrame, on_device: pl.DataFrame) -> pl.DataFrame:
    """Calls that wait for an event which no record names: what ended last before the return, if the call waited."""
    ends = on_device.select(
        pl.col("event").alias("on_event"), pl.col("end_ns").alias("event_end_ns"), "launch_ts_ns", "launch_pid"
    ).sort("event_end_ns")  # fmt: skip
    found = []
    for late_ns in (0, TOLERANCE_NS):  # one that ended after the return is believed only where none had before
        asked = calls.with_columns(until_ns=pl.col("end_ns") + late_ns).sort("until_ns")
        found.append(asked.join_asof(ends, left_on="until_ns", right_on="event_end_ns"))
    waited = (pl.col("event_end_ns") > pl.col("start_ns")) & (pl.col("launch_ts_ns") <= pl.col("start_ns")) & _near()
    first = pl.concat(found).filter(waited).unique("call", keep="first", maintain_order=True)
    return first.with_columns(pl.lit(BY_TIMES).alias("confidence"))


def _of_allocations(calls: pl.DataFrame, on_device: pl.DataFrame) -> pl.DataFrame:
    """Calls that returned as the device had run empty: all that was launched before had ended, the last of it just
    before the return, and well after the call began."""
    long = calls.filter(pl.col("end_ns") - pl.col("start_ns") >= VISIBLE_NS)
    streams = _last_launched(long, on_device).with_columns(all_end_ns=pl.col("event_end_ns").max().over("call"))
    waited = (pl.col("all_end_ns") <= pl.col("end_ns")) & (
        pl.col("all_end_ns") >= pl.col("start_ns") + VISIBLE_NS // 2
    ) & (pl.col("end_ns") - pl.col("all_end_ns") <= NEAR_NS)  # fmt: skip
    return streams.filter(waited).with_columns(pl.lit(BY_TIMES).alias("confidence"))


def _near() -> pl.Expr:
    return pl.col("end_ns") - pl.col("event_end_ns") <= NEAR_NS

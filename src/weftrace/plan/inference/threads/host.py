"""What the host's threads did, as ops of a plan: launch calls, calls that block, the time between them, and waiting.

A thread runs its calls in order. What lies between two calls is host work with its measured duration, but where the
thread waited: then only what it took after the awaited op had ended is its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from weftrace.notebook import InNotebook
from weftrace.plan.inference.streams.recorded import Recorded
from weftrace.plan.inference.threads.blocking import ALLOCATES, BLOCKS, blocking_waits, own_copies
from weftrace.plan.inference.threads.full_queue import queued_launches
from weftrace.plan.inference.threads.polling import quiet_stretches, signs_of_life, waits_for_device
from weftrace.plan.inference.threads.thread_sync import handed_over
from weftrace.plan.inference.values import FIRST_THREAD
from weftrace.plan.inference.waits import in_schema
from weftrace.trace.model import is_launch
from weftrace.trace.work import Work

#: Columns of `Hosted.waits`. One of on_event (row of `Work.events`) and on_host (row of `Hosted.ops`) is not null.
HOST_WAITS: dict[str, pl.DataType] = {
    "host": pl.UInt32(),  # the op that waits: row of `Hosted.ops`
    "on_event": pl.UInt32(),
    "on_host": pl.UInt32(),
    "since": pl.String(),  # "end" of the other, or "start"
    "lag_ns": pl.Int64(),
    "source": pl.String(),
    "votes_for": pl.Int32(),
    "votes_against": pl.Int32(),
    "confidence": pl.Float64(),
}

#: Columns of `Hosted.ops`, in order of start on each thread. Times are absolute ns.
HOST_OPS: dict[str, pl.DataType] = {
    "host": pl.UInt32(),  # the row's number
    "thread": pl.Int32(),  # its stream in the plan
    "call": pl.UInt32(),  # row of the trace's events; null for the time between calls
    "name": pl.String(),
    "what": pl.String(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "pid": pl.Categorical(),
    "tid": pl.Categorical(),
    "call_ts_ns": pl.Int64(),  # start of a call that launched something, by which device events know it
    "released_ns": pl.Int64(),  # when, as measured, all that it waits for let it go on; null where it waits for nothing
}

#: Names of ops that are no calls: what a thread does between two, and where it waited without one.
WORK, WAITING = "host work", "host waits"

_THREAD = ("pid", "tid")
_STRETCH = ("thread", "from_ns", "until_ns")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hosted(InNotebook):
    """What the host did. ops: frame of `HOST_OPS`; waits: of `HOST_WAITS`. quiet_latency_ns: from the end of a kernel
    to when a thread that polled for it went on, the median; 0 where none did. notes: what could not be told."""

    ops: pl.DataFrame
    waits: pl.DataFrame
    quiet_latency_ns: int = 0
    notes: tuple[str, ...] = ()


def host_calls(work: Work, on_device: pl.DataFrame) -> pl.DataFrame:
    """Calls of `HOST_OPS` that launched something, block or may do so; of those inside others, the outer.

    on_device: of `device_ops`. Threads of processes that launched nothing on this device are left out, and of a part of
    a run what may block before its first launch or after its last work.
    """
    first, last = on_device.select(pl.col("launch_ts_ns").min(), pl.col("end_ns").max()).row(0)
    events = work.trace.events.select("cat", "name", *_THREAD, "ts_ns", "dur_ns").with_row_index("call")
    names = events.get_column("name").unique()
    may_block = names.filter(names.cast(pl.String).str.contains(f"{BLOCKS}|{ALLOCATES}")).implode()
    launched = on_device.select("launch_pid", "launch_tid", "launch_ts_ns").drop_nulls("launch_ts_ns").unique()
    calls = events.filter(is_launch()).select("call", "name", *_THREAD, "ts_ns", "dur_ns")
    links = calls.join(
        launched, left_on=(*_THREAD, "ts_ns"), right_on=("launch_pid", "launch_tid", "launch_ts_ns"), how="semi"
    )
    inside = pl.col("ts_ns").is_between(first, last) if work.whole else pl.lit(True)
    blocks = calls.filter(pl.col("name").is_in(may_block), inside).join(
        launched, left_on="pid", right_on="launch_pid", how="semi"
    )
    both = pl.concat([links, blocks]).unique("call").with_columns(
        pl.when(pl.col("name").is_in(may_block)).then(pl.lit("blocking")).otherwise(pl.lit("launch")).alias("what")
    )  # fmt: skip
    return _outer(both)


def _outer(calls: pl.DataFrame) -> pl.DataFrame:
    """Those that are in no other, as ops, in order of start on each thread; one that begins in another begins after."""
    number = pl.concat_str(pl.col(_THREAD).cast(pl.String), separator="/").rank("dense") - 1 + FIRST_THREAD
    calls = calls.with_columns(
        number.cast(pl.Int32).alias("thread"), pl.col("name").cast(pl.String), end_ns=pl.col("ts_ns") + pl.col("dur_ns")
    ).sort("thread", "ts_ns", "end_ns", "call", descending=[False, False, True, False])
    over = pl.col("end_ns").cum_max().shift(1).over("thread")
    return (
        calls.filter(over.is_null() | (pl.col("end_ns") > over))
        .with_columns(
            pl.col("ts_ns").alias("call_ts_ns"), start_ns=pl.max_horizontal("ts_ns", over.fill_null(pl.col("ts_ns")))
        )
        .drop("ts_ns", "dur_ns")
    )


def hosted(work: Work, on_device: pl.DataFrame, calls: pl.DataFrame, recorded: Recorded, latency_ns: int) -> Hosted:
    """Ops of the host's threads and what they wait for.

    on_device: of `device_ops`. calls: of `host_calls`. latency_ns: of a launch.
    """
    if calls.is_empty():
        return Hosted(ops=pl.DataFrame(schema=HOST_OPS), waits=pl.DataFrame(schema=HOST_WAITS))
    begins_ns = min(_first(calls), _first(on_device))
    ends_ns = max(int(part.get_column("end_ns").max()) for part in (calls, on_device))  # type: ignore[arg-type]
    signs = signs_of_life(work.trace.events, calls)
    stretches = quiet_stretches(signs, calls, begins_ns, ends_ns)
    handed = handed_over(work.trace.events, signs, calls, stretches)
    polled, quiet_ns, notes = waits_for_device(
        stretches.join(handed, on=("thread", "from_ns"), how="anti", maintain_order="left"), calls, on_device
    )
    copies = own_copies(calls, on_device, latency_ns)
    queued = queued_launches(calls, on_device)
    blocking = blocking_waits(calls, on_device, recorded)
    waiting = pl.concat([handed.select(_STRETCH), polled.select(_STRETCH)])
    awaited = handed.select(pl.col("on_thread").alias("thread"), pl.col("since_ns").alias("at_ns"))
    silent = stretches.filter(~pl.col("inside")).select("thread", pl.col("until_ns").alias("at_ns"))
    cuts = pl.concat([awaited, silent]).unique()
    ops = _with_work_between(_kept(calls, copies, queued, blocking), waiting, cuts, begins_ns)
    waits = pl.concat([
        _as_waits(_at_calls(ops, pl.concat([blocking, copies.select(blocking.columns)]))),
        _as_waits(_at_calls(ops, queued).with_columns(since=pl.lit("start"))),
        _as_waits(_at_stretches(ops, _last_ops(ops, handed))),
        _as_waits(_at_stretches(ops, polled.with_columns(source=pl.lit("quiet"), lag_ns=pl.lit(quiet_ns)))),
    ])  # fmt: skip
    return Hosted(ops=_released(ops, waits, on_device), waits=waits, quiet_latency_ns=quiet_ns or 0, notes=tuple(notes))


def _first(ops: pl.DataFrame) -> int:
    return int(ops.get_column("start_ns").min())  # type: ignore[arg-type]


def _kept(calls: pl.DataFrame, copies: pl.DataFrame, queued: pl.DataFrame, blocking: pl.DataFrame) -> pl.DataFrame:
    """Calls, of which those that return after their own copy are two ops, one that launches and one that waits; those
    that waited for room in the queue launch after they have blocked. Those that may block, and did not visibly, are
    host work like any other."""
    full = pl.col("call").is_in(queued.get_column("call").implode())
    calls = calls.with_columns(pl.when(full).then(pl.lit("blocking")).otherwise("what").alias("what"))
    waits = pl.col("call").is_in(blocking.get_column("call").implode())
    allocates = pl.col("name").str.contains(ALLOCATES)
    calls = calls.filter(~allocates | waits)
    split = calls.join(copies.select("call", "launched_ns"), on="call", how="left", maintain_order="left")
    is_split = pl.col("launched_ns").is_not_null()
    first = split.with_columns(
        pl.coalesce("launched_ns", "end_ns").alias("end_ns"),
        pl.when(is_split).then(pl.lit("launch")).otherwise("what").alias("what"),
    )
    second = split.filter(is_split).with_columns(
        pl.col("launched_ns").alias("start_ns"),
        pl.lit("blocking").alias("what"),
        pl.lit(None, pl.Int64).alias("call_ts_ns"),
    )
    return pl.concat([first, second]).drop("launched_ns").sort("thread", "start_ns", "end_ns", maintain_order=True)


def _with_work_between(calls: pl.DataFrame, waiting: pl.DataFrame, cuts: pl.DataFrame, begins_ns: int) -> pl.DataFrame:
    """Calls and stretches of waiting, and between them, and before the first of a thread, its work. cuts: where work is
    two ops, of thread and at_ns: where another thread waited until then, and where its thread, outside operators, had
    recorded nothing for a while, so that this is not told to be of the operator that begins there."""
    stretches = waiting.select(
        "thread",
        pl.lit(WAITING).alias("name"),
        pl.lit("host").alias("what"),
        pl.col("from_ns").alias("start_ns"),
        pl.col("until_ns").alias("end_ns"),
    )
    points = cuts.select("thread", pl.col("at_ns").alias("start_ns"), pl.col("at_ns").alias("end_ns"))
    summary = pl.concat([stretches, calls, points], how="diagonal").sort(
        "thread", "start_ns", "end_ns", maintain_order=True
    )
    between = summary.select(
        "thread",
        pl.lit(WORK).alias("name"),
        pl.lit("host").alias("what"),
        pl.col("end_ns").cum_max().shift(1).over("thread").fill_null(begins_ns).alias("start_ns"),
        pl.col("start_ns").alias("end_ns"),
    ).filter(pl.col("end_ns") > pl.col("start_ns"))  # fmt: skip
    ops = pl.concat([between, summary.filter(pl.col("name").is_not_null())], how="diagonal")
    return ops.sort("thread", "start_ns", "end_ns", maintain_order=True).with_row_index("host")


def _at_calls(ops: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """Waits of calls, as those of their ops that block."""
    blocks = ops.filter(what="blocking").select("host", "call")
    return waits.join(blocks, on="call", maintain_order="left").with_columns(source=pl.lit("blocking"))


def _at_stretches(ops: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """Waits of stretches, as those of their ops."""
    stretches = ops.filter(name=WAITING).select("host", "thread", pl.col("start_ns").alias("from_ns"))
    return waits.join(stretches, on=("thread", "from_ns"), maintain_order="left")


def _last_ops(ops: pl.DataFrame, handed: pl.DataFrame) -> pl.DataFrame:
    """Stretches that waited for a thread, with its last op until its last sign before they ended: on_host.

    Of what ends at the very same time only what did work before: else two threads might wait for each other.
    """
    no_work = (pl.col("name") == WAITING) | (pl.col("end_ns") == pl.col("start_ns"))
    ends = ops.select(
        pl.col("thread").alias("on_thread"), pl.col("host").alias("on_host"),
        (pl.col("end_ns") + no_work.cast(pl.Int64)).alias("ended_ns"),
    ).sort("ended_ns")  # fmt: skip
    found = handed.sort("since_ns").join_asof(
        ends, left_on="since_ns", right_on="ended_ns", by="on_thread", check_sortedness=False
    )
    return found.filter(pl.col("on_host").is_not_null())


def _as_waits(summary: pl.DataFrame) -> pl.DataFrame:
    """A frame of `HOST_WAITS`: for the end, without a lag, and certain where not told."""
    return in_schema(summary, HOST_WAITS, {"since": "end", "lag_ns": 0, "confidence": 1.0})


def _released(ops: pl.DataFrame, waits: pl.DataFrame, on_device: pl.DataFrame) -> pl.DataFrame:
    """The ops with `released_ns`. Of waiting that only repeats tell, the median is all that a replay keeps: released
    when it ended, the op counts nothing of its own."""
    events = on_device.select(pl.col("event").alias("on_event"), event_start_ns="start_ns", event_end_ns="end_ns")
    hosts = ops.select(pl.col("host").alias("on_host"), pl.col("end_ns").alias("host_end_ns"))
    own = ops.select("host", pl.col("end_ns").alias("own_end_ns"))
    ends = waits.join(events, on="on_event", how="left").join(hosts, on="on_host", how="left").join(own, on="host")
    ended = pl.when(since="start").then("event_start_ns").otherwise(pl.coalesce("event_end_ns", "host_end_ns"))
    released = pl.when(source="quiet").then("own_end_ns").otherwise(ended)
    ends = ends.group_by("host").agg(released.max().alias("released_ns"))
    ops = ops.join(ends, on="host", how="left", maintain_order="left")
    return ops.select(pl.col(name).cast(dtype) for name, dtype in HOST_OPS.items())


def without_gaps(hosted: Hosted, gap_ns: int) -> pl.DataFrame:
    """The ops but for host work no longer than the gap that the plan has before each op anyway: with its own gap it
    would hold up a thread that launches small kernels faster than the device runs them."""
    waits = hosted.waits
    asked = pl.concat([waits.get_column("host"), waits.get_column("on_host").drop_nulls()])
    is_first = pl.int_range(pl.len()).over("thread") == 0  # it tells when the thread begins
    short = (pl.col("name") == WORK) & (pl.col("end_ns") - pl.col("start_ns") <= gap_ns) & ~is_first
    return hosted.ops.filter(~(short & ~pl.col("host").is_in(asked.implode())))


def ready_for_gaps(ops: pl.DataFrame, gap_ns: int) -> pl.DataFrame:
    """`duration_ns` of each op of a thread: from when it could go on, after the op before it and the gap and after all
    that it waits for, to its end. All end when they did then, or as soon after as gaps allow; no error adds up.

    ops: of `HOST_OPS`.
    """
    place = pl.int_range(pl.len()).over("thread") * gap_ns
    end = (pl.col("end_ns") - place).cum_max().over("thread") + place
    before = (end.shift(1).over("thread") + gap_ns).fill_null(pl.col("start_ns").first().over("thread"))
    return ops.with_columns(duration_ns=(end - pl.max_horizontal(before, "released_ns")).clip(lower_bound=0))


def host_waits(ops: pl.DataFrame, hosted: Hosted) -> pl.DataFrame:
    """Waits of host ops as waits of the plan: op, on, since, lag_ns, why, source, votes_for, votes_against, confidence.

    ops: all of the plan, with `op`, `event` of a device's, and `host`, the row of `hosted.ops`.
    """
    events = ops.select(pl.col("event").alias("on_event"), pl.col("op").alias("after_event")).drop_nulls()
    hosts = ops.select(pl.col("host").alias("on_host"), pl.col("op").alias("after_host")).drop_nulls()
    waits = hosted.waits.join(ops.select("op", "host").drop_nulls(), on="host", maintain_order="left")
    waits = waits.join(events, on="on_event", how="left").join(hosts, on="on_host", how="left")
    return waits.select(
        "op", pl.coalesce("after_event", "after_host").alias("on"), "since", "lag_ns",
        pl.lit("host").alias("why"), "source", "votes_for", "votes_against", "confidence",
    )  # fmt: skip

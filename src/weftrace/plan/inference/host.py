"""What the host's threads did, as ops of a plan: launch calls, calls that block, and the time between them."""

from __future__ import annotations

import polars as pl

from weftrace.plan.inference.values import FIRST_THREAD
from weftrace.trace.model import is_launch
from weftrace.trace.work import Work

BLOCKING = r"(?i)^(cuda|hip|cu)(Device|Stream|Event|Ctx)Synchronize"


def host_ops(work: Work, ops: pl.DataFrame) -> pl.DataFrame:
    """A row an op of a host thread, in order of start on each: thread (its stream in the plan), call (row of the
    trace's events; null for the time between calls), name, what, start_ns, end_ns (absolute), and of a call pid, tid
    and call_ts_ns, by which device events know it.

    ops: of `device_ops`.
    """
    calls = _calls(work, ops)
    if calls.is_empty():
        return calls
    begins = pl.concat([calls.get_column("start_ns"), ops.get_column("start_ns")]).min()
    between = calls.select(
        "thread",
        pl.lit(None, pl.UInt32).alias("call"),
        pl.lit("host work").alias("name"),
        pl.lit("host").alias("what"),
        pl.col("end_ns").shift(1).over("thread").fill_null(begins).alias("start_ns"),
        pl.col("start_ns").alias("end_ns"),
    ).filter(pl.col("end_ns") > pl.col("start_ns"))  # fmt: skip
    return pl.concat([between, calls], how="diagonal").sort("thread", "start_ns", "end_ns", maintain_order=True)


def _calls(work: Work, ops: pl.DataFrame) -> pl.DataFrame:
    """Calls that launched something or that block; of those inside others, the outer. In order of start on a thread."""
    events = work.trace.events.with_row_index("call")
    launched = ops.select("launch_pid", "launch_tid", "launch_ts_ns").drop_nulls("launch_ts_ns").unique()
    calls = events.filter(is_launch()).select("call", "name", "pid", "tid", "ts_ns", "dur_ns")
    linked = calls.join(
        launched, left_on=("pid", "tid", "ts_ns"), right_on=("launch_pid", "launch_tid", "launch_ts_ns"), how="semi"
    )
    blocks = calls.filter(pl.col("name").cast(pl.String).str.contains(BLOCKING))
    both = pl.concat([linked, blocks]).unique("call").with_columns(
        pl.when(pl.col("name").cast(pl.String).str.contains(BLOCKING)).then(pl.lit("blocking")).otherwise(pl.lit("launch"))
        .alias("what")
    )  # fmt: skip
    both = both.with_columns(
        (pl.concat_str(pl.col("pid", "tid").cast(pl.String), separator="/").rank("dense") - 1 + FIRST_THREAD)
        .cast(pl.Int32)
        .alias("thread"),
        pl.col("name").cast(pl.String),
        end_ns=pl.col("ts_ns") + pl.col("dur_ns"),
    ).sort("thread", "ts_ns", "end_ns", descending=[False, False, True])
    over = pl.col("end_ns").cum_max().shift(1).over("thread")
    return (
        both.filter(over.is_null() | (pl.col("end_ns") > over))
        .with_columns(start_ns=pl.max_horizontal("ts_ns", over.fill_null(pl.col("ts_ns"))))
        .select(
            "thread", "call", "name", "what", "start_ns", "end_ns", "pid", "tid", pl.col("ts_ns").alias("call_ts_ns")
        )
    )


def ready_for_gaps(ops: pl.DataFrame, gap_ns: int) -> pl.DataFrame:
    """`duration_ns` of each op of a thread, such that with the gap between them all end when they did, or as soon
    after as gaps allow; no error adds up. ops: of `host_ops`, times from the plan's 0."""
    place = pl.int_range(pl.len()).over("thread") * gap_ns
    end = (pl.col("end_ns") - place).cum_max().over("thread") + place
    before = end.shift(1).over("thread") + gap_ns
    first = pl.col("start_ns").first().over("thread")
    return ops.with_columns(duration_ns=(end - before.fill_null(first)).clip(lower_bound=0))

"""A device's ops in the order in which the host launched them: what voting on waits between streams looks at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.plan.inference.streams.launches import linked

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launched:
    """N ops on a device that have a launch, in the order of their launches, as arrays [N]; ns from the plan's 0.

    op: row of the plan. ready_ns: when the stream was free and the launch had come, as measured. at_ns: start of the
    launch call. thread: its host thread. name, phase: numbers that are equal where names are. blocks: of the kernel's
    grid, 0 where unknown.
    """

    op: _Ints
    stream: _Ints
    start_ns: _Ints
    end_ns: _Ints
    ready_ns: _Ints
    at_ns: _Ints
    thread: _Ints
    name: _Ints
    phase: _Ints
    blocks: _Ints

    def __len__(self) -> int:
        return len(self.op)


def in_launch_order(ops: pl.DataFrame, phases: pl.DataFrame, gap_ns: int, latency_ns: int) -> Launched:
    """ops: of a device and its host, in order of start, numbered `op`. phases: phase_name and micro_batch of each op's
    phase: what repeats is the same phase of the same micro-batch."""
    before = pl.col("end_ns").shift(1).over("stream") + gap_ns
    device = ops.select("op", "stream", "start_ns", "end_ns", "name", "event", "num_blocks").with_columns(
        phases.select(pl.struct("phase_name", "micro_batch").rank("dense").alias("same_phase")).to_series(),
        free_ns=before,
    )
    calls = linked(ops).select("op", "on", "call_start_ns", "put_ns")
    device = (
        device.filter(pl.col("event").is_not_null())
        .join(calls, on="op")
        .with_columns(pl.max_horizontal("free_ns", pl.col("put_ns") + latency_ns).alias("ready_ns"))
        .with_columns(ops.get_column("stream").gather(pl.Series(calls.get_column("on"))).alias("thread"))
        .sort("call_start_ns", "op")
    )
    numbers = device.select(
        pl.col("name").rank("dense"), pl.col("same_phase").alias("phase"),
        pl.col("num_blocks").fill_null(0).alias("blocks"), "op", "stream", "start_ns", "end_ns", "ready_ns", "thread",
        pl.col("call_start_ns").alias("at_ns"),
    )  # fmt: skip
    return Launched(**{name: numbers.get_column(name).cast(pl.Int64).to_numpy() for name in Launched.__slots__})

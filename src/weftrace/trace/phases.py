"""Phases: the host's annotations projected on the device.

A phase is one occurrence of a `record_function` or NVTX range together with the device events whose launch call lies
in it. The innermost range of the launching thread wins. Autograd launches backward kernels from a thread of its own;
such a launch, where no range of its own thread holds it, belongs to the range of any thread that is open at that moment
and started last, and to none otherwise. A forward range that has ended claims nothing of what autograd does for it.

Of `attn(F) {layer=3, micro_batch=1}` (`alphabet.phase_name`) the phase is `attn(F)`, with its layer and micro-batch.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.alphabet import NUMBERED
from weftrace.trace.containment import innermost, open_at_launch
from weftrace.trace.model import is_annotation, is_launch

_STEP = r"^ProfilerStep#(\d{1,18})$"
# Ranges that name one operation rather than a part of the step.
NOT_A_PHASE = r"^(ProfilerStep#|PyTorch Profiler|nccl:|gloo:|mpi:|ucc:|xccl:|c10d::|record_param_comms)"

PHASE_SCHEMA: dict[str, pl.DataType] = {
    "phase": pl.Int32(),  # row number, in order of host start
    "name": pl.String(),
    "index": pl.Int32(),  # occurrence of this name in its step, from 0: the layer, where a layer is one occurrence
    "step": pl.Int64(),
    "host_start_ns": pl.Int64(),
    "host_end_ns": pl.Int64(),
    "pid": pl.Categorical(),
    "tid": pl.Categorical(),
    "layer": pl.Int32(),  # what a plan says of a simulated phase, or a range's name of a run's; null where nothing does
    "micro_batch": pl.Int32(),
}


def find_phases(events: pl.DataFrame) -> pl.DataFrame:
    """Every annotation that can be a phase, numbered: a frame of `PHASE_SCHEMA`."""
    ranges = _numbers_read(events.filter(is_annotation()).with_columns(pl.col("name").cast(pl.String)))
    steps = find_steps(events)
    phases = (
        ranges.filter(~pl.col("name").str.contains(NOT_A_PHASE))
        .select(
            "name",
            pl.col("ts_ns").alias("host_start_ns"),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("host_end_ns"),
            "pid",
            "tid",
            "layer",
            "micro_batch",
        )
        .sort("host_start_ns", "host_end_ns", descending=[False, True], maintain_order=True)
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias("phase"))
    )
    phases = phases.with_columns(step_at(phases.get_column("host_start_ns"), steps))
    return phases.with_columns(pl.int_range(pl.len(), dtype=pl.Int32).over("name", "step").alias("index")).select(
        pl.col(name).cast(dtype) for name, dtype in PHASE_SCHEMA.items()
    )


def _numbers_read(ranges: pl.DataFrame) -> pl.DataFrame:
    """The ranges with layer and micro_batch from their names, where arguments do not say; each name is read once."""
    whole = ranges.get_column("name").unique()
    whole = whole.filter(whole.str.contains(NUMBERED))
    if whole.is_empty():
        return ranges
    numbers = pl.col("name").str.extract(NUMBERED, 2)
    table = whole.to_frame().with_columns(
        pl.col("name").str.extract(NUMBERED, 1).alias("phase_name"),
        *(
            numbers.str.extract(rf"(?:^|, ){key}=(\d+)").cast(pl.Int32).alias(f"{key}_named")
            for key in ("layer", "micro_batch")
        ),
    )
    return ranges.join(table, on="name", how="left", maintain_order="left").with_columns(
        pl.coalesce("phase_name", "name").alias("name"),
        pl.coalesce("layer", "layer_named").alias("layer"),
        pl.coalesce("micro_batch", "micro_batch_named").alias("micro_batch"),
    )


def find_steps(events: pl.DataFrame) -> pl.DataFrame:
    """ProfilerStep windows on the host: step, host_start_ns, host_end_ns, in order of time."""
    return (
        events.select("cat", "name", "ts_ns", "dur_ns")
        .filter(is_annotation())
        .select(
            pl.col("name").cast(pl.String).str.extract(_STEP, 1).cast(pl.Int64).alias("step"),
            pl.col("ts_ns").alias("host_start_ns"),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("host_end_ns"),
        )
        .filter(pl.col("step").is_not_null())
        .sort("host_start_ns", "step")
        .unique("step", keep="first", maintain_order=True)
    )


def step_at(times_ns: pl.Series, steps: pl.DataFrame) -> pl.Series:
    """The step whose host window each time lies in; null outside all of them. Named `step`."""
    if steps.is_empty():
        return pl.Series("step", [None], dtype=pl.Int64).new_from_index(0, len(times_ns))
    starts, ends = (steps.get_column(column).to_numpy() for column in ("host_start_ns", "host_end_ns"))
    times = times_ns.fill_null(starts[0] - 1).to_numpy()
    at = np.searchsorted(starts, times, "right") - 1
    inside = (at >= 0) & (times < ends[np.maximum(at, 0)])
    numbers = steps.get_column("step").gather(np.maximum(at, 0))
    return numbers.set(pl.Series(~inside), None).alias("step")


def assign_phases(phases: pl.DataFrame, linked: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """The phase of each device event, null where none claims it. Named `phase`.

    phases: of `find_phases`. linked: device events with launch_ts_ns, launch_pid, launch_tid. events: the whole trace,
    which tells which threads autograd runs on.
    """
    if phases.is_empty() or linked.is_empty():
        return pl.Series("phase", [None] * linked.height, dtype=pl.Int32)
    start, end = pl.col("host_start_ns"), pl.col("host_end_ns")
    ranges = phases.select("pid", "tid", start.alias("ts_ns"), (end - start).alias("dur_ns"))
    out = open_at_launch(ranges, linked).fill_null(-1).to_numpy().copy()
    starts, ends = (phases.get_column(column).to_numpy() for column in ("host_start_ns", "host_end_ns"))
    launch_thread = _threads(linked, "launch_pid", "launch_tid")
    has_launch = linked.get_column("launch_ts_ns").is_not_null().to_numpy()
    launch_ts = linked.get_column("launch_ts_ns").fill_null(0).to_numpy()
    waiting = np.flatnonzero(has_launch & (out < 0) & np.isin(launch_thread, _autograd_threads(events)))
    out[waiting] = innermost(starts, ends, launch_ts[waiting])
    return _as_series(out)


def _threads(frame: pl.DataFrame, pid: str, tid: str) -> NDArray[np.str_]:
    return (
        frame.select(
            pl.concat_str(pl.col(pid).cast(pl.String), pl.lit("/"), pl.col(tid).cast(pl.String)).fill_null("")
        )[:, 0]
        .to_numpy()
        .astype(str)
    )


def _autograd_threads(events: pl.DataFrame) -> NDArray[np.str_]:
    """Threads that only autograd runs on: its engine's operators do, or those that name the thread of their forward.

    The user's own thread runs some of autograd too (gradients of what lies on the CPU). It is told by its ProfilerStep.
    Where no operators are recorded, any thread that launches and has no annotations may be autograd's.
    """
    events = events.select("cat", "name", "pid", "tid", "forward_thread")
    ops = events.filter(pl.col("cat") == "cpu_op")
    users = events.filter(is_annotation())
    if ops.is_empty():
        ops = events.filter(is_launch())
    else:
        names = ops.get_column("name").unique().cast(pl.String)
        engine = names.filter(names.str.starts_with("autograd::engine::")).cast(pl.Categorical())
        ops = ops.filter(pl.col("name").is_in(engine.implode()) | (pl.col("forward_thread") > 0))
        users = users.filter(pl.col("name").cast(pl.String).str.contains(_STEP))
    threads = [_threads(part.select("pid", "tid").unique(), "pid", "tid") for part in (ops, users)]
    return np.setdiff1d(threads[0], threads[1])


def _as_series(phase: NDArray[np.int64]) -> pl.Series:
    return pl.Series("phase", phase, dtype=pl.Int32).set(pl.Series(phase < 0), None)

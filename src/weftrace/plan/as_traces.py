"""A plan's timetable as a `Trace` such as a profiler would have written, rank by rank.

What a trace made here holds, so that every analysis of measured traces works on it unchanged:

- on device 0, for each op, `num_kernels` back-to-back events on the op's stream. Compute and communication ops are
  kernels called `weftrace::sim::compute::NAME` and `weftrace::sim::communication::NAME`, with as many blocks as the op
  has SMs; memory ops are memcpys called `weftrace::sim::memory::NAME`. Each tells the kind of its op (`op_kind`), which
  is its class whatever it is called. A member of a meet waits for the others inside its first kernel, as NCCL's spin,
  which tells the number of the meet (`comm_seq`), so that the ranks' traces are matched by it;
- on host threads the launch calls, joined to the kernels by correlation id, inside a `user_annotation` with the phase's
  name, which tells layer and micro-batch, inside `ProfilerStep#N`.

The host is the plan's, where the rank has host ops: a call that a kernel waits for with why = "launch" is its launch;
one that waits with why = "host" blocks from the moment at which its thread reaches it. Where the rank has none it is
invented, one thread that issues ops in the plan's order, a phase at a time, each `LEAD_NS` or more before the streams
that the phase uses are free to run it, so that the device never waits for the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.plan.graph import hold_ns
from weftrace.plan.model import Plan, need_plan
from weftrace.plan.times import Timetable, need_timetable, reached_ns, timetable
from weftrace.trace.model import Device, Trace, Track, events_frame

#: The invented host is at least this far ahead of every stream.
LEAD_NS = 1_000_000
#: What a trace says of it.
INVENTED_HOST = {"host": "invented, always ahead"}
#: Its time from one launch call to the next; where in it the call lies, and the ends of the range around it.
SLOT_NS = 1_000
_RANGE_START_NS, _CALL_START_NS, _CALL_END_NS, _RANGE_END_NS = 100, 300, 700, 900
#: Threads a block of a simulated kernel. No analysis depends on it.
NUM_THREADS = 512
#: A trace with more device events than this would not fit in the memory of an ordinary machine.
MAX_KERNELS = 50_000_000
_DEVICE_PID, _HOST_PID, _HOST_TID = "0", "1000", 1000
_MEETS = "meets of the plan"  # the process group whose collectives are numbered as the plan's meets
_RUNTIME = "^(cuda|hip|cu[A-Z])"  # names of calls of a device's runtime or driver

_Ints = NDArray[np.int64]
_PHASE = ("phase", "layer", "micro_batch")


def simulate(plan: Plan) -> Trace:
    """The trace of a plan for one rank.

    Raises `PlanError` where the plan has no op, has several ranks (use `simulate_ranks`), or cannot run.
    """
    need_plan(plan)
    ranks = plan.ranks
    if len(ranks) > 1:
        raise PlanError(
            f"plan {plan.name!r} has {len(ranks)} ranks, and a trace shows one. "
            "Use simulate_ranks(plan), which returns a trace for each rank."
        )
    return simulate_ranks(plan)[ranks[0] if ranks else 0]


def simulate_ranks(plan: Plan) -> dict[int, Trace]:
    """The trace of each rank of a plan, by rank, all on one clock; all of them in memory.

    For plans of many ranks, `trace_of(timetable(plan), rank)` makes one at a time. Raises `PlanError` where the plan
    has no op or cannot run, or where the traces would not fit in memory.
    """
    need_plan(plan)
    if not len(plan):
        raise PlanError(f"plan {plan.name!r} has no ops, so there is nothing to simulate.")
    times = timetable(plan)
    _refuse_too_many(plan, plan.ops)
    return {rank: trace_of(times, rank) for rank in plan.ranks}


def trace_of(times: Timetable, rank: int) -> Trace:
    """The trace of one rank, on the clock that all ranks of the plan share.

    `info["origin_ns"]` is the time stamp at which the plan starts; stamps before it belong to an invented host, which
    runs ahead (`INVENTED_HOST` is in `info` then). Raises `PlanError` where the plan has no op on that rank.
    """
    need_timetable(times)
    plan = times.plan
    rows = plan.rows_on(rank)
    ops = plan.ops[rows]
    start_ns, end_ns = times.start_ns[rows], times.end_ns[rows]
    ops = ops.with_columns(
        start_ns=pl.Series(start_ns),
        end_ns=pl.Series(end_ns),
        wait_ns=pl.Series(end_ns - start_ns - hold_ns(ops, plan.gap_ns)),
    )
    _refuse_too_many(plan, ops)
    on_host = (ops.get_column("kind") == "host").to_numpy()
    device, device_rows = ops.filter(~on_host), rows[~on_host]
    kernels = _kernels(device, plan.gap_ns)
    if planned := bool(on_host.any()):
        host = _planned_host(times, ops.filter(on_host), rows[on_host], device_rows)
        correlation = host.launched[kernels.op]
    else:
        host = _invented_host(device, kernels)
        correlation = np.arange(1, len(kernels.op) + 1, dtype=np.int64)
    if not times.shared:
        times.shared.update(origin_ns=_origin_ns(plan), world_size=plan.world_size or plan.ranks[-1] + 1)
    origin_ns, world_size = times.shared["origin_ns"], times.shared["world_size"]
    return Trace(
        events=_events(device, kernels, correlation, host, origin_ns),
        rank=rank,
        world_size=world_size,
        devices=(Device(id=0, name=f"{plan.device_name} (simulated)", num_sms=plan.num_sms),),
        tracks=tuple(_tracks(device, host, planned=planned)),
        simulated=True,
        info={"plan": plan.name, "source": plan.source, "origin_ns": str(origin_ns)}
        | ({} if planned else INVENTED_HOST),
    )


def _origin_ns(plan: Plan) -> int:
    """The time stamp at which the plan starts: a round number that keeps every stamp of every rank at 0 or later."""
    ops = plan.ops.group_by("rank").agg(
        kernels=pl.col("num_kernels").cast(pl.Int64).sum(), has_host=(pl.col("kind") == "host").any()
    )
    most = ops.filter(~pl.col("has_host")).select(pl.col("kernels").max()).item()
    ahead_ns = 0 if most is None else LEAD_NS + SLOT_NS * most
    return -(-ahead_ns // LEAD_NS) * LEAD_NS


def _refuse_too_many(plan: Plan, ops: pl.DataFrame) -> None:
    num_kernels = int(ops.get_column("num_kernels").cast(pl.Int64).sum())
    if num_kernels > MAX_KERNELS:
        raise PlanError(
            f"plan {plan.name!r} has {num_kernels:,} kernels, over the {MAX_KERNELS:,} that a trace may hold. "
            "timetable(plan) gives every op's start and end without making a trace."
        )


# --- the device -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernels:
    """Device events of one rank, K of them, in issue order. op: position of each event's op among the rank's.

    free_ns: when the stream is free to run it. All times are relative to the plan's start.
    """

    op: _Ints
    start_ns: _Ints
    end_ns: _Ints
    free_ns: _Ints


def _kernels(ops: pl.DataFrame, gap_ns: int) -> _Kernels:
    columns = ("num_kernels", "duration_ns", "start_ns", "wait_ns")
    num_kernels, duration_ns, op_start_ns, wait_ns = (
        ops.get_column(name).to_numpy().astype(np.int64, copy=False) for name in columns
    )
    op = np.repeat(np.arange(len(ops)), num_kernels)
    number = np.arange(len(op)) - np.repeat(np.cumsum(num_kernels) - num_kernels, num_kernels)  # within its op
    share, rest, of = (x[op] for x in (duration_ns // num_kernels, duration_ns % num_kernels, num_kernels))
    base_ns = (op_start_ns + wait_ns)[op] + number * gap_ns
    start_ns = base_ns + number * share + number * rest // of
    end_ns = base_ns + (number + 1) * share + (number + 1) * rest // of
    start_ns = np.where(number == 0, op_start_ns[op], start_ns)  # the first waits for the others of its meet
    free_ns = np.where(number == 0, _end_of_previous(ops)[op], start_ns - gap_ns)
    return _Kernels(op=op, start_ns=start_ns, end_ns=end_ns, free_ns=free_ns)


def _end_of_previous(ops: pl.DataFrame) -> _Ints:
    """For each op, when the op before it on its stream ends; 0 for the first of a stream."""
    return ops.select(pl.col("end_ns").shift(1).over("stream").fill_null(0)).to_series().to_numpy()


# --- the host ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Host:
    """What host threads do: frames in order of start, each with start_ns, end_ns, name and tid.

    calls: also cat and correlation, null for none. ranges: of phases, also layer and micro_batch. steps: also step.
    launched: for each device op of the rank, the correlation of the call that launches it, 0 for none; empty where the
    host is invented.
    """

    calls: pl.DataFrame
    ranges: pl.DataFrame
    steps: pl.DataFrame
    launched: _Ints


def _invented_host(ops: pl.DataFrame, kernels: _Kernels) -> _Host:
    """One thread, one call for each kernel, far enough ahead."""
    burst = _bursts(ops)[kernels.op]
    slot_ns = _launch_slots(kernels.free_ns, burst)
    slots = ops.select(*_PHASE, "step", "kind")[kernels.op].with_columns(
        first_ns=pl.Series(slot_ns),
        last_ns=pl.Series(slot_ns),
        tid=pl.lit(_HOST_TID, pl.Int64),
        name=pl.when(kind="memory").then(pl.lit("cudaMemcpyAsync")).otherwise(pl.lit("cudaLaunchKernel")),
    )
    calls = slots.select(
        "name",
        "tid",
        cat=pl.lit("cuda_runtime"),
        start_ns=pl.col("first_ns") + _CALL_START_NS,
        end_ns=pl.col("first_ns") + _CALL_END_NS,
        correlation=pl.int_range(1, pl.len() + 1),
    )
    ranges = _merged(slots.with_columns(run=pl.Series(burst)), _PHASE).with_columns(
        pl.col("start_ns") + _RANGE_START_NS, pl.col("end_ns") + _RANGE_END_NS
    )
    steps = _steps(slots).with_columns(pl.col("end_ns") + SLOT_NS)
    return _Host(calls=calls, ranges=ranges, steps=steps, launched=np.empty(0, np.int64))


def _planned_host(times: Timetable, ops: pl.DataFrame, rows: _Ints, device_rows: _Ints) -> _Host:
    """The plan's own host ops. rows, device_rows: rows of the plan that are the rank's host ops, and its device ops."""
    plan = times.plan
    launching, launched = _launches(plan, rows, device_rows)
    launches = np.zeros(len(rows), bool)
    launches[launching] = True
    blocks = np.isin(rows, plan.waits.filter(why="host").get_column("op").to_numpy())
    call_of = np.zeros(len(device_rows), np.int64)
    call_of[launched] = launching + 1
    calls = _told_by_launched(plan, ops, launching, device_rows[launched]).with_columns(
        first_ns=pl.Series(reached_ns(times, rows)),
        last_ns="end_ns",
        tid=pl.col("stream").cast(pl.Int64),
        number=pl.Series(np.where(launches, np.arange(1, len(rows) + 1), 0)),
        is_runtime=pl.Series(launches | blocks) | pl.col("name").cast(pl.String).str.contains(_RUNTIME),
    )
    by_thread = calls.sort("tid", maintain_order=True)
    main = calls.filter(tid=calls.get_column("tid").item(0))  # the thread that begins: where a profiler's steps stand
    return _Host(
        calls=calls.select(
            "tid",
            pl.col("name").cast(pl.String),
            cat=pl.when("is_runtime").then(pl.lit("cuda_runtime")).otherwise(pl.lit("cpu_op")),
            start_ns="first_ns",
            end_ns="last_ns",
            correlation=pl.when(pl.col("number") > 0).then("number"),
        ),
        ranges=_merged(by_thread.with_columns(run=pl.struct("tid", *_PHASE).rle_id()), _PHASE),
        steps=_steps(main),
        launched=call_of,
    )


def _launches(plan: Plan, rows: _Ints, device_rows: _Ints) -> tuple[_Ints, _Ints]:
    """Waits of device ops for the host ops that launch them: positions of the host op and of the device op."""
    waits = plan.waits.filter(why="launch")
    by, of = (
        _positions(known, waits.get_column(column).to_numpy().astype(np.int64))
        for known, column in ((rows, "on"), (device_rows, "op"))
    )
    both = (by >= 0) & (of >= 0)
    return by[both], of[both]


def _told_by_launched(plan: Plan, ops: pl.DataFrame, launching: _Ints, launched_rows: _Ints) -> pl.DataFrame:
    """Host ops without a phase are in that of the first op that they launch; likewise the step."""
    summary = (
        plan.ops.select(*_PHASE, "step")[launched_rows]
        .select(pl.all().name.prefix("launched_"), at=pl.Series(launching))
        .unique("at", keep="first", maintain_order=True)
    )
    joined = ops.with_columns(at=pl.int_range(pl.len(), dtype=pl.Int64)).join(
        summary, on="at", how="left", maintain_order="left"
    )
    is_silent = pl.col("phase").is_null()
    return joined.with_columns(
        *(pl.when(is_silent).then(f"launched_{name}").otherwise(name).alias(name) for name in _PHASE),
        step=pl.coalesce("step", "launched_step"),
    ).select(ops.columns)


def _positions(rows: _Ints, wanted: _Ints) -> _Ints:
    """Where each wanted row stands among ascending rows; -1 where it does not."""
    if not len(rows):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[at] == wanted, at, -1)


def _steps(calls: pl.DataFrame) -> pl.DataFrame:
    """Steps of consecutive calls; all of them are step 1 where the plan has none."""
    if calls.get_column("step").null_count() == len(calls):
        calls = calls.with_columns(step=pl.lit(1))
    return _merged(calls.with_columns(run=pl.col("step").rle_id()), ("step",)).with_columns(
        name=pl.format("ProfilerStep#{}", "step")
    )


def _merged(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """One row a run of rows: keys and thread, start_ns of its first row, end_ns of its last; `name` is the first key.

    Runs whose first key is null are left out.
    """
    return (
        frame.filter(pl.col(keys[0]).is_not_null())
        .group_by("run", maintain_order=True)
        .agg(pl.col(*keys, "tid").first(), start_ns=pl.col("first_ns").first(), end_ns=pl.col("last_ns").last())
        .with_columns(name=pl.col(keys[0]).cast(pl.String))
    )


def _bursts(ops: pl.DataFrame) -> _Ints:
    """For each op, the number of the burst that it is launched in: consecutive ops of one phase, layer and micro-batch.

    An op without a phase is a burst of its own.
    """
    alone = pl.when(pl.col("phase").is_null()).then(pl.int_range(pl.len()))
    return ops.select(pl.struct(*_PHASE, alone=alone).rle_id()).to_series().to_numpy().astype(np.int64)


def _launch_slots(free_ns: _Ints, burst: _Ints) -> _Ints:
    """When each launch slot starts, in issue order and apart: a burst `LEAD_NS` before any of its streams is free."""
    first_of_burst = np.flatnonzero(np.diff(burst, prepend=-1))
    free_ns = np.minimum.reduceat(free_ns, first_of_burst)[burst]
    ahead_ns = np.arange(len(free_ns), dtype=np.int64) * SLOT_NS
    latest_ns = free_ns - LEAD_NS - SLOT_NS - ahead_ns
    slots: _Ints = np.minimum.accumulate(latest_ns[::-1])[::-1] + ahead_ns
    return slots


# --- the events -------------------------------------------------------------------------------------------------------


def _events(ops: pl.DataFrame, kernels: _Kernels, correlation: _Ints, host: _Host, origin_ns: int) -> pl.DataFrame:
    """Steps, then ranges, calls and device events, by time stamp; of two that start together, the longer first."""
    last_ns = max(int(kernels.end_ns.max(initial=0)), host.calls.select(pl.col("end_ns").max()).item())
    is_last = pl.int_range(pl.len()) == pl.len() - 1
    steps = host.steps.with_columns(
        end_ns=pl.when(is_last).then(pl.max_horizontal("end_ns", last_ns)).otherwise("end_ns")
    )
    on_host = [
        frame.select(
            pl.col("name").cast(pl.Categorical()),
            pl.lit(_HOST_PID, pl.Categorical()).alias("pid"),
            pl.col("tid").cast(pl.String).cast(pl.Categorical()),
            pl.col("start_ns", "end_ns"),
            *(pl.col(name) for name in ("correlation", "layer", "micro_batch") if name in frame.columns),
            cat=(pl.col("cat") if "cat" in frame.columns else pl.lit("user_annotation")).cast(pl.Categorical()),
        )
        for frame in (steps, host.ranges, host.calls)
    ]
    rows = pl.concat([*on_host, _device_events(ops, kernels, correlation)], how="diagonal_relaxed").select(
        pl.exclude("start_ns", "end_ns"),
        ts_ns=pl.col("start_ns") + origin_ns,
        dur_ns=pl.col("end_ns") - pl.col("start_ns"),
    )
    order = np.lexsort((-rows.get_column("dur_ns").to_numpy(), rows.get_column("ts_ns").to_numpy()))
    rows = rows[order]
    return events_frame({name: rows.get_column(name) for name in rows.columns}, len(rows))


def _device_events(ops: pl.DataFrame, kernels: _Kernels, correlation: _Ints) -> pl.DataFrame:
    is_memory = pl.col("kind") == "memory"
    of_op = ops.select(
        pl.format("weftrace::sim::{}::{}", pl.col("kind").cast(pl.String), pl.col("name").cast(pl.String))
        .cast(pl.Categorical())
        .alias("name"),
        pl.when(is_memory).then(pl.lit("gpu_memcpy")).otherwise(pl.lit("kernel")).cast(pl.Categorical()).alias("cat"),
        pl.lit(_DEVICE_PID, pl.Categorical()).alias("pid"),
        pl.col("stream").cast(pl.String).cast(pl.Categorical()).alias("tid"),
        pl.lit(0, pl.Int32).alias("device"),
        pl.col("stream").cast(pl.Int64),
        pl.when(~is_memory).then("num_sms").cast(pl.Int64).alias("num_blocks"),
        pl.when(~is_memory & pl.col("num_sms").is_not_null()).then(NUM_THREADS).cast(pl.Int32).alias("num_threads"),
        pl.col("kind").cast(pl.String).cast(pl.Categorical()).alias("op_kind"),
        pl.when(kind="communication").then("meet").cast(pl.Int64).alias("comm_seq"),
    )
    number = pl.Series("correlation", correlation, dtype=pl.Int64)
    meet = pl.Series(np.diff(kernels.op, prepend=-1) != 0) & pl.col("comm_seq").is_not_null()  # the first kernel waits
    return of_op[kernels.op].with_columns(
        pl.when(meet).then(pl.lit(_MEETS, pl.Categorical())).alias("group"),
        pl.when(meet).then("comm_seq").alias("comm_seq"),
        pl.select(pl.when(number > 0).then(number)).to_series().alias("correlation"),
        start_ns=pl.Series(kernels.start_ns),
        end_ns=pl.Series(kernels.end_ns),
    )


def _tracks(ops: pl.DataFrame, host: _Host, *, planned: bool) -> Iterator[Track]:
    threads = host.calls.get_column("tid").unique(maintain_order=True).to_list()
    yield Track(pid=_HOST_PID, name="host (simulated)", labels="CPU", sort_index=0)
    for at, tid in enumerate(threads):
        yield Track(pid=_HOST_PID, tid=str(tid), name=f"thread {tid}" if planned else "launching thread", sort_index=at)
    yield Track(pid=_DEVICE_PID, name="device (simulated)", labels="GPU 0", sort_index=1)
    for stream in ops.get_column("stream").unique().sort().to_list():
        yield Track(pid=_DEVICE_PID, tid=str(stream), name=f"stream {stream}", sort_index=stream)

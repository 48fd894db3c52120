"""Run a plan, and show the run as a `Trace` such as a profiler would have written.

What a trace made here holds, for each rank, so that every analysis of measured traces works on it unchanged:

- on device 0, for each op, `num_kernels` back-to-back events on the op's stream. Compute and communication ops are
  kernels called `weftrace::sim::compute::NAME` and `weftrace::sim::communication::NAME`, with as many blocks as the op
  has SMs; memory ops are memcpys called `weftrace::sim::memory::NAME`. Each tells the kind of its op (`op_kind`), which
  is its class whatever it is called;
- on one host thread, for each of these, the launch call with the same correlation id, inside a `user_annotation` with
  the phase's name, which tells the op's layer and micro-batch, inside `ProfilerStep#1`.

The host is not simulated. It issues ops in the plan's order, a phase at a time, each `LEAD_NS` or more before the
streams that the phase uses are free to run it, so the device never waits for the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.plan.model import Op, Plan
from weftrace.plan.times import Timetable, timetable
from weftrace.trace.model import Device, Trace, Track, events_frame

#: The host is at least this far ahead of every stream.
LEAD_NS = 1_000_000
#: Host time from one launch call to the next; where in it the call lies, and the ends of the range around it.
SLOT_NS = 1_000
_RANGE_START_NS, _CALL_START_NS, _CALL_END_NS, _RANGE_END_NS = 100, 300, 700, 900
#: Threads a block of a simulated kernel. No analysis depends on it.
NUM_THREADS = 512
#: A trace with more device events than this would not fit in the memory of an ordinary machine.
MAX_KERNELS = 50_000_000
_DEVICE_PID, _HOST_PID, _HOST_TID = "0", "1000", "1000"

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernels:
    """Device events of one rank, K of them, in issue order.

    ops: the rank's ops. op_K: position of each event's op there.
    slot_ns_K: when the host's launch slot of each event starts. All times are relative to the plan's start.
    """

    ops: Sequence[Op]
    op_K: _Ints
    start_ns_K: _Ints
    end_ns_K: _Ints
    slot_ns_K: _Ints


def simulate(plan: Plan) -> Trace:
    """The trace of a plan for one rank.

    Raises `PlanError` where the plan has no op, has several ranks (use `simulate_ranks`), or cannot run.
    """
    ranks = plan.ranks
    if len(ranks) > 1:
        raise PlanError(
            f"plan {plan.name!r} has {len(ranks)} ranks, and a trace shows one. "
            "Use simulate_ranks(plan), which returns a trace for each rank."
        )
    return simulate_ranks(plan)[ranks[0] if ranks else 0]


def simulate_ranks(plan: Plan) -> dict[int, Trace]:
    """The trace of each rank of a plan, by rank, all on one clock.

    `info["origin_ns"]` of each trace is the time stamp at which the plan starts; stamps before it belong to the host,
    which runs ahead. Raises `PlanError` where the plan has no op or cannot run.
    """
    if not plan.ops:
        raise PlanError(f"plan {plan.name!r} has no ops, so there is nothing to simulate.")
    times = timetable(plan)
    num_kernels = sum(op.num_kernels for op in plan.ops)
    if num_kernels > MAX_KERNELS:
        raise PlanError(
            f"plan {plan.name!r} has {num_kernels:,} kernels, over the {MAX_KERNELS:,} that a trace may hold. "
            "timetable(plan) gives every op's start and end without making a trace."
        )
    kernels = {rank: _kernels(times, rows) for rank, rows in _rows_by_rank(plan).items()}
    earliest_ns = min(int(k.slot_ns_K[0]) for k in kernels.values())
    origin_ns = -(earliest_ns // LEAD_NS) * LEAD_NS  # a round number that keeps every time stamp at 0 or later
    world_size = plan.world_size if plan.world_size is not None else max(kernels) + 1
    return {
        rank: Trace(
            events=_events(k, origin_ns),
            rank=rank,
            world_size=world_size,
            devices=(Device(id=0, name=f"{plan.device_name} (simulated)", num_sms=plan.num_sms),),
            tracks=_tracks(k.ops),
            simulated=True,
            info={"plan": plan.name, "source": plan.source, "origin_ns": str(origin_ns)},
        )
        for rank, k in kernels.items()
    }


def _rows_by_rank(plan: Plan) -> dict[int, _Ints]:
    """Indices of each rank's ops, in plan order; ranks ascending."""
    rank_of_op = np.array([op.resource.rank for op in plan.ops], dtype=np.int64)
    by_rank = np.argsort(rank_of_op, kind="stable")
    ranks, first = np.unique(rank_of_op[by_rank], return_index=True)
    return {int(rank): rows for rank, rows in zip(ranks, np.split(by_rank, first[1:]), strict=True)}


def _kernels(times: Timetable, rows: _Ints) -> _Kernels:
    gap_ns = times.plan.gap_ns
    ops = [times.plan.ops[i] for i in rows.tolist()]
    op_start_ns, op_end_ns = times.start_ns[rows], times.end_ns[rows]
    num_kernels = np.array([op.num_kernels for op in ops], dtype=np.int64)
    duration_ns = np.array([op.duration_ns for op in ops], dtype=np.int64)
    op_K = np.repeat(np.arange(len(ops)), num_kernels)
    number_K = np.arange(len(op_K)) - np.repeat(np.cumsum(num_kernels) - num_kernels, num_kernels)  # within its op
    share_K, rest_K, of_K = (x[op_K] for x in (duration_ns // num_kernels, duration_ns % num_kernels, num_kernels))
    base_ns_K = op_start_ns[op_K] + number_K * gap_ns
    start_ns_K = base_ns_K + number_K * share_K + number_K * rest_K // of_K
    end_ns_K = base_ns_K + (number_K + 1) * share_K + (number_K + 1) * rest_K // of_K
    free_ns_K = np.where(number_K == 0, _stream_free(ops, op_end_ns)[op_K], start_ns_K - gap_ns)
    return _Kernels(
        ops=ops,
        op_K=op_K,
        start_ns_K=start_ns_K,
        end_ns_K=end_ns_K,
        slot_ns_K=_launch_slots(free_ns_K, _bursts(ops)[op_K]),
    )


def _stream_free(ops: Sequence[Op], op_end_ns: _Ints) -> _Ints:
    """For each op, when the op before it on its stream ends; 0 for the first of a stream."""
    free_ns: list[int] = []
    last: dict[int, int] = {}
    for op, end_ns in zip(ops, op_end_ns.tolist(), strict=True):
        free_ns.append(last.get(op.resource.stream, 0))
        last[op.resource.stream] = end_ns
    return np.array(free_ns, dtype=np.int64)


def _launch_slots(free_ns: _Ints, burst: _Ints) -> _Ints:
    """When each launch slot starts, in issue order and apart: a burst `LEAD_NS` before any of its streams is free."""
    first_of_burst = np.flatnonzero(np.diff(burst, prepend=-1))
    free_ns = np.minimum.reduceat(free_ns, first_of_burst)[burst]
    ahead_ns = np.arange(len(free_ns), dtype=np.int64) * SLOT_NS
    latest_ns = free_ns - LEAD_NS - SLOT_NS - ahead_ns
    slots: _Ints = np.minimum.accumulate(latest_ns[::-1])[::-1] + ahead_ns
    return slots


def _events(k: _Kernels, origin_ns: int) -> pl.DataFrame:
    """One step, then ranges, launch calls and device events, by time stamp; of two that start together, the longer."""
    range_ops, range_first, range_last = _ranges(k)
    num_ranges, num_kernels = len(range_ops), len(k.op_K)
    slot_ns = k.slot_ns_K
    start_ns = np.concatenate(
        [slot_ns[:1], slot_ns[range_first] + _RANGE_START_NS, slot_ns + _CALL_START_NS, k.start_ns_K]
    )
    end_ns = np.concatenate(
        [
            [max(int(slot_ns[-1]) + SLOT_NS, int(k.end_ns_K.max()))],
            slot_ns[range_last] + _RANGE_END_NS,
            slot_ns + _CALL_END_NS,
            k.end_ns_K,
        ]
    )
    order = np.lexsort((start_ns - end_ns, start_ns))
    num_host = 1 + num_ranges + num_kernels
    is_memory = np.array([op.kind == "memory" for op in k.ops])[k.op_K]
    on_device = np.arange(num_host + num_kernels) >= num_host
    is_kernel = np.concatenate([np.zeros(num_host, bool), ~is_memory])

    categories = ["user_annotation", "cuda_runtime", "kernel", "gpu_memcpy"]
    category = np.concatenate([np.zeros(1 + num_ranges, np.int64), np.full(num_kernels, 1), np.where(is_memory, 3, 2)])
    names = ["ProfilerStep#1", "cudaLaunchKernel", "cudaMemcpyAsync", *(str(op.phase) for op in range_ops)]
    device_name: dict[tuple[str, str], int] = {}
    for op in k.ops:
        device_name.setdefault((op.kind, op.name), len(device_name))
    code_of_op = np.array([device_name[op.kind, op.name] for op in k.ops]) + len(names)
    name = np.concatenate([[0], np.arange(3, 3 + num_ranges), np.where(is_memory, 2, 1), code_of_op[k.op_K]])
    names += [f"weftrace::sim::{kind}::{op_name}" for kind, op_name in device_name]
    streams = sorted({op.resource.stream for op in k.ops})
    stream = np.array([op.resource.stream for op in k.ops], dtype=np.int64)[k.op_K]
    num_sms = np.array([-1 if op.num_sms is None else op.num_sms for op in k.ops], dtype=np.int64)[k.op_K]
    tids = [_HOST_TID, *map(str, streams)]
    tid = np.concatenate([np.zeros(num_host, np.int64), np.searchsorted(streams, stream) + 1])
    blocks = _padded(num_host, num_sms)
    has_blocks = is_kernel & (blocks >= 0)
    correlation = np.concatenate(
        [np.zeros(1 + num_ranges, np.int64), np.arange(1, num_kernels + 1), np.arange(1, num_kernels + 1)]
    )
    kind_of_op = [None, *(op.kind for op in k.ops)]
    op_of_event = np.concatenate([np.zeros(num_host, np.int64), k.op_K + 1])
    range_of_event = np.concatenate([[0], np.arange(1, num_ranges + 1), np.zeros(2 * num_kernels, np.int64)])
    columns = {
        "name": _categorical(names, name[order]),
        "cat": _categorical(categories, category[order]),
        "pid": _categorical([_HOST_PID, _DEVICE_PID], on_device.astype(np.int64)[order]),
        "tid": _categorical(tids, tid[order]),
        "ts_ns": pl.Series(start_ns[order] + origin_ns),
        "dur_ns": pl.Series((end_ns - start_ns)[order]),
        "device": _where(on_device[order], np.zeros(len(order), np.int32)),
        "stream": _where(on_device[order], _padded(num_host, stream)[order]),
        "correlation": _where(correlation[order] > 0, correlation[order]),
        "num_blocks": _where(has_blocks[order], blocks[order]),
        "num_threads": _where(has_blocks[order], np.full(len(order), NUM_THREADS, np.int32)),
        "op_kind": pl.Series(kind_of_op, dtype=pl.Categorical()).gather(pl.Series(op_of_event[order])),
        **{
            column: pl.Series([None, *(getattr(op, column) for op in range_ops)], dtype=pl.Int32).gather(
                pl.Series(range_of_event[order])
            )
            for column in ("layer", "micro_batch")
        },
    }
    return events_frame(columns, len(order))


def _bursts(ops: Sequence[Op]) -> _Ints:
    """For each op, the number of the burst that it is launched in: consecutive ops of one phase, layer and micro-batch.

    An op without a phase is a burst of its own.
    """
    bursts: list[int] = []
    burst, previous = -1, None
    for op in ops:
        key = None if op.phase is None else (op.phase, op.layer, op.micro_batch)
        burst += key is None or key != previous
        bursts.append(burst)
        previous = key
    return np.array(bursts, dtype=np.int64)


def _ranges(k: _Kernels) -> tuple[list[Op], _Ints, _Ints]:
    """The host ranges: the first op of each, and the first and last kernel in it."""
    _, first_op = np.unique(_bursts(k.ops), return_index=True)
    first_K = np.searchsorted(k.op_K, first_op)
    last_K = np.append(first_K[1:], len(k.op_K)) - 1
    ops = [k.ops[i] for i in first_op.tolist()]
    named = np.array([op.phase is not None for op in ops])
    return [op for op in ops if op.phase is not None], first_K[named], last_K[named]


def _tracks(ops: Sequence[Op]) -> tuple[Track, ...]:
    streams = sorted({op.resource.stream for op in ops})
    return (
        Track(pid=_HOST_PID, name="host (simulated)", labels="CPU", sort_index=0),
        Track(pid=_HOST_PID, tid=_HOST_TID, name="launching thread", sort_index=0),
        Track(pid=_DEVICE_PID, name="device (simulated)", labels="GPU 0", sort_index=1),
        *(Track(pid=_DEVICE_PID, tid=str(s), name=f"stream {s}", sort_index=s) for s in streams),
    )


def _padded(num_host: int, on_device: _Ints) -> _Ints:
    return np.concatenate([np.full(num_host, -1, dtype=np.int64), on_device])


def _where(keep: NDArray[np.bool_], values: NDArray[np.int32] | _Ints) -> pl.Series:
    """The values, null where they are not to be kept."""
    return pl.select(pl.when(pl.Series(keep)).then(pl.Series(values))).to_series()


def _categorical(categories: Sequence[str], codes: _Ints) -> pl.Series:
    return pl.Series(categories, dtype=pl.Categorical()).gather(codes)

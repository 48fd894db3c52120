"""Simulated jobs as files: ranges of one file or a file a rank, a table of ranges, or Kineto's kernels."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from tests.jobs.simulate import COLLECTIVE, COMPUTE, HOST, SEND, Job, Op, Times
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile

#: How ranges show the collectives of tensor parallelism: part of the computation, within it, or between two ranges.
Tensors: TypeAlias = Literal["hidden", "nested", "apart"]

_SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
_ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_REDUCE_SCATTER = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
_KINDS = {"params-all-gather": ("_allgather_base", _ALL_GATHER),
          "grads-reduce-scatter": ("_reduce_scatter_base", _REDUCE_SCATTER)}  # fmt: skip
_SIZES = {"params-all-gather": 1 << 22, "grads-reduce-scatter": 1 << 22, "grads-all-reduce": 1 << 22,
          "optimizer-clip-main-grad": 1, "tp-all-reduce": 1 << 18}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clock:
    """What a rank's clock shows. ahead: ns; drift: parts of a million."""

    ahead: float = 0.0
    drift: float = 0.0

    def shown(self, ns: float) -> float:
        return ns * (1 + self.drift / 1e6) + self.ahead


Clocks: TypeAlias = Mapping[int, Clock]


def random_clocks(job: Job, seed: int) -> Clocks:
    """Up to two seconds apart, and up to 20 parts of a million too fast or slow."""
    draw = random.Random(seed)
    return {rank: Clock(draw.uniform(0, 4e9), draw.uniform(-20, 20)) for rank in range(job.num_ranks)}


def shown(job: Job, times: Times, *, transfer_only: bool = False, tensors: Tensors = "hidden"
          ) -> list[tuple[Op, float, float]]:  # fmt: skip
    """What is recorded: each range with its start and end, ns."""
    found: list[tuple[Op, float, float]] = []
    parts: dict[int, int] = {}  # head -> its range, while it goes on
    for at, op in enumerate(job.ops):
        start = times.began[at] if transfer_only else times.came[at]
        if op.kind == HOST:
            continue
        if op.part_of >= 0:
            is_tensors = op.kind == COLLECTIVE
            if op.part_of in parts and not (is_tensors and tensors == "apart"):
                head = parts[op.part_of]
                found[head] = (found[head][0], found[head][1], times.end[at])
                if not is_tensors or tensors == "hidden":
                    continue
            if is_tensors:
                found.append((op, start, times.end[at]))
                if tensors == "apart":
                    parts.pop(op.part_of, None)
                continue
        parts[at if op.part_of < 0 else op.part_of] = len(found)
        found.append((op, start, times.end[at]))
    return found


def _lanes(job: Job) -> list[str]:
    return list(dict.fromkeys(op.lane for op in job.ops if op.kind != HOST))


def one_file(job: Job, times: Times, path: Path, *, transfer_only: bool = False) -> Path:
    """A process a data-parallel rank, a thread a lane of a stage, as timelines of Megatron's timers are kept."""
    events: list[dict[str, Any]] = []
    lanes = _lanes(job)
    for op, start, end in shown(job, times, transfer_only=transfer_only):
        compute = op.kind == COMPUTE
        events.append(
            {"name": op.name, "cat": op.name, "ph": "X", "pid": op.dp, "tid": op.stage * 10 + lanes.index(op.lane),
             "ts": start / 1000, "dur": (end - start) / 1000,
             "args": {"step": op.step, "mb_id": op.micro_batch if compute else -1, "model_chunk": op.chunk}}
        )  # fmt: skip
    for d in range(job.dp):
        events.append({"name": "process_name", "ph": "M", "pid": d, "tid": 0, "args": {"name": f"DP rank {d}"}})
        for p in range(job.pp):
            for at, lane in enumerate(lanes):
                events.append({"name": "thread_name", "ph": "M", "pid": d, "tid": p * 10 + at,
                               "args": {"name": f"PP rank {p} {lane}"}})  # fmt: skip
    path.write_text(json.dumps(events))
    return path


def file_a_rank(job: Job, times: Times, folder: Path, *, transfer_only: bool = False, tensors: Tensors = "hidden",
                clocks: Clocks | None = None, absent: Iterable[int] = ()) -> Path:  # fmt: skip
    """A file a rank, which tells its places in arguments."""
    folder.mkdir(parents=True)
    lanes = _lanes(job)
    events: dict[int, list[dict[str, Any]]] = {}
    for op, came, left in shown(job, times, transfer_only=transfer_only, tensors=tensors):
        clock = (clocks or {}).get(op.rank, Clock())
        start, end = clock.shown(came), clock.shown(left)
        place = {"rank": op.rank, "dp_rank": op.dp, "pp_rank": op.stage, **({"tp_rank": op.tp} if job.tp > 1 else {})}
        events.setdefault(op.rank, []).append(
            {"name": op.name, "ph": "X", "pid": 0, "tid": lanes.index(op.lane), "ts": start / 1000,
             "dur": (end - start) / 1000,
             "args": {**place, "step": op.step, **({"micro_batch": op.micro_batch} if op.kind == COMPUTE else {})}}
        )  # fmt: skip
    for rank, mine in events.items():
        if rank not in set(absent):
            (folder / f"rank{rank}.json").write_text(json.dumps({"traceEvents": mine}))
    return folder


def table(job: Job, times: Times, path: Path, *, tensors: Tensors = "hidden") -> Path:
    """A Parquet table of ranges."""
    rows = [
        {"name": op.name, "rank": op.rank, "dp": op.dp, "pp": op.stage, **({"tp": op.tp} if job.tp > 1 else {}),
         "step": op.step, "micro_batch": op.micro_batch if op.kind == COMPUTE else None, "stream": op.lane,
         "start_ns": round(start), "end_ns": round(end)}
        for op, start, end in shown(job, times, tensors=tensors)
    ]  # fmt: skip
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    return path


# --- Kineto -----------------------------------------------------------------------------------------------------------

_ATTENTION = "void flash_{}_kernel<Flash_{}_kernel_traits<128>>(Flash_params)"
_POINTWISE = "void at::native::vectorized_elementwise_kernel<4, {}>(int)"
#: Kernels of a computation, in order.
_KERNELS = {
    "forward": (f"{GEMM}_tn", _ATTENTION.format("fwd", "fwd"), _POINTWISE.format("gelu")),
    "backward": (f"{GEMM}_nt", _ATTENTION.format("bwd", "bwd"), _POINTWISE.format("gelu_backward")),
    "backward-input": (f"{GEMM}_nn", _ATTENTION.format("bwd_input", "bwd"), _POINTWISE.format("silu_backward")),
    "backward-weight": (f"{GEMM}_ntw", f"{GEMM}_ntw2", f"{GEMM}_ntw3"),
    "forward-backward": (f"{GEMM}_fb", _ATTENTION.format("fb", "fb"), _POINTWISE.format("fb")),
    "optimizer": ("void at::native::multi_tensor_apply_kernel<adam>(int)",) * 3,
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What files say beside times: sequence numbers, groups (their names, ranks, and the peers of sends), the job's
    size."""

    has_seq: bool = True
    has_groups: bool = True
    has_world: bool = True


def kineto(job: Job, times: Times, folder: Path, *, clocks: Clocks | None = None, absent: Iterable[int] = (),
           facts: Facts = Facts()) -> Path:  # fmt: skip
    """A file a rank: operators that launch a few kernels for each computation, NCCL's with waiting inside. The job has
    hosts."""
    folder.mkdir(parents=True)
    ranks_of = {meet: tuple(sorted({job.ops[at].rank for at in ops})) for meet, ops in job.members().items()}
    number_of = {meet: number for number, meet in enumerate(ranks_of)}
    groups: dict[tuple[object, ...], int] = {}
    seqs: dict[tuple[int, int], int] = defaultdict(int)
    files = {rank: TraceFile(rank=rank if facts.has_world else None, world_size=job.num_ranks)
             for rank in range(job.num_ranks)}  # fmt: skip
    windows: dict[tuple[int, int], list[float]] = defaultdict(list)
    streams: dict[str, int] = {"compute": 7}
    left_out = set(absent)
    for at in sorted(range(len(job.ops)), key=lambda at: (times.came[at], at)):
        op = job.ops[at]
        clock = (clocks or {}).get(op.rank, Clock())
        start, end = clock.shown(times.came[at]), clock.shown(times.end[at])
        if op.kind == HOST and op.name == "load":
            windows[op.rank, op.step].append(start)
        if op.kind == HOST or op.rank in left_out:
            continue
        called = clock.shown(times.came[op.launch])
        windows[op.rank, op.step].extend((called, end))
        file, tid = files[op.rank], 2 if op.name.startswith("backward") else 1
        if op.kind == COMPUTE:
            _computation(file, op, start, end, called, clock.shown(times.end[op.launch]), tid)
            continue
        assert op.meet is not None
        ranks = ranks_of[op.meet]
        is_tensors = op.part_of >= 0
        if op.kind == COLLECTIVE:
            group = groups.setdefault((op.lane if not is_tensors else "tp", ranks), len(groups))
            seqs[group, op.rank] += 1
            kind, kernel = _KINDS.get(op.name, ("allreduce", ALL_REDUCE))
            size = _SIZES.get(op.name, 1 << 20)
            args: dict[str, Any] = {"Collective name": kind, "In msg nelems": size, "Out msg nelems": size,
                    "Group size": len(ranks), "dtype": "BFloat16", "Process Group Name": str(group),
                    "Process Group Ranks": str(list(ranks)), "Seq": seqs[group, op.rank]}  # fmt: skip
        else:
            stages = tuple(job.rank(p, op.dp, op.tp) for p in range(job.pp))
            group = groups.setdefault(("pp", stages), len(groups))
            kernel, other = _SEND_RECV, next(rank for rank in ranks if rank != op.rank)
            args = {"Collective name": "send" if op.kind == SEND else "recv", "In msg nelems": 1 << 20,
                    "Out msg nelems": 1 << 20, "Group size": job.pp, "dtype": "BFloat16",
                    "Process Group Name": str(group), "Process Group Ranks": str(list(stages)),
                    "Dst Rank" if op.kind == SEND else "Src Rank": other, "Seq": number_of[op.meet]}  # fmt: skip
        if not facts.has_seq:
            del args["Seq"]
        if not facts.has_groups:
            for name in ("Process Group Name", "Process Group Ranks", "Dst Rank", "Src Rank"):
                args.pop(name, None)
        lane = "tp" if is_tensors else op.lane
        launched = called / 1000 + 3
        called_for = (clock.shown(times.end[op.launch]) - called) / 1000
        file.host("record_param_comms", called / 1000, called_for, cat="cpu_op", tid=tid)
        file.kernel(kernel, start / 1000, (end - start) / 1000, stream=streams.setdefault(lane, 20 + len(streams)),
                    launch=launched, launch_tid=tid, call="cudaLaunchKernelExC", **args)  # fmt: skip
    for (rank, step), times_ns in windows.items():
        if rank in left_out:
            continue
        first, last = min(times_ns) / 1000, max(times_ns) / 1000
        files[rank].host(f"ProfilerStep#{step}", first - 2, last - first + 4)
    for rank in sorted(set(files) - left_out):
        files[rank].write(folder / f"rank{rank}.json")
    return folder


def _computation(file: TraceFile, op: Op, start: float, end: float, called: float, left: float, tid: int) -> None:
    kernels = _KERNELS[op.name.removesuffix("-compute")]
    whole, at = sum(op.mix), start
    for number, (part, name) in enumerate(zip(op.mix, kernels, strict=True)):
        length, slot = (end - start) * part / whole, (left - called) / len(kernels)
        begin = (called + number * slot) / 1000
        operator = "mm" if "gemm" in name else "_flash_attention" if "flash" in name else "gelu"
        file.host(f"aten::{operator}", begin, slot / 1000, cat="cpu_op", tid=tid)
        file.kernel(name, at / 1000, length / 1000 - 0.001, stream=7, launch=begin + 0.5, launch_tid=tid)
        at += length

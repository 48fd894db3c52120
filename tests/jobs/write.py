"""Simulated jobs as files: ranges of one file or a file a rank, a table of ranges, or Kineto's kernels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tests.jobs.simulate import COLLECTIVE, COMPUTE, HOST, RECV, SEND, Job, Op, Times
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile

_LANES = ("compute", "forward-send", "forward-recv", "backward-send", "backward-recv", "dp", "rs")
_SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
_NAMES = {"params-all-gather": "all_gather", "grads-reduce-scatter": "reduce_scatter"}


def shown(job: Job, times: Times, *, transfer_only: bool) -> list[tuple[Op, float, float]]:
    """What is recorded: each range with its start and end, ns."""
    found: list[tuple[Op, float, float]] = []
    parts: dict[int, int] = {}
    for at, op in enumerate(job.ops):
        if op.kind == HOST:
            continue
        if op.part_of >= 0:
            head = parts[op.part_of]
            found[head] = (found[head][0], found[head][1], times.end[at])
            continue
        parts[at] = len(found)
        found.append((op, times.began[at] if transfer_only else times.came[at], times.end[at]))
    return found


def one_file(job: Job, times: Times, path: Path, *, transfer_only: bool = False) -> Path:
    """A process a data-parallel rank, a thread a lane of a stage, as timelines of Megatron's timers are kept."""
    events: list[dict[str, Any]] = []
    for op, start, end in shown(job, times, transfer_only=transfer_only):
        compute = op.kind == COMPUTE
        events.append(
            {"name": op.name, "cat": op.name, "ph": "X", "pid": op.dp, "tid": op.stage * 10 + _LANES.index(op.lane),
             "ts": start / 1000, "dur": (end - start) / 1000,
             "args": {"step": op.step, "mb_id": op.micro_batch if compute else -1, "model_chunk": op.chunk}}
        )  # fmt: skip
    for d in range(job.dp):
        events.append({"name": "process_name", "ph": "M", "pid": d, "tid": 0, "args": {"name": f"DP rank {d}"}})
        for p in range(job.pp):
            for at, lane in enumerate(_LANES):
                events.append({"name": "thread_name", "ph": "M", "pid": d, "tid": p * 10 + at,
                               "args": {"name": f"PP rank {p} {lane}"}})  # fmt: skip
    path.write_text(json.dumps(events))
    return path


def file_a_rank(job: Job, times: Times, folder: Path, *, transfer_only: bool = False,
                ahead: Mapping[int, float] | None = None, absent: tuple[int, ...] = ()) -> Path:  # fmt: skip
    """A file a rank, which tells its places in arguments. ahead: of its clock, ns."""
    folder.mkdir(parents=True)
    events: dict[int, list[dict[str, Any]]] = {}
    for op, start, end in shown(job, times, transfer_only=transfer_only):
        start += (ahead or {}).get(op.rank, 0.0)
        end += (ahead or {}).get(op.rank, 0.0)
        events.setdefault(op.rank, []).append(
            {"name": op.name, "ph": "X", "pid": 0, "tid": _LANES.index(op.lane), "ts": start / 1000,
             "dur": (end - start) / 1000,
             "args": {"rank": op.rank, "dp_rank": op.dp, "pp_rank": op.stage, "step": op.step,
                      **({"micro_batch": op.micro_batch} if op.kind == COMPUTE else {})}}
        )  # fmt: skip
    for rank, mine in events.items():
        if rank not in absent:
            (folder / f"rank{rank}.json").write_text(json.dumps({"traceEvents": mine}))
    return folder


def table(job: Job, times: Times, path: Path) -> Path:
    """A Parquet table of ranges."""
    rows = [
        {"name": op.name, "rank": op.rank, "dp": op.dp, "pp": op.stage, "step": op.step,
         "micro_batch": op.micro_batch if op.kind == COMPUTE else None, "stream": op.lane, "start_ns": round(start),
         "end_ns": round(end)}
        for op, start, end in shown(job, times, transfer_only=False)
    ]  # fmt: skip
    pl.DataFrame(rows).write_parquet(path)
    return path


def kineto(job: Job, times: Times, folder: Path, *, ahead: Mapping[int, float] | None = None,
           absent: tuple[int, ...] = (), kernels: int = 3) -> Path:  # fmt: skip
    """A file a rank: a few kernels for each computation, NCCL's with its metadata and with waiting inside."""
    folder.mkdir(parents=True)
    number = job.dp * job.pp
    members: dict[tuple[object, ...], list[int]] = {}
    for op in job.ops:
        if op.meet is not None:
            members.setdefault(op.meet, []).append(op.rank)
    numbers: dict[tuple[str, int], int] = {}
    files = {rank: TraceFile(rank=rank, world_size=number) for rank in range(number)}
    windows: dict[tuple[int, int], list[float]] = {}
    for at, op in sorted(enumerate(job.ops), key=lambda one: times.came[one[0]]):
        shift = (ahead or {}).get(op.rank, 0.0)
        start, end = times.came[at] + shift, times.end[at] + shift
        windows.setdefault((op.rank, op.step), []).extend((start, end))
        file = files[op.rank]
        if op.kind == HOST:
            continue
        if op.kind == COMPUTE:
            for part in range(kernels):
                length = (end - start) / kernels
                file.kernel(f"{GEMM}_{op.name}_{part}", (start + part * length) / 1000, length / 1000 - 0.001, stream=7,
                            launch=start / 1000 - 40 + part)  # fmt: skip
            continue
        assert op.meet is not None
        ranks = sorted(members[op.meet])
        group = f"{op.name.split('-')[0]}{ranks}" if op.kind == COLLECTIVE else f"pp{ranks}"
        seq = numbers[group, op.rank] = numbers.get((group, op.rank), 0) + 1
        kind = _NAMES.get(op.name, "allreduce")
        args = {"Collective name": kind, "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
                "Group size": len(ranks), "dtype": "BFloat16", "Process Group Name": group,
                "Process Group Ranks": str(ranks), "Seq": seq}  # fmt: skip
        if op.kind in (SEND, RECV):
            group = f"pipeline {op.dp}"
            args |= {"Group size": job.pp, "Process Group Name": group, "Seq": list(members).index(op.meet),
                     "Process Group Ranks": str([stage * job.dp + op.dp for stage in range(job.pp)])}  # fmt: skip
            other = next(rank for rank in ranks if rank != op.rank)
            args["Collective name"] = "send" if op.kind == SEND else "recv"
            args["Dst Rank" if op.kind == SEND else "Src Rank"] = other
        name = _SEND_RECV if op.kind in (SEND, RECV) else ALL_REDUCE
        stream = 20 + _LANES.index(op.lane)
        file.kernel(name, start / 1000, (end - start) / 1000, stream=stream, launch=start / 1000 - 10, **args)
    for (rank, step), times_ns in windows.items():
        first, last = min(times_ns) / 1000, max(times_ns) / 1000
        files[rank].host(f"ProfilerStep#{step}", first - 60, last - first - 80)
    for rank, file in files.items():
        if rank not in absent:
            file.write(folder / f"rank{rank}.json")
    return folder

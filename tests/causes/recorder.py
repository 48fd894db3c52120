"""Writes what happened in a simulated world (simulator.py) the way torch.profiler writes it: Kineto's JSON.

What stands here is what recorded files show: categories, arguments, how calls, kernels and flows are tied together, how
Python frames carry their ids, which names each maker's runtime has. Nothing of weftrace is imported.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.causes.simulator import DeviceWork, Range, World

PID = 41_207
#: A process's second device has its streams from here on.
DEVICE = 100
BASE_NS = 3_251_884_117_000_000

CATEGORIES = {
    "annotation": "user_annotation",
    "operator": "cpu_op",
    "frame": "python_function",
    "gc": "python_function",
}

# What the makers' runtimes call the same thing.
HIP = {
    "cudaLaunchKernel": "hipLaunchKernel",
    "cudaLaunchKernelExC": "hipExtModuleLaunchKernel",
    "cuLaunchKernel": "hipModuleLaunchKernel",
    "cudaMemcpyAsync": "hipMemcpyWithStream",
    "cudaMemsetAsync": "hipMemsetAsync",
    "cudaStreamSynchronize": "hipStreamSynchronize",
    "cudaDeviceSynchronize": "hipDeviceSynchronize",
    "cudaEventSynchronize": "hipEventSynchronize",
    "cudaMalloc": "hipMalloc",
    "cudaFree": "hipFree",
    "cudaGraphLaunch": "hipGraphLaunch",
    "cuModuleLoadData": "hipModuleLoadData",
    "cudaEventRecord": "hipEventRecord",
    "cudaStreamWaitEvent": "hipStreamWaitEvent",
}


@dataclass(frozen=True, kw_only=True)
class Recording:
    """How the profiler was set, and what it is told of the device and of the job."""

    stacks: bool
    steps: bool
    world_size: int = 1
    shapes: bool = False
    device: Mapping[str, object] | None = None


def micros(ns: int) -> str:
    """Nanoseconds as torch writes them: microseconds with three digits."""
    return f"{ns // 1_000}.{ns % 1_000:03d}"


def event(category: str, name: str, pid: object, tid: object, begin: int, end: int, args: dict[str, object]) -> str:
    """One complete event."""
    return (
        f'{{"ph": "X", "cat": "{category}", "name": {json.dumps(name)}, "pid": {json.dumps(pid)}, '
        f'"tid": {json.dumps(tid)}, "ts": {micros(BASE_NS + begin)}, "dur": {micros(end - begin)}, '
        f'"args": {json.dumps(args)}}}'
    )


def flow(side: str, number: int, pid: int, tid: int, at: int) -> str:
    """One end of an arrow from a call to what it launched."""
    end = ', "bp": "e"' if side == "f" else ""
    return (
        f'{{"ph": "{side}", "id": {number}, "pid": {pid}, "tid": {tid}, "ts": {micros(BASE_NS + at)}, '
        f'"cat": "ac2g", "name": "ac2g"{end}}}'
    )


def memory_event(at: int, thread: int, args: dict[str, object]) -> str:
    """What the allocator gave or took back."""
    return (
        f'{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {PID}, '
        f'"tid": {PID + thread}, "ts": {micros(BASE_NS + at)}, "args": {json.dumps(args)}}}'
    )


def is_recorded(found: Range, how: Recording) -> bool:
    """Whether the profiler, as it was set, writes the range."""
    if found.lost or found.kind == "hidden":
        return False
    if found.kind == "frame":
        return how.stacks
    return how.steps or not found.name.startswith("ProfilerStep#")


def host_events(world: World, how: Recording) -> list[str]:
    """Annotations, operators, frames and calls, with the operator that a call belongs to as its External id."""
    amd = world.machine.vendor == "amd"
    lines: list[str] = []
    python_ids: dict[int, int] = {}
    for number, found in enumerate(world.ranges):
        if not is_recorded(found, how):
            continue
        tid = PID + found.thread
        if found.kind == "call":
            name = HIP.get(found.name, found.name) if amd else found.name
            args: dict[str, object] = {"correlation": found.correlation}
            operator = operator_around(world, found)
            if operator >= 0:
                args["External id"] = operator + 1
            if amd:
                args |= {"cid": 107} | {
                    key: found.args[key] for key in ("kernel", "bytes", "kind") if key in found.args
                }
            else:
                args["cbid"] = 211 if "Launch" in name else 41
            driver = name.startswith("cu") and not name.startswith("cuda")
            lines.append(
                event("cuda_driver" if driver else "cuda_runtime", name, PID, tid, found.begin, found.end, args)
            )
            lines.append(flow("s", found.correlation, PID, tid, found.begin))
            continue
        args = {"Ev Idx": number}
        if found.kind == "frame":
            python_ids[number] = len(python_ids) + 1
            around = found.parent
            while around >= 0 and around not in python_ids:
                around = world.ranges[around].parent
            args |= {"Python parent id": python_ids.get(around), "Python id": python_ids[number]}
            if found.name.startswith("nn.Module: "):
                args["Python module id"] = int(found.name.rsplit("_", 1)[1])
        elif found.kind != "gc":
            args |= {"External id": number + 1, "Record function id": 0} | found.args
        lines.append(event(CATEGORIES[found.kind], found.name, PID, tid, found.begin, found.end, args))
    return lines


def operator_around(world: World, found: Range) -> int:
    """The innermost operator or annotation that a range is in; -1: none."""
    around = found.parent
    while around >= 0 and world.ranges[around].kind not in ("operator", "annotation"):
        around = world.ranges[around].parent
    return around


def device_events(world: World) -> list[str]:
    """Kernels, copies and fills, and the spans of annotations on the device."""
    amd = world.machine.vendor == "amd"
    lines: list[str] = []
    spans: dict[int, tuple[int, int]] = {}
    for work in world.device:
        if work.lost:
            continue
        call = world.ranges[work.launch]
        stream = stream_of(work, amd)
        device = (2 if amd else 0) + work.stream // DEVICE
        args: dict[str, object] = {"device": device, "stream": stream, "correlation": call.correlation}
        operator = operator_around(world, call)
        if operator >= 0 and not work.in_graph:
            args["External id"] = operator + 1
        if work.kind == "kernel":
            args |= {"grid": [132, 1, 1], "block": [256, 1, 1]}
            args |= {"kind": "Dispatch Kernel"} if amd else {"queued": 0, "context": 1, "registers per thread": 64}
            args |= work.args
        else:
            args["bytes"] = work.num_bytes
        lines.append(event(work.kind, work.name, device, stream, work.begin, work.end, args))
        lines.append(flow("f", call.correlation, device, stream, work.begin))
        around = call.parent
        while around >= 0:
            if world.ranges[around].kind == "annotation":
                begin, end = spans.get(around, (work.begin, work.end))
                spans[around] = (min(begin, work.begin), max(end, work.end))
            around = world.ranges[around].parent
    for number, (begin, end) in spans.items():
        found = world.ranges[number]
        if found.lost or found.name.startswith("enumerate"):
            continue
        lines.append(
            event(
                "gpu_user_annotation",
                found.name,
                2 if amd else 0,
                0 if amd else 7,
                begin - 1,
                end + 1,
                {"External id": number + 1},
            )
        )
    return lines


def stream_of(work: DeviceWork, amd: bool) -> int:
    """A stream's number: AMD counts from 0."""
    stream = work.stream % DEVICE
    return stream - 7 if amd and stream >= 7 else stream


def kineto(world: World, how: Recording) -> str:
    """The whole file."""
    amd = world.machine.vendor == "amd"
    first = min(found.begin for found in world.ranges)
    last = max(max(found.end for found in world.ranges), world.all_done())
    head: dict[str, object] = {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": (2 if amd else 0) + number,
                "name": "AMD Instinct MI300X" if amd else "NVIDIA H100 80GB HBM3",
                "totalGlobalMem": 85_018_279_936,
                "numSms": 304 if amd else 132,
            }
            | dict(how.device or {})
            for number in range(1 + max((work.stream for work in world.device), default=0) // DEVICE)
        ],
        "with_stack": int(how.stacks),
        "record_shapes": int(how.shapes),
        "trace_id": "5D1AF0A8C0FF4A5B8B1E6E0D0C0B0A09",
        "displayTimeUnit": "ms",
    }
    if how.world_size > 1:
        head["distributedInfo"] = {"backend": "nccl", "rank": 0, "world_size": how.world_size, "pg_count": 1}
    lines = host_events(world, how) + device_events(world) + [memory_event(*found) for found in world.memory]
    lines.append(
        f'{{"ph": "X", "cat": "Trace", "ts": {micros(BASE_NS + first - 40_000)}, '
        f'"dur": {micros(last - first + 80_000)}, "pid": "Spans", "tid": "PyTorch Profiler", '
        f'"name": "PyTorch Profiler (0)", "args": {{"Op count": 0}}}}'
    )
    lines.append(
        f'{{"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", '
        f'"ts": {micros(BASE_NS + last + 9_000)}}}'
    )
    for tid in sorted({PID + found.thread for found in world.ranges}):
        lines.append(
            f'{{"name": "thread_name", "ph": "M", "ts": 0.000, "pid": {PID}, "tid": {tid}, '
            f'"args": {{"name": "thread {tid} (python3)"}}}}'
        )
    return json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(lines) + "\n]}"


def save(world: World, how: Recording, path: Path) -> None:
    """Writes the file, packed."""
    path.write_bytes(gzip.compress(kineto(world, how).encode(), 1))

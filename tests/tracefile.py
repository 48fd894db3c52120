"""Small trace files, written as Kineto writes them, so that tests go through the reader as users' files do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from weftrace.trace import Trace, open_trace

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_cublas"
DISPATCH = "void deep_ep::internode::dispatch<false, 8, false, 8>(int4*, float*)"
NOTIFY = "void deep_ep::internode::cached_notify<false>(int, int, int)"
MEGA_MOE = "void deep_gemm::sm100_fp8_fp4_mega_moe_impl<8192u, 7168u>(void*, int*)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def collective(name: str) -> dict[str, Any]:
    """What NCCL's metadata says of a kernel, in its shortest form."""
    return {"Collective name": name}


class TraceFile:
    """Collects events, in microseconds, and writes them. A kernel's launch call comes with it unless told otherwise."""

    def __init__(self, *, rank: int | None = 0, world_size: int = 1, num_sms: int = 132, window: bool = False) -> None:
        self.events: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H800", "numSms": num_sms, "totalGlobalMem": 1 << 36}],
        }
        if rank is not None:
            self.facts["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world_size}
        self._correlation = 0
        if window:
            self.host("PyTorch Profiler (0)", 0, 1_000_000, cat="Trace", pid="Spans", tid="PyTorch Profiler")

    def host(self, name: str, ts: float, dur: float, *, cat: str = "user_annotation", pid: Any = 1, tid: Any = 1,
             **args: Any) -> Self:  # fmt: skip
        event: dict[str, Any] = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
        if args:
            event["args"] = args
        self.events.append(event)
        return self

    def kernel(self, name: str, ts: float, dur: float, *, stream: int = 7, launch: float | None = None,
               launch_tid: int = 1, blocks: int | None = None, cat: str = "kernel", device: int = 0,
               linked: bool = True, call: str = "cudaLaunchKernel", **args: Any) -> Self:  # fmt: skip
        self._correlation += 1
        args = {"device": device, "stream": stream, **args}
        if linked:
            self.host(call, ts - 10 if launch is None else launch, 1, cat="cuda_runtime", tid=launch_tid,
                      correlation=self._correlation)  # fmt: skip
            args["correlation"] = self._correlation
        if blocks is not None:
            args |= {"grid": [blocks, 1, 1], "block": [128, 1, 1]}
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": ts, "dur": dur,
                            "args": args})  # fmt: skip
        return self

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps({**self.facts, "traceEvents": self.events}))
        return path

    def trace(self, folder: Path) -> Trace:
        trace = open_trace(self.write(folder / "trace.json"))
        assert isinstance(trace, Trace)
        return trace

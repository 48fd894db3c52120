"""Small measured runs whose critical path can be told by hand."""

from __future__ import annotations

from pathlib import Path

from tests.tracefile import DISPATCH, GEMM, NOTIFY, TraceFile
from weftrace.plan.inference.inferring import infer
from weftrace.plan.inference.values import Inferred
from weftrace.trace import Trace, open_trace


def two_streams(folder: Path, *, num: int = 6, more: int = 3) -> Inferred:
    """The plan of what `write_two_streams` writes."""
    return infer(trace_of(write_two_streams(folder, num=num, more=more)))


def write_two_streams(folder: Path, *, num: int = 6, more: int = 3) -> Path:
    """A run on two streams that one host thread feeds, each round `more` µs later than the one before; times in µs.

    thread  |launch .. work .. launch ..
    7       gemm 100, gap 2, gemm 100 ...
    20          dispatch 130, beside them; a barrier of 20 behind each
    """
    file = TraceFile(window=True)
    at = 1_000.0
    for layer in range(num):
        file.host(f"mlp(F){layer}", at - 40, 20)
        file.kernel(GEMM, at, 100, launch=at - 30, blocks=132)
        file.kernel(DISPATCH, at + 5, 130, stream=20, launch=at - 26, blocks=20)
        file.kernel(NOTIFY, at + 140, 20.5, stream=20, launch=at - 22, blocks=1)
        file.kernel(GEMM, at + 102, 70 + more * layer // 3, launch=at - 18, blocks=132)
        at += 260 + more * layer
    return file.write(folder / "trace.json")


def trace_of(path: Path) -> Trace:
    """One rank's trace, read."""
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    return trace


def strained(folder: Path, long: str) -> Inferred:
    """Minutes on six streams that four threads feed: kernels of every class, one with a long name, phases too."""
    file = TraceFile(window=False)
    names = (GEMM, long, DISPATCH, NOTIFY, "Memcpy DtoH (Device -> Pinned)", "triton_poi_fused_gelu_7")
    for layer in range(40):
        for at, name in enumerate(names):
            start = 6_000_000.5 * layer + 1_000_000.25 * at
            thread = 1 + (layer + at) % 4
            file.host(f"forward of the transformer's block number {layer} (attention, then experts)", start, 900_000,
                      tid=thread)  # fmt: skip
            cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
            file.kernel(name, start + 1_000, 890_123.456 + 400_000 * (at % 3), launch=start + 10, launch_tid=thread,
                        stream=7 + 4 * at, blocks=132, cat=cat)  # fmt: skip
    return infer(file.trace(folder))

"""Traces whose operators have shapes: what efficiency is told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tracefile import GEMM, TraceFile

BF16 = "c10::BFloat16"
#: 2 x 4096 x 4096 x 4096 FLOP take 139.0 µs at the 989 TFLOP/s of an H100.
SQUARE = [[4096, 4096], [4096, 4096]]


def called(
    file: TraceFile, name: str, shapes: list[Any], ts: float, dur: float, kernel: str = GEMM, **args: Any
) -> None:
    """An operator with its one kernel, in microseconds."""
    types = [BF16 if shape else "Scalar" for shape in shapes]
    file.host(name, ts - 15, 8, cat="cpu_op", **{"Input Dims": shapes, "Input type": types, **args})
    file.kernel(kernel, ts, dur, launch=ts - 12)


def rated_file(*, device: str = "NVIDIA H100 80GB HBM3", gemm_us: float = 200, rank: int | None = 0) -> TraceFile:
    """Two products of 200 µs and one of other shapes, an addition of 100 µs, a copy and a kernel without an operator of
    50 µs each: FLOPs are known of 440 of 640 µs."""
    file = TraceFile(rank=rank)
    file.facts["deviceProperties"][0]["name"] = device
    called(file, "aten::mm", SQUARE, 100, gemm_us)
    called(file, "aten::mm", SQUARE, 400, gemm_us)
    called(file, "aten::mm", [[64, 4096], [4096, 4096]], 700, 40)
    called(file, "aten::add", [[4096, 4096], [4096, 4096], []], 800, 100, "vectorized_elementwise_kernel")
    file.kernel("Memcpy HtoD", 950, 50, cat="gpu_memcpy", bytes=1 << 20)
    file.kernel("lonely_kernel", 1050, 50)
    return file


def bare_file() -> TraceFile:
    """The same work, recorded without shapes."""
    file = TraceFile()
    file.host("aten::mm", 85, 8, cat="cpu_op")
    file.kernel(GEMM, 100, 200, launch=88)
    return file


def written(folder: Path, file: TraceFile, name: str = "trace.json") -> Path:
    return file.write(folder / name)

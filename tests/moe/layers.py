"""Small traces with phases, layer by layer, in Kineto's format."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weftrace.trace import Trace, read_chrome

#: Names as kernels have them: a memory-bound one, a GEMM that is not grouped, what waits for ranks, what moves data.
GLUE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
GEMM = "void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel>(Params)"
GROUPED = "void cutlass::device_kernel<dpsk::grouped_gemm::cuda::m_grouped_fp8_ptp128c::GemmKernel>(Params)"
WAITS = "void dpsk::ep::internode::cached_notify<false>(int)"
MOVES = "void dpsk::ep::internode::combine<false, 8>(int4*)"


@dataclass(frozen=True)
class Kernel:
    """start_us: since the layer's. phase: the range that it is launched in, none for an empty name. shapes: of the
    operator that launches it, where they were recorded."""

    phase: str
    name: str
    stream: int
    start_us: float
    dur_us: float
    blocks: int
    shapes: tuple[tuple[int, ...], ...] = ()


def trace_of_layers(layers: Sequence[Sequence[Kernel]], *, length_us: int = 1000, name: str = "layers.json") -> Trace:
    """A layer every `length_us`; each phase is a range on the host, in order of the kernels."""
    events: list[dict[str, object]] = []
    launch, at_us = 0, 1.0
    for number, layer in enumerate(layers):
        for phase in dict.fromkeys(kernel.phase for kernel in layer):
            first_us = at_us
            for kernel in (each for each in layer if each.phase == phase):
                launch, at_us = launch + 1, at_us + 1
                start_us = 1000 + number * length_us + kernel.start_us
                args = {"correlation": launch, "stream": kernel.stream, "device": 0, "grid": [kernel.blocks, 1, 1],
                        "block": [128, 1, 1]}  # fmt: skip
                if kernel.shapes:
                    events.append(_event("cpu_op", "aten::_grouped_mm", at_us, 0.7, **{"Input Dims": kernel.shapes}))
                events.append(_event("cuda_runtime", "cudaLaunchKernel", at_us, 0.5, correlation=launch))
                events.append(_event("kernel", kernel.name, start_us, kernel.dur_us, **args))
            if phase:
                events.append(_event("user_annotation", phase, first_us + 0.5, at_us - first_us + 0.2))
            at_us += 1
    devices = [{"id": 0, "name": "NVIDIA H800", "numSms": 132}]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(json.dumps({"deviceProperties": devices, "traceEvents": events}))
        return read_chrome(path)


def _event(category: str, name: str, start_us: float, dur_us: float, **args: object) -> dict[str, object]:
    pid, tid = (0, args["stream"]) if category == "kernel" else (1, 1)
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start_us, "dur": dur_us,
            "args": args}  # fmt: skip

"""Runs of a few steps that are written by hand, kernel by kernel, so that what changed is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.trace import Trace

ATTENTION = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128>>(Flash_fwd_params)"
COPY = "Memcpy HtoD (Pinned -> Device)"


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step as it runs on two streams, in µs: a host that launches everything at its start but for `host_us` before
    the first gemm; gemms, one after the other, then attention; an all-reduce that begins `hidden_us` before the end of
    the computation.
    """

    gemms_us: Sequence[float] = (100, 100, 100)
    attention_us: float = 200
    all_reduce_us: float = 100
    hidden_us: float = 20
    host_us: float = 30
    copy_us: float = 0
    gemm: str = GEMM
    operator: str = "aten::mm"
    extra: dict[str, float] = field(default_factory=dict)


def run(folder: Path, steps: Sequence[Step], *, name: str = "trace", **facts: int) -> Trace:
    """A trace of these steps, one after the other."""
    file = TraceFile(**facts)  # type: ignore[arg-type]
    at = 1000.0
    for number, step in enumerate(steps):
        start = at
        launch = start
        at += 5
        for us, kernel in ((step.copy_us, COPY),):
            if us:
                file.kernel(kernel, at, us, launch=launch, cat="gpu_memcpy")
                at += us
        kernels = (
            [(step.gemm, us) for us in step.gemms_us] + [(ATTENTION, step.attention_us)] + list(step.extra.items())
        )
        launched_late = at + step.host_us - 1
        at += step.host_us
        first = True
        for kernel, us in kernels:
            file.kernel(kernel, at, us, launch=launched_late if first else launch + 1)
            at, first = at + us, False
        file.kernel(ALL_REDUCE, at - step.hidden_us, step.all_reduce_us, launch=launch + 2, stream=20)
        at = max(at, at - step.hidden_us + step.all_reduce_us)
        file.host(f"ProfilerStep#{number}", start - 1, at - start)
    (folder / name).mkdir(exist_ok=True)
    return file.trace(folder / name)

"""Runs of a few steps that are written by hand, kernel by kernel, so that what changed is known."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace import save
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


def write_pair(folder: Path) -> None:
    """What the documents compare: before.json.gz and after.json.gz, of ten steps that vary by some percent; before/ and
    after/, two ranks of the same. After: GEMMs take 1.08 times as long, and 60 µs more of the all-reduce are hidden."""
    for name, factor, hidden_us in (("before", 1.0, 30.0), ("after", 1.08, 90.0)):
        (folder / name).mkdir()
        for rank in range(2):
            vary = [1 + 0.01 * ((3 * number + rank) % 5 - 2) for number in range(10)]
            steps = [
                Step(gemms_us=(100 * factor * by, 200 * factor * by, 100 * factor), attention_us=300 * by,
                     all_reduce_us=150, hidden_us=hidden_us, copy_us=10)
                for by in vary
            ]  # fmt: skip
            trace = run(folder, steps, name=f"{name}-{rank}", rank=rank, world_size=2)
            save(trace, folder / name / f"rank{rank}.json.gz")
            shutil.rmtree(folder / f"{name}-{rank}")
        shutil.copy(folder / name / "rank0.json.gz", folder / f"{name}.json.gz")

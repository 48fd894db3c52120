"""Two runs with phases, steps and two streams, in which it is known what changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.tracefile import ALL_REDUCE, DISPATCH, GEMM, TraceFile
from weftrace.comparison import diff
from weftrace.comparison.diffs import Diff
from weftrace.comparison.runs import Run, run_of
from weftrace.trace import Trace

LAYERS = 3


def phased(
    folder: Path, name: str, *, gemm_us: Sequence[float], dispatch_us: float = 60, reduce_us: float = 0, rank: int = 0
) -> Trace:
    """A run of a step for each of gemm_us, each of three layers: attn(F), a gemm, beside dispatch(F), dispatch_us on a
    stream of its own; then mlp(F), two gemms; at the end of a step an all-reduce of reduce_us with nothing beside it.
    """
    file = TraceFile(rank=rank)
    at = 1000.0
    for number, us in enumerate(gemm_us):
        start, launch = at, at
        for _ in range(LAYERS):
            for phase, kernels in (
                ("attn(F)", [(GEMM, 7, 0, us), (DISPATCH, 20, 20, dispatch_us)]),
                ("mlp(F)", [(GEMM, 7, us, us / 2), (GEMM, 7, 1.5 * us, us / 2)]),
            ):
                file.host(phase, launch, len(kernels) + 1)
                for offset, (kernel, stream, shift, length) in enumerate(kernels):
                    file.kernel(kernel, at + 10 + shift, length, stream=stream, launch=launch + offset + 0.5)
                launch += len(kernels) + 1
            at += 10 + max(2 * us, 20 + dispatch_us)
        if reduce_us:
            file.kernel(ALL_REDUCE, at, reduce_us, stream=20, launch=launch)
            at += reduce_us
        file.host(f"ProfilerStep#{number}", start - 1, at - start)
    (folder / name).mkdir(exist_ok=True)
    return file.trace(folder / name)


BEFORE_US = (50, 51, 49, 50, 52, 50)


def changed(folder: Path) -> Diff:
    """The same run with gemms 1.2 times as long, and an all-reduce of 30 µs in place of one of 10."""
    before = phased(folder, "before", gemm_us=BEFORE_US, reduce_us=10)
    after = phased(folder, "after", gemm_us=[1.2 * us for us in BEFORE_US[:-1]], reduce_us=30)
    return diff(before, after)


def changed_job(folder: Path, num_ranks: int = 3) -> Diff:
    """Ranks whose gemms take the longer the higher their number, all of them 1.3 times as long. Their work is not
    kept, as that of a job is not."""
    runs = []
    for name, scale in (("one", 1.0), ("other", 1.3)):
        traces = [
            phased(folder, f"{name}{at}", gemm_us=[(50 + 5 * at) * scale] * 4, rank=at) for at in range(num_ranks)
        ]
        runs.append(Run(source=name, ranks=tuple(run_of(trace).ranks[0] for trace in traces)))
    return diff(*runs)

"""What looks like a loss of a job and is none, or is another one; on traces whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.advice.findings.advising import advise
from weftrace.analysis.findings import AdviceReport, Finding

GROUPED = "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<>>>"
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64> >"

Layer = tuple[str, float, float]  # name, duration, MiB of a collective; 0 of computation
Body = Callable[[int, int], Sequence[Layer]]  # (rank, step) -> the work of a step


def of(report: AdviceReport, rule: str) -> list[Finding]:
    return [each for each in report.findings if each.rule == rule]


def job(
    folder: Path, body: Body, *, names: tuple[str, ...] = ("rank0.json", "rank1.json"), steps: int = 5,
    skew: float = 0.0, apart: bool = False,
) -> AdviceReport:  # fmt: skip
    """Ranks whose work runs one after another, launched far ahead; collectives begin together. apart: collectives run
    on a stream of their own, and nothing waits for them before the next step."""
    files = [TraceFile(rank=rank, world_size=len(names)) for rank in range(len(names))]
    at, launch = [100_000.0] * len(files), 0.0
    for step in range(steps):
        begin, free = launch, [0.0] * len(files)
        for layer in zip(*(body(rank, step) for rank in range(len(files))), strict=True):
            met = max(max(now, busy) for now, busy in zip(at, free, strict=True))
            for rank, (file, (name, dur, mebibytes)) in enumerate(zip(files, layer, strict=True)):
                own = rank * skew
                if not mebibytes:
                    file.kernel(name, at[rank] + own, dur, launch=launch + own)
                    at[rank] += dur + 1
                    continue
                start = max(at[rank], free[rank])
                file.kernel(name, start + own, met + dur - start, launch=launch + own, stream=9 if apart else 7,
                            **sizes(mebibytes, len(files)))  # fmt: skip
                free[rank] = met + dur + 1
                at[rank] = at[rank] if apart else free[rank]
            launch += 10
        at = [max(now, busy) for now, busy in zip(at, free, strict=True)]
        for rank, file in enumerate(files):
            file.host(f"ProfilerStep#{step}", begin + rank * skew, launch - begin)
    (folder / "job").mkdir()
    for name, file in zip(names, files, strict=True):
        file.write(folder / "job" / name)
    return advise(str(folder / "job"), workers=1)


def sizes(mebibytes: float, number: int) -> dict[str, Any]:
    elements = int(mebibytes * (1 << 19))
    return {"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "dtype": "BFloat16",
            "Group size": number, "Process Group Name": "0",
            "Process Group Ranks": str(list(range(number)))}  # fmt: skip


def large(milliseconds: float) -> Body:
    """2 ms of GEMM, and 64 MiB of all-reduce."""
    return lambda rank, step: [(GEMM, 2000, 0), (ALL_REDUCE, milliseconds * 1000, 64)]


def test_a_slow_transfer_within_a_host_is_told(tmp_path: Path) -> None:
    """67 MB in 1 ms are 67 GB/s of 200: faster than the network of a rank on a node of its own, 50 GB/s."""
    [found] = of(job(tmp_path, large(1.0)), "slow-collectives")
    assert found.confidence == "high"
    assert "link" in found.sentence


def test_ranks_that_may_stand_on_a_node_each_are_held_against_the_network(tmp_path: Path) -> None:
    assert not of(job(tmp_path, large(1.6)), "slow-collectives")  # 42 GB/s


def test_a_slow_network_is_told_with_what_was_assumed(tmp_path: Path) -> None:
    [found] = of(job(tmp_path, large(4.0)), "slow-collectives")  # 17 GB/s
    assert found.confidence == "medium"
    assert "network" in found.sentence
    assert "no file names its host" in found.reason


def test_files_that_name_one_host_are_held_against_its_link(tmp_path: Path) -> None:
    names = ("node7_4711.123.pt.trace.json", "node7_4712.124.pt.trace.json")
    [found] = of(job(tmp_path, large(1.6), names=names), "slow-collectives")
    assert found.confidence == "high"
    assert "link" in found.sentence


@pytest.mark.parametrize("how", ["names", "clocks"])
def test_several_hosts_are_held_against_the_network(tmp_path: Path, how: str) -> None:
    names = ("node7_4711.123.pt.trace.json", "node8_4711.124.pt.trace.json")
    told = job(tmp_path, large(1.6), names=names) if how == "names" else job(tmp_path, large(1.6), skew=50_000)
    assert not of(told, "slow-collectives")


def small(rank: int, step: int) -> Sequence[Layer]:
    return [(GEMM, 10, 0), (ALL_REDUCE, 30, 0.001)] * 20


def test_small_collectives_that_nothing_waits_for_go_into_buckets(tmp_path: Path) -> None:
    [found] = of(job(tmp_path, small, apart=True), "small-collectives")
    assert found.gain is not None


def test_small_collectives_that_the_next_kernel_waits_for_do_not(tmp_path: Path) -> None:
    assert not of(job(tmp_path, small), "small-collectives")


@pytest.mark.parametrize("is_balanced", [False, True])
def test_uneven_experts_cost_what_ranks_wait(tmp_path: Path, is_balanced: bool) -> None:
    """Grouped GEMMs take 200 µs on rank 1, and 100 µs on rank 0; there attention may take 100 µs longer."""

    def body(rank: int, step: int) -> Sequence[Layer]:
        attention = 200 if is_balanced and rank == 0 else 100
        return [(FLASH, attention, 0), (GROUPED, 200 if rank else 100, 0)] * 10 + [(ALL_REDUCE, 30, 1)]

    found = of(job(tmp_path, body), "expert-imbalance")
    assert not found if is_balanced else found[0].cost_ns > 0


def held(folder: Path, *, function: bool = False, other: bool = False) -> AdviceReport:
    """Kernels of 200 µs with holes of 100 µs between them, though all are launched far ahead."""
    file, at, launch = TraceFile(), 100_000.0, 0.0
    for step in range(5):
        begin = launch
        for _ in range(10):
            file.kernel(GEMM, at, 200, launch=launch)
            if function:
                file.host("cudaLaunchHostFunc", launch + 3, 2, cat="cuda_runtime", correlation=900_000 + int(launch))
            if other:
                file.kernel(GEMM, at + 200, 150, launch=launch + 6, device=1)
            at, launch = at + 350, launch + 10
        file.host(f"ProfilerStep#{step}", begin, launch - begin)
    return advise(file.trace(folder))


def test_holes_between_queued_kernels_are_unrecorded_work(tmp_path: Path) -> None:
    assert of(held(tmp_path), "unrecorded-work")


@pytest.mark.parametrize("cause", ["function", "other"])
def test_a_function_of_the_host_or_another_device_is_no_unrecorded_work(tmp_path: Path, cause: str) -> None:
    assert not of(held(tmp_path, **{cause: True}), "unrecorded-work")

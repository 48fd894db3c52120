"""What looks like a loss of a job and is none, or is another one; on traces whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import Run, run
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.advice.findings.advising import advise
from weftrace.analysis.findings import AdviceReport, Finding

__all__ = ["run"]

GROUPED = "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<>>>"
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64> >"

Layer = tuple[str, float, float]  # name, duration, MiB of a collective; 0 of computation
Body = Callable[[int, int], Sequence[Layer]]  # (rank, step) -> the work of a step


def of(report: AdviceReport, rule: str) -> list[Finding]:
    return [each for each in report.findings if each.rule == rule]


def job(
    folder: Path, body: Body, *, names: tuple[str, ...] = ("rank0.json", "rank1.json"), steps: int = 5,
    skew: float = 0.0, apart: bool = False, numbers: Callable[[int, int], int] = lambda rank, step: step,
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
            file.host(f"ProfilerStep#{numbers(rank, step)}", begin + rank * skew, launch - begin)
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


def test_a_rank_that_is_slow_in_few_steps_is_told_with_less_confidence(tmp_path: Path) -> None:
    def body(rank: int, step: int) -> list[Layer]:
        return [(GEMM, 2600 if rank == 1 else 2000, 0), (ALL_REDUCE, 30, 1)]

    [found] = of(job(tmp_path, body, steps=4), "straggler")
    assert found.confidence == "medium"
    assert "4 steps" in found.reason


def test_a_rank_that_is_slow_in_one_step_alone_is_no_straggler(tmp_path: Path) -> None:
    def body(rank: int, step: int) -> list[Layer]:
        return [(GEMM, 8000 if rank == 1 and step == 0 else 2000, 0), (ALL_REDUCE, 30, 1)]

    assert not of(job(tmp_path, body), "straggler")


def test_ranks_that_number_their_steps_differently_are_compared_by_collectives(tmp_path: Path) -> None:
    def body(rank: int, step: int) -> list[Layer]:
        return [(GEMM, 2600 if rank == 1 else 2000, 0), (ALL_REDUCE, 30, 1)]

    told = job(tmp_path, body, numbers=lambda rank, step: step + 100 * rank)
    assert of(told, "straggler")[0].where.ranks == (1,)
    assert any("rank 1 100 to 104" in note for note in told.notes)


def test_a_hole_between_two_recorded_windows_is_no_pause(tmp_path: Path) -> None:
    """Steps 1 to 3, and 20 to 22 after 200 ms that nobody recorded."""
    file, at = TraceFile(), 100_000.0
    for step in (1, 2, 3, 20, 21, 22):
        at += 200_000 if step == 20 else 0
        begin = at
        for _ in range(10):
            file.kernel(GEMM, at + 5, 200, launch=at)
            at += 210
        file.host(f"ProfilerStep#{step}", begin, at - begin)
    told = advise(file.trace(tmp_path))
    assert not of(told, "gc-pause")
    assert of(told, "unrecorded-work")[0].cost_ns == pytest.approx(200e6 / 6, rel=0.01)


def test_without_device_work_rules_say_that_they_could_not_look(tmp_path: Path, run: Run) -> None:
    file = TraceFile()
    for step in range(4):
        file.host("aten::linear", step * 1000, 900, cat="cpu_op").host(f"ProfilerStep#{step}", step * 1000, 950)
    path = file.write(tmp_path / "trace.json")
    told = advise(str(path))
    assert "No work of a device is recorded" in told.headline
    assert {each.rule for each in told.not_found if each.looked} <= {"sync-every-step", "data-loading"}
    code, _, err = run("advise", str(path), "-q", "--gate", "all")
    assert code == 1
    assert "cannot be judged: no work of a device is recorded" in err


def two_devices(folder: Path, *, second: int) -> AdviceReport:
    """Kernels of 200 µs that wait for their launch, on two devices of a process; the second has `second` a step."""
    file, at = TraceFile(rank=None), 100_000.0
    for step in range(5):
        begin = at
        for number in range(10):
            file.kernel(GEMM, at + 5, 200, launch=at)
            if number < second:
                file.kernel(GEMM, at + 10, 5 if second == 1 else 60, launch=at + 2, device=1)
            at += 300
        file.host(f"ProfilerStep#{step}", begin, at - begin)
    return advise(file.trace(folder))


def test_findings_of_two_devices_name_the_device(tmp_path: Path) -> None:
    [found] = of(two_devices(tmp_path, second=10), "host-bound")
    assert found.sentence.startswith("On device 1 of 2, ")


def test_a_device_that_the_run_does_not_use_is_left_out(tmp_path: Path) -> None:
    told = two_devices(tmp_path, second=1)
    assert not any("evice 1" in each.sentence or " of 2" in each.sentence for each in told.findings)
    assert any("Device 1 works 25.0 µs in all" in note for note in told.notes)


def test_a_gate_lets_pass_what_is_not_worth_a_change(tmp_path: Path, run: Run) -> None:
    def body(rank: int, step: int) -> list[Layer]:
        return [(GEMM, 2000, 0), (ALL_REDUCE, 1600, 64)]

    told = job(tmp_path, body)
    assert {each.worth for each in told.remarks if each.rule == "leave-it"} <= {"not worth it"}
    path = str(tmp_path / "job")
    for rule in {each.rule for each in told.losses if each.worth == "not worth it"}:
        assert run("advise", path, "-q", "--gate", rule)[0] == 0
        assert run("advise", path, "-q", "--gate", rule, "--beyond", "0%")[0] == 1
    code, _, err = run("advise", path, "--gate", "all", "--beyond", "7")
    assert code == 2
    assert "7%" in err

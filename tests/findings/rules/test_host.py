"""Rules of the host, on small made traces: they fire with the right cost, and not where nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tracefile import GEMM, TraceFile
from weftrace.advice.findings.advising import replays_of
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rules.host import host_bound, sync_every_step
from weftrace.advice.findings.rules.loading import data_loading
from weftrace.advice.findings.rules.tiny_kernels import tiny_kernels
from weftrace.trace.work import work_of

US = 1_000
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def evidence_of(file: TraceFile, folder: Path) -> Evidence:
    return Evidence(work=work_of(file.trace(folder)))


def fired(found: list[Any]) -> Found:
    (one,) = found
    assert isinstance(one, Found) and len(one.sentence) <= 170 and one.sentence.endswith(".")
    return one


def launch(file: TraceFile, at: float, start: float, us: float, *, op: float) -> None:
    """An operator that begins `op` µs before it launches a kernel, in a call of 1 µs."""
    file.host("aten::mm", at - op, op + 2, cat="cpu_op")
    file.kernel(GEMM, start, us, launch=at)


def eager(kernel_us: float, *, steps: int = 4) -> TraceFile:
    """Steps of 20 operators, one in each 40 µs, that each launch a kernel."""
    file, at, free = TraceFile(), 0.0, 0.0
    for step in range(steps):
        begin = at
        for _ in range(20):
            at += 40
            free = max(at + 3, free) + kernel_us
            launch(file, at, free - kernel_us, kernel_us, op=38)
        at += 4
        file.host(f"ProfilerStep#{step}", begin, at - begin)
    return file


def test_the_host_is_slower_than_the_device(tmp_path: Path) -> None:
    evidence = evidence_of(eager(10), tmp_path)
    one = fired(list(host_bound(evidence)))
    assert one.cost_ns == (79 * 30 + 3 * 4) * US == evidence.idle.idle_ns
    assert one.where.operator == "aten::mm" and one.confidence == "high"
    assert "20 launches per step" in one.sentence
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None, why
    assert gain.low_ns * 4 == pytest.approx(79 * 20 * US, rel=0.05)  # an operator each 20 µs
    assert gain.high_ns * 4 == pytest.approx(one.cost_ns, rel=0.05)


def test_a_host_that_runs_ahead_costs_nothing(tmp_path: Path) -> None:
    assert list(host_bound(evidence_of(eager(60), tmp_path))) == []


def test_without_launches_nothing_is_told(tmp_path: Path) -> None:
    file = TraceFile()
    for at in range(10):
        file.kernel(GEMM, at * 100, 10, linked=False)
    (one,) = host_bound(evidence_of(file, tmp_path))
    assert isinstance(one, Missing)


def waiting(host_us: float, *, steps: int = 4, ahead: bool = False) -> TraceFile:
    """Each step launches 300 µs of work, reads a number, and works for a while before the next launches. ahead: the
    number is of the step before, and the device has work meanwhile."""
    file, at, ends = TraceFile(), 10.0, [0.0]
    for step in range(steps):
        begin = at - 5
        start = max(at + 3, ends[-1])
        launch(file, at, start, 300, op=4)
        ends.append(start + 300)
        until = max(at + 5, ends[-2 if ahead else -1]) + 2
        file.host("aten::item", at + 3, until - at - 2, cat="cpu_op")
        file.host("cudaStreamSynchronize", at + 4, until - at - 4, cat="cuda_runtime")
        at = until + host_us
        file.host(f"ProfilerStep#{step}", begin, at - begin - 5)
    return file


def test_the_host_waits_in_every_step(tmp_path: Path) -> None:
    evidence = evidence_of(waiting(60), tmp_path)
    one = fired(list(sync_every_step(evidence)))
    assert one.cost_ns == 3 * 65 * US  # until the device works again
    assert one.where.operator == "aten::item" and "once per step in aten::item" in one.sentence
    names = evidence.trace.events.get_column("name").cast(str).gather(list(one.where.events)).to_list()
    assert names == ["cudaStreamSynchronize"] * 3
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None, why
    assert gain.high_ns * 4 == pytest.approx(one.cost_ns, rel=0.1)
    assert list(host_bound(evidence)) == []


def test_another_thread_launches_after_a_wait(tmp_path: Path) -> None:
    """The main thread reads the loss and works for 1.5 ms, of which nothing is recorded; the backward pass is launched
    by a thread of its own."""
    file, at = TraceFile(), 10.0
    for step in range(4):
        begin = at - 5
        launch(file, at, at + 3, 2_000, op=4)
        file.host("aten::item", at + 3, 2_003, cat="cpu_op")
        file.host("cudaStreamSynchronize", at + 4, 2_001, cat="cuda_runtime")
        at += 2_005 + 1_500 + 9 * step  # what is as long each time is taken for unrecorded work
        file.host("autograd::engine::evaluate_function: MmBackward0", at - 4, 6, cat="cpu_op", tid=2)
        file.kernel(GEMM, at + 3, 2_000, launch=at, launch_tid=2)
        at += 1_995
        file.host(f"ProfilerStep#{step}", begin, at - begin - 6)
    evidence = evidence_of(file, tmp_path)
    one = fired(list(sync_every_step(evidence)))
    assert one.cost_ns == pytest.approx(4 * 1_514 * US, rel=0.01)
    assert one.where.operator == "aten::item" and one.where.events
    assert list(host_bound(evidence)) == []


def test_a_wait_costs_nothing_while_the_device_has_work(tmp_path: Path) -> None:
    assert list(sync_every_step(evidence_of(waiting(60, ahead=True), tmp_path))) == []


def test_waits_that_cost_little_are_not_told(tmp_path: Path) -> None:
    assert list(sync_every_step(evidence_of(waiting(0.5), tmp_path))) == []


def loading(us: float, *, steps: int = 4, kernel_us: float = 400, name: str = LOADER) -> TraceFile:
    """The loader takes a while in each step, then one operator launches a kernel. Without a name nothing is recorded,
    and it takes longer each time: what takes as long each time is taken for unrecorded work."""
    file, at, free = TraceFile(), 0.0, 0.0
    for step in range(steps):
        begin = at
        if name:
            file.host(name, at, us)
        else:
            us *= 1.1
        at += us + 6
        free = max(at + 3, free) + kernel_us
        launch(file, at, free - kernel_us, kernel_us, op=5)
        at += 4
        file.host(f"ProfilerStep#{step}", begin, at - begin)
    return file


def test_the_device_waits_for_the_loader(tmp_path: Path) -> None:
    evidence = evidence_of(loading(2_000), tmp_path)
    one = fired(list(data_loading(evidence)))
    assert one.cost_ns == 3 * (2_000 - 399) * US  # the kernel before runs until 399 µs after the loader has begun
    assert one.confidence == "high" and "DataLoader" in one.sentence
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None, why
    assert gain.high_ns * 4 == pytest.approx(one.cost_ns, rel=0.02)
    assert gain.low_ns < gain.high_ns  # one worker cannot load so fast
    assert list(host_bound(evidence)) == []


def test_a_loader_that_is_hidden_costs_nothing(tmp_path: Path) -> None:
    assert list(data_loading(evidence_of(loading(300), tmp_path))) == []


def test_silence_at_the_start_of_every_step_is_likely_the_loader(tmp_path: Path) -> None:
    one = fired(list(data_loading(evidence_of(loading(2_000, name=""), tmp_path))))
    assert one.confidence == "low" and one.is_bound


def test_a_loader_of_a_training_on_cpus(tmp_path: Path) -> None:
    file = TraceFile()
    for step in range(3):
        begin = step * 1_000.0
        file.host(f"ProfilerStep#{step}", begin, 999)
        file.host("aten::mm", begin + 1, 399, cat="cpu_op")
        file.host(LOADER, begin + 450, 500)
        file.host("aten::stack", begin + 500, 100, cat="cpu_op")  # the loader's own
        file.host("aten::work", begin + 900, 20, cat="cpu_op", tid=2)  # another thread works meanwhile
    evidence = evidence_of(file, tmp_path)
    one = fired(list(data_loading(evidence)))
    assert evidence.span_ns == 2_919 * US
    assert one.cost_ns == (480 + 480 + 450) * US  # the recording ends in the last one
    assert one.saves_ns == (1_410 * US, 1_410 * US)
    gain, _ = replays_of(evidence).gain_of(one)
    assert gain is not None and gain.method == "measured" and gain.high_ns == 470 * US


def test_short_kernels_are_told(tmp_path: Path) -> None:
    evidence = evidence_of(eager(4), tmp_path)
    one = fired(list(tiny_kernels(evidence)))
    assert evidence.span_ns == one.evidence[0].value
    assert one.cost_ns == 80 * 4 * US  # the gaps are the host's
    assert one.sentence.startswith("100 % of the kernels take at most 5.00 µs")
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None, why
    assert 0.85 < gain.low_share < gain.high_share <= 1  # as a graph, and as one kernel


def test_short_kernels_of_operators_that_launch_others_are_fused(tmp_path: Path) -> None:
    """Each operator launches three short kernels and a long one: what it does between launches stays."""
    file = TraceFile()
    for at in range(40):
        file.host("aten::mul", 40.0 * at, 38, cat="cpu_op")
        for number, us in enumerate((2, 2, 2, 6)):
            file.kernel(GEMM, 40.0 * at + 10 * number + 5, us, launch=40.0 * at + 10 * number + 2)
    evidence = evidence_of(file, tmp_path)
    one = fired(list(tiny_kernels(evidence)))
    (change,) = one.least
    assert str(change).startswith("half as many short kernels")
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None, why
    assert gain.low_ns < gain.high_ns == pytest.approx(40 * 2 * US, rel=0.05)  # two launch calls of 1 µs


def test_longer_kernels_are_not_told(tmp_path: Path) -> None:
    assert list(tiny_kernels(evidence_of(eager(6), tmp_path))) == []


def test_short_kernels_behind_a_host_that_is_ahead_are_hidden(tmp_path: Path) -> None:
    file = TraceFile()
    for at in range(400):
        launch(file, 3.0 * at, 2_000 + 5.0 * at, 4, op=2)
    assert list(tiny_kernels(evidence_of(file, tmp_path))) == []


def test_silence_after_waits_is_theirs_where_the_host_waited_as_long(tmp_path: Path) -> None:
    file, at = TraceFile(), 10.0
    for step in range(4):
        begin, us = at - 5, 1_500 + 100.0 * step
        launch(file, at, at + 3, 4_000, op=4)
        file.host("aten::item", at + 3, 4_002, cat="cpu_op")
        file.host("cudaStreamSynchronize", at + 4, 4_001, cat="cuda_runtime")
        at += 4_005 + us
        file.host(f"ProfilerStep#{step}", begin, at - begin - 6)
    evidence = evidence_of(file, tmp_path)
    one = fired(list(sync_every_step(evidence)))
    assert one.cost_ns == evidence.idle.idle_ns == (1_500 + 1_600 + 1_700 + 3 * 5) * US
    assert list(host_bound(evidence)) == []
    assert fired(list(data_loading(evidence))).confidence == "low"  # where a loader may be, too


def test_small_copies_to_the_host_are_waits(tmp_path: Path) -> None:
    """tolist(): a copy of 256 bytes, for which the host waits, and 40 µs of its own in each step."""
    file, at = TraceFile(), 10.0
    for step in range(4):
        launch(file, at, at + 3, 300, op=4)
        file.host("aten::copy_", at + 3, 310, cat="cpu_op")
        file.kernel("Memcpy DtoH (Device -> Pageable)", at + 304, 2, launch=at + 5, cat="gpu_memcpy", bytes=256,
                    call="cudaMemcpyAsync")  # fmt: skip
        file.host("cudaStreamSynchronize", at + 7, 301, cat="cuda_runtime")
        file.host(f"ProfilerStep#{step}", at - 5, 340)
        at += 348
    one = fired(list(sync_every_step(evidence_of(file, tmp_path))))
    assert one.cost_ns == 3 * 45 * US and one.where.operator == "aten::copy_"

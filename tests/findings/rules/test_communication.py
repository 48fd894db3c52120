"""Rules of communication, on traces whose answers can be told by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.findings.planted_jobs.catalogue import cases
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.advice.findings.advising import advise
from weftrace.analysis.findings import AdviceReport, Finding
from weftrace.units import US


def told(report: AdviceReport, rule: str) -> list[Finding]:
    return [each for each in report.findings if each.rule == rule]


def serial(folder: Path, exposed: float, *, steps: int = 4, layers: int = 5) -> AdviceReport:
    """Layers of 1 ms of GEMM and an all-reduce on one stream, launched far ahead: nothing hides the latter."""
    file, at, launch = TraceFile(window=True), 100_000.0, 0.0
    for step in range(steps):
        begin = launch
        for _ in range(layers):
            file.kernel(GEMM, at, 1000, launch=launch + 5)
            file.kernel(ALL_REDUCE, at + 1002, exposed, launch=launch + 15, **NCCL)
            at, launch = at + 1004 + exposed, launch + 30
        file.host(f"ProfilerStep#{step}", begin, launch - begin)
    return advise(file.trace(folder))


NCCL: dict[str, Any] = {"Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
        "Group size": 8, "dtype": "BFloat16"}  # fmt: skip


def test_exposed_collective_costs_what_nothing_hides(tmp_path: Path) -> None:
    [found] = told(serial(tmp_path, 200), "exposed-collective")
    assert found.cost_ns == 5 * 200 * US
    assert "all of it is all_reduce, for which gemm waits" in found.sentence
    assert found.gain is not None
    assert found.gain.high_ns == pytest.approx(5 * 200 * US, abs=5 * 3 * US)
    assert found.gain.low_ns == pytest.approx(5 * 100 * US, abs=5 * 3 * US)
    assert len(found.where.events) == 20


def test_exposed_collective_is_silent_below_its_threshold(tmp_path: Path) -> None:
    assert not told(serial(tmp_path, 5), "exposed-collective")


def beside(folder: Path, *, tail: float = 0.0, steps: int = 4, layers: int = 5) -> AdviceReport:
    """All-reduces of 500 µs on a stream of their own, beside the GEMM of the next layer; the last one's GEMM ends
    `tail` before it does. What comes next waits for it."""
    file, at, launch = TraceFile(window=True), 100_000.0, 0.0
    for step in range(steps):
        begin = launch
        for layer in range(layers):
            is_last = layer == layers - 1
            file.kernel(GEMM, at, 1000, launch=launch + 5)
            length = 500.0
            if is_last:
                at, length = at + 1002, max(tail, 3)
                file.kernel(ALL_REDUCE, at, length, stream=20, launch=launch + 15, **NCCL)
                at += length + 2
            else:
                file.kernel(ALL_REDUCE, at + 1002, length, stream=20, launch=launch + 15, **NCCL)
                at += 1002
            launch += 30
        file.host(f"ProfilerStep#{step}", begin, launch - begin)
    return advise(file.trace(folder))


def test_hidden_communication_is_no_finding(tmp_path: Path) -> None:
    report = beside(tmp_path)
    assert not told(report, "exposed-collective")
    assert not told(report, "first-and-last-collective")
    assert not told(report, "one-connection")


def test_the_last_reduction_of_several_is_told_apart(tmp_path: Path) -> None:
    report = beside(tmp_path, tail=400)
    [found] = told(report, "first-and-last-collective")
    assert found.cost_ns == pytest.approx(400 * US, rel=0.05)
    assert "last reduction" in found.sentence
    assert found.gain is not None
    assert found.gain.high_ns == pytest.approx(400 * US, rel=0.05)
    assert not told(report, "exposed-collective")


def test_the_published_training_profile(shared_data: Path) -> None:
    """The last layer's dispatch(B) hides behind nothing, barriers wait longer from layer to layer, kernels wait for
    SMs, and a faster network saves 1.3 %."""
    report = advise(str(shared_data / "deepseek-v3-train.json.gz"))
    [exposed] = told(report, "exposed-collective")
    assert "dispatch(B) of layer 3" in exposed.sentence
    assert exposed.cost_share == pytest.approx(0.015, abs=0.003)
    [waits] = told(report, "expert-imbalance")
    by_layer = [number.value for number in waits.evidence if number.name.startswith("waiting in layer")]
    assert by_layer == sorted(by_layer)
    assert sum(by_layer) == pytest.approx(32_988 * US, rel=0.001)
    [sms] = told(report, "sm-wait")
    assert sms.cost_ns == pytest.approx(4.2e6, rel=0.05)
    [leave] = told(report, "leave-it")
    assert "communication" in leave.sentence
    assert "1.3 %" in leave.sentence


CONTENTION = next(case for case in cases() if "contention, middle, ddp, nvidia, 4" in case.name)


def test_contention_costs_at_most_what_kernels_lose(tmp_path: Path) -> None:
    [found] = told(advise(str(CONTENTION.write(tmp_path)), workers=1), "contention")
    assert found.gain is not None
    assert found.gain.low_share <= CONTENTION.gain["contention"] <= found.gain.high_share + 0.03

"""Rules of jobs, on simulated jobs whose truth is known."""

from __future__ import annotations

from pathlib import Path

import pytest

import weftrace as wt
from tests.findings.planted_jobs.catalogue import cases
from tests.fuzz import few
from tests.jobs import plants, recipes, write
from tests.jobs import simulate as sim
from tests.tracefile import GEMM, TraceFile
from weftrace.advice.findings.advising import advise
from weftrace.analysis.findings import AdviceReport, Finding

_OF_JOBS = {"straggler", "slow-clocks", "slow-stage", "sequence-imbalance", "gc-pause"}


def told(job: sim.Job, folder: Path) -> AdviceReport:
    """A file a rank, with kernels."""
    job = sim.with_hosts(job)
    return advise(wt.open(str(write.kineto(job, sim.run(job), folder / "job"))))


def of(report: AdviceReport, rule: str) -> list[Finding]:
    return [each for each in report.findings if each.rule == rule]


def test_a_healthy_job_has_no_finding_of_jobs(tmp_path: Path) -> None:
    assert not _OF_JOBS & {each.rule for each in told(plants.noisy(recipes.ddp(4), 0.01, 1), tmp_path).findings}


def test_a_straggler_costs_what_it_takes_longer(tmp_path: Path) -> None:
    """A step computes 4 + 8 + 1 ms; one of four ranks takes 1.4 times as long."""
    report = told(plants.slow_worker(recipes.ddp(4), 2, 1.4), tmp_path)
    [found] = of(report, "straggler")
    assert found.where.ranks == (2,)
    assert found.gain is not None
    assert found.gain.low_ns == pytest.approx(0.4 * 13e6, rel=0.05)
    assert found.cost_ns == pytest.approx(0.4 * 13e6, rel=0.05)
    [clocks] = of(report, "slow-clocks")
    assert clocks.confidence == "medium"
    assert "1.40 times" in clocks.sentence


def test_one_slow_kind_of_kernel_is_not_the_clocks(tmp_path: Path) -> None:
    report = told(plants.slow_kernel(recipes.ddp(4), 1, 1.8), tmp_path)
    assert of(report, "straggler")[0].where.ranks == (1,)
    assert not of(report, "slow-clocks")


def test_a_slow_stage(tmp_path: Path) -> None:
    job = plants.slow_stage(recipes.pipeline(2, 2), 1, 1.5)
    even = plants.slow_stage(recipes.pipeline(2, 2), 1, 1.5, is_even=True)
    [found] = of(told(job, tmp_path), "slow-stage")
    truth = sim.span(job, sim.run(job)) - sim.span(even, sim.run(even))
    assert found.gain is not None
    assert found.gain.low_ns * 4 <= 1.05 * truth
    assert found.gain.high_ns * 4 == pytest.approx(truth, rel=0.15)


PLANTED = {
    rule: next(case for case in cases() if f"{rule}, {strength}" in case.name and "8 of" not in case.name)
    for rule, strength in (
        ("one-connection", "middle"), ("small-collectives", "middle"), ("tensor-parallel-across-nodes", "mild"),
        ("expert-imbalance", "middle"), ("sequence-imbalance", "mild"), ("pipeline-bubble", "strong"),
    )
}  # fmt: skip


@pytest.mark.parametrize("rule", few(PLANTED, 3))
def test_a_planted_cause_is_told_with_its_gain(rule: str, tmp_path: Path) -> None:
    case = PLANTED[rule]
    report = advise(str(case.write(tmp_path)), workers=1)
    [found] = of(report, rule)
    assert found.gain is not None
    assert found.gain.low_share - 0.03 <= case.gain[rule] <= found.gain.high_share + 0.03
    assert len(found.sentence) <= 260


def test_clocks_that_fall_in_the_midst_of_a_recording(tmp_path: Path) -> None:
    """Two kinds of kernels of 1 ms take 1.2 ms from the third of five steps on."""
    file, at, launch = TraceFile(window=True), 100_000.0, 0.0
    for step in range(5):
        begin, length = launch, 1000.0 if step < 2 else 1200.0
        for name in (GEMM, "void at::native::vectorized_elementwise_kernel<4>"):
            file.kernel(name, at, length, launch=launch + 5, blocks=132)
            at, launch = at + length + 2, launch + 20
        file.host(f"ProfilerStep#{step}", begin, launch - begin)
    [found] = of(advise(file.trace(tmp_path)), "slow-clocks")
    assert found.cost_ns == pytest.approx(3 * 2 * 200_000 / 5, rel=0.01)
    assert "From step 2 on" in found.sentence

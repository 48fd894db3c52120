"""Rules of jobs, on simulated jobs whose truth is known."""

from __future__ import annotations

from pathlib import Path

import pytest

import weftrace as wt
from tests.jobs import plants, recipes, write
from tests.jobs import simulate as sim
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
    assert found.gain.low_ns * 4 == pytest.approx(truth, rel=0.15)

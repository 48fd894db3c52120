"""S of simulated jobs, whose truth another scheduler tells; who is named, and for what."""

from __future__ import annotations

from pathlib import Path

import pytest

import weftrace as wt
from tests.jobs import simulate as sim
from tests.jobs import write
from tests.jobs.confusion import Case, cases, outcome
from weftrace.advice import infer_job, infer_lanes_of, slowdown_of
from weftrace.advice.document import critical_path_report
from weftrace.errors import AdviceError, TraceError
from weftrace.report.build import analyze

_CHOSEN = (
    "1f1b 2x4 · slow · plain", "1f1b 2x4 · slow since 2 · ranks", "1f1b 4x2 · two slow · plain",
    "1f1b 2x4 · last stage · transfers", "1f1b 2x4 · lengths · plain", "1f1b 2x4 · collections · plain",
    "1f1b 2x4 · host · ranks", "1f1b 4x2 · link · plain", "1f1b 2x4 · nothing · table",
    "interleaved 2x2 · last stage · plain", "async 2x4 · slow · plain", "gpipe 2x2 · first stage · ranks",
    "ddp 4 · slow · plain", "ddp 4 · slow · kineto", "fsdp 4 · two slow · plain", "1f1b 2x4 · last stage · kineto",
    "1f1b 2x4 · slow · kineto",
)  # fmt: skip


@pytest.mark.parametrize("case", [case for case in cases() if case.name in _CHOSEN], ids=lambda case: case.name)
def test_s_and_its_first_cause(case: Case) -> None:
    found = outcome(case)
    assert found.is_right, (found.told, found.sentence)
    assert abs(found.error) <= 0.01, (found.error, found.truth)


def test_the_grid_holds_what_is_tested() -> None:
    assert {case.name for case in cases()} >= set(_CHOSEN)


def test_one_slow_rank_by_hand(tmp_path: Path) -> None:
    """Four ranks compute 5 + 10 ms and meet in 1 ms of all-reduce; one takes 1.4 times as long: the mean is 1.1."""
    job = sim.slow_worker(sim.ddp(4, steps=3, buckets=1, forward=5e6, transfer=1e6), 2, 1.4)
    found = slowdown_of(infer_lanes_of(wt.open(str(write.one_file(job, sim.run(job), tmp_path / "t.json")))))
    step = 5 + 10 + 1 + 5 / 4
    assert found.slowdown == pytest.approx((1.4 * (step - 1) + 1) / (1.1 * (step - 1) + 1), rel=0.02)
    assert found.causes[0].ranks == (2,)
    assert found.causes[0].saved_ns == pytest.approx(0.4 * (step - 1) * 1e6, rel=0.02)
    assert found.workers.get_column("slowdown").arg_max() == 2
    assert max(map(sum, found.origin_ns)) == sum(found.origin_ns[2])
    assert found.worst_share == pytest.approx(1, abs=0.05)
    assert found.lost_gpu_hours > 0


def test_both_of_two_slow_ranks_are_named_with_what_repairing_one_saves(tmp_path: Path) -> None:
    job = sim.slow_worker(sim.slow_worker(sim.ddp(6), 1, 1.3), 4, 1.3)
    found = slowdown_of(infer_lanes_of(wt.open(str(write.one_file(job, sim.run(job), tmp_path / "t.json")))))
    cause = found.causes[0]
    assert set(cause.ranks) == {1, 4}
    assert max(cause.saved_each_ns) < 0.05 * cause.saved_ns
    assert "one alone saves" in cause.sentence


def test_a_report_begins_with_it_and_documents_hold_it(tmp_path: Path) -> None:
    job = sim.slow_stage(sim.pipeline(2, 4), 3, 1.4)
    path = write.one_file(job, sim.run(job), tmp_path / "t.json")
    report = analyze(path)
    assert report.document["headline"].startswith("Stage 3 (the last) computes 1.40× as long as the others")
    saved = tmp_path / "s.json"
    found = slowdown_of(infer_job(wt.open(str(path))))
    wt.save(found, str(saved))
    again = wt.load(str(saved))
    assert again.slowdown == found.slowdown
    assert again.causes == found.causes
    assert report.document["slowdown"] is not None
    assert report.document["slowdown"]["slowdown"] == pytest.approx(found.slowdown)


def test_ranges_have_a_critical_path_and_what_ifs(tmp_path: Path) -> None:
    job = sim.slow_worker(sim.pipeline(2, 2), 3, 1.5)
    path = write.table(job, sim.run(job), tmp_path / "t.parquet")
    inferred = infer_job(wt.open(str(path)))
    assert inferred.replay.is_trustworthy, inferred.replay.doubts
    report = critical_path_report(inferred)
    assert report.by_rank[0]["name"] in ("1", "3")
    half = wt.advice.what_if(inferred, [wt.advice.parse_change("rank:3=0.6667")])
    assert half.after_ns < inferred.replay.replayed_ns


def test_one_rank_has_no_peers(tmp_path: Path) -> None:
    job = sim.ddp(1)
    with pytest.raises((AdviceError, TraceError)):
        slowdown_of(infer_lanes_of(wt.open(str(write.one_file(job, sim.run(job), tmp_path / "t.json")))))


def test_a_recorded_job_has_the_published_s(shared_data: Path) -> None:
    """ByteDance's analyser tells 1.179, and 1.201 with launches."""
    path = shared_data / "bytedance-straggler-ST.json.gz"
    found = slowdown_of(infer_lanes_of(wt.open(str(path))))
    assert found.without_hosts == pytest.approx(1.179, abs=0.002)
    assert found.slowdown == pytest.approx(1.179, rel=0.01)
    assert abs(found.error) < 0.001
    assert found.causes[0].kind == "uneven stages"
    assert found.causes[0].stages == (3,)

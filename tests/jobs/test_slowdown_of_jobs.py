"""S of simulated jobs, whose truth another scheduler tells; who is named, and for what."""

from __future__ import annotations

from pathlib import Path

import pytest

import weftrace as wt
from tests.fuzz import few
from tests.jobs import plants, recipes, write
from tests.jobs import simulate as sim
from tests.jobs.confusion import Case, cases, outcome, summary
from weftrace.advice import infer_job, infer_lanes_of, slowdown_of
from weftrace.advice.document import critical_path_report
from weftrace.errors import AdviceError, TraceError
from weftrace.report.build import analyze

#: A few of each kind of job, of file and of cause.
_CHOSEN = (
    "1f1b 2x4 · nothing · kineto clocks", "1f1b 2x4 · slow · plain", "1f1b 2x4 · slow kernel · kineto",
    "1f1b 2x4 · slow since · table", "1f1b 2x4 · lengths · ranks", "1f1b 2x4 · collections · table",
    "1f1b 2x4 · link pair · ranks clocks", "1f1b 2x4 · nic · table", "1f1b 2x4 · slow and last stage · ranks clocks",
    "1f1b 2x4 · slow and link pair · plain", "1f1b 4x2 · two slow · ranks", "1f1b 4x2 · host · plain",
    "gpipe 2x2 · first stage · transfers", "interleaved 2x2 · last stage · table",
    "interleaved 2x4 · last stage · ranks", "async 2x4 · slow · ranks",
    "zb1p 2x4 · slow backward · plain", "dualpipe 2x4 · slow · table", "dualpipe 2x4 · nothing · ranks clocks",
    "ddp 4 · nothing · kineto old", "ddp 4 · slow · ranks clocks",
    "zero2 4 · slow since · kineto old", "fsdp 4 · two slow · kineto noseq", "tp 2x2x2 · slow · collapsed ranks",
    "tp 2x2x2 · slow · tp nested", "tp 2x2x2 · lengths · tp table", "tp interleaved 2x2x2 · first stage · tp apart",
    "ddp 4 · lengths · kineto noseq", "dualpipe 2x4 · slow · kineto clocks",
    "ddp 8 · slow · ranks · absent half", "ddp 8 · two slow · kineto · absent all but 2",
    "zero2 4 · slow since · kineto · absent one here",
)  # fmt: skip


@pytest.mark.parametrize(
    "case", few([case for case in cases() if case.name in _CHOSEN], 10), ids=lambda case: case.name
)
def test_s_and_its_first_cause(case: Case) -> None:
    found = outcome(case)
    assert not found.wrong, (found.wrong, found.told, found.sentence)
    assert abs(found.error) <= 0.01, (found.error, found.truth)


def test_the_grid_holds_what_is_tested() -> None:
    assert {case.name for case in cases()} >= set(_CHOSEN)


@pytest.mark.thorough
def test_nearly_all_of_the_grid_is_told_right() -> None:
    found = [outcome(case) for case in cases() if case.seed % 8 == 0]
    assert sum(not one.wrong for one in found) >= 0.98 * len(found), summary(found)


# --- the simulation itself --------------------------------------------------------------------------------------------


def test_the_bubble_of_one_forward_one_backward() -> None:
    """m micro-batches of F = 1 ms and B = 2 ms on p stages end after (m + p - 1)(F + B): a bubble of (p - 1)/(m + p
    - 1). Without data parallelism the optimizer's third of a forward comes after it."""
    job = recipes.pipeline(1, 4, num_mb=8, steps=1, transfer=0)
    whole = sim.span(job, sim.run(job)) - 1e6 / 3
    assert whole == pytest.approx((8 + 4 - 1) * 3e6)
    assert 1 - 8 * 3e6 / whole == pytest.approx((4 - 1) / (8 + 4 - 1))


@pytest.mark.parametrize(("stages", "bubble_ms"), [(2, 0), (4, 2)])
def test_dualpipe_by_hand(stages: int, bubble_ms: int) -> None:
    """Its bubble is (p/2 - 1)(F&B + B - 3W) with F = W = 1 ms, B = 2 and F&B = 3: none of two stages, 2 ms of four."""
    job = recipes.pipeline(1, stages, schedule="dualpipe", num_mb=8, steps=1, transfer=0, overlapped=3)
    assert sim.span(job, sim.run(job)) - 1e6 / 3 == pytest.approx(8 * 3e6 + bubble_ms * 1e6)


def test_s_of_one_slow_rank_in_the_simulation() -> None:
    """Two ranks of one stage compute 4 + 8 ms and reduce 1 ms; optimizer 1 ms. One takes 1.5 times as long, so their
    mean 1.25 times: S = (1.5 * 13 + 1) / (1.25 * 13 + 1)."""
    job = plants.slow_worker(recipes.ddp(2, buckets=1, transfer=1e6), 1, 1.5)
    assert sim.slowdown(job) == pytest.approx((1.5 * 13 + 1) / (1.25 * 13 + 1))


def test_a_late_host_costs_what_its_device_starves() -> None:
    """A host that stops for 20 ms while its device runs a forward of 4 ms: the device waits for the rest, 16 ms."""
    job = plants.late_host(recipes.ddp(2, steps=1, buckets=1), 1, 20e6, name="pause")
    with_host = sim.with_hosts(job)
    even = sim.with_hosts(recipes.ddp(2, steps=1, buckets=1))
    assert sim.span(with_host, sim.run(with_host)) - sim.span(even, sim.run(even)) == pytest.approx(16e6, rel=0.01)


def test_a_tensor_group_is_as_slow_as_its_slowest() -> None:
    """Two stages of two tensor ranks: a log of the first of each shows the same time, and blames the group."""
    job = plants.slow_worker(recipes.pipeline(1, 2, tp=2), 3, 1.4)
    log = sim.tensor_groups_hidden(job, is_one_each=True)
    assert sim.span(log, sim.run(log)) == pytest.approx(sim.span(job, sim.run(job)), rel=0.01)
    assert log.planted[0].ranks == (1,)


# --- what is told, by hand --------------------------------------------------------------------------------------------


def test_one_slow_rank_by_hand(tmp_path: Path) -> None:
    """Four ranks compute 5 + 10 ms and meet in 1 ms of all-reduce; one takes 1.4 times as long: the mean is 1.1."""
    job = plants.slow_worker(recipes.ddp(4, steps=3, buckets=1, forward=5e6, transfer=1e6), 2, 1.4)
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
    job = plants.slow_worker(plants.slow_worker(recipes.ddp(6), 1, 1.3), 4, 1.3)
    found = slowdown_of(infer_lanes_of(wt.open(str(write.one_file(job, sim.run(job), tmp_path / "t.json")))))
    cause = found.causes[0]
    assert set(cause.ranks) == {1, 4}
    assert max(cause.saved_each_ns) < 0.05 * cause.saved_ns
    assert "one alone saves" in cause.sentence


def test_a_report_begins_with_it_and_documents_hold_it(tmp_path: Path) -> None:
    job = plants.slow_stage(recipes.pipeline(2, 4), 3, 1.4)
    path = write.one_file(job, sim.run(job), tmp_path / "t.json")
    report = analyze(path)
    assert report.document["headline"].startswith("Stage 3 (the last) computes 1.39× as long as the others")
    saved = tmp_path / "s.json"
    found = slowdown_of(infer_job(wt.open(str(path))))
    wt.save(found, str(saved))
    again = wt.load(str(saved))
    assert again.slowdown == found.slowdown
    assert again.causes == found.causes
    assert report.document["slowdown"] is not None
    assert report.document["slowdown"]["slowdown"] == pytest.approx(found.slowdown)


def test_ranges_have_a_critical_path_and_what_ifs(tmp_path: Path) -> None:
    job = plants.slow_worker(recipes.pipeline(2, 2), 3, 1.5)
    path = write.table(job, sim.run(job), tmp_path / "t.parquet")
    inferred = infer_job(wt.open(str(path)))
    assert inferred.replay.is_trustworthy, inferred.replay.doubts
    report = critical_path_report(inferred)
    assert report.by_rank[0]["name"] in ("1", "3")
    half = wt.advice.what_if(inferred, [wt.advice.parse_change("rank:3=0.6667")])
    assert half.after_ns < inferred.replay.replayed_ns


def test_one_rank_has_no_peers(tmp_path: Path) -> None:
    job = recipes.ddp(1)
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

"""A what-if of some ranks of a job holds the truth: the same job simulated again with the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

import weftrace as wt
from tests.trust.jobs import CHANGES, KINDS, MAIN, random_job, scaled
from tests.trust.simulator import Change, Job
from weftrace.advice import NoHostGaps, critical_path_report, curve, infer_job, parse_change, sensitivity, what_if
from weftrace.advice import changes as advised
from weftrace.advice.absent_ranks import absent_from
from weftrace.advice.bounds import tried
from weftrace.advice.changes import SmSplit
from weftrace.advice.waterfalls import waterfall
from weftrace.advice.whatif_document import what_if_report
from weftrace.plan import Inferred, by_phase

#: Which files are given of a job of four ranks, and what these tell.
GIVEN = {
    "one": ((1,), True),
    "three": ((0, 1, 3), True),
    "one, no metadata": ((1,), False),
    "all, no metadata": ((0, 1, 2, 3), False),
    "all": ((0, 1, 2, 3), True),
}


def changes_of(text: str) -> list[advised.Change]:
    return [NoHostGaps()] if text == "no host gaps" else [parse_change(each) for each in text.split(",")]


def inferred_from(job: Job, folder: Path, ranks: Sequence[int], **tells: bool) -> Inferred:
    return infer_job(wt.open(str(job.run().write(folder, ranks, **tells))), workers=1)


#: Changes besides those of `CHANGES`.
MORE_CHANGES: dict[str, Change] = {
    "no host gaps": CHANGES["no host gaps"],
    "launch=2,host=1.5": scaled(launch=2.0, latency=2.0, host=1.5),
    "launch=0.5": scaled(launch=0.5, latency=0.5),
    "kernel:elementwise=0": scaled(elementwise=0.0),
    "communication=0.95": scaled(communication=0.95),
}


def off(inferred: Inferred, job: Job, text: str, change: Change, ranks: Sequence[int]) -> tuple[float, bool]:
    """By how much of the span the truth lies outside of the answer, and whether the answer is an interval."""
    truth = job.run(change).span(ranks) / job.run().span(ranks)
    found, whole = tried(inferred, changes_of(text)), inferred.replay.replayed_ns
    return max(found.low_ns / whole - truth, truth - found.high_ns / whole), found.low_ns < found.high_ns


def check(seed: int, given: str, folder: Path, changes: Mapping[str, Change] = CHANGES) -> None:
    """In an interval, to the digits of the file; without absent ranks within 3 %, as latencies are medians."""
    ranks, metadata = GIVEN[given]
    job = random_job(f"s{seed}", kind=KINDS[seed % len(KINDS)])
    inferred = inferred_from(job, folder, ranks, metadata=metadata)
    for text, change in changes.items():
        outside, is_interval = off(inferred, job, text, change, ranks)
        assert is_interval == (given != "all"), (seed, text)
        most = 0.1 if "host" in text else 0.03  # what a host did before its first launch is not in the plan, and stays
        assert outside <= (1e-5 if is_interval else most), (seed, text, outside)


@pytest.mark.parametrize("given", GIVEN)
def test_the_interval_holds_the_truth(given: str, tmp_path: Path) -> None:
    """In the pipeline of which answers were off the most."""
    few = ("compute=0.5", "communication=0.5", "communication=1.5", "no host gaps")
    check(23, given, tmp_path, {text: CHANGES[text] for text in few})


def test_a_host_that_changes_before_the_recorded_work_moves_its_begin(tmp_path: Path) -> None:
    """The span of one rank is longer where its work begins sooner and ends, as others let it, when it did."""
    job = random_job("s321", kind="tensor")
    inferred = inferred_from(job, tmp_path, (1,))
    for text, change in MORE_CHANGES.items():
        assert off(inferred, job, text, change, (1,))[0] <= 1e-5, text


@pytest.mark.thorough
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("seed", range(100, 140))
def test_the_interval_holds_the_truth_in_many_jobs(seed: int, given: str, tmp_path: Path) -> None:
    check(seed, given, tmp_path, {**CHANGES, **MORE_CHANGES})


def waiting_job() -> Job:
    """Two ranks, ten steps: rank 0 computes 100 us, rank 1 300 us in all but one; then both reduce, in 50 us."""
    job = Job("waiting", 2, noise=0.0)
    for step in range(10):
        for rank, us in ((0, 100), (1, 300 if step else 100)):
            job.kernel(rank, MAIN, us)
        job.collective((0, 1), MAIN, 50)
    return job


def test_waiting_is_not_scaled_as_transfer(tmp_path: Path) -> None:
    """Rank 0's collectives take 250 us, one of them 50: at most 1.25 times that can be transfer. Nothing of the 2,500
    us or so hangs on it, though 90 % of them are communication."""
    job = waiting_job()
    alone = inferred_from(job, tmp_path, (0,))
    absent = absent_from(alone)
    assert absent.transfer_most_ns.max() == pytest.approx(62_500, rel=0.02)
    assert absent.are_all_global and absent.matters and absent.who == "1 of 2 ranks"
    found = what_if(alone, [parse_change("communication=0.5")])
    least = 1 - 0.5 * 62.5 * 10 / (found.replayed_ns / 1_000)
    assert found.low_ns / found.replayed_ns == pytest.approx(least, abs=0.01)
    assert found.low_ns <= found.after_ns <= found.high_ns == found.replayed_ns
    report = what_if_report(found, alone)
    assert report.trust.answer == "interval" and report.trust.is_trusted and report.trust.is_first
    assert report.headline.startswith("1 of 2 ranks is in this plan, and communication with others takes ")
    assert "communication ×0.5: between " in report.headline


def test_of_all_ranks_the_answer_is_one_span(tmp_path: Path) -> None:
    both = inferred_from(waiting_job(), tmp_path, (0, 1))
    found = what_if(both, [parse_change("communication=0.5")])
    assert found.low_ns == found.after_ns == found.high_ns
    report = what_if_report(found, both)
    assert report.trust.answer == "exact" and not report.trust.reasons
    assert not len(absent_from(both).ops)


def test_a_path_of_one_rank_tells_the_most_that_is_transfer(tmp_path: Path) -> None:
    report = critical_path_report(inferred_from(waiting_job(), tmp_path, (0,)))
    assert report.transfer_most_ns == pytest.approx(9 * 62_500 + 50_000, rel=0.03)
    assert report.absent_ns == pytest.approx(9 * 250_000 + 50_000, rel=0.03)
    assert "in communication with absent ranks are transfer, the rest is waiting for them." in report.headline


def test_every_gain_of_one_rank_has_its_interval(tmp_path: Path) -> None:
    alone = inferred_from(waiting_job(), tmp_path, (0,))
    table = sensitivity(alone, by=0.1).table
    assert (table.get_column("least_ns") <= table.get_column("saved_ns")).all()
    assert (table.get_column("saved_ns") <= table.get_column("most_ns")).all()
    compute = table.row(by_predicate=pl.col("selector") == "compute", named=True)
    assert compute["least_ns"] < 0.02 * alone.replay.span_ns, "the other rank may go on as before"
    assert compute["most_ns"] > 0.09 * alone.replay.span_ns, "or be as much faster, waits and all"
    points = curve(alone, "communication", (0.5, 1, 2)).points
    assert (points["low_ns"] <= points["span_ns"]).all() and (points["span_ns"] <= points["high_ns"]).all()
    bars = waterfall(alone).bars.drop_nulls("alone_ns")
    assert (bars["least_ns"] <= bars["alone_ns"]).all() and (bars["alone_ns"] <= bars["most_ns"]).all()


def test_a_change_of_the_own_rank_leaves_the_others(tmp_path: Path) -> None:
    """Rank 0, which waits, gains nothing by being faster."""
    alone = inferred_from(waiting_job(), tmp_path, (0,))
    faster = tried(alone, [parse_change("rank:0=0.8")])
    assert faster.high_ns == alone.replay.replayed_ns
    assert faster.low_ns >= 0.79 * alone.replay.replayed_ns


def test_a_plan_of_phases_has_the_bounds_of_its_kernels(tmp_path: Path) -> None:
    job = waiting_job()
    folder = job.run().write(tmp_path, (0,))
    path = folder / "rank0.json"
    mark = '{"ph": "X", "cat": "user_annotation", "name": "step(F)", "pid": 1, "tid": 1, "ts": 999999, "dur": 100}'
    path.write_text(path.read_text().replace('"traceEvents": [', f'"traceEvents": [{mark}, '))
    kernels = infer_job(wt.open(str(path)))
    found = [tried(each, [parse_change("compute=0.5")]) for each in (kernels, by_phase(kernels))]
    assert (found[0].low_ns, found[0].high_ns) == (found[1].low_ns, found[1].high_ns)


def test_another_split_of_sms_scales_the_others_by_the_same_rules(tmp_path: Path) -> None:
    alone = inferred_from(waiting_job(), tmp_path, (0,))
    found = tried(alone, [SmSplit(compute=66, communication=24)])
    assert found.low_ns == alone.replay.replayed_ns < found.high_ns, "half of the SMs make nothing faster"

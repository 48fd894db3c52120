"""What kernels lose beside communication is measured in the trace, and what-ifs take it into account."""

from __future__ import annotations

from pathlib import Path

import pytest

import weftrace as wt
from tests.trust.jobs import CHANGES, MAIN, SIDE, overlapping_job
from tests.trust.simulator import Job
from tests.trust.test_intervals import changes_of, inferred_from
from weftrace.advice import critical_path_report, infer_job
from weftrace.advice.bounds import tried
from weftrace.advice.changes import PerfectOverlap
from weftrace.advice.contention import contention_of
from weftrace.advice.render.words import contention_words
from weftrace.plan import Inferred


def errors(seed: int, folder: Path, contention: float, noise: float = 0.02) -> list[float]:
    """By how much of the span each answer is off the truth: a job of two ranks, all of them given."""
    job = overlapping_job(f"o{seed}", contention=contention, noise=noise)
    inferred, before = inferred_from(job, folder, (0, 1)), job.run().span((0, 1))
    return [
        abs(
            tried(inferred, changes_of(text)).span_ns / inferred.replay.replayed_ns
            - job.run(change).span((0, 1)) / before
        )
        for text, change in CHANGES.items()
    ]


@pytest.mark.parametrize("contention", [1.25, 1.0])
def test_answers_are_right_with_contention_and_without(contention: float, tmp_path: Path) -> None:
    assert max(errors(9, tmp_path, contention)) < 0.01, "the job of which answers were off by 10 %"


@pytest.mark.thorough
@pytest.mark.parametrize(("contention", "noise"), [(1.25, 0.02), (1.0, 0.02), (1.25, 0.08), (1.0, 0.08)])
def test_of_121_answers_nine_in_ten_are_within_two_percent(contention: float, noise: float, tmp_path: Path) -> None:
    """Of 11 jobs, 11 changes each; without contention all but one in a hundred."""
    found: list[float] = []
    for seed in range(11):
        (folder := tmp_path / str(seed)).mkdir()
        found += errors(seed, folder, contention, noise)
    within = sum(error <= 0.02 for error in found) / len(found)
    print(f"contention {contention}, noise {noise}: {within:.0%} of {len(found)} within 2 %, most off {max(found):.2%}")
    assert within >= (0.9 if contention > 1 else 0.99)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(11))
def test_the_interval_of_one_rank_holds_the_truth_with_contention(seed: int, tmp_path: Path) -> None:
    job = overlapping_job(f"o{seed}")
    inferred, before = inferred_from(job, tmp_path, (0,)), job.run().span((0,))
    for text, change in CHANGES.items():
        truth, found = job.run(change).span((0,)) / before, tried(inferred, changes_of(text))
        whole = inferred.replay.replayed_ns
        assert found.low_ns / whole - 1e-5 <= truth <= found.high_ns / whole + 1e-5, text


def pairs_job(*, contention: float = 1.0, beside: float = 1.0, shapes: bool = True) -> Job:
    """Twelve times, on each of two ranks: a GEMM of 200 us beside an all-reduce of 500, and one alone. beside: how much
    larger the one beside is; shapes: whether its operator says so."""
    job = Job("pairs", 2, noise=0.0, contention=contention)
    for _ in range(12):
        job.collective((0, 1), SIDE, 500)
        for rank in (0, 1):
            job.kernel(rank, MAIN, 200 * beside, shapes=[[int(512 * beside)]] if shapes else None)
            job.wait(rank, MAIN, SIDE)
            job.kernel(rank, MAIN, 200, shapes=[[512]] if shapes else None)
            job.wait(rank, SIDE, MAIN)
    return job


def test_a_factor_is_measured_from_the_same_kernel_beside_and_away(tmp_path: Path) -> None:
    found = contention_of(inferred_from(pairs_job(contention=1.25), tmp_path, (0, 1)))
    assert (found.basis, found.num_pairs, found.share) == ("measured", 24, 1.0)
    assert found.factor == pytest.approx(1.25, abs=0.01)
    assert "× 1.25 in changed plans: measured from 24 pairs of runs" in contention_words(found)


def test_larger_work_beside_communication_is_no_contention(tmp_path: Path) -> None:
    """Shapes tell the two apart; where none are recorded, a kernel that takes four times as long does other work."""
    for number, job in enumerate([pairs_job(beside=1.5), pairs_job(beside=4, shapes=False)]):
        (folder := tmp_path / str(number)).mkdir()
        found = contention_of(inferred_from(job, folder, (0, 1)))
        assert (found.basis, found.num_pairs, found.is_used) == ("none", 0, False)


def test_runs_that_differ_among_themselves_are_no_pairs(tmp_path: Path) -> None:
    """Without shapes: 300 us beside communication, 100 or 300 alone. Their median, 200, would make a factor of 1.5."""
    job = Job("sizes", 2, noise=0.0)
    for number in range(12):
        job.collective((0, 1), SIDE, 500)
        for rank in (0, 1):
            job.kernel(rank, MAIN, 300)
            job.wait(rank, MAIN, SIDE)
            job.kernel(rank, MAIN, 300 if number % 2 else 100)
            job.wait(rank, SIDE, MAIN)
    assert not contention_of(inferred_from(job, tmp_path, (0, 1))).is_used


def stated(folder: Path, device: str) -> Inferred:
    """Two GEMMs beside communication, on a device of that name."""
    job = Job("few", 2, noise=0.0)
    job.collective((0, 1), SIDE, 500)
    for _ in range(2):
        for rank in (0, 1):
            job.kernel(rank, MAIN, 100)
            job.kernel(rank, MAIN, 100, name="elementwise")
    for path in job.run().write(folder, (0, 1)).glob("*.json"):
        path.write_text(path.read_text().replace("NVIDIA H100", device))
    return infer_job(wt.open(str(folder)), workers=1)


def test_few_pairs_fall_back_to_what_is_stated_for_the_device(tmp_path: Path) -> None:
    for name in ("NVIDIA H800", "NVIDIA H100"):
        (tmp_path / name).mkdir()
    h800, h100 = (contention_of(stated(tmp_path / name, name)) for name in ("NVIDIA H800", "NVIDIA H100"))
    assert (h800.basis, sorted({*h800.factor_of.round(2)}), h100.basis) == ("stated", [1.0, 1.02, 1.17], "none")
    assert "as stated for this device: DeepSeek's published training profile" in contention_words(h800)
    assert "it stays as it was" in contention_words(h100)
    report = critical_path_report(stated(tmp_path / "NVIDIA H800", "NVIDIA H800"))
    assert report.contention.source.startswith("DeepSeek")


def test_another_order_slows_other_kernels(tmp_path: Path) -> None:
    """With nothing waiting for communication, or it for anything, it lies beside all of the GEMMs, not half of them."""
    inferred = inferred_from(pairs_job(contention=1.25), tmp_path, (0, 1))
    found = tried(inferred, [PerfectOverlap()])
    kernels = inferred.plan.ops.get_column("kind") == "compute"
    lasted, lasts = (plan.ops.get_column("duration_ns").filter(kernels) for plan in (inferred.plan, found.plan.plan))
    assert lasts.sum() > 1.05 * lasted.sum()  # type: ignore[operator]


def test_without_a_change_nothing_changes(tmp_path: Path) -> None:
    inferred = inferred_from(pairs_job(contention=1.25), tmp_path, (0, 1))
    assert tried(inferred, changes_of("compute=1")).span_ns == inferred.replay.replayed_ns

"""MFU and HFU against a pencil and against the published BERT-Large sample."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flops.small_reports import TINY, UNTIMED, B, F, R, matmul, op
from weftrace.errors import FlopsError
from weftrace.facts import hardware
from weftrace.flops.derived.utilization import utilization
from weftrace.flops.values import Clock, FlopsReport, OpCount, Timing

H200 = hardware("h200")
MS = 1_000_000


def timed(*ops: OpCount, step_ns: int = 10 * MS, **more: object) -> FlopsReport:
    clock = Clock(source="cuda events", steps=1, step_ns=(step_ns,))
    return replace(TINY, ops=ops, times=(), clock=clock, **more)  # type: ignore[arg-type]


def test_the_published_bert_sample() -> None:
    """6279.86 GFLOP in 76.67 ms on an A100 is 81.9 TFLOPS, 26 % of 312."""
    forward = op(1, F, "everything", matmul(6279_860_000_000, 0, 0, "fp16"))
    found = utilization(timed(forward), hardware("A100 SXM 80GB"), step_ns=76.67 * MS)
    assert found.flops_per_s == pytest.approx(81.9e12, rel=1e-3)
    assert found.mfu == pytest.approx(0.2625, abs=1e-4)
    assert found.flags == found.notes == ()


def test_what_counts_in_which_utilization() -> None:
    peak_ms = round(989.4e9)  # FLOPs of one ms at the bf16 peak
    ops = (
        op(1, F, "attention", matmul(peak_ms, 0, 0, "bf16", full_flops=2 * peak_ms)),
        op(1, B, "attention", matmul(2 * peak_ms, 0, 0, "bf16", full_flops=4 * peak_ms, executed_flops=3 * peak_ms)),
        op(1, R, "attention", matmul(peak_ms, 0, 0, "bf16", full_flops=2 * peak_ms)),
    )
    found = utilization(timed(*ops), H200)  # of 10 ms
    assert found.mfu == pytest.approx(0.3)
    assert found.mfu_full == pytest.approx(0.6)
    assert found.hfu == pytest.approx(0.5)
    assert found.step_ns == 10 * MS
    assert dict(found.time_at_peak_ns) == {"bf16": pytest.approx(5 * MS)}


def test_time_at_peak_adds_dtypes_with_their_own_peaks() -> None:
    ops = (
        op(1, F, "mm", matmul(round(989.4e9), 0, 0, "bf16")),
        op(1, F, "mm", matmul(round(1978.9e9), 0, 0, "fp8")),
        op(1, F, "mm", matmul(round(494.7e9), 0, 0, "fp32")),
    )
    found = utilization(timed(*ops, tf32=True), H200)
    assert found.mfu == pytest.approx(0.3)
    assert set(found.time_at_peak_ns) == {"bf16", "fp8", "tf32"}
    assert utilization(timed(*ops), H200).mfu == pytest.approx(0.2 + 494.7 / 66.9 / 10)


def test_by_phase() -> None:
    each = round(989.4e9)
    report = replace(
        timed(op(1, F, "mm", matmul(each, 0, 0, "bf16")), op(1, R, "mm", matmul(each, 0, 0, "bf16"))),
        times=(
            Timing(module=1, phase=F, samples_ns=(2 * MS,)),
            Timing(module=1, phase=R, samples_ns=(4 * MS,)),
            Timing(module=4, phase=B, samples_ns=(0,)),
        ),
    )
    found = utilization(report, H200).by_phase
    assert found[F].mfu == pytest.approx(0.5)
    assert (found[R].mfu, found[R].hfu) == pytest.approx((0, 0.25))
    assert B not in found  # no time, no rate


def test_above_the_peak_is_flagged_and_not_hidden() -> None:
    found = utilization(timed(op(1, F, "mm", matmul(20 * round(989.4e9), 0, 0, "bf16"))), H200)
    assert found.mfu == pytest.approx(2)
    assert len(found.flags) == 1
    assert "took 10.0 ms" in found.flags[0]


def test_counting_time_and_unknown_operators_are_noted() -> None:
    slow = replace(TINY, clock=replace(TINY.clock, while_counting=True))
    notes = " ".join(utilization(slow, H200).notes)
    assert "cost of counting" in notes
    assert "without a formula" in notes


def test_merged_ranks_use_the_mean() -> None:
    work = op(1, F, "mm", matmul(8 * round(989.4e9), 0, 0, "bf16"))
    assert utilization(timed(work, ranks=8), H200).mfu == pytest.approx(0.1)


def test_no_time_is_an_error_with_help() -> None:
    with pytest.raises(FlopsError, match="no step was timed"):
        utilization(UNTIMED, H200)
    with pytest.raises(FlopsError, match="must be above 0"):
        utilization(TINY, H200, step_ns=0)
    assert utilization(UNTIMED, H200, step_ns=490).mfu == utilization(TINY, H200).mfu

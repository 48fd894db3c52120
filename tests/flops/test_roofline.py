"""Bounds against a pencil, on a device of round numbers."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from tests.flops.small_reports import TINY, UNTIMED, B, F, O, R, matmul, op, unknown, vector
from weftrace.costs.cost import Cost, Kind
from weftrace.costs.rates import matrix_peak
from weftrace.facts import Hardware, hardware
from weftrace.flops.derived.findings import findings
from weftrace.flops.derived.roofline import roofline
from weftrace.flops.values import Clock, FlopsReport, OpCount, Timing
from weftrace.units import si

# A FLOP of fp32 takes 1 ns, of bf16 and tf32 a tenth; a byte takes 2 ns.
SLOW = replace(
    hardware("A100 SXM 80GB"),
    name="Slow",
    peak_flops=MappingProxyType({"fp32": 1e9, "tf32": 1e10, "bf16": 1e10}),
    hbm_bytes_per_s=0.5e9,
)


def report(*ops: OpCount, **more: object) -> FlopsReport:
    return replace(TINY, ops=ops, times=(), clock=Clock(), **more)  # type: ignore[arg-type]


def test_the_largest_limit_of_each_call_counts_not_that_of_the_sums() -> None:
    both = (op(1, F, "mm", matmul(100, 5, 5)), op(1, F, "add", vector(3, 50, 50), calls=2))
    row = roofline(report(*both), SLOW).exclusive[0]
    assert row.compute_ns == pytest.approx(100)  # 100 FLOPs against 10 bytes: 100 ns and 20 ns
    assert row.memory_ns == pytest.approx(400)  # twice max(3, 200)
    assert row.bound_ns == pytest.approx(500)
    assert row.bound == "memory"
    assert row.above_ns is None
    assert row.intensity == pytest.approx(106 / 210)


def test_dtypes_have_their_own_peaks() -> None:
    def bound(dtype: str, tf32: bool = False) -> float:
        return roofline(report(op(1, F, "mm", matmul(100, 0, 0, dtype)), tf32=tf32), SLOW).bound_ns

    assert bound("fp32") == pytest.approx(100)
    assert bound("fp32", tf32=True) == pytest.approx(10)
    assert bound("bf16") == pytest.approx(10)
    assert bound("fp8") == pytest.approx(10)  # no FP8 on this chip: BF16
    assert bound("int64") == pytest.approx(100)


def test_a_missing_dtype_is_noted() -> None:
    a100 = hardware("A100 SXM 80GB")
    assert matrix_peak(a100, "fp8").dtype == "bf16"
    line = roofline(report(op(1, F, "mm", matmul(1, 0, 0, "fp8"))), a100)
    assert line.notes == ("A100 SXM 80GB lists no peak for fp8: the peak of bf16 is used instead.",)
    assert matrix_peak(hardware("MI355X"), "fp32", tf32=True).dtype == "fp32"  # no TF32 there
    assert matrix_peak(hardware("h100"), "fp8").note == ""


def test_the_assumed_vector_rate_is_noted() -> None:
    assert any("assumption" in note for note in roofline(report(op(1, F, "add", vector(1, 1, 1))), SLOW).notes)


def test_unknown_operators_have_bytes_alone_and_say_so() -> None:
    line = roofline(report(op(1, F, "x", unknown(10, 5), calls=3)), SLOW)
    assert line.bound_ns == pytest.approx(90)
    assert line.exclusive[0].unknown_calls == 3
    assert line.notes == ("3 calls of operators without a formula are in the bounds with their bytes alone.",)


def test_bytes_of_collectives_are_a_column_apart() -> None:
    cost = Cost(read_bytes=100, written_bytes=100, kind=Kind.COMM)
    row = roofline(report(op(1, B, "all_reduce", cost)), SLOW).exclusive[0]
    assert (row.comm_bytes, row.moved_bytes, row.bound_ns) == (200, 0, 0)


def test_inclusive_rows_hold_their_children() -> None:
    line = roofline(TINY, SLOW)
    whole = {(row.path, row.phase): row for row in line.inclusive}
    own = {(row.path, row.phase): row for row in line.exclusive}
    assert whole["", F].bound_ns == pytest.approx(sum(own[path, F].bound_ns for path in ("fc1", "act", "fc2")))
    assert line.bound_ns == pytest.approx(sum(row.bound_ns for row in line.exclusive))
    assert line.by_phase[O] == pytest.approx(2 * 384 * 2)
    assert ("", F) not in own


def test_the_worst_are_those_with_most_time_above_their_own_roofline() -> None:
    fast = replace(SLOW, hbm_bytes_per_s=1e12, peak_flops=MappingProxyType({"fp32": 1e10}))
    worst = roofline(TINY, fast).worst(2)
    # in the step of median length: fc1 forward and backward 110 - 19.2 = 90.8; fc2 backward 90 - 19.2
    assert [(row.path, row.phase) for row in worst] == [("fc1", F), ("fc1", B)]
    assert worst[0].above_ns == pytest.approx(110 - 19.2)
    assert roofline(UNTIMED, fast).worst() == ()


def test_merged_ranks_are_compared_by_their_mean() -> None:
    one = roofline(TINY, SLOW).bound_ns
    assert roofline(replace(TINY, ranks=4), SLOW).bound_ns == pytest.approx(one / 4)


def test_a_rate_above_the_peak_is_flagged() -> None:
    cost = matmul(10**12, 0, 0, "bf16")  # 1.011 ms at 989.4 TFLOP/s

    def flags(took_ns: int) -> tuple[str, ...]:
        timed = replace(
            TINY,
            ops=(op(1, F, "mm", cost),),
            times=(Timing(module=1, phase=F, samples_ns=(took_ns,)),),
            clock=Clock(source="cuda events", steps=1, step_ns=(took_ns,)),
        )
        return roofline(timed, hardware("h200")).flags

    assert flags(1_010_800) == ()
    assert flags(1_010_000) == ()  # within 0.1 %: a clock's rounding
    module, phase, step = flags(500_000)
    assert module.startswith(
        "fc1, forward: 1e+12 executed FLOPs in 500 µs are 2.00 PFLOP/s, above the peak of 989.4 TFLOP/s"
    )
    assert phase.startswith("the whole forward: ")
    assert step.startswith("the whole step: ")


def test_a_weight_update_that_takes_most_of_a_step_is_a_finding() -> None:
    """As in the published GPT sample: 34.12 s where 4.2 s was reached."""
    seconds = 10**9
    timed = replace(
        TINY,
        ops=TINY.ops[1:7],
        times=(
            Timing(module=1, phase=F, samples_ns=(seconds,)),
            Timing(module=1, phase=B, samples_ns=(3 * seconds,)),
            Timing(module=4, phase=O, samples_ns=(30 * seconds,)),
        ),
        clock=Clock(source="cuda events", steps=1, step_ns=(34 * seconds,)),
    )
    (found,) = findings(timed)
    assert found.startswith("The weight update takes 30.0 s of a step of 34.0 s (88.2 %); below 25 % is usual.")
    quick = replace(timed, clock=replace(timed.clock, step_ns=(130 * seconds,)))
    assert findings(quick) == ()


def test_findings_of_unknown_operators_and_recomputation() -> None:
    (found,) = findings(TINY)
    assert found.startswith(
        "Of 1 operator no formula is known, and its FLOPs are in no total: mylib.loss.default (1 calls)"
    )
    assert "10.0 % of the calls, 1.1 % of the bytes, about 1.1 % of the time" in found
    (again,) = findings(report(op(1, F, "mm", matmul(30, 1, 1)), op(1, R, "mm", matmul(10, 1, 1))))
    assert again.startswith("Recomputation is 10 of 40 executed FLOPs (25.0 %)")


def test_findings_of_fp32_and_of_time_above_the_roofline() -> None:
    summary = findings(TINY, hardware("h200"))
    assert any(
        "100.0 % of the executed matrix FLOPs are in FP32 with TF32 off; TF32 has 7.4 times" in text for text in summary
    )
    assert any(text.startswith("fc1, forward, takes 110 ns") for text in summary)
    assert not any("TF32" in text for text in findings(replace(TINY, tf32=True), hardware("h200")))


def test_a_chip_without_an_fp32_peak_says_that_vector_work_is_unbounded() -> None:
    chip: Hardware = replace(SLOW, peak_flops=MappingProxyType({"bf16": 1e10}))
    line = roofline(report(op(1, F, "add", vector(100, 1, 1))), chip)
    assert line.bound_ns == pytest.approx(4)
    assert "lists no FP32 peak" in line.notes[0]


def test_rates_as_text() -> None:
    assert si(1.92e12, "FLOP/s") == "1.92 TFLOP/s"
    assert si(12, "FLOP/s") == "12 FLOP/s"

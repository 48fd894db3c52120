"""Predicted times: the efficiencies against what they are derived from, and a pencil."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from tests.flops.small_reports import TINY, B, F, matmul, op, vector
from weftrace.costs.cost import Cost, Kind
from weftrace.errors import FlopsError
from weftrace.facts import hardware, published_gemms
from weftrace.flops.derived.predict import (
    ATTENTION_BACKWARD_EFFICIENCY,
    ATTENTION_EFFICIENCY,
    MATRIX_EFFICIENCY,
    predict,
    published_errors,
)

H800 = hardware("h800")


def test_the_default_efficiencies_are_those_of_the_published_rates() -> None:
    """FLOPs of one MoE layer, the shared expert included, over the time they take at DeepGEMM's published rates."""
    flops = {gemm.name: 2 * gemm.rows * gemm.inner * gemm.columns for gemm in published_gemms()}
    flops["w13"] += 2 * 4096 * 7168 * 4096
    flops["w2"] += 2 * 4096 * 2048 * 7168
    rate = sum(flops.values()) / sum(flops[gemm.name] / gemm.tflops for gemm in published_gemms())
    assert rate == pytest.approx(1178.8, abs=0.1)
    assert pytest.approx(rate * 1e12 / H800.peak("fp8"), abs=0.01) == MATRIX_EFFICIENCY
    assert pytest.approx(600e12 / H800.peak("bf16"), abs=0.01) == ATTENTION_EFFICIENCY
    assert pytest.approx(450e12 / H800.peak("bf16"), abs=0.01) == ATTENTION_BACKWARD_EFFICIENCY


def test_errors_on_the_published_gemms() -> None:
    """Within a sixth, but for the thin kv_b, whose kernel reaches 590 TFLOP/s where bytes predict 960."""
    errors = published_errors()
    assert errors.pop("kv_b") == pytest.approx(-0.386, abs=0.001)
    assert max(map(abs, errors.values())) < 0.17
    assert errors["o"] == pytest.approx(1358 / (0.6 * 1979) - 1, abs=1e-6)


def test_by_pencil() -> None:
    second = round(989e12)  # bf16 FLOPs of a second at the peak
    report = replace(
        TINY,
        ops=(
            op(1, F, "mm", matmul(second, 0, 0, "bf16")),
            op(2, F, "copy", Cost(read_bytes=round(3.35e12), kind=Kind.MOVE)),
            op(1, B, "mm", matmul(2 * second, 0, 0, "bf16")),
        ),
    )
    found = predict(report, H800, matrix_efficiency=0.5, bandwidth_efficiency=0.25)
    assert found.bound_ns == pytest.approx(4e9)
    assert astuple(found.by_phase[F]) == pytest.approx((2e9, 2e9 + 4e9))
    assert astuple(found.by_phase[B]) == pytest.approx((2e9, 4e9))
    assert found.predicted_ns == pytest.approx(10e9)


def test_attention_has_efficiencies_of_its_own() -> None:
    cost = replace(matmul(round(989e12), 0, 0, "bf16"), kind=Kind.ATTENTION)
    report = replace(TINY, ops=(op(1, F, "sdpa", cost), op(1, B, "sdpa", cost)))
    found = predict(report, H800)
    assert found.by_phase[F].predicted_ns == pytest.approx(1e9 / 0.6)
    assert found.by_phase[B].predicted_ns == pytest.approx(1e9 / 0.45)


def test_tokens_a_second_and_whether_the_parameters_fit() -> None:
    report = replace(TINY, ops=(op(1, F, "mm", matmul(round(989e12), 0, 0, "bf16")),), tokens=12)
    found = predict(report, H800, matrix_efficiency=0.5)
    assert found.token_rate() == pytest.approx((6, 12))  # 12 tokens in 2 s, and at most in 1 s
    assert found.token_rate(F) == found.token_rate() and found.token_rate(B) is None
    assert predict(replace(report, tokens=None), H800).token_rate() is None
    assert found.param_bytes == 192 and found.fits
    large = replace(report.modules[1], own_param_bytes=round(H800.hbm_bytes) + 1)
    assert not predict(replace(report, modules=(report.modules[0], large, *report.modules[2:])), H800).fits


def test_assumptions_are_told() -> None:
    summary = " ".join(predict(TINY, H800, bandwidth_efficiency=0.8).assumptions)
    assert "memory 80 % of its bandwidth" in summary
    assert "kv_b -51 %" not in summary
    assert "q_a −11 %" in summary
    assert "Operators without a formula are predicted by their bytes alone." in summary
    quiet = " ".join(predict(replace(TINY, ops=(op(1, F, "x", vector(1, 1, 1)),)), H800).assumptions)
    assert "without a formula" not in quiet
    comm = replace(TINY, ops=(op(1, F, "all_reduce", Cost(read_bytes=9, kind=Kind.COMM)),))
    assert "The time of communication is not in the prediction." in predict(comm, H800).assumptions
    assert predict(comm, H800).predicted_ns == 0


@pytest.mark.parametrize("value", [0, -1, 1.2])
def test_impossible_efficiencies_are_refused(value: float) -> None:
    with pytest.raises(FlopsError, match="bandwidth_efficiency is"):
        predict(TINY, H800, bandwidth_efficiency=value)

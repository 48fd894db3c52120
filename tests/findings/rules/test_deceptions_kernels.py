"""Runs in which kernels only look as if a remedy helped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.efficiency.deceptions import FP32
from tests.findings.rules.test_kernels import NATIVE, QK, SGEMM, SOFTMAX, TF32, Run, forward, found_by, numbers
from weftrace.advice.findings.advising import advise
from weftrace.advice.findings.rules.fusion import unfused_attention
from weftrace.advice.findings.rules.gemms import fp32_gemm

FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false> >(int)"


# --- products in FP32 that faster units do not make faster ---------------------------------------------------------


def test_a_product_that_memory_bounds_gains_by_smaller_numbers_alone(tmp_path: Path) -> None:
    """A vector times 4096 x 11008: 180 MB in 60 µs are 90 % of 3.35 TB/s; TF32 moves the same, BF16 half."""
    found, gain = found_by(fp32_gemm, Run().product(SGEMM, 60, 1, 4096, 11008, FP32), tmp_path)
    assert found is not None
    assert gain is not None
    assert gain.low_ns < 500
    assert gain.high_ns == pytest.approx(30_000, rel=0.02)


def test_a_tiny_product_is_not_bound_by_arithmetic(tmp_path: Path) -> None:
    run = Run()
    for _ in range(5):
        run.product(SGEMM, 30, 64, 64, 64, FP32)
    assert found_by(fp32_gemm, run, tmp_path) == (None, None)


def test_shapes_that_cannot_be_tell_no_gain(tmp_path: Path) -> None:
    """Others would run at 139 % of the peak."""
    run = Run().product(SGEMM, 300, 2048, 2048, 2048, FP32).product(NATIVE, 400, 8192, 8192, 4096)
    found, gain = found_by(fp32_gemm, run, tmp_path)
    assert found is not None
    assert "cannot be right" in found.not_told
    assert (found.confidence, gain) == ("medium", None)


def test_peaks_alone_are_believed_less(tmp_path: Path) -> None:
    found, _ = found_by(fp32_gemm, Run()(SGEMM, 1_000, "aten::mm"), tmp_path)
    assert found is not None
    assert found.confidence == "medium"
    assert "100.0 % of the recording" in found.sentence


# --- softmaxes between products that are no attention ---------------------------------------------------------------


def test_a_router_between_batched_experts_is_no_attention(tmp_path: Path) -> None:
    """The gates are over 8 experts: the products have 8 batches, and no such matrix."""
    run = Run()
    for _ in range(3):
        run(NATIVE, 100, "aten::bmm", [[8, 512, 1024], [8, 1024, 2048]])
        run(SOFTMAX, 60, "aten::_softmax", [[4096, 8], [], []])
        run(NATIVE, 100, "aten::bmm", [[8, 512, 2048], [8, 2048, 1024]])
    assert found_by(unfused_attention, run, tmp_path) == (None, None)


def test_beside_fused_attention_only_sizes_prove_another(tmp_path: Path) -> None:
    run = Run()(FLASH, 100, "aten::_flash_attention_forward")
    for _ in range(2):
        run(NATIVE, 100, "aten::bmm")(SOFTMAX, 60, "aten::softmax")(NATIVE, 100, "aten::bmm")
    (tmp_path / "a").mkdir()
    assert found_by(unfused_attention, run, tmp_path / "a") == (None, None)
    found, _ = found_by(unfused_attention, forward(forward(run)), tmp_path)
    assert numbers(found)["softmaxes"] == 2


def test_a_sink_beside_the_scores_is_attention(tmp_path: Path) -> None:
    run = Run()
    for _ in range(2):
        run(NATIVE, 10, "aten::bmm", QK)(SOFTMAX, 50, "aten::_softmax", [[16, 512, 513]])
        run(NATIVE, 10, "aten::bmm", [[16, 512, 512], [16, 512, 64]])
    found, _ = found_by(unfused_attention, run, tmp_path)
    assert numbers(found)["softmaxes"] == 2


# --- a guess is no headline ----------------------------------------------------------------------------------------


def test_a_guess_without_a_gain_is_no_headline(tmp_path: Path) -> None:
    """Kernels of another generation, all of the time, and nothing that shows what newer ones reach."""
    run = Run()
    for _ in range(3):
        run(TF32, 100)
    report = advise(run.evidence(tmp_path).trace)
    (guess,) = report.losses
    assert (guess.rule, guess.confidence, guess.gain) == ("old-gemm-kernels", "low", None)
    assert guess.value_ns == guess.cost_ns / 16
    assert report.headline == "Nothing that the rules look for is surely worth a change here."

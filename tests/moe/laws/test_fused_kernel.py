"""The fused kernel's law against DeepGEMM's published times: two batches calibrate, two are predicted."""

from __future__ import annotations

import pytest

from weftrace.moe.laws.fused_kernel import calibrated, predictions, published


def test_calibrated_batches_come_out_as_published() -> None:
    for row in published():
        if not row.held_out:
            kernel = calibrated(row.model)
            assert kernel.fused_us(row.tokens) == pytest.approx(row.us, rel=0.001)
    assert calibrated("deepseek-v4-flash").speed_up(1) == pytest.approx(1.96)


def test_the_speed_up_of_waves_is_within_a_tenth_of_the_published() -> None:
    found = {(each.measured.model, each.measured.tokens): each for each in predictions()}
    assert {each.measured.us for each in found.values()} == {146.5, 1283.1, 369.6, 2818.5}
    assert {each.measured.speed_up for each in found.values()} == {1.73, 1.56, 1.54, 1.50}
    assert all(abs(each.speed_up_error) < 0.10 for each in found.values())


def test_times_of_batches_that_calibrate_nothing() -> None:
    errors = {(each.measured.model, each.measured.tokens): each.time_error for each in predictions()}
    assert all(abs(error) < 0.05 for (_, tokens), error in errors.items() if tokens == 8192)
    assert all(
        abs(error) < 0.15 for error in errors.values()
    )  # small batches read weights: the memory's rate is assumed


def test_the_time_of_a_kernel_by_pencil() -> None:
    kernel = calibrated("deepseek-v4-pro")
    # 8,192 tokens x 6 experts x 6 x 7,168 x 3,072 FLOPs; x 7,168 x (1 + 1/32 + 2) bytes over 0.96 x 900 GB/s
    assert kernel.products_us(8192) == pytest.approx(1e6 * 8192 * 6 * 6 * 7168 * 3072 / kernel.flops_per_s)
    assert kernel.communication_us(8192) == pytest.approx(1e6 * 8192 * 6 * 7168 * 3.03125 / (0.96 * 900e9))
    # 512 tokens read all 48 experts: 3 x 7,168 x 3,072 weights of 17/32 byte over 0.6 x 8 TB/s
    assert kernel.products_us(512) == pytest.approx(1e6 * 48 * 3 * 7168 * 3072 * 17 / 32 / 4.8e12, rel=1e-6)

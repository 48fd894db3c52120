"""Published rates of products: found by shape, and what is between the published numbers of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weftrace.facts import gemm_rate, gemm_rates, published_gemms


def test_each_published_number_is_met() -> None:
    for rate in gemm_rates():
        assert gemm_rate(rate.inner, rate.columns, grouped=rate.grouped) is rate
        assert list(rate.rows) == sorted(rate.rows) and len(rate.rows) == len(rate.tflops)
        for rows, tflops in zip(rate.rows, rate.tflops, strict=True):
            assert rate.seconds(rows, 10, 20, 3) == pytest.approx(2 * 3 * rows * 10 * 20 / (tflops * 1e12))
        assert "https://" in rate.source or "README" in rate.source


def test_the_products_that_were_published_before_agree() -> None:
    """Of w13 and w2 the older table took the middle of a range."""
    for old in published_gemms():
        rate = gemm_rate(old.inner, old.columns, grouped=old.groups > 1)
        many = 2 * old.rows * old.inner * old.columns / 1e12
        found = many / rate.seconds(old.rows / old.groups, old.inner, old.columns, old.groups)
        assert found == pytest.approx(old.tflops, rel=0.04)


def test_between_fewer_and_more() -> None:
    rate = gemm_rate(1536, 24576)  # 289 at 64 rows, 535 at 128, 990 at 4,096
    middle = math.sqrt(64 * 128)
    assert rate.seconds(middle, 1, 1) == pytest.approx(2 * middle / (math.sqrt(289 * 535) * 1e12))
    assert rate.seconds(1, 8, 8) == rate.seconds(64, 8, 8)  # the matrix is read all the same
    assert rate.seconds(8192, 8, 8) == pytest.approx(2 * rate.seconds(4096, 8, 8))
    assert rate.seconds(0, 8, 8) == 0
    assert rate.seconds(np.array([[0, 64], [128, 4096]]), 8, 8).shape == (2, 2)


def test_time_grows_with_rows() -> None:
    for rate in gemm_rates():
        times = rate.seconds(np.arange(1, 10_000, 7), rate.inner, rate.columns)
        assert (np.diff(times) >= -1e-12).all()


def test_the_nearest_shape() -> None:
    assert gemm_rate(7168, 1536).name == gemm_rate(7168, 576).name == "q_a and kv_a, fused"
    assert gemm_rate(4096, 3072, grouped=True).name == "w13"
    assert gemm_rate(1536, 4096, grouped=True).name == "w2"

"""Sentences on shapes below their peak: each clause where its number holds it, and nothing where none does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weftrace.analysis.efficiency.below_peak import ShapeFacts, published_flops_per_s, why_below
from weftrace.analysis.efficiency.precision import KernelPrecision
from weftrace.facts import hardware

H100, H800, A100 = hardware("H100"), hardware("H800"), hardware("A100")
PLAIN = ShapeFacts(call_ns=100_000, peak_share=0.4, peak_dtype="bf16", stored_dtype="bf16", chip=H100)


def test_numbers_that_hold_nothing_say_nothing() -> None:
    assert why_below(PLAIN) == ""
    quiet: dict[str, Any] = {
        "intensity": 1000.0, "launch_ns": 5_000, "num_blocks": 1000, "num_waves": 8, "last_wave_empty_share": 0.39,
        "kernel": KernelPrecision(dtype="bf16", tensor_cores=True, architecture="sm90"), "capability": (9, 0),
        "copies_ns": 4_999, "best_share": 0.44,
    }  # fmt: skip
    assert why_below(replace(PLAIN, **quiet)) == ""
    # no memory share: the roofline does not say that memory bounds it
    assert why_below(replace(PLAIN, intensity=1.0)) == ""


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (
            {"intensity": 12.0, "memory_share": 0.68},  # 989.4e12 / 3.35e12 = 295
            "its shape allows 4.1 % at most, because memory bounds it (12 FLOP for each byte where 295 are needed)",
        ),
        (
            {"intensity": 0.25, "memory_share": 0.9},
            "its shape allows 0.1 % at most, because memory bounds it (0.2 FLOP for each byte where 295",
        ),
        ({"call_ns": 3_100, "launch_ns": 5_200}, "it is small: a call takes 3.10 µs, its launch 5.20 µs of the host"),
        (
            {"num_blocks": 56, "num_waves": 1, "last_wave_empty_share": 76 / 132},
            "its 56 blocks leave 57.6 % of the places of one wave empty",
        ),
        (
            {"num_waves": 2, "last_wave_empty_share": 131 / 132},
            "the last of 2 waves is 99.2 % empty, 49.6 % of all places",
        ),
        ({"split_k": True}, "its depth is split among blocks (split-K), and their parts must be added"),
        ({"kernel": KernelPrecision(split_k=True)}, "its depth is split among blocks"),
        ({"copies_ns": 22_000}, "copies of layouts take 22.0 % of its time"),
        (
            {"kernel": KernelPrecision(architecture="sm75"), "capability": (9, 0)},
            "its kernel was built for sm75, the device is of 9.0",
        ),
    ],
)
def test_a_clause_for_each_number(known: dict[str, Any], says: str) -> None:
    facts = replace(PLAIN, **known)
    assert why_below(facts).startswith(f"40.0 % of the BF16 peak: {says}")
    assert why_below(replace(facts, peak_share=0.7)) == ""  # nothing is missing that needs a reason


def test_clauses_stand_in_one_sentence_before_what_it_reaches_at_best() -> None:
    told = why_below(replace(PLAIN, split_k=True, copies_ns=50_000, best_share=0.55))
    assert told == (
        "40.0 % of the BF16 peak: copies of layouts take 50.0 % of its time; its depth is split among blocks "
        "(split-K), and their parts must be added. The fastest of its calls reaches 55.0 %."
    )


def test_fp32_off_the_tensor_cores_is_told_however_near_its_own_peak() -> None:
    simt = KernelPrecision(dtype="fp32", tensor_cores=False, architecture="sm80")
    facts = replace(PLAIN, peak_share=0.9, peak_dtype="fp32", stored_dtype="fp32", chip=A100, kernel=simt)
    assert why_below(facts) == (
        "90.0 % of the FP32 peak: it computes in FP32, not on tensor cores; their TF32 peak is 8.0 times that of FP32."
    )
    assert "it does not run on tensor cores; their BF16 peak is 16.0 times" in why_below(
        replace(facts, stored_dtype="bf16")
    )
    # FP64, a chip without TF32, a name that does not tell: nothing faster is known
    assert why_below(replace(facts, stored_dtype="fp64", peak_dtype="fp64")) == ""
    assert why_below(replace(facts, chip=hardware("V100"))) == ""
    assert why_below(replace(facts, kernel=KernelPrecision())) == ""


def test_published_rates_are_of_just_that_product() -> None:
    assert published_flops_per_s(4096, 7168, 2112, "fp8", H800) == pytest.approx(1058e12)
    between = published_flops_per_s(1024, 7168, 2112, "fp8", H800)
    assert between is not None
    assert 352e12 < between < 1058e12
    assert published_flops_per_s(32, 7168, 2112, "fp8", H800) is None
    assert published_flops_per_s(8192, 7168, 2112, "fp8", H800) is None
    assert published_flops_per_s(4096, 7168, 2048, "fp8", H800) is None
    assert published_flops_per_s(4096, 7168, 2112, "bf16", H800) is None
    assert published_flops_per_s(4096, 7168, 2112, "fp8", H100) is None
    facts = replace(PLAIN, peak_dtype="fp8", stored_dtype="fp8", chip=H800, split_k=True, published_flops_per_s=1058e12)
    assert why_below(facts).endswith("DeepGEMM publishes 1.06 PFLOP/s for this product, 53.5 %.")


def test_says_where_the_measured_reasons_do_not_explain_it() -> None:
    little = replace(PLAIN, peak_share=0.024, num_waves=2, last_wave_empty_share=0.727, copies_ns=25_000)
    assert why_below(little).endswith(
        "25.0 % of its time. That leaves 47.7 % possible: the file does not show what takes the rest."
    )
    assert "possible" not in why_below(replace(little, peak_share=0.3))
    assert "possible" not in why_below(replace(little, split_k=True))


def test_kernels_beside_it_are_named_from_a_tenth_of_its_time() -> None:
    told = why_below(replace(PLAIN, beside_share=0.85))
    assert told == "40.0 % of the BF16 peak: kernels of other streams ran beside it for 85.0 % of its time."
    assert why_below(replace(PLAIN, beside_share=0.09)) == ""

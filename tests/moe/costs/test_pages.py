"""The numbers of docs/profiles-costs.md about routing, communication and laws are those that the code gives."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from weftrace.facts import model_config
from weftrace.moe import Operation, Setting
from weftrace.moe.costs.all_to_all import published
from weftrace.moe.costs.communication import pieces_of
from weftrace.moe.costs.rates import Level
from weftrace.moe.laws.fused_kernel import predictions
from weftrace.moe.profiles import make_profile
from weftrace.moe.routing.distinct_places import distinct_places, ranks_of_experts
from weftrace.moe.routing.load import balanced
from weftrace.moe.routing.random_draw import drawn

LEVELS: tuple[Level, ...] = ("roofline", "published")


@cache
def page() -> str:
    return (Path(__file__).parents[3] / "docs/profiles-costs.md").read_text("utf-8")


@pytest.mark.parametrize("ep", [16, 32, 64, 128])
def test_distinct_places(ep: int) -> None:
    experts = model_config("deepseek-v3").experts
    assert experts is not None
    rank_E = ranks_of_experts(256, ep)
    cells = [distinct_places(experts, rank_E // domain).summary.removesuffix(" (drawn)") for domain in (8, 4, 72, 1)]
    summary = {32: "3.12", 64: "3.97"}.get(ep, "")
    assert (
        "| ".join([f"| EP{ep} ", f"{cells[0]} ", f"{summary} " if summary else "", *(f"{c} " for c in cells[1:])])
        in page()
    )


def test_the_busiest_rank_of_a_random_routing() -> None:
    setting = Setting.of("train", num_layers=61)
    assert drawn(setting).imbalance == pytest.approx(1.013, abs=0.0005)
    assert drawn(setting, spread=0.05).imbalance == pytest.approx(1.07, abs=0.01)
    by_seed = [round(drawn(setting, spread=0.3, seed=seed).imbalance, 2) for seed in range(4)]
    assert (min(by_seed), max(by_seed)) == (1.41, 1.49)


def test_published_bandwidths() -> None:
    for kernels in ("deepep-v1", "deepep-v2", "deepep-v1-low-latency"):
        assert " | ".join(f"{row.dispatch}, {row.combine}" for row in published(kernels)) in page()


def test_data_of_the_training_profile() -> None:
    setting = Setting.of("train")
    measured = {"dispatch(F)": 4_346, "combine(F)": 5_994, "dispatch(B)": 6_368, "combine(B)": 3_405}
    forward = Operation(name="", work="dispatch", lane="communication")
    for name, us in measured.items():
        each = replace(
            forward, work="dispatch" if name.startswith("d") else "combine", direction="F" if "F" in name else "B"
        )
        roofline, rate = (pieces_of(each, setting, balanced(setting), level)[-1].mean_ns / 1000 for level in LEVELS)
        assert f"| {name} | {roofline:,.0f} | {rate:,.0f} | {us:,} | {rate / us:.2f} |" in page()


def test_waves_beside_what_was_published() -> None:
    for found in predictions():
        row = found.measured
        assert (
            f"| {row.model}, {row.tokens:,} | {found.fused_us:,.1f} | {row.us:,.1f} | {100 * found.time_error:+.1f} % "
            f"| {found.speed_up:.2f} | {row.speed_up:.2f} | {100 * found.speed_up_error:+.1f} % |" in page()
        )


@pytest.mark.parametrize(
    ("model", "tokens", "summary"),
    [("deepseek-v4-pro", 8_192, "2,599"), ("deepseek-v4-flash", 8_192, "976"), ("deepseek-v4-pro", 512, "766")],
)
def test_fused_kernels_of_profiles(model: str, tokens: int, summary: str) -> None:
    setting = Setting.of("prefill", model=model, hardware="b200", ep=8, comm="fused", tokens=tokens)
    (piece,) = pieces_of(Operation(name="MOE", work="moe"), setting, balanced(setting))
    assert f"{piece.mean_ns / 1000:,.0f}" == summary and summary in page()


def test_the_share_of_the_bandwidth_decides_in_prefill() -> None:
    def layer_us(reached: float) -> float:
        setting = Setting.of("prefill", num_layers=8, bandwidth_reached=reached)
        return make_profile(setting).layer_ns / 1000

    assert [round(100 * (layer_us(reached) / 34_263 - 1), 1) for reached in (1, 0.55)] == [3.5, 17.0]

"""docs/profiles-costs.md states what the code computes."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.moe.costs.test_compute import MEASURED, TRAIN, decode_by_law, priced
from tests.moe.costs.test_published_profiles import layer_us
from weftrace.facts import load_models, num_params
from weftrace.moe.costs.compute import pieces_of
from weftrace.moe.overlap_files import load_overlap
from weftrace.moe.routing.load import balanced
from weftrace.moe.setting import Setting
from weftrace.units import si

GUIDE = (ROOT / "docs" / "profiles-costs.md").read_text("utf-8")


def row(first: str) -> list[str]:
    line = next(line for line in GUIDE.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("phase", [*MEASURED, "a layer"])
def test_the_error_table(phase: str) -> None:
    measured = {**MEASURED, "a layer": sum(MEASURED.values())}
    least, found = ({**times, "a layer": sum(times.values())} for times in (
        priced(TRAIN, "training", "roofline"), priced(TRAIN, "training")))  # fmt: skip
    error = f"{100 * (found[phase] / measured[phase] - 1):+.1f} %"
    assert row(phase) == [phase, f"{least[phase]:,.0f}", f"{found[phase]:,.0f}", f"{measured[phase]:,}", error]


@pytest.mark.parametrize("model", [c for c in load_models() if c.experts], ids=lambda config: str(config.name))
def test_the_table_of_models(model) -> None:  # type: ignore[no-untyped-def]
    cells = row(model.name)
    experts = model.experts
    assert cells[1] == f"{model.num_layers}, {experts.num_dense_layers}" and cells[2] == f"{model.hidden_size:,}"
    assert f"{model.num_heads} heads" in cells[3]
    assert cells[4] == f"{experts.num_experts} top {experts.top_k}, {experts.intermediate_size:,}"
    assert cells[5:] == [str(experts.num_shared), str(model.mtp_depth), si(num_params(model))]


def cells(first: str, predicted_us: float, measured_us: float) -> None:
    error = f"{100 * (predicted_us / measured_us - 1):+.1f} %"
    assert row(first)[1:] == [f"{predicted_us:,.0f}", f"{measured_us:,.0f}", error]


def test_prefill() -> None:
    setting = Setting.of("prefill")
    found = sum(priced(setting, "two-micro-batches").values())
    load = balanced(setting)
    cores = sum(
        float(piece.mean_ns) / 1000
        for each in load_overlap("two-micro-batches").operations
        if each.work == "attn"
        for piece in pieces_of(each, setting, load)
        if "core" in piece.name
    )
    cells("prefill, computation alone", found, 34_263)
    cells("prefill, attention cores on all SMs", found - cores * (1 - 108 / 132), 34_263)
    cells("prefill, the profile: 2 µs between kernels", layer_us("prefill", "two-micro-batches"), 34_263)
    slow = layer_us("prefill", "two-micro-batches", reached=0.55)
    cells("prefill, DeepEP at 0.55 of its published bandwidth", slow, 34_263)


def test_decode() -> None:
    law = "decode, by the law of five stages, 192 and 369 µs for dispatch and combine"
    cells(law, decode_by_law(), 1431)
    whole = layer_us("decode", "five-stages")
    cells("decode, the profile: with 5 µs for kernels that issue and receive", whole, 1431)

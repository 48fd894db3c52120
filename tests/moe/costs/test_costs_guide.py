"""docs/profiles-costs.md states what the code computes."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.moe.costs.test_compute import MEASURED, TRAIN, priced
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


def test_prefill_with_attention_on_all_sms() -> None:
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
    alone = found - cores * (1 - 108 / 132)
    assert f"comes to {found:,.0f} ({100 * (found / 34_263 - 1):+.1f} %)" in GUIDE
    assert f"all SMs it would be {alone:,.0f} ({100 * (alone / 34_263 - 1):+.1f} %)" in GUIDE.replace("\n", " ")

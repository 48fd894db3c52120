"""One model on 8 devices, 32 micro-batches, by measured costs: the published makespan of each schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from weftrace.pipeline import Costs, simulate
from weftrace.pipeline.generators.families import FAMILIES, generate
from weftrace.pipeline.measured.phase_costs import costs_of_phases
from weftrace.trace import read, work_of

#: Makespans where F = I = W = 1 of a device's share; then where F&B saves 0.4 F and a message takes 0.05.
SHARES = {
    "zbv": (99.5, 101.15), "interleaved-zb": (99.5, None), "dualpipe": (102, 93.45), "dualpipev": (103, 95.8),
    "zb1p": (103, None), "v-half": (104.5, None), "interleaved": (106.5, None), "1f1b": (117, 120.4),
}  # fmt: skip
#: Milliseconds and peak activations with the costs of DeepSeek's published profile.
DEEPSEEK = {
    "interleaved-fb": (5502, 12), "dualpipe": (5692, 9), "dualpipev": (5734, 8.5), "zbv": (8216, 8), "1f1b": (9315, 8),
}  # fmt: skip


def on_eight_devices(name: str, costs: Costs) -> tuple[float, float]:
    """Makespan in ns, and the most activations that a device holds, in those of its share of the model."""
    num_parts = FAMILIES[name].stages_per_rank
    found = simulate(generate(name, num_ranks=8, num_micro_batches=32), costs.split(num_parts))
    return found.makespan_ns, max(found.ranks["peak_activations"]) / num_parts


@pytest.mark.parametrize("name", SHARES)
def test_at_equal_costs_the_bubble_decides_and_else_the_costs_do(name: str) -> None:
    plain, measured = SHARES[name]
    assert on_eight_devices(name, Costs.units())[0] == plain * 1_000
    if measured is not None:
        assert on_eight_devices(name, Costs.units(FB=2.6, latency=0.05))[0] == pytest.approx(measured * 1_000, abs=1e-6)


@pytest.mark.parametrize("name", DEEPSEEK)
def test_the_row_of_deepseeks_costs(name: str) -> None:
    """The costs to a tenth of a millisecond, as they are told."""
    costs = Costs(forward_ns=97_400_000, input_ns=111_600_000, weight_ns=29_800_000, overlapped_ns=129_000_000)
    makespan_ns, peak = on_eight_devices(name, costs)
    assert makespan_ns / 1e6 == pytest.approx(DEEPSEEK[name][0], abs=2)
    assert peak == DEEPSEEK[name][1]


def test_the_row_of_deepseeks_costs_from_the_profile(shared_data: Path) -> None:
    costs = costs_of_phases(work_of(read(shared_data / "deepseek-v3-train.json.gz"))).costs()
    for name, (makespan_ms, peak) in DEEPSEEK.items():
        makespan_ns, held = on_eight_devices(name, costs)
        assert makespan_ns / 1e6 == pytest.approx(makespan_ms, abs=2)
        assert held == peak

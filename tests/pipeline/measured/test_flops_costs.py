"""Costs of stages from a saved report of FLOPs: an estimate."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weftrace.errors import DocumentError
from weftrace.facts import hardware
from weftrace.pipeline.measured.flops_costs import _sizes, costs_of_flops

H800 = hardware("H800")
SECOND = 989 * 10**12 * 60 // 100  # FLOPs of BF16 that take a second at the stated efficiency


def cost(kind: str, flops: int = 0, moved: int = 0, dtype: str = "bf16") -> dict[str, Any]:
    return {"kind": kind, "executed_flops": flops, "vector_flops": 0, "read_bytes": moved, "written_bytes": 0,
            "dtype": dtype}  # fmt: skip


def saved(tmp_path: Path, layers: list[int], phases: tuple[str, ...] = ("forward", "backward")) -> Path:
    """A model of an embedding, layers of so many products, and a head of one."""
    paths = ["", "embed", "layers", *(f"layers.{at}" for at in range(len(layers))), "head"]
    costs = [cost("matmul", SECOND // 1000), cost("attention", SECOND // 1000), cost("free", 1 << 60, 1 << 60)]
    calls = [*((at + 3, number) for at, number in enumerate(layers)), (len(paths) - 1, 1)]
    rows = [
        (module, phase, 0, number * (2 if phase == "backward" else 1)) for phase in phases for module, number in calls
    ]
    rows += [(3, phase, 1, 1) for phase in phases] + [(1, "forward", 2, 5), (1, "optimizer", 0, 1000)]
    document = {
        "schema": "weftrace.flops/1", "name": "small", "tf32": False, "micro_batches": 1,
        "modules": [{"path": path} for path in paths], "costs": costs,
        "signatures": [{"cost": at} for at in range(len(costs))],
        "ops": {name: [row[at] for row in rows] for at, name in enumerate(("module", "phase", "signature", "calls"))},
    }  # fmt: skip
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    return path


def test_by_pencil(tmp_path: Path) -> None:
    # products of 1 ms; layer 0 has attention too, 1 ms forward and 1 / 0.45 * 0.60 backward; the head has one
    summary = costs_of_flops(saved(tmp_path, [2, 2, 2, 2]), H800, 2)
    assert summary.costs.forward_ns == (5_000_000, 5_000_000)
    assert summary.costs.weight_ns == (4_000_000, 5_000_000)
    assert summary.costs.input_ns == (round(4_000_000 + 1_000_000 * 0.60 / 0.45), 5_000_000)
    assert summary.costs.overlapped_ns is None and summary.basis == "flops"
    assert any("an estimate" in note and "0.60" in note for note in summary.notes)
    assert any("4 layers in 2 stages of 2" in note for note in summary.notes)


def test_stages_are_cut_so_that_the_slowest_takes_least(tmp_path: Path) -> None:
    summary = costs_of_flops(saved(tmp_path, [1, 1, 1, 6]), H800, 2)
    assert summary.costs.weight_ns == (3_000_000, 7_000_000)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=7), st.integers(1, 7))
def test_no_other_cut_is_better(times: list[int], num_stages: int) -> None:
    num_stages = min(num_stages, len(times))
    sizes = _sizes(np.array(times, float), num_stages)
    assert len(sizes) == num_stages and min(sizes) >= 1 and sum(sizes) == len(times)

    def slowest(ends: tuple[int, ...]) -> int:
        return max(sum(times[a:b]) for a, b in itertools.pairwise((0, *ends, len(times))))

    best = min(slowest(ends) for ends in itertools.combinations(range(1, len(times)), num_stages - 1))
    assert slowest(tuple(np.cumsum(sizes)[:-1].tolist())) == best


@pytest.mark.parametrize(
    ("change", "summary"),
    [
        ({"schema": "weftrace.plan/2"}, "not a weftrace.flops/1 document"),
        ({"costs": []}, "broken field"),
        ({"ops": {"module": [], "phase": [], "signature": [], "calls": []}}, "no backward"),
    ],
)
def test_what_is_no_report_of_training_is_refused(tmp_path: Path, change: dict[str, Any], summary: str) -> None:
    path = saved(tmp_path, [1, 1])
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DocumentError, match=summary):
        costs_of_flops(path, H800, 2)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("ops", "calls"), -1), (("ops", "signature"), -1), (("ops", "module"), -1), (("ops", "phase"), "Forward"),
        (("signatures", 0, "cost"), -1), (("costs", 0, "executed_flops"), -1), (("costs", 0, "read_bytes"), None),
        (("modules", 4, "path"), "layers.999999999999"),
    ],
)  # fmt: skip
def test_a_field_that_is_broken_by_hand_is_refused(tmp_path: Path, place: tuple[Any, ...], value: object) -> None:
    path = saved(tmp_path, [1, 1])
    document = json.loads(path.read_text())
    *above, last = place if place[0] != "ops" else (*place, 0)
    at = document
    for key in above:
        at = at[key]
    at[last] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DocumentError, match=r"model\.json: a weftrace\.flops/1 document with a broken field: "):
        costs_of_flops(path, H800, 2)


def test_more_stages_than_layers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="2 layers, too few for 3 stages"):
        costs_of_flops(saved(tmp_path, [1, 1]), H800, 3)

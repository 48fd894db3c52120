"""Costs from JSON: a document that round-trips, and numbers that a person writes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import weftrace as wt
from weftrace.errors import DocumentError
from weftrace.pipeline import Costs, read_costs
from weftrace.pipeline.costs_document import costs_document, costs_of

ALL = Costs(
    forward_ns=(1, 2), input_ns=3, weight_ns=4, backward_ns=(5, 6), overlapped_ns=((7, 8), (9, 10)),
    rank_factor=(1.0, 1.5), latency_ns=11, message_bytes=12, bytes_per_s=13.5, input_needed=(0.0, 0.5),
    output_ready=(0.5, 1.0), activation_bytes=14, pending_bytes=15, weight_bytes=(16, 17), offload_bytes_per_s=18.0,
    source="by hand",
)  # fmt: skip


@pytest.mark.parametrize("costs", [ALL, Costs(forward_ns=1, input_ns=2, weight_ns=3, blocking=True)])
def test_a_document_gives_the_costs_back(costs: Costs) -> None:
    document = json.loads(msgspec.json.encode(costs_document(costs)))
    assert costs_of(document) == costs


def test_the_doors_save_and_load_costs(tmp_path: Path) -> None:
    path = str(tmp_path / "costs.json.gz")
    wt.save(ALL, path)
    assert wt.load(path) == ALL == read_costs(path)
    wt.show(ALL)


def test_a_person_writes_letters_and_units(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(
        '{"F_ms": 97.4, "I_ms": [111.6, 110], "weight_us": 29800, "F&B_ms": 129, "latency_us": 40,'
        ' "activation_MiB": 2, "message_mb": 0.5, "GB_per_s": 45, "offload_gb_per_s": 20, "blocking": false}'
    )
    assert read_costs(path) == Costs(
        forward_ns=97_400_000, input_ns=(111_600_000, 110_000_000), weight_ns=29_800_000, overlapped_ns=129_000_000,
        latency_ns=40_000, activation_bytes=2 << 20, message_bytes=500_000, bytes_per_s=45e9, offload_bytes_per_s=20e9,
        source=str(path),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"F_ms": 1, "I_ms": 1}, "costs: weight_ns is missing. Costs need F, I and W of a chunk; write W_ms"),
        ({"F_ms": 1, "B_ms": 2}, "B alone does not say how much of it is I"),
        ({"F": 1}, "'F' has no unit. Write F_ms"),
        ({"F_ms": 10**400}, "0; it must be a number from 0 to 1e200"),
        ({"forward": 1}, "'forward' has no unit. Write forward_ms"),
        ({"activation": 1}, "'activation' has no unit. Write activation_bytes"),
        ({"forwrd_ms": 1}, "'forwrd_ms' is no cost. Is forward_ns meant?"),
        ({"F_ms": 1, "forward_ns": 1}, "'forward_ns' says forward_ns a second time"),
        ({"F_ms": 1e308}, "F_ms holds 1e+308; it must be a number"),
        ({"F_ms": "fast"}, "F_ms holds 'fast'; it must be a number"),
        ({"F_ms": 1, "I_ms": 1, "W_ms": 1, "blocking": 1}, "costs: blocking = 1; it is true or false"),
        ({"schema": "weftrace.plan/2"}, "not a weftrace.pipeline.costs/1 document"),
        ({"schema": "weftrace.pipeline.costs/1", "forward_ns": 1}, "missing required field"),
        ({"schema": "weftrace.pipeline.costs/1", "forward_ns": 0.5, "input_ns": 1, "weight_ns": 1}, "broken field"),
    ],
)
def test_what_is_wrong_is_named(written: dict[str, object], said: str) -> None:
    with pytest.raises(DocumentError) as raised:
        costs_of(written)
    assert said in str(raised.value)

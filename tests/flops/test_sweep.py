"""Runs over batch, sequence and context."""

from __future__ import annotations

import csv
import io
import json

import pytest

from weftrace.errors import FlopsError
from weftrace.facts import hardware
from weftrace.files.values import to_document
from weftrace.flops.run_spec import RunSpec
from weftrace.flops.runtime.run.run_model import run_model
from weftrace.flops.several.sweep import parse_axis, sweep
from weftrace.flops.tables import sweep_csv


def test_axes() -> None:
    assert parse_axis("batch=1, 8,64") == ("batch", (1, 8, 64))
    for text in ("batch", "batch=", "width=3", "seq=1,x", "seq=-1"):
        with pytest.raises(FlopsError, match="no sweep"):
            parse_axis(text)


def test_flops_grow_with_batch_and_more_than_so_with_context() -> None:
    spec = RunSpec(model="llama-3-8b", phase="decode", context=1)
    seen: list[tuple[int, int]] = []
    axes = {"batch": (1, 4), "context": (64, 128)}
    result = sweep(spec, axes, run_model, hardware=hardware("h100"), on_point=lambda done, of: seen.append((done, of)))
    assert [dict(point.at) for point in result.points] == [
        {"batch": batch, "context": context} for batch in (1, 4) for context in (64, 128)
    ]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    one, longer, four, _ = result.points
    assert four.flops == 4 * one.flops
    assert longer.flops - one.flops == 32 * 4 * 64 * 4096, "QK^T and AV of 64 more positions, 32 layers"
    assert one.intensity is not None and four.intensity is not None and four.intensity > 3 * one.intensity
    for point in result.points:
        assert point.bound == "memory"
        assert point.predicted_ns is not None and point.bound_ns is not None and point.tokens is not None
        assert point.bound_ns < point.predicted_ns
        assert point.tokens_per_s == pytest.approx(1e9 * point.tokens / point.predicted_ns)
    assert result.assumptions, "a predicted time says what it assumes"


def test_without_hardware_nothing_is_predicted() -> None:
    (point,) = sweep(RunSpec(model="gpt2", seq=8), {"batch": (2,)}, run_model).points
    assert (point.bound_ns, point.predicted_ns, point.bound, point.tokens_per_s) == (None, None, None, None)
    assert point.tokens == 16
    with pytest.raises(FlopsError, match="no axis 'depth'"):
        sweep(RunSpec(model="gpt2", seq=8), {"depth": (2,)}, run_model)


def test_document_and_csv_hold_the_same() -> None:
    result = sweep(RunSpec(model="gpt2", batch=1), {"seq": (4, 8)}, run_model)
    document = json.loads(json.dumps(to_document(result)))
    rows = list(csv.DictReader(io.StringIO(sweep_csv(result))))
    assert [int(row["flops"]) for row in rows] == [point["flops"] for point in document["points"]]
    assert [row["seq"] for row in rows] == ["4", "8"]
    assert rows[0]["predicted_ns"] == ""

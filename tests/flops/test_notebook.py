"""Every result shows itself in a notebook: in a few lines, however large the model."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import replace
from typing import Any

import pytest

import weftrace.flops
from tests.flops.small_reports import TINY, huge
from weftrace.facts import hardware
from weftrace.flops.derived.account import account_of
from weftrace.flops.several.diff import diff
from weftrace.flops.several.sweep import Sweep, point_of
from weftrace.notebook import InNotebook

MOST = 8_000
LARGE = huge(1000)
ACCOUNT = account_of(LARGE, "h100")
POINTS = tuple(point_of(TINY, {"batch": batch}, hardware("h100"))[0] for batch in range(1, 200))
VALUES = {
    type(value).__name__: value
    for value in (
        LARGE,
        ACCOUNT,
        *(getattr(ACCOUNT, field.name) for field in dataclasses.fields(ACCOUNT)),
        LARGE.modules[3],
        LARGE.ops[0],
        LARGE.ops[0].cost,
        diff(LARGE, replace(TINY, name="another")),
        Sweep(model="m", axes={"batch": (1,)}, hardware="", points=POINTS, assumptions=(), notes=()),
    )
    if isinstance(value, InNotebook)
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_it_is_short(value: Any) -> None:
    html = value._repr_html_()
    assert html.startswith("<table>") and len(html) < MOST


def test_the_large_ones_are_among_them() -> None:
    wanted = {"FlopsReport", "Account", "Roofline", "Utilization", "Prediction", "Throughput", "Coverage", "Params"}
    assert wanted | {"Totals", "Times", "FlopsDiff", "Sweep", "Cost", "Module", "OpCount"} <= set(VALUES)
    summary = VALUES["Account"]._repr_html_()
    assert ("MFU" in summary and "1,001 modules" in summary) or "modules" in summary


def test_names_of_any_length_are_cut() -> None:
    assert len(account_of(replace(TINY, name="x" * 100_000))._repr_html_()) < MOST


def test_every_exported_result_has_it() -> None:
    exported = [getattr(weftrace.flops, name) for name in dir(weftrace.flops)]
    results = [each for each in exported if inspect.isclass(each) and dataclasses.is_dataclass(each)]
    assert len(results) > 20
    assert [each.__name__ for each in results if not issubclass(each, InNotebook)] == []

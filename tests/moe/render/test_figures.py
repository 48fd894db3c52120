"""Figures for notebooks hold the numbers of their values."""

from __future__ import annotations

import pytest

import weftrace as wt
from tests.moe.render import documents
from tests.moe.render.profiles import made

pytest.importorskip("plotly")


def test_a_sweep_has_a_line_for_each_list_and_no_point_where_it_is_impossible() -> None:
    swept = documents.swept()
    figure = wt.figure(swept)
    rates = {row.values["overlap"]: [] for row in swept.rows}  # type: ignore[var-annotated]
    for row in swept.rows:
        if row.summary:
            rates[row.values["overlap"]].append(row.summary.tokens_per_gpu)
    assert {trace.name.removeprefix("overlap "): list(trace.y) for trace in figure.data} == rates
    assert all(list(trace.x) == [8, 32] for trace in figure.data)
    assert {trace.type for trace in wt.figure(documents.swept_words()).data} == {"bar"}


def test_gains_are_those_over_no_overlap() -> None:
    pays = documents.paying()
    figure = wt.figure(pays)
    first = next(curve for curve in pays.curves[1:] if not curve.reason)
    rate, base = first.tokens_per_gpu[-1], pays.curves[0].tokens_per_gpu[-1]
    assert rate is not None and base
    assert figure.data[0].y[-1] == pytest.approx(100 * (rate / base - 1))


def test_a_validation_marks_each_prediction() -> None:
    found = documents.validated()
    bars, marks = wt.figure(found).data
    assert list(bars.y) == list(marks.y) == [row.name for row in found.phases]
    for row, bar, mark in zip(found.phases, bars.x, marks.x, strict=True):
        assert row.ratio is not None and mark / bar == pytest.approx(row.ratio)


def test_lanes_of_a_profile_are_coloured_by_micro_batch() -> None:
    names = {trace.name for trace in wt.figure(made("decode")).data}
    assert {"micro-batch 0", "micro-batch 1", "exposed"} <= names

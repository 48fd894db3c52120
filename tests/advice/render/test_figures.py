"""Plotly figures of advice: what is drawn of each class is as long as the frame says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.advice.runs import two_streams
from weftrace.advice.critical_paths import critical_path_of
from weftrace.advice.render.figures import (
    _stretches,
    curve_figure,
    path_figure,
    sensitivity_figure,
    waterfall_figure,
)
from weftrace.advice.sensitivities import curve, sensitivity
from weftrace.advice.waterfalls import waterfall

MS = 1e6


def test_the_path_is_drawn_as_long_as_its_classes_take(tmp_path: Path) -> None:
    path = critical_path_of(two_streams(tmp_path))
    figure = path_figure(path)
    drawn = {
        trace.name: sum(x for x, y in zip(trace.x, trace.y, strict=True) if y == "critical path")
        for trace in figure.data
    }
    expected = {name: time_ns / MS for name, time_ns, _ in path.by_class.rows()}
    assert drawn == pytest.approx(expected)
    assert {"stream 7", "thread 0"} <= {y for trace in figure.data for y in trace.y}


def test_many_intervals_become_columns_as_high_as_they_are_full(tmp_path: Path) -> None:
    parts = critical_path_of(two_streams(tmp_path, num=900)).parts
    begin, span = parts.item(0, "from_ns"), parts.item(-1, "until_ns") - parts.item(0, "from_ns")
    for (class_,), of in parts.group_by("class_"):
        _, length, height = _stretches(of, begin, span)
        assert len(length) <= max(1500, 0) and (height <= 1 + 1e-9).all()
        exact = of.select(end=of["until_ns"] - of["from_ns"]).sum().item()
        assert np.dot(length, height) == pytest.approx(exact), class_


def test_the_bars_of_a_waterfall_lie_end_to_end_and_reach_the_span(tmp_path: Path) -> None:
    found = waterfall(two_streams(tmp_path))
    bars = waterfall_figure(found).data[0]
    ends = [base + x for base, x in zip(bars.base, bars.x, strict=True)]
    assert list(bars.base[1:]) == pytest.approx(ends[:-1]) and ends[-1] == pytest.approx(found.span_ns / MS)


def test_sensitivity_and_curve_show_their_tables(tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    found = sensitivity(inferred)
    drawn = sorted(x for trace in sensitivity_figure(found).data for x in trace.x)
    assert drawn == pytest.approx(sorted(100 * found.table["share"]))
    line = curve(inferred, "compute", (0.25, 1, 2))
    (trace, *_) = curve_figure(line).data
    assert list(trace.x) == [0.25, 1, 2] and list(trace.y) == pytest.approx(list(100 * line.points["change"]))

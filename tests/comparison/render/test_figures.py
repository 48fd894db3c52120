"""Plotly figures of a comparison: bars add up to the change, effects to the mover, dots are the steps."""

from __future__ import annotations

from pathlib import Path

import pytest

import weftrace as wt
from tests.comparison.render.phased import changed
from weftrace.comparison.document import diff_report
from weftrace.comparison.render.figures import movers_figure, steps_figure
from weftrace.comparison.render.words import MEDIAN_LESS_MEAN

MS = 1e6


def test_the_bars_of_a_waterfall_lead_from_one_median_step_to_the_other(tmp_path: Path) -> None:
    found = changed(tmp_path)
    bars = wt.figure(found).data[0]
    ends = [base + x for base, x in zip(bars.base, bars.x, strict=True)]
    one, other = (spread.median_ns / MS for spread in found.spans)
    assert list(bars.base[1:-1]) == pytest.approx(ends[:-2])
    assert ends[0] == pytest.approx(one) and ends[-2] == pytest.approx(ends[-1]) == pytest.approx(other)
    assert sum(bars.x[1:-1]) == pytest.approx(found.change_ns / MS)
    assert bars.y[-2] == MEDIAN_LESS_MEAN and bars.x[-2] == pytest.approx(found.remainder_ns / MS)


def test_effects_add_up_to_the_movers(tmp_path: Path) -> None:
    report = diff_report(changed(tmp_path))
    *effects, sums = movers_figure(report).data
    assert len(effects) == 4 and len(sums.x) == 2
    assert [sum(each) for each in zip(*(trace.x for trace in effects), strict=True)] == pytest.approx(list(sums.x))
    largest = max(report.movers["kernel"], key=lambda row: abs(row["change_ns"]))
    assert sums.x[0] == pytest.approx(largest["change_ns"] / MS)


def test_each_step_is_a_dot(tmp_path: Path) -> None:
    found = changed(tmp_path)
    box, dots, *_ = steps_figure(diff_report(found)).data
    assert list(dots.y) == pytest.approx((found.before.spans_ns / MS).tolist(), rel=1e-3)
    assert box.median[0] == pytest.approx(found.spans[0].median_ns / MS)
    assert wt.figure(found, "steps").data[0].q1[0] == pytest.approx(found.spans[0].low_ns / MS)


def test_a_kernel_of_two_parts_has_two_bars(tmp_path: Path) -> None:
    """Exposed in part, and in part waiting: each adds up by itself."""
    report = diff_report(changed(tmp_path))
    (row, *_) = report.movers["kernel"]
    report.movers["kernel"] = [row, {**row, "part": "exposed memory"}]
    *_, sums = movers_figure(report).data
    assert len(set(sums.y)) == 2 and sums.y[1].endswith("exposed memory")

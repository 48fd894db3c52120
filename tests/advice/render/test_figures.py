"""Plotly figures of advice: what is drawn of each class is as long as the frame says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.advice.runs import two_streams
from weftrace.advice.critical_paths import critical_path_of
from weftrace.advice.render.figures import curve_figure, path_figure, sensitivity_figure, waterfall_figure
from weftrace.advice.sensitivities import curve, sensitivity
from weftrace.advice.waterfalls import waterfall

MS = 1e6
UNITS = {"(ms)": MS, "(µs)": 1e3}
ROW = 24  # the height of a row


@pytest.mark.parametrize("num", [6, 600])
def test_the_path_is_drawn_as_long_as_its_classes_take(num: int, tmp_path: Path) -> None:
    """Lengths, or where there are many parts, areas: columns are as high as they are full, and lie on each other."""
    path = critical_path_of(two_streams(tmp_path, num=num))
    figure = path_figure(path)
    area: dict[str, float] = {}
    foot: dict[float, float] = {}
    rows = dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))
    unit = figure.layout.xaxis.title.text.removeprefix("time, replayed ")
    for trace in figure.data:
        bars = zip(trace.y, trace.base, trace.x, trace.width, trace.offset, strict=True)
        for base, x, width, offset in (rest for row, *rest in bars if rows[row] == "critical path"):
            area[trace.name] = area.get(trace.name, 0) + x * width / ROW * UNITS[unit] / MS
            assert offset + width == pytest.approx(foot.get(base, ROW / 2))
            foot[base] = offset
    assert area == pytest.approx({name: ns / MS for name, ns, _ in path.by_class.rows()}, rel=1e-6)
    assert all(end == pytest.approx(-ROW / 2) for end in foot.values())
    assert {"stream 7", "thread 0"} <= {rows[y] for trace in figure.data for y in trace.y}


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

"""Which operator became slower at the same work, and which does other work: by pencil on written runs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.report.rated import SQUARE, called
from tests.tracefile import TraceFile
from weftrace.comparison.diffs import diff
from weftrace.comparison.document import DiffReport, diff_report
from weftrace.comparison.render.markdown import diff_markdown
from weftrace.comparison.render.page import render_diff_html
from weftrace.comparison.render.terminal import print_diff
from weftrace.files.values import from_document, to_document
from weftrace.report import analyze

SMALL = [[64, 4096], [4096, 4096]]
VARY = (0, 0.01, -0.01, 0.005, 0, -0.005, 0.01, 0)


def run(path: Path, *, square_us: float, calls: int = 2, rows: int = 512, steps: int = 8) -> Path:
    """Steps of 2 ms: products of 4,096 that take square_us, one small product of 40 µs, an addmm of so many rows."""
    file = TraceFile()
    for number in range(steps):
        at = 1000.0 + 2000 * number
        by = 1 + VARY[number % len(VARY)]
        for place in range(calls):
            called(file, "aten::mm", SQUARE, at + 300 * place, square_us * by)
        called(file, "aten::mm", SMALL, at + 1600, 40 * by)
        called(file, "aten::addmm", [[512], [rows, 512], [512, 512]], at + 1700, 60 * by)
        if steps > 1:
            file.host(f"ProfilerStep#{number}", at - 20, 1990)
    return file.write(path)


def compared(folder: Path, before: Any, after: Any) -> DiffReport:
    sides = [run(folder / f"{name}.json", **how) for name, how in (("before", before), ("after", after))]
    return diff_report(diff(*map(str, sides)))


def test_a_slower_shape_is_told_apart_from_other_shapes(tmp_path: Path) -> None:
    report = compared(tmp_path, {"square_us": 200}, {"square_us": 250, "rows": 640})
    rows = {(row["operator"], row["shapes"]): row for row in report.shapes}
    square = rows["aten::mm", "[4096x4096] [4096x4096]"]
    assert square["status"] == "both" and square["is_noise"] is False
    assert (square["before_num"], square["after_num"]) == (2, 2)
    assert square["before_call_ns"] == pytest.approx(200_000, rel=0.01)
    assert square["by_duration_ns"] == square["change_ns"] == pytest.approx(100_000, rel=0.01)
    assert rows["aten::mm", "[64x4096] [4096x4096]"]["is_noise"] is True
    assert rows["aten::addmm", "[512] [512x512] [512x512]"]["status"] == "gone"
    assert rows["aten::addmm", "[512] [640x512] [512x512]"]["status"] == "new"
    slower, other = report.shape_sentences
    assert slower.startswith(
        "At the same work slower: aten::mm [4096x4096] [4096x4096] (200 µs → 250 µs a call, +25.0 %"
    )
    assert other.startswith("aten::addmm does other work: [512] [640x512] [512x512] bf16 instead of [512] [512x512]")


def test_more_calls_are_no_slower_ones(tmp_path: Path) -> None:
    report = compared(tmp_path, {"square_us": 200}, {"square_us": 200, "calls": 4})
    (top, *_) = report.shapes
    assert (top["before_num"], top["after_num"], top["by_duration_ns"]) == (2, 4, 0)
    assert top["change_ns"] == pytest.approx(400_000, rel=0.01)
    assert report.shape_sentences == []


def test_of_one_recording_noise_is_not_known(tmp_path: Path) -> None:
    report = compared(tmp_path, {"square_us": 200, "steps": 1}, {"square_us": 250, "steps": 1})
    assert {row["is_noise"] for row in report.shapes} == {None}
    (sentence,) = report.shape_sentences
    assert "in all)" in sentence and sentence.endswith("Of one step, noise is not known.")


def test_a_saved_report_tells_shapes_without_noise(tmp_path: Path) -> None:
    import json

    sides = []
    for name, square_us in (("before", 200), ("after", 250)):
        trace = run(tmp_path / f"{name}.json", square_us=square_us)
        sides.append(tmp_path / f"{name}-report.json")
        sides[-1].write_text(json.dumps(analyze(str(trace), timelines=False).document))
    report = diff_report(diff(*map(str, sides)))
    (top, *_) = report.shapes
    assert top["before_num"] == 2 and top["before_call_ns"] == pytest.approx(200_000, rel=0.01)
    assert top["is_noise"] is None and "slower: aten::mm [4096x4096]" in report.shape_sentences[0]


def test_what_is_shown(tmp_path: Path, open_html: Any) -> None:
    report = compared(tmp_path, {"square_us": 200}, {"square_us": 250, "rows": 640})
    out = io.StringIO()
    print_diff(report, Console(file=out, width=80))
    words = " ".join(out.getvalue().split())
    assert "Operators by shape" in words and "200 µs → 250 µs" in words and "gone" in words
    assert "At the same work slower: aten::mm" in diff_markdown(report)
    page = open_html(render_diff_html(report))
    assert page.locator("#shape-table tbody tr").count() == 4
    assert "At the same work slower" in page.locator("#shape-sentences").inner_text()
    document = to_document(report)
    assert from_document(DiffReport, document, what="saved").shape_sentences == report.shape_sentences
    for name in ("shapes", "shape_sentences"):
        del document[name]
    assert from_document(DiffReport, document, what="older").shapes == []

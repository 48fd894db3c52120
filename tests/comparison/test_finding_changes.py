"""Which findings a change removes, adds, or makes cheaper: by pencil on written runs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.tracefile import GEMM, TraceFile
from weftrace.comparison.diffs import diff
from weftrace.comparison.document import DiffReport, diff_report
from weftrace.comparison.finding_changes import finding_changes
from weftrace.comparison.render.markdown import diff_markdown
from weftrace.comparison.render.page import render_diff_html
from weftrace.comparison.render.terminal import print_diff
from weftrace.comparison.runs import run_of
from weftrace.files.values import from_document, to_document
from weftrace.report import analyze

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
MS = 1_000_000
VARY = (0, 0.01, -0.01, 0.005, 0, -0.005, 0.01, 0)


def run(path: Path, *, load_us: float = 0, sync_us: float = 0, steps: int = 8) -> Path:
    """Steps of 20 gemms of 500 µs that run ahead of the device: before them a loader, after them a wait for the
    device, in which the host then does nothing for sync_us before it launches again."""
    file, at = TraceFile(), 0.0
    for step in range(steps):
        begin, by = at, 1 + VARY[step % len(VARY)]
        if load_us:
            file.host(LOADER, at, load_us)
        at += load_us + 10
        free = at + 20
        for number in range(20):
            file.host("aten::mm", at + 10 * number, 8, cat="cpu_op")
            file.kernel(GEMM, free, 500 * by, launch=at + 10 * number + 2)
            free += 500 * by
        if sync_us:
            file.host("aten::item", at + 300, free - at - 300 + sync_us, cat="cpu_op")
            file.host("cudaStreamSynchronize", at + 305, free - at - 305 + 5, cat="cuda_runtime")
        at = free + sync_us + 10
        file.host(f"ProfilerStep#{step}", begin, at - begin)
    return file.write(path)


def compared(folder: Path, before: Any, after: Any) -> DiffReport:
    sides = [run(folder / f"{name}.json", **how) for name, how in (("before", before), ("after", after))]
    return diff_report(diff(*map(str, sides), advises=True))


def test_a_remedy_removes_a_finding(tmp_path: Path) -> None:
    report = compared(tmp_path, {"load_us": 4000}, {})
    assert report.findings is not None
    (gone,) = report.findings
    assert (gone["rule"], gone["kind"], gone["after_ns"], gone["after_gain"]) == ("data-loading", "gone", 0, None)
    assert gone["before_ns"] == -gone["change_ns"] == pytest.approx(4 * MS * 7 / 8, rel=0.05)
    assert gone["before_gain"] is not None and gone["is_noise"] is False
    assert gone["sentence"].startswith("Gone: The device waits for the next batch, ")


def test_a_change_makes_another_finding_appear(tmp_path: Path) -> None:
    report = compared(tmp_path, {"load_us": 4000}, {"load_us": 2000, "sync_us": 1500})
    assert report.findings is not None
    kinds = {one["rule"]: one["kind"] for one in report.findings}
    assert kinds == {"data-loading": "changed", "sync-every-step": "new"}
    new, changed = sorted(report.findings, key=lambda one: one["kind"], reverse=True)
    assert new["before_ns"] == 0 < new["after_ns"] and new["after_gain"] is not None
    assert changed["sentence"].startswith("Less: The device waits for the next batch, ")


def test_nothing_is_told_of_what_did_not_change_or_was_not_looked_for(tmp_path: Path) -> None:
    assert compared(tmp_path, {"load_us": 4000}, {"load_us": 4100}).findings == []
    path = str(run(tmp_path / "one.json", load_us=4000))
    assert diff_report(diff(path, path)).findings is None
    assert diff_report(diff(path, str(run(tmp_path / "whole.json", steps=1)), advises=True)).findings is not None
    loaded, free = run_of(path, advises=True), run_of(str(run(tmp_path / "free.json")), advises=True)
    assert loaded.advice is not None and free.advice is not None
    blind = replace(free.advice, not_found=[replace(each, looked=False) for each in free.advice.not_found])  # type: ignore[arg-type]
    assert finding_changes(loaded.advice, blind, 0) == []
    assert finding_changes(loaded.advice, replace(free.advice, num_steps=0), 0) is None
    within, *others = finding_changes(loaded.advice, free.advice, 100 * MS) or []
    assert not others and within["is_noise"] and within["sentence"].endswith(" Within the noise.")


def test_a_saved_report_has_the_findings_of_its_trace(tmp_path: Path) -> None:
    traces = [run(tmp_path / "before.json", load_us=4000), run(tmp_path / "after.json", sync_us=1500)]
    reports = [tmp_path / f"{trace.stem}-report.json" for trace in traces]
    for trace, report in zip(traces, reports, strict=True):
        report.write_text(json.dumps(analyze(str(trace), timelines=False).document))
    of_traces, of_reports, mixed = (
        diff_report(diff(*map(str, sides), advises=True)).findings
        for sides in (traces, reports, (reports[0], traces[1]))
    )
    assert of_traces and of_traces == of_reports == mixed
    assert {one["kind"] for one in of_traces} == {"new", "gone"}


def test_what_is_shown(tmp_path: Path, open_html: Any) -> None:
    report = compared(tmp_path, {"load_us": 4000}, {"sync_us": 1500})
    out = io.StringIO()
    print_diff(report, Console(file=out, width=100))
    words = " ".join(out.getvalue().split())
    assert "Findings" in words and "Gone: The device waits for the next batch" in words
    assert "- New: The host waits for the device in every step" in diff_markdown(report)
    page = open_html(render_diff_html(report))
    assert page.locator("#finding-sentences li").count() == 2
    document = to_document(report)
    assert from_document(DiffReport, document, what="saved").findings == report.findings
    del document["findings"]
    assert from_document(DiffReport, document, what="older").findings is None

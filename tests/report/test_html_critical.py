"""The tab "Critical path" of a report's page: there where a path is found in a moment, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weftrace as wt
from tests.advice.runs import trace_of, write_two_streams
from tests.browser import Open
from tests.pages import page_blocks
from tests.tracefile import GEMM, TraceFile
from weftrace.advice import critical_path_of
from weftrace.advice.document import critical_path_report
from weftrace.advice.render.page import render_path_html
from weftrace.plan import infer
from weftrace.report import build
from weftrace.report.render import critical
from weftrace.report.render.critical import path_blocks


def saved(report: Any, folder: Path) -> str:
    wt.save(report, folder / "report.html")
    return (folder / "report.html").read_text()


def block_of(html: str) -> Any:
    return page_blocks(html).get("weftrace-path-0")


def test_the_tab_shows_the_path_with_the_replay_s_error(open_html: Open, tmp_path: Path) -> None:
    trace = trace_of(write_two_streams(tmp_path))
    report = wt.analyze(trace)
    html = saved(report, tmp_path)
    path = critical_path_of(infer(trace))
    headline = critical_path_report(infer(trace)).headline
    assert headline.startswith(path.sentence)
    page = open_html(html)
    assert page.inner_text(".hero:has(h1)").startswith(report.document["headline"][:80])  # stays as it is
    assert page.is_visible("nav a[href='#critical']") and page.inner_text("#critical-sentence") == headline
    assert "Replayed in" in page.inner_text("#critical-facts")
    assert page.locator("#critical canvas").is_visible() and page.locator("#critical-fall rect.fall").count() > 2
    assert block_of(html)["picture"]["span_ns"] == path.span_ns


def test_a_loaded_report_has_no_tab(open_html: Open, tmp_path: Path) -> None:
    write_two_streams(tmp_path)
    wt.save(wt.analyze(tmp_path / "trace.json"), tmp_path / "report.json")
    html = saved(wt.load(tmp_path / "report.json"), tmp_path)
    assert block_of(html) is None
    page = open_html(html)
    assert page.is_hidden("nav a[href='#critical']") and page.is_hidden("#critical")


def test_no_path_is_looked_for_where_that_takes_long_or_nothing_ran_on_a_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_two_streams(tmp_path)
    assert [block is not None for block in path_blocks(wt.analyze(path))] == [True]
    assert path_blocks(wt.analyze(path, timelines=False)) == [None]
    monkeypatch.setattr(build, "MAX_PATH_EVENTS", 5)
    assert path_blocks(wt.analyze(path)) == [None]
    host = TraceFile().host("aten::mm", 0, 10, cat="cpu_op").write(tmp_path / "host.json")
    assert path_blocks(wt.analyze(host)) == [None]


def test_without_advice_there_is_no_tab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = wt.analyze(write_two_streams(tmp_path))
    monkeypatch.setattr(critical, "WINGS", ())
    assert path_blocks(report) == [] and block_of(saved(report, tmp_path)) is None


def test_of_a_kernel_that_takes_no_time_there_is_no_picture(open_html: Open, tmp_path: Path) -> None:
    trace = TraceFile().kernel(GEMM, 100, 0).trace(tmp_path)
    page = open_html(saved(wt.analyze(trace), tmp_path))
    assert page.is_visible("#critical-sentence") and page.locator("#critical canvas").count() == 0
    page = open_html(render_path_html(critical_path_report(infer(trace))))
    assert page.is_hidden("#picture")


def test_a_bug_in_advice_does_not_cost_the_report(
    open_html: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from weftrace.advice import document

    def fails(_: object) -> None:
        raise AssertionError("op 7", 3)

    report = wt.analyze(write_two_streams(tmp_path))
    monkeypatch.setattr(document, "critical_path_report", fails)
    page = open_html(saved(report, tmp_path))
    said = page.inner_text("#critical-reason")
    assert said == "weftrace could not find it because of a bug: AssertionError: ('op 7', 3)"
    assert page.is_hidden("#critical-body")

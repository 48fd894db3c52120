"""The page of advice, and the findings at the head of a report: what they tell, and the place that each opens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import weftrace as wt
from tests.browser import Open
from tests.findings.test_advising import planted
from weftrace.advice import advise
from weftrace.advice.render.page import render_advice_html
from weftrace.analysis.findings import AdviceReport
from weftrace.report import analyze, render_html

HOSTILE = "</script><b>x</b>" + "kernel" * 40


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted("data-loading").write(tmp_path_factory.mktemp("loader"))


@pytest.fixture(scope="module")
def report(loader: Path) -> AdviceReport:
    return advise(loader)


def test_findings_stand_in_order_with_what_they_save(open_html: Open, report: AdviceReport) -> None:
    page = open_html(render_advice_html(report))
    assert page.locator(".finding").count() == len(report.losses)
    rules = page.locator(".finding").evaluate_all("(all) => all.map((one) => one.dataset.rule)")
    assert rules == [each.rule for each in report.losses]
    first = report.losses[0]
    assert first.gain is not None and first.remedy is not None
    assert page.locator(".finding-told").first.inner_text() == f"saves {first.gain.words_per(' per step')}"
    assert first.remedy.remedy in page.locator(".finding-text").first.inner_text()
    assert page.locator(".not-found li").count() == len(report.not_found)


def test_bars_are_as_long_as_gains(open_html: Open, report: AdviceReport) -> None:
    page = open_html(render_advice_html(report))
    widths = page.locator(".finding").evaluate_all(
        "(all) => all.map((one) => [...one.querySelectorAll('.gain-room span')].map((bar) => "
        "bar.getBoundingClientRect().width / bar.parentElement.getBoundingClientRect().width))"
    )
    most = max(0.01, *(max(each.gain_high_share or 0, each.cost_share) for each in report.losses))
    for each, bars in zip(report.losses, widths, strict=True):
        wanted = [each.cost_share, each.gain_high_share or 0, each.gain_low_share or 0]
        assert bars == pytest.approx([max(0.0, min(1.0, share / most)) for share in wanted], abs=0.01)


def test_names_of_a_trace_stay_text_and_inside_the_page(open_html: Open, report: AdviceReport) -> None:
    first = report.losses[0]
    odd = replace(first, sentence=HOSTILE, where=replace(first.where, code="", kernels=(HOSTILE,)))
    page = open_html(render_advice_html(replace(report, findings=(odd,))), viewport={"width": 420, "height": 900})
    assert not page.locator("b").evaluate_all("(all) => all.filter((one) => one.textContent === 'x').length")
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_a_finding_opens_its_place_in_the_timeline(open_html: Open, loader: Path, report: AdviceReport) -> None:
    made = analyze(loader)
    page = open_html(render_html(made.document, made.timelines))
    first, zero = report.losses[0].where, made.document["ranks"][0]["start_ns"]
    assert first.start_ns is not None and first.end_ns is not None and zero is not None
    assert page.locator("#advice .findings").first.locator(".finding").count() == min(3, len(report.losses))
    page.locator("#advice .finding button").first.click()
    assert page.evaluate("weftrace.timeline.stats().range") == [first.start_ns - zero, first.end_ns - zero]


def test_a_report_without_advice_has_no_such_section(open_html: Open, loader: Path) -> None:
    made = wt.analyze(loader, advice=False)
    page = open_html(render_html(made.document, made.timelines))
    assert page.locator("#advice").is_hidden() and page.locator("nav a[href='#advice']").is_hidden()

"""A report in a notebook's cell: its summary with the lanes, and its page in a frame."""

from __future__ import annotations

import pytest

import weftrace as wt
from tests.browser import Open
from weftrace.plan import deepseek_training_layers


@pytest.fixture(scope="module")
def report() -> wt.Report:
    return wt.analyze(wt.simulate(deepseek_training_layers(2)))


def test_a_report_shows_its_headline_its_parts_and_its_lanes(report: wt.Report) -> None:
    html = report._repr_html_()
    for text in (report.document["headline"][:30], "compute", "exposed communication", "exposed memory", "idle"):
        assert text in html
    assert html.count('src="data:image/svg+xml;base64,') == 1


def test_a_page_in_a_cell_draws_itself_without_a_network(report: wt.Report, open_html: Open) -> None:
    cell = wt.page(report, height=700)._repr_html_()
    assert cell.isascii()  # so that a document of any encoding, or of none, holds it
    mark = "<script>performance.mark('weftrace-first-paint')</script>"
    page = open_html(f"<!doctype html><meta charset=windows-1252><body>{report._repr_html_()}{cell}{mark}</body>")
    inside = page.frame_locator("iframe")
    inside.locator("canvas:visible").first.wait_for()
    assert inside.locator("h1").count() == 1
    assert page.evaluate("document.querySelector('iframe').clientHeight") == 700
    assert page.evaluate("document.querySelector('img').naturalWidth") > 500

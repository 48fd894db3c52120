"""Pages of sweeps, of what pays and of validations: the figure says what the document says, and nothing is cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.browser import Open
from tests.moe.render.documents import paying, swept, swept_words, validated
from tests.pages import check_modules
from weftrace.moe.render.page import HOME
from weftrace.moe.render.pages import render_pays_html, render_sweep_html, render_validation_html

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES: dict[str, Callable[[], str]] = {
    "sweep": lambda: render_sweep_html(swept()),
    "sweep of words": lambda: render_sweep_html(swept_words()),
    "pays": lambda: render_pays_html(paying()),
    "validation": lambda: render_validation_html(validated()),
}
TEXTS = "(all) => all.map((each) => each.textContent)"


def text_of(page: Page, selector: str) -> str:
    """Of the first that is selected."""
    return page.locator(selector).first.text_content() or ""


def test_modules_are_joined_and_none_is_left_over() -> None:
    check_modules(HOME, ["profile", "sweep", "pays", "validation"])


def test_a_sweep_shows_each_combination_and_why_one_is_impossible(open_html: Open) -> None:
    page = open_html(PAGES["sweep"]())
    possible = [row.summary for row in swept().rows if row.summary]
    assert page.locator("#row-table tbody tr").count() == len(possible) == 4
    best = max(possible, key=lambda summary: summary.tokens_per_gpu)
    assert f"{best.tokens_per_gpu:,.0f}" in text_of(page, "#row-table tbody tr").replace(" ", ",")
    assert page.locator("#impossible li").count() == 2 and "200" in text_of(page, "#impossible")
    assert text_of(page, "h1").startswith("ep=")
    names = page.locator(".curve-name").evaluate_all(TEXTS)
    assert sorted(names) == ["none", "two-micro-batches"]
    assert page.locator("circle.curve.dot").count() == len(possible)  # a point each, none where it is impossible


def test_a_fused_kernel_has_no_exposed_time(open_html: Open) -> None:
    page = open_html(PAGES["sweep of words"]())
    page.get_by_role("button", name="Exposed", exact=True).click()
    assert page.locator("rect.curve.block").count() == 2
    page.get_by_role("button", name="Tokens/s", exact=True).click()
    assert page.locator("rect.curve.block").count() == 3


def test_where_a_list_pays_is_ringed(open_html: Open) -> None:
    curves, page = paying().curves, open_html(PAGES["pays"]())
    paid = [curve for curve in curves[1:] if curve.pays_from is not None]
    assert page.locator("circle.curve.ring").count() == len(paid) > 0
    assert page.locator("#curve-table tbody tr").count() == len(curves) - 1
    page.get_by_role("button", name="Tokens/s", exact=True).click()
    assert page.locator("path.curve").count() == len(curves)
    # A point above the line of 0 is a gain; the line itself is drawn where something is below it.
    page.get_by_role("button", name="Against no overlap").click()
    losing = any(
        rate is not None and base is not None and rate < base
        for curve in curves[1:]
        for rate, base in zip(curve.tokens_per_gpu, curves[0].tokens_per_gpu, strict=True)
    )
    assert page.locator(".chart .mean").count() == losing


def test_lines_pass_over_batches_that_a_list_cannot_cut(open_html: Open) -> None:
    page = open_html(PAGES["pays"]())
    known = [sum(rate is not None for rate in curve.tokens_per_gpu) for curve in paying().curves[1:]]
    paths = [page.locator("path.curve").nth(at).get_attribute("d") or "" for at in range(len(known))]
    assert [(path.count("M"), path.count("L")) for path in paths] == [(1, number - 1) for number in known if number]


@pytest.mark.parametrize(
    ("batches", "labels"),
    [
        (range(8, 513), ["8", "16", "32", "64", "128", "256", "512"]),
        (range(300, 901), ["300", "400", "500", "600", "700", "800", "900"]),
    ],
)
def test_of_many_batches_the_round_ones_are_labelled(open_html: Open, batches: range, labels: list[str]) -> None:
    rates: list[float | None] = [float(batch) for batch in batches]
    curves = tuple(replace(curve, tokens_per_gpu=rates, pays_from=None) for curve in paying().curves)
    page = open_html(render_pays_html(replace(paying(), batches=tuple(batches), curves=curves)))
    placed = page.locator(".chart text.tick[text-anchor=middle]").evaluate_all(TEXTS)
    assert placed == labels


def test_pages_say_what_the_costs_assume_and_whose_that_is(open_html: Open) -> None:
    page = open_html(PAGES["pays"]())
    run = [curve for curve in paying().curves if not curve.reason]
    shared = set(run[0].assumed).intersection(*(curve.assumed for curve in run))
    shown = dict(
        zip(
            page.locator("#assumed dt").evaluate_all(TEXTS),
            page.locator("#assumed dd").evaluate_all(TEXTS),
            strict=True,
        )
    )
    assert shared and all(text.removeprefix("assumed: ") in shown["all"] for text in shared)
    alone = next(text for text in run[-1].assumed if not any(text in curve.assumed for curve in run[:-1]))
    assert run[-1].overlap == "waves" and alone.removeprefix("assumed: ") in shown["waves"]
    page = open_html(PAGES["sweep of words"]())
    shown = page.locator("#assumed dd").evaluate_all(TEXTS)
    assumed = [text for row in swept_words().rows if row.summary for text in row.summary.assumed]
    assert assumed and all(any(text.removeprefix("assumed: ") in each for each in shown) for text in assumed)
    assert "overlap waves" in page.locator("#assumed dt").evaluate_all(TEXTS)


def test_a_validation_shows_ratios_and_marks_where_they_are(open_html: Open) -> None:
    page = open_html(PAGES["validation"]())
    rows = validated().phases
    assert page.locator("#phase-table tbody tr").count() == len(rows)
    shown = text_of(page, "#phase-table tbody tr")
    assert f"{rows[0].ratio:.3f}" in shown
    boxes = page.locator("rect.bar-of").evaluate_all(
        "(all) => all.map((each) => [+each.getAttribute('x'), +each.getAttribute('width')])"
    )
    marks = page.locator("path.predicted").evaluate_all(
        "(all) => all.map((each) => +/M([\\d.]+)/.exec(each.getAttribute('d'))[1])"
    )
    for row, (x, width), mark in zip(rows, boxes, marks, strict=True):
        assert (mark - x) / width == pytest.approx(row.ratio, rel=0.03), row.phase
    assert page.locator("#run-table tbody tr").count() == len(validated().whole)


def test_texts_of_documents_are_texts_and_empty_ones_are_told(open_html: Open) -> None:
    measured = replace(validated().measured, source="</script><b>x")
    notes = ("<img src=x onerror=alert(1)>", "long " * 200)
    hostile = replace(validated(), measured=measured, phases=(), notes=notes)
    page = open_html(render_validation_html(hostile), viewport={"width": 360, "height": 800})
    assert page.locator("#notes img").count() == 0
    assert "no phase in common" in text_of(page, "#phase-lead")
    rows = tuple(replace(row, summary=None, reason="no") for row in swept().rows)
    page = open_html(render_sweep_html(replace(swept(), rows=rows)))
    assert page.locator("#figure").is_hidden()

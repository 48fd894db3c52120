"""The page about a model's cost: safe and small as text, and right in a browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.flops.small_reports import TINY, UNTIMED, huge
from tests.pages import check_modules, page_blocks
from weftrace.costs.cost import Phase
from weftrace.errors import FlopsError
from weftrace.flops.derived.account import account_of
from weftrace.flops.document import flops_document
from weftrace.flops.render.figures import flops_phases_figure, flops_roofline_figure, flops_treemap_figure
from weftrace.flops.render.page import HOME, page_block, render_flops_html
from weftrace.flops.render.words import TERMS
from weftrace.flops.values import FlopsReport, Timing

if TYPE_CHECKING:
    from playwright.sync_api import Page

ATTACK = '</script><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'


def block(html: str) -> Any:
    return page_blocks(html)["weftrace-flops"]


# ---- as text


def test_modules_are_joined_after_what_they_import() -> None:
    check_modules(HOME, ["flops"])


def test_one_file_that_reaches_nothing_and_stays_small() -> None:
    html = render_flops_html(huge(1000))
    tags = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href|action)="(?!#|data:)[^"]*"', tags)
    assert "url(" not in html and "@import" not in html
    assert len(html) < 400_000


def test_block_holds_the_numbers_of_the_pencil() -> None:
    held = block(render_flops_html(TINY, "h100"))
    assert held["work"]["forward"]["flops"] == [0, 192, 0, 96, 0]
    assert held["work"]["backward"]["flops"] == [0, 192, 0, 192, 0]
    assert held["work"]["optimizer"]["vector"] == [0, 0, 0, 0, 96]
    assert held["work"]["forward"]["own_time"] == [12, 110, 20, 60, 5]  # of the second step, 490 of 480 490 500
    assert "executed" not in held["work"]["forward"]  # the same as flops
    assert [phase["time"] for phase in held["phases"]] == [207, 230, 41]
    assert [(row["op"], row["calls"]) for row in held["unknown"]] == [("mylib.loss.default", 1)]
    assert {card["key"] for card in held["cards"]} <= set(TERMS)
    assert held["roofs"]["name"] == "H100 SXM"


def test_a_document_draws_as_its_report_does() -> None:
    document = json.loads(json.dumps(flops_document(TINY)))
    assert render_flops_html(document) == render_flops_html(TINY)


def test_without_times_and_hardware() -> None:
    held = block(render_flops_html(UNTIMED))
    assert held["timed"] is False and held["roofs"] is None and held["worst"] == [] and held["kinds"] == []
    assert "time" not in held["work"]["forward"] and "bound" not in held["work"]["forward"]


# ---- in a browser


def test_page_draws_tree_map_and_roofline(open_html: Any) -> None:
    page: Page = open_html(render_flops_html(TINY, "h100"))
    assert page.locator("h1").inner_text().startswith("Tiny: 672 FLOP a step")
    assert page.locator("#tree tbody tr").count() == 5
    row = page.locator('#tree tr[data-path="fc1"]')
    assert "192" in row.inner_text() and "220 ns" in row.inner_text()
    page.locator('#tree .twist[aria-label="Close the model"]').click()
    assert page.locator("#tree tbody tr").count() == 2
    assert page.locator("#map-chart g").count() >= 5
    page.locator('#map-tools button[data-metric="params"]').click()
    assert "66.7 %" in page.locator("#map-chart").inner_text()  # fc1: 32 of 48
    assert page.locator("#roofline-chart .dot circle").count() == 7  # modules and phases that do arithmetic
    assert "mylib.loss.default (1 call)" in page.locator("#unknown-box").inner_text()
    assert page.locator('[data-bar="time"]').count() == 1


def test_tree_sorts_finds_and_unfolds(open_html: Any) -> None:
    page: Page = open_html(render_flops_html(huge(100)))
    rows = page.locator("#tree tbody tr")
    page.locator('#tree button[data-sort="params"]').click()
    page.locator("#tree-tools input").fill("part3")
    assert rows.count() > 10
    page.locator("#tree-tools input").fill("")
    page.locator("#tree-tools button", has_text="Open all").click()
    assert rows.count() == 100


def test_untimed_page_says_what_is_missing(open_html: Any) -> None:
    page: Page = open_html(render_flops_html(UNTIMED))
    assert "Nothing was timed" in page.locator("#tree-lead").inner_text()
    assert "no device is named" in page.locator("#roofline-lead").inner_text()
    assert page.locator('#map-tools button[aria-pressed="true"]').inner_text() == "FLOPs"
    bounded: Page = open_html(render_flops_html(UNTIMED, "h100"))
    assert "hollow points" in bounded.locator("#roofline-lead").inner_text()
    assert bounded.locator(".dot.at-bound").count() == 7


def test_names_stay_names(open_html: Any) -> None:
    modules = tuple(
        replace(module, class_name=ATTACK, detail=ATTACK, name=module.name and ATTACK, path=module.path and ATTACK)
        for module in TINY.modules
    )
    ops = tuple(replace(op, op=ATTACK) for op in TINY.ops)
    html = render_flops_html(replace(TINY, name=ATTACK, modules=modules, ops=ops, notes=(ATTACK,)), "h100")
    assert "<img src=x" not in html
    page: Page = open_html(html)
    assert page.evaluate("window.pwned") is None


# ---- figures


def test_figures_hold_the_numbers() -> None:
    tree = flops_treemap_figure(TINY, "flops").data[0]
    assert list(tree.values) == [672, 384, 0, 288, 0] and list(tree.parents) == ["", "0", "0", "0", ""]
    assert flops_treemap_figure(TINY).data[0].values[0] == 432  # 12 + 220 + 50 + 150
    assert [bar.name for bar in flops_phases_figure(TINY).data] == ["forward", "backward", "optimizer"]
    titles = [flops_roofline_figure(report, "h100").layout.title.text for report in (TINY, UNTIMED)]
    assert "measured" in titles[0] and "nothing was timed" in titles[1]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: flops_treemap_figure(UNTIMED, "time"), "nothing was timed"),
        (lambda: flops_treemap_figure(TINY, "joy"), "no metric 'joy'"),
        (lambda: flops_roofline_figure(TINY), "no accelerator is known"),
    ],
)
def test_figures_that_cannot_be(make: Any, text: str) -> None:
    with pytest.raises(FlopsError, match=text):
        make()


def test_report_is_not_touched() -> None:
    before: FlopsReport = replace(TINY)
    render_flops_html(TINY, "h100")
    assert before == TINY


def test_page_holds_the_prediction_and_how_far_its_numbers_can_be_trusted() -> None:
    held = page_block(account_of(UNTIMED, "h100"))
    assert [card["key"] for card in held["cards"][:3]] == ["predicted", "tokens_per_s", "fits"]
    assert held["exact"] == "exactly: model FLOPs 288 forward, 384 backward"
    assert {card["key"] for card in page_block(account_of(TINY, "h100"))["cards"]}.isdisjoint({"predicted", "fits"})


def test_shares_of_the_page_are_of_one_step() -> None:
    """Times of a module, of its parts and of the phases add up to the step, whatever the medians of each are."""
    steps = ((10, 20, 30), (11, 40, 5), (12, 6, 50))  # of the root, fc1 and act; medians 11, 20, 30 are of no step
    columns = list(zip(*steps, strict=True))
    report = replace(
        TINY,
        times=tuple(Timing(module=m, phase=Phase.FORWARD, samples_ns=column) for m, column in enumerate(columns)),
        clock=replace(TINY.clock, step_ns=tuple(map(sum, steps))),
    )
    held = page_block(account_of(report))
    assert held["work"]["forward"]["own_time"][:3] == [10, 20, 30]  # the first step, 60 of 60 56 68
    assert sum(held["work"]["forward"]["own_time"]) == held["phases"][0]["time"] == 60
    assert next(card["value"] for card in held["cards"] if card["key"] == "step") == "60 ns"

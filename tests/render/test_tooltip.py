"""What is said of a kernel goes away when the kernel does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import Open
from tests.fuzz import few
from tests.render.extreme_pages import strained
from weftrace.report import render_html

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def page(open_html: Open, tmp_path: Path) -> Page:
    report = strained(tmp_path)
    document: Any = report.document
    ranks = [{**document["ranks"][0], "rank": rank} for rank in (0, 1)]
    return open_html(render_html(document | {"ranks": ranks, "num_ranks": 2}, [*report.timelines, *report.timelines]))


def point(page: Page, picture: str) -> None:
    """Points at an event of the timeline, or a box of the lane picture, from outside: then a tip is there."""
    page.locator(f"#{picture}").scroll_into_view_if_needed()
    page.evaluate("window.scrollTo({ top: document.getElementById('timeline').offsetTop - 420, behavior: 'instant' })")
    page.evaluate("document.getElementById('timeline-body').scrollTop = 0")
    gone(page)  # frames of what was done so far
    place = {"timeline": "weftrace.timeline.place(0)", "lanes": "weftrace.lanes.place(weftrace.lanes.boxes()[0])"}
    at = page.evaluate(place[picture])
    page.mouse.move(5, 5)
    page.mouse.move(at["x"] + 1, at["y"] + 2)
    page.mouse.move(at["x"], at["y"])
    assert page.locator("#tooltip").is_visible()


def gone(page: Page) -> bool:
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.locator("#tooltip").is_hidden()


@pytest.mark.parametrize("picture", few(["timeline", "lanes"], 1))
def test_a_tip_goes_with_its_kernel(page: Page, picture: str) -> None:
    ways: dict[str, Callable[[], object]] = {
        "zoomed by the wheel": lambda: page.mouse.wheel(0, -300),
        "panned by a key": lambda: page.keyboard.press("d"),
        "zoomed by a button": lambda: page.evaluate(f"document.getElementById('{picture}-in').click()"),
        "the whole span": lambda: page.evaluate(f"document.getElementById('{picture}-fit').click()"),
        "Escape": lambda: page.keyboard.press("Escape"),
        "the pointer left": lambda: page.mouse.move(5, 5),
        "the page scrolled": lambda: page.evaluate("window.scrollBy({ top: 90, behavior: 'instant' })"),
        "a box scrolled": lambda: page.evaluate("document.getElementById('timeline-body').scrollTop += 40"),
        "another rank": lambda: page.locator("#rank-select").select_option("1"),
        "the window": lambda: page.evaluate("window.dispatchEvent(new Event('blur'))"),
    }
    page.evaluate("document.getElementById('timeline-body').style.maxHeight = '240px'")  # so that it scrolls
    for way, act in ways.items():
        if way == "a box scrolled" and picture == "lanes":
            continue
        page.evaluate(f"document.getElementById('{picture}-fit').click()")
        point(page, picture)
        act()
        assert gone(page), way

"""Every page on a phone, a tablet and a desk: nothing sticks out sideways, and no digit is cut."""

from __future__ import annotations

import json
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Open
from tests.fuzz import few
from tests.render.extreme_pages import PAGES, strained
from tests.render.hostile_names import renamed
from tests.render.narrow import WALK
from tests.render.reading import FAULTS
from weftrace.render.page import tied
from weftrace.report import render_html
from weftrace.report.outputs import REPORT

WIDTHS = (1400, 768, 390)
#: On the page of a trace also what a click and a selected range open.
OPENED = """() => {
  weftrace.timeline?.select(weftrace.data()?.num ? 2 : -1);
  weftrace.timeline?.range(1000000, 99000000000, true);
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
#: Names are shortened when the page is drawn again.
DARK = """() => {
  document.getElementById("theme").click();
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


@pytest.mark.parametrize("name", few(PAGES, 5))
def test_pages_read_well_on_every_screen(name: str, open_html: Open, tmp_path: Path) -> None:
    page = open_html(PAGES[name](tmp_path), viewport={"width": WIDTHS[0], "height": 900}, color_scheme="light")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(OPENED)
        found: Any = page.evaluate(WALK)
        assert found["scroll"] <= 0, (width, found["wide"])
        assert not found["cut"], (width, found["cut"])
        assert not found["boxes"], (width, found["boxes"])  # not even in a box of its own
        assert page.evaluate(FAULTS) == [], width
    page.evaluate(DARK)
    assert page.evaluate(FAULTS) == [], "dark"
    page.set_viewport_size({"width": 320, "height": 900})
    page.evaluate(OPENED)
    found = page.evaluate(WALK)
    assert found["scroll"] <= 0, (320, found["wide"])


#: Names without a place to break a line at: of letters, of other scripts, from right to left, of wide signs; and words.
LONG_NAMES = ("W" * 200, "some_long_name_" * 20, "数据加载器" * 40, "a long name " * 12, "👩💻🚀" * 60, "שלוםעולם" * 30)


@pytest.mark.parametrize("name", few(LONG_NAMES, 1))
def test_a_page_is_as_wide_as_its_window_whatever_names_are(name: str, open_html: Open, tmp_path: Path) -> None:
    assert REPORT.load and REPORT.page
    load = partial(REPORT.load, what="it")
    whole = json.loads(json.dumps(strained(tmp_path, modules=True).document))
    document = renamed(whole, (f"{at}{name}" for at in count()), load)
    page = open_html(REPORT.page(load(document)), viewport={"width": 1400, "height": 900})
    for width in (1400, 768, 420, 390, 320):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(OPENED)
        found: Any = page.evaluate(WALK)
        assert found["scroll"] <= 0, (width, found["wide"])


def test_the_walk_finds_what_is_cut(open_html: Open, tmp_path: Path) -> None:
    """A number cut by its box, one beyond the window, and a name whose whole stands in its title, which is none."""
    page = open_html(PAGES["flops, tiny"](tmp_path), viewport={"width": 420, "height": 900})
    page.evaluate("""() => {
      const add = (text, style, title = "") => {
        const e = document.createElement("div");
        e.textContent = text;
        e.title = title;
        Object.assign(e.style, { whiteSpace: "nowrap", ...style });
        document.querySelector("main").append(e);
      };
      add("123,456,789 ns", { width: "40px", overflow: "hidden" });
      add("987,654,321 ns", { marginLeft: "380px" });
      add("kernel_number_42", { width: "40px", overflow: "hidden" }, "kernel_number_42");
    }""")
    found = page.evaluate(WALK)
    assert found["scroll"] > 0
    assert [cut for cut in found["cut"] if "123,456" in cut] and [cut for cut in found["cut"] if "987,654" in cut]
    assert not [cut for cut in found["cut"] if "kernel_number" in cut]


def test_faults_of_reading_are_found(open_html: Open, tmp_path: Path) -> None:
    page = open_html(PAGES["flops, tiny"](tmp_path), viewport={"width": 1400, "height": 900})
    assert page.evaluate(FAULTS) == []
    page.evaluate("""() => {
      const parsed = (html) => new DOMParser().parseFromString(html, "text/html").body;
      const add = (html) => document.querySelector("main").append(parsed(html));
      add("<p class='faint-words'>faint words</p>");
      document.querySelector(".faint-words").style.color = "#868e9a";
      add("<svg class='slant' width='50' height='50'><text y='45' transform='rotate(-60 0 45)'>turned</text></svg>");
      document.querySelector(".slant").style.overflow = "hidden";
      for (const at of [1, 2]) add(`<div class='path-label'>a_name_that_begins_alike_${at}</div>`);
      for (const label of document.querySelectorAll(".path-label"))
        Object.assign(label.style, { width: "60px", overflow: "hidden", textOverflow: "ellipsis", textWrap: "nowrap" });
      document.querySelector("nav").append(...parsed("<a href='#nowhere'>x</a>").childNodes);
      document.querySelector(".source").textContent = "/data/runs/one.json";
      document.querySelector("h1").textContent = "Words ".repeat(90);
    }""")
    found = page.evaluate(FAULTS)
    kinds = ("contrast 3.09", "a link without", "a headline of", "a path", "cut", '"a_name_that_begins_alike_2" looks')
    assert [fault.startswith(kind) for fault, kind in zip(found, kinds, strict=True)] == [True] * 6, found


def test_no_headline_breaks_between_a_number_and_its_unit() -> None:
    text = "38.2 % of 206.68 s, 1,300 ms a step; 3 stages, 5 samples, 672 FLOP <b>"
    tied_to = '<span class="tied">{}</span>'
    assert tied(text) == (
        f"{tied_to.format('38.2 %')} of {tied_to.format('206.68 s')}, {tied_to.format('1,300 ms')} a step; "
        f"3 stages, 5 samples, {tied_to.format('672 FLOP')} &lt;b&gt;"
    )


def test_what_a_button_unfolds_stays_on_the_screen(open_html: Open, tmp_path: Path) -> None:
    report = strained(tmp_path)
    page = open_html(render_html(report.document, report.timelines), viewport={"width": 768, "height": 900})
    for width in (768, 759, 600, 520, 420, 320):
        page.set_viewport_size({"width": width, "height": 900})
        for button in page.locator(".help summary").all():
            button.click()
            box = page.locator(".help[open] > :is(dl, .menu)").bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width, (width, box)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            button.click()

"""The page on how much slower a job is than at its peers' pace: what is drawn is what the document holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.pages import rows_of
from tests.report.job_documents import MS, late_job, replayed
from weftrace.files.documents import document_text
from weftrace.render.packed import packed_rows
from weftrace.report import render_html

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Of each bar: what it stands for, its value, and the parts of its room before it and within it.
BARS = """(name) => [...document.querySelectorAll(`[data-bars=${name}] .share-bar`)].map((bar) => {
  const room = bar.querySelector(".share-room").getBoundingClientRect();
  const fill = bar.querySelector(".share-fill").getBoundingClientRect();
  const [name, text] = [".share-name", ".share-value"].map((part) => bar.querySelector(part).textContent);
  return { name, text, value: Number(bar.dataset.value), part: fill.width / room.width };
})"""
#: The colour of a cell of the map, once it is painted.
CELL = """async ([row, column]) => {
  const { grid } = weftrace.job.steps;
  for (let frame = 0; !grid.place(row, column) && frame < 1000; frame += 1) await new Promise(requestAnimationFrame);
  const canvas = document.querySelector("#step-map canvas"), at = canvas.getBoundingClientRect();
  const { x, y } = grid.place(row, column);
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
  copy.drawImage(canvas, 0, 0);
  return [...copy.getImageData(x - at.left, y - at.top, 1, 1).data.slice(0, 3)];
}"""


def role(page: Page, name: str) -> list[int]:
    ink = page.evaluate("(name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`)", name)
    return [int(ink.strip()[at : at + 2], 16) for at in (1, 3, 5)]


def test_bars_and_the_map_are_as_long_and_as_dark_as_the_document_says(open_html: Any) -> None:
    job = replayed(late_job(4))
    page = open_html(render_html(job, []))
    assert page.locator('[data-card="slowdown"] .card-value').inner_text() == "1.250"
    assert page.locator('[data-card="slowdown_worst"] .card-value').inner_text() == "90 %"
    assert page.locator('[data-card="slowdown_lost"] .card-value').inner_text() == "0.50 GPU h"
    paces = page.locator(".pace-row").evaluate_all(
        "(rows) => rows.map((row) => ['.pace-fill', '.pace-room'].map((part) => "
        "row.querySelector(part).getBoundingClientRect().width))"
    )
    assert [fill / room for fill, room in paces] == pytest.approx([1, 1, 0.8], abs=0.01)
    # The worst first, each as long as its part of the largest; what is a bound says so.
    ranks = page.evaluate(BARS, "ranks")
    assert [bar["name"] for bar in ranks] == ["rank 1", "rank 3", "rank 0", "rank 2"]
    assert [bar["text"] for bar in ranks] == ["+25.0 %", "≤ +2.0 %", "0.0 %", "0.0 %"]
    for bars in (ranks, page.evaluate(BARS, "types")):
        most = bars[0]["value"]
        assert [bar["part"] for bar in bars] == pytest.approx([bar["value"] / most for bar in bars], abs=0.01)
    causes = page.locator(".causes li")
    assert causes.count() == 2 and "saves 2.00 ms per step\nsince step 1" in causes.first.inner_text()
    # The map begins with it: a cell's colour lies between its ends as its value between 0 and the largest.
    assert page.locator("#step-choices button[aria-pressed=true]").inner_text() == "makes the step longer"
    pale, dark = role(page, "raised"), role(page, "waiting")
    for place, line in enumerate(job["slowdown"]["origin_ns"]):
        for step, longer in enumerate(line):
            share = longer / (3 * MS)
            mixed = [a + share * (b - a) for a, b in zip(pale, dark, strict=True)]
            assert page.evaluate(CELL, [place, step]) == pytest.approx(mixed, abs=2)
    # So do the rank that is open, and the tile.
    assert page.locator("#opened-why").inner_text() == "details: the costliest"
    assert page.locator('#job-cards [data-card="slowdown_rank"] .card-value').inner_text() == "rank 1"
    assert page.locator("#job-flags").inner_text().startswith("a step ends: the rank that alone makes it longest")
    page.locator(".causes button.link").click()
    assert page.evaluate("weftrace.rank()") == 1


def test_a_replay_that_is_off_or_lacks_ranks_names_nobody(open_html: Any) -> None:
    job = replayed(late_job(4))
    job["slowdown"] |= {"is_trusted": False, "error": -0.08, "replayed_ns": 9_200_000}
    page = open_html(render_html(job, []))
    warning = page.locator("#slowdown .notice.warn")
    assert "Not reliable" in warning.inner_text() and "8.0 % shorter" in warning.inner_text()
    assert page.locator("#step-choices button[aria-pressed=true]").inner_text() == "caused waiting"
    assert page.locator("#job-flags").inner_text().startswith("waiting ends")
    assert page.locator('#job-cards [data-card="origin"]').is_visible()
    job = replayed(late_job(4))
    job["slowdown"] |= {"absent": "1 of 5 ranks (rank 4) has no file here"}
    page = open_html(render_html(job, []))
    assert "rank 4" in page.locator("#slowdown .notice.warn").inner_text()
    assert page.locator("#opened-why").inner_text() == "details: the latest of the ranks with a file"
    assert page.locator("#slowdown").is_visible()
    assert open_html(render_html(late_job(4), [])).locator("#slowdown").is_hidden()


def test_many_ranks_stand_sorted_in_one_row_of_columns(open_html: Any) -> None:
    job = replayed(late_job(4))
    (first, *_) = job["slowdown"]["workers"]
    job["slowdown"]["workers"] = [
        {**first, "rank": rank, "name": f"DP {rank} PP 0", "slowdown": 1 + rank * 7919 % 1000 / 5000}
        for rank in range(1000)
    ]
    page = open_html(render_html(job, []), viewport={"width": 420, "height": 800})
    assert page.locator("#slowdown, #late").evaluate_all("(all) => all.every((p) => p.scrollWidth <= p.clientWidth)")
    columns = page.locator("#slowdown .share-column").evaluate_all(
        "(all) => all.map((column) => Number(column.getAttribute('height')))"
    )
    values = sorted((row["slowdown"] - 1 for row in job["slowdown"]["workers"]), reverse=True)
    assert len(columns) == 250  # four share one, of which it shows the largest
    shown = values[::4]
    assert [height / columns[0] for height in columns] == pytest.approx([v / shown[0] for v in shown], abs=0.01)


def test_rows_that_stand_as_columns_are_the_same_rows() -> None:
    rows = [{"name": f"k{at}", "one": 1, "flag": True, "inner": [{"a": at, "__proto__": None}] * 4} for at in range(5)]
    value = {"long": rows, "short": rows[:2], "mixed": [1, {"a": 1}, None], "alike": [{"a": 1}] * 9, "empty": []}
    held = packed_rows(value)
    assert rows_of(held) == value and held["long"]["row_columns"][1:3] == [[1], [True]]


def test_a_document_that_nobody_reads_by_eye_is_not_indented() -> None:
    for rows, lines in ((10, 12), (600_000, 1)):
        text = document_text({"values": list(range(rows))})
        assert text.count(b"\n") >= lines and (text.count(b"\n") == 1) == (lines == 1)
        assert json.loads(text) == {"values": list(range(rows))}

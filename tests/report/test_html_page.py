"""The page in a browser: what moves, what sorts, what adds up, and what must not run."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.browser import wait_until
from tests.fuzz import few
from tests.report import documents
from tests.report.test_html import many_events
from tests.tracefile import ALL_REDUCE, DISPATCH, GEMM, TraceFile
from weftrace.report import Report, analyze, render_html

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

US = 1000
#: The colour near the left edge of the first box of a lane, clear of its name, and the one that its legend has.
PAINTED = """(row) => {
  const box = weftrace.lanes.boxes().find((b) => b.row === row);
  const canvas = document.getElementById("lanes-canvas"), at = canvas.getBoundingClientRect();
  const x = ((box.start_ns - weftrace.lanes.view.start) / weftrace.lanes.view.length) * at.width + 3;
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
  copy.drawImage(canvas, 0, 0);
  const pixel = copy.getImageData(x, weftrace.lanes.place(box).y - at.top + 12, 1, 1).data;
  const found = "#" + [...pixel].slice(0, 3).map((c) => c.toString(16).padStart(2, "0")).join("");
  const role = { F: "forward", B: "backward", W: "weight" }[box.direction];
  return { found, wanted: getComputedStyle(document.documentElement).getPropertyValue(`--${role}`).trim() };
}"""
PARTS = ("compute", "exposed", "exposed_memory", "unrecorded", "idle")


def window(page: Page, picture: str = "timeline") -> tuple[float, ...]:
    """What a picture shows, ns."""
    frame = page.locator(f"#{picture}-canvas")
    return tuple(float(frame.get_attribute(f"data-{side}") or "nan") for side in ("start", "end"))


def box_of(page: Page, selector: str) -> dict[str, float]:
    """Where an element is, once it is on the screen."""
    locator = page.locator(selector)
    locator.scroll_into_view_if_needed()
    box = locator.bounding_box()
    assert box is not None
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def onto(page: Page, selector: str, share: float = 0.5) -> tuple[float, float]:
    """Moves the pointer over a canvas, far enough that the wheel belongs to it."""
    box = box_of(page, selector)
    # Scrolling there takes the wheel away again, and says so a frame later.
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    x, y = box["x"] + share * box["width"], box["y"] + min(box["height"] / 2, 60)
    page.mouse.move(x - 30, y - 5)
    page.mouse.move(x, y)
    return x, y


def column(table: Locator, number: int) -> list[str]:
    return [text.strip() for text in table.locator(f"tbody td:nth-child({number})").all_inner_texts()]


def parts_of(box: Locator) -> dict[str, int]:
    """Of what is unrecorded only where something is."""
    found = box.locator("[data-part]").evaluate_all("(all) => all.map((each) => [each.dataset.part, +each.dataset.ns])")
    assert set(PARTS) - {"unrecorded"} <= dict(found).keys()
    return {part: dict(found).get(part, 0) for part in PARTS}


# ---- opening


def test_numbers_of_the_first_screen(page: Page) -> None:
    """By the pencil of documents.py: 20,500 µs = 18,200 + 2,000 + 200 + 100. Before the last 100 µs all was queued, and
    nothing that the file has held it."""
    parts = parts_of(page.locator("#account"))
    assert list(parts.values()) == [18_200 * US, 2_000 * US, 200 * US, 100 * US, 0]
    assert page.locator(".sum").first.inner_text() == "18.20 + 2.00 + 0.20 + 0.10 + 0.00 = 20.50 ms"
    assert page.locator('[data-card="hidden"] .card-value').inner_text() == "82.1 %"
    headline = page.locator("h1").inner_text()
    assert headline.startswith("Exposed communication takes 9.8 % of 20.5 ms, all of it in dispatch;")


def test_stacked_bar_is_to_scale(page: Page) -> None:
    parts = page.locator("#account .stack.tall .part")
    widths = parts.evaluate_all("(parts) => parts.map((part) => part.getBoundingClientRect().width)")
    assert [round(width / sum(widths), 3) for width in widths] == [0.888, 0.098, 0.01, 0.005]


@pytest.mark.parametrize(
    "name",
    few(["document", "job", "many_layers", "no_communication", "cpu_only", "partial", "no_phases", "nothing"], 4),
)
def test_documents_without_a_timeline_open_too(open_html: Any, name: str) -> None:
    page = open_html(render_html(getattr(documents, name)(), []))
    assert page.locator("#timeline-missing").is_visible()
    assert page.locator("h1").is_visible()


def test_a_report_of_failures_only(open_html: Any) -> None:
    failures = [{"path": "a.json", "error": "not a trace"}]
    document = documents.document(ranks=[], failures=failures, headline="No rank's file could be read.")
    page = open_html(render_html(document, []))
    assert "not a trace" in page.locator("#failures").inner_text()


def test_a_page_of_200000_events_opens(open_html: Any) -> None:
    made = analyze(many_events(200_000))
    page = open_html(render_html(made.document, made.timelines))
    assert page.evaluate("weftrace.data().num") == 200_000
    assert page.evaluate("weftrace.timeline.stats().lines") > 0


def test_partial_data_is_said(open_html: Any, layered_trace: Any) -> None:
    page = open_html(render_html(documents.partial(), []))
    assert "part of the data" in page.locator("#banner").inner_text()
    assert "1,204" in page.locator("#quality").inner_text()
    made = analyze(layered_trace(3))
    from weftrace.report.timeline import timeline_payload
    from weftrace.trace import work_of

    few = timeline_payload(layered_trace(3), work_of(layered_trace(3)).events, max_events=10)
    page = open_html(render_html(made.document, [few]))
    assert "Left out" in page.locator("#timeline-partial").inner_text()
    page.click("#range-view")
    assert "Only the device events shown" in page.locator("#range-panel").inner_text()


# ---- moving


def test_wheel_zooms_at_the_pointer(page: Page) -> None:
    start, end = window(page)
    x, _ = onto(page, "#timeline-canvas", 0.25)
    page.mouse.wheel(0, -300)
    wait_until(page, "(end) => Number(document.getElementById('timeline-canvas').dataset.end) < end", arg=end)
    closer = window(page)
    assert closer[1] - closer[0] < 0.8 * (end - start)
    box = box_of(page, "#timeline-canvas")
    share = (x - box["x"]) / box["width"]
    assert closer[0] + share * (closer[1] - closer[0]) == pytest.approx(start + share * (end - start), rel=1e-6)


def test_wheel_over_a_resting_pointer_scrolls_the_page(page: Page) -> None:
    """Who scrolls down the page and comes past a picture must not be caught in it."""
    box = box_of(page, "#timeline-canvas")
    before = window(page)
    page.evaluate("window.scrollBy(0, -40)")
    page.mouse.move(box["x"] + 300, box["y"] + 80)
    page.mouse.wheel(0, 60)
    page.wait_for_timeout(50)
    assert window(page) == before


def test_drag_keys_and_buttons(page: Page) -> None:
    home = window(page)
    page.click("#timeline-in")
    closer = window(page)
    assert closer[1] - closer[0] == pytest.approx(0.6 * (home[1] - home[0]))
    x, y = onto(page, "#timeline-canvas")
    page.mouse.down()
    page.mouse.move(x + 50, y)
    page.mouse.move(x + 100, y)
    page.mouse.up()
    dragged = window(page)
    assert dragged[0] < closer[0]
    assert dragged[1] - dragged[0] == pytest.approx(closer[1] - closer[0])
    page.keyboard.press("d")
    assert window(page)[0] > dragged[0]
    page.keyboard.press("w")
    assert window(page)[1] - window(page)[0] == pytest.approx(0.75 * (closer[1] - closer[0]))
    page.keyboard.press("s")
    page.keyboard.press("Home")
    assert window(page) == home


def test_double_click_zooms_to_an_event(page: Page) -> None:
    box_of(page, "#timeline-canvas")
    page.evaluate("document.getElementById('timeline-body').scrollTop = 0")
    event = page.evaluate("[...weftrace.data().dur.slice(0, weftrace.data().numDevice)].indexOf(3000000)")  # mlp(B)
    place = page.evaluate("(event) => weftrace.timeline.place(event)", event)
    page.mouse.dblclick(place["x"], place["y"])
    start, end = window(page)
    assert start == pytest.approx(page.evaluate("(e) => weftrace.data().start[e]", event) - 0.6 * 3_000_000)
    assert end == pytest.approx(start + 2.2 * 3_000_000)
    assert "3.00 ms" in page.locator("#event-panel").inner_text()


def test_a_box_opens_in_the_timeline(page: Page) -> None:
    box_of(page, "#lanes-canvas")
    place = page.evaluate("weftrace.lanes.place(weftrace.lanes.boxes().find((b) => b.name === 'mlp(B)'))")
    page.mouse.click(place["x"], place["y"])
    start, end = window(page)
    assert 1_700 * US < start < 2_000 * US
    assert 5_000 * US < end < 5_300 * US


def test_lanes_by_keyboard(page: Page) -> None:
    page.locator("#lanes-canvas").focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert "mlp(B)" in page.locator("#lanes-live").inner_text()
    assert window(page)[1] < 6_000 * US
    page.keyboard.press("ArrowDown")
    assert "dispatch(F)" in page.locator("#lanes-live").inner_text()


def test_lanes_zoom(page: Page) -> None:
    home = window(page, "lanes")
    assert home[1] == 20_500 * US
    onto(page, "#lanes-canvas")
    page.mouse.wheel(0, -200)
    wait_until(page, "(end) => Number(document.getElementById('lanes-canvas').dataset.end) < end", arg=home[1])
    page.click("#lanes-fit")
    assert window(page, "lanes") == home


def test_lane_labels_say_the_sms(page: Page) -> None:
    labels = [label.splitlines()[:2] for label in page.locator(".lane-label").all_inner_texts()]
    assert labels[:2] == [["compute", "≤ 112 SMs"], ["communication", "20 SMs"]]


#: For each column of a lane in the picture, which part of it is painted. Text is not drawn, so that it does not count.
FILLED = """([row, start, end]) => {
  const draw = CanvasRenderingContext2D.prototype;
  draw.fillText = draw.strokeText = () => {};
  weftrace.lanes.view.reset(start, end);
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const canvas = document.getElementById("lanes-canvas"), width = canvas.getBoundingClientRect().width;
    const label = document.querySelectorAll(".lane-label:not(.strip-label)")[row].style;
    const [top, height] = [parseFloat(label.top), parseFloat(label.height)];
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
    copy.drawImage(canvas, 0, 0);
    const wide = Math.floor(width);
    const { data } = copy.getImageData(0, top, wide, height);
    const raised = getComputedStyle(document.documentElement).getPropertyValue("--raised").trim();
    const ground = [1, 3, 5].map((at) => parseInt(raised.slice(at, at + 2), 16));
    const filled = new Array(wide).fill(0);
    for (let y = 0; y < height; y += 1)
      for (let x = 0; x < wide; x += 1)
        filled[x] += ground.some((c, i) => Math.abs(c - data[4 * (y * wide + x) + i]) > 24);
    done(filled.map((pixels) => pixels / height));
  })));
}"""


def test_the_painted_share_of_a_lane_is_its_busy_share_at_every_zoom(open_html: Any) -> None:
    """A box every 200 µs, each with gaps of its own: from the whole span down to 50 µs, by a method of the test's."""
    rank = documents.rank()
    steps = random.Random(7)
    busy, boxes = [], []
    for number in range(100):
        start = number * 200_000
        edges = sorted(steps.sample(range(start, start + 200_000, 1_000), 2 * steps.randint(1, 6)))
        mine = list(zip(edges[::2], edges[1::2], strict=True))
        busy += mine
        boxes.append({
            "name": f"p{number}(F)", "index": 0, "start_ns": mine[0][0], "end_ns": mine[-1][1],
            "busy_ns": sum(b - a for a, b in mine), "sms": None, "direction": "F", "phase": number, "layer": None,
            "micro_batch": None,
        })  # fmt: skip
    rank["lanes"][0] |= {"boxes": boxes, "busy": [[a, b, b - a] for a, b in busy]}
    rank |= {"busy": [[0, rank["span_ns"], rank["span_ns"]]], "exposed": [], "num_exposed": 0}
    page = open_html(render_html(documents.document(rank), [None]))
    ran = np.zeros(rank["span_ns"] // 1_000)
    for a, b in busy:
        ran[a // 1_000 : b // 1_000] = 1
    so_far = np.concatenate(([0], np.cumsum(ran)))
    for start, end in ((0, 20_000_000), (3_000_000, 5_000_000), (3_300_000, 3_700_000), (3_400_000, 3_450_000)):
        filled = np.array(page.evaluate(FILLED, [0, start, end]))
        columns = np.linspace(start, end, len(filled) + 1) / 1_000
        wanted = np.diff(np.interp(columns, np.arange(len(so_far)), so_far)) / np.diff(columns)
        drift = np.cumsum(filled - wanted)
        assert np.abs(drift).max() < 1.5, (start, end)  # columns, over any stretch from the left edge
        assert filled.sum() == pytest.approx(wanted.sum(), abs=1)


LANES = ("compute", "communication", "memory", "optimizer", "host", "network", "storage", "other")


def with_lanes(report: Report, number: int) -> Any:
    """The report's document with that many lanes: its two, then copies of the first under other names."""
    rank = report.document["ranks"][0]
    compute, communication = rank["lanes"]
    lanes = [compute, communication, *({**compute, "lane": name} for name in LANES[2:])]
    return {**report.document, "ranks": [{**rank, "lanes": lanes[:number]}]}


@pytest.mark.parametrize("number", few([1, 2, 3, 8], 2))
def test_the_lane_picture_takes_any_number_of_lanes(open_html: Any, report: Report, number: int) -> None:
    page = open_html(render_html(with_lanes(report, number), report.timelines))
    bands = page.locator(".lane-label:not(.strip-label)")
    assert [label.splitlines()[0] for label in bands.all_inner_texts()] == list(LANES[:number])
    assert page.locator(".strip-label").count() == (number > 1)
    assert page.locator("#timeline-top span").all_inner_texts() == list(LANES[:number])
    # In order, none over another, and the strip between computation and communication alone.
    boxes = [label.bounding_box() for label in page.locator(".lane-label").all()]
    places = sorted((box["y"], box["y"] + box["height"]) for box in boxes if box)
    assert all(above[1] < below[0] for above, below in pairwise(places))
    # Each lane's first box is painted where it says it is, and opens from there.
    page.locator("#lanes-canvas").scroll_into_view_if_needed()
    for row in range(number):
        painted = page.evaluate(PAINTED, row)
        assert painted["found"] == painted["wanted"]
    last = page.evaluate(f"weftrace.lanes.place(weftrace.lanes.boxes().find((b) => b.row === {number - 1}))")
    page.mouse.click(last["x"], last["y"])
    assert f"{LANES[number - 1]} lane" in page.locator("#lanes-live").inner_text()


def test_keys_walk_over_all_lanes(open_html: Any, report: Report) -> None:
    page = open_html(render_html(with_lanes(report, 3), report.timelines))
    page.locator("#lanes-canvas").focus()
    page.keyboard.press("ArrowRight")
    for lane in ("communication", "memory", "memory"):  # no fourth one: it stays
        page.keyboard.press("ArrowDown")
        assert f"{lane} lane" in page.locator("#lanes-live").inner_text()


def test_groups_close(page: Page) -> None:
    lines = page.evaluate("weftrace.timeline.stats().lines")
    toggle = page.locator(".group-toggle").last
    toggle.click()
    assert page.locator(".group-toggle").last.get_attribute("aria-expanded") == "false"
    assert page.evaluate("weftrace.timeline.stats().lines") < lines


# ---- searching


def test_search_counts_and_jumps(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("attn(f")
    assert page.locator("#search-count").inner_text() == "2 matches, 1 name"
    page.keyboard.press("Enter")
    assert page.locator("#search-count").inner_text() == "1 of 2"
    first = page.evaluate("weftrace.timeline.stats().selected")
    assert "attn(F)" in page.locator("#event-panel").inner_text()
    start, end = window(page)
    assert start <= page.evaluate("(e) => weftrace.data().start[e]", first) <= end
    page.click("#search-next")
    second = page.evaluate("weftrace.timeline.stats().selected")
    assert second != first
    page.click("#search-next")  # and round again
    assert page.evaluate("weftrace.timeline.stats().selected") == first
    page.click("#search-prev")
    assert page.evaluate("weftrace.timeline.stats().selected") == second


def test_search_for_nothing(page: Page) -> None:
    page.fill("#search", "no such kernel")
    assert page.locator("#search-count").inner_text() == "0 matches, 0 names"
    assert page.locator("#search-next").is_disabled()


def test_launch_of_a_kernel_and_back(page: Page) -> None:
    page.evaluate("weftrace.timeline.select(0)")
    page.locator("#event-panel").get_by_role("button", name="Go to its launch").click()
    assert "cudaLaunchKernel" in page.locator("#event-panel .full-name").inner_text()
    page.locator("#event-panel").get_by_role("button", name="Go to:").click()
    assert page.evaluate("weftrace.timeline.stats().selected") == 0


# ---- measuring


def test_range_by_dragging_adds_up(page: Page) -> None:
    x, y = onto(page, "#timeline-canvas", 0.2)
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(x + 200, y)
    page.mouse.move(x + 413, y)
    page.mouse.up()
    page.keyboard.up("Shift")
    panel = page.locator("#range-panel")
    chosen = page.evaluate("weftrace.timeline.stats().range")
    assert sum(parts_of(panel).values()) == int(panel.get_attribute("data-ns") or 0) == chosen[1] - chosen[0]
    assert panel.locator("[data-table=range-kernels] tbody tr").count() >= 1
    page.keyboard.press("Escape")
    assert panel.is_hidden()


def test_range_by_pencil(page: Page) -> None:
    """6-9 ms: mlp(F) 6-7, attn(W) 8-9; combine(F) 6.5-8, of which 7-8 is exposed."""
    page.evaluate("weftrace.timeline.range(6e6, 9e6, true)")
    parts = parts_of(page.locator("#range-panel"))
    assert list(parts.values()) == [2_000 * US, 1_000 * US, 0, 0, 0]
    assert "33.3 %" in page.locator("#range-panel").inner_text()  # 0.5 of 1.5 ms of communication hidden


def test_measuring_the_whole_span_gives_the_report(page: Page, report: Report) -> None:
    rank = report.document["ranks"][0]
    summary = page.evaluate("(span) => weftrace.breakdown(0, span)", rank["span_ns"])
    assert summary == {
        "span": rank["span_ns"],
        "compute": rank["compute_ns"],
        "exposed": rank["exposed_communication_ns"],
        "exposed_memory": rank["exposed_memory_ns"],
        "unrecorded": rank["idle_account"]["unrecorded_ns"],
        "idle": rank["idle_ns"] - rank["idle_account"]["unrecorded_ns"],
        "communication": rank["communication_ns"],
        "hidden": rank["hidden_communication_ns"],
    }


def test_a_steps_window_is_the_pages_span(open_html: Any, tmp_path: Path) -> None:
    """Step 1 ends in 40 µs of idle, its all-reduce runs on in step 2, and something ran before it, of no step."""
    file = TraceFile().host("ProfilerStep#1", 0, 100).host("ProfilerStep#2", 100, 100)
    file.kernel(GEMM, 30, 10, linked=False).kernel(GEMM, 50, 100, launch=10).kernel(GEMM, 190, 60, launch=110)
    trace = file.kernel(ALL_REDUCE, 120, 40, launch=20, stream=20).kernel(DISPATCH, 180, 30, launch=30).trace(tmp_path)
    for step, span, idle in ((1, 140 * US, 20 * US), (2, 60 * US, 0)):
        made = analyze(trace, step=step)
        page = open_html(render_html(made.document, made.timelines))
        summary = page.evaluate("(span) => weftrace.breakdown(0, span)", made.document["ranks"][0]["span_ns"])
        assert (summary["span"], summary["idle"]) == (span, idle)
        assert f"profiler step {step}" in page.locator("#facts").inner_text()
    made = analyze(trace)
    page = open_html(render_html(made.document, made.timelines))
    rows = page.locator("#step-table tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["1", "2"]
    assert "20.0 µs before the first step's window, of it idle 10.0 µs" in page.locator("#step-rest").inner_text()


def test_ranges_agree_with_a_bitmap(page: Page) -> None:
    """Every range of the events by an independent count of cells of 100 µs, as documents.py draws them."""
    cell = documents.CELL_NS
    compute, communication, memory = (
        {c for event in documents.layers() if event.kind == kind for c in event.cells()}
        for kind in ("compute", "communication", "memory")
    )
    for first in range(0, 200, 17):
        for last in range(first + 1, 206, 13):
            cells = set(range(first, last))
            summary = page.evaluate("([a, b]) => weftrace.breakdown(a, b)", [first * cell, last * cell])
            expected = (
                len(cells & compute),
                len(cells & communication - compute),
                len(cells & memory - compute - communication),
                len(cells - compute - communication - memory),
            )
            found = [summary[part] // cell for part in PARTS]
            assert (*found[:3], found[3] + found[4]) == expected
            assert sum(summary[part] for part in PARTS) == summary["span"] == (last - first) * cell


# ---- tables


def test_sorting_changes_the_order(page: Page) -> None:
    table = page.locator("[data-table=kernels]")
    by_time = column(table, 1)
    table.locator("[data-sort=name]").click()
    by_name = column(table, 1)
    assert by_name == sorted(by_name, key=str.lower) != by_time
    assert table.locator("th[aria-sort=ascending]").inner_text().strip().startswith("kernel")
    table.locator("[data-sort=name]").click()
    assert column(table, 1) == by_name[::-1]
    table.locator("[data-sort=num_events]").click()
    counts = [int(text) for text in column(table, 4)]
    assert counts == sorted(counts, reverse=True)


def test_filtering_kernels(page: Page) -> None:
    rows = page.locator("[data-table=kernels] tbody tr")
    everything = rows.count()
    page.fill("#kernel-filter", "DISPATCH")
    assert rows.count() == 1
    assert "dispatch" in rows.first.inner_text()
    page.fill("#kernel-filter", "")
    page.select_option("#kernel-kind", "memory")
    assert 0 < rows.count() < everything
    page.fill("#kernel-filter", "nothing is called this")
    assert "No kernel matches" in rows.first.inner_text()


def test_show_all(open_html: Any) -> None:
    document = documents.document()
    kernel = document["ranks"][0]["kernels"][0]
    document["ranks"][0]["kernels"] = [kernel | {"name": f"kernel_{n}"} for n in range(40)]
    page = open_html(render_html(document, []))
    table = page.locator("[data-table=kernels]")
    assert table.locator("tbody tr").count() == 15
    table.locator("button.more").click()
    assert table.locator("tbody tr").count() == 40


def test_a_kernel_is_found_in_the_timeline(page: Page) -> None:
    page.locator("[data-table=kernels] button.find").first.click()
    assert page.evaluate("weftrace.timeline.stats().matches") > 0


def test_overlap_matrix(page: Page) -> None:
    rows = [row.split() for row in page.locator(".matrix tbody tr").all_inner_texts()]
    dispatch = next(row for row in rows if row[0] == "dispatch(F)")
    assert dispatch[-4:] == ["5,600.0", "·", "100.0", "%"]  # both layers, all behind mlp(B)


# ---- ranks


def test_ranks_switch(open_html: Any, job_html: str) -> None:
    page = open_html(job_html)
    rows = page.locator("[data-table=ranks] tbody tr")
    assert rows.count() == 2
    assert "longest span" in rows.nth(1).inner_text()
    assert page.locator("#opened-why").inner_text() == "details: the longest span"
    assert "gzip stream ends early" in page.locator("#failures").inner_text()
    assert page.evaluate("weftrace.rank()") == 1  # the one that the headline names
    rows.nth(0).click()
    assert page.evaluate("weftrace.rank()") == 0
    first = page.locator('[data-card="span"] .card-value').inner_text()
    rows.nth(1).click()
    assert page.evaluate("weftrace.rank()") == 1
    assert page.locator("#rank-select").input_value() == "1"
    assert page.locator('[data-card="span"] .card-value').inner_text() == "20.9 ms" != first
    assert window(page, "lanes") == (0, 20_900 * US)
    page.select_option("#rank-select", "0")
    assert page.evaluate("weftrace.rank()") == 0
    assert page.locator('[data-card="span"] .card-value').inner_text() == first


def test_one_rank_has_no_rank_table(page: Page) -> None:
    assert page.locator("#ranks").is_hidden()
    assert page.locator("#rank-choice").is_hidden()


# ---- why the device waited


def test_parts_and_causes_of_idle_time_add_up_and_are_defined(open_html: Any) -> None:
    """By documents.py: of 100 µs half in the loader, a quarter launch latency, a quarter unrecorded."""
    page = open_html(render_html(documents.document(), []))
    parts = page.locator("#idle-bar .parts li").evaluate_all("(all) => all.map((e) => [e.dataset.part, +e.dataset.ns])")
    assert parts == [["host_ns", 50 * US], ["launch_latency_ns", 25 * US], ["unrecorded_ns", 25 * US]]
    widths = page.locator("#idle-bar .stack .part").evaluate_all("(all) => all.map((e) => e.offsetWidth)")
    assert [round(width / sum(widths), 2) for width in widths] == [0.5, 0.25, 0.25]
    assert "25.0 µs are unrecorded and may not be idle" in page.locator("#idle-bar").inner_text()
    table = page.locator("[data-table=idle]")
    assert column(table, 1) == ["Data loading", "Launch latency", "Unrecorded work"]
    assert column(table, 5)[0] == "pictures.py(7): resize"
    page.locator("[data-table=idle] .defined").first.hover()
    assert "DataLoader" in page.locator("#tooltip").inner_text()


def test_the_tree_of_the_host_folds_chains_and_an_old_report_has_no_account(open_html: Any) -> None:
    document = documents.document()
    page = open_html(render_html(document, []))
    assert page.locator("#idle-chart svg text").all_text_contents() == ["pictures.py(7): resize · 100.0 %"]
    page.locator("#idle-chart svg g").hover()
    assert "train_step › enumerate(DataLoader)" in page.locator("#tooltip").inner_text()
    del document["ranks"][0]["idle_account"]
    page = open_html(render_html(document, []))
    assert page.locator("#idle-box").is_hidden() and page.locator("#headroom-box").is_visible()


# ---- definitions, theme, paper


def test_every_number_has_its_definition_at_hand(page: Page) -> None:
    terms = page.evaluate("[...new Set([...document.querySelectorAll('[data-def]')].map((e) => e.dataset.def))]")
    needed = {"span", "hidden", "exposed", "idle", "overlap_speedup", "headroom", "compute", "exposed_memory"}
    assert needed <= set(terms)
    assert page.evaluate("(terms) => terms.every((t) => document.getElementById(`def-${t}`))", terms)
    tip = page.locator("#tooltip")
    page.locator("[data-card=hidden] .defined").hover()
    assert "communication & compute" in tip.inner_text()
    page.mouse.move(2, 2)
    assert tip.is_hidden()
    page.locator("[data-card=idle] .defined").focus()
    assert "nothing ran" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def test_light_and_dark(open_html: Any, html: str) -> None:
    page = open_html(html, color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    picture = "document.getElementById('lanes-canvas').toDataURL()"
    light, drawn = page.evaluate(background), page.evaluate(picture)
    page.click("#theme")
    dark = page.evaluate(background)
    assert dark != light
    wait_until(page, f"(before) => {picture} !== before", arg=drawn)  # the canvas follows
    page.click("#theme")
    assert page.evaluate(background) == light
    assert open_html(html, color_scheme="dark").evaluate(background) == dark


def test_printing_is_light_and_leaves_the_theme_alone(open_html: Any, html: str) -> None:
    page = open_html(html, color_scheme="dark")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert page.pdf().startswith(b"%PDF")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == before


# ---- safety

ATTACK = '</script><img src=x onerror="window.pwned=1"><script>window.pwned=1</script><svg onload=window.pwned=1>'


def attacked(folder: Path) -> Report:
    """A trace in which everything that can have a name is called ATTACK."""
    file = TraceFile().host(ATTACK, 0, 100).host(ATTACK, 5, 20, cat="cpu_op", tid=ATTACK)
    file.kernel(ATTACK, 200, 100, launch=20, call=ATTACK).kernel("nccl" + ATTACK, 250, 100, launch=30, stream=20)
    file.facts["deviceProperties"][0]["name"] = ATTACK
    for what in ("process_name", "thread_name"):
        file.events.append({"ph": "M", "name": what, "pid": 1, "tid": 1, "args": {"name": ATTACK}})
    return analyze(file.trace(folder))


def test_hostile_names_are_only_names(open_html: Any, tmp_path: Path) -> None:
    made = attacked(tmp_path)
    made.document["failures"].append({"path": ATTACK, "error": ATTACK})
    made.document["headline"] = made.document["source"] = ATTACK
    page = open_html(render_html(made.document, made.timelines))
    assert page.locator("h1").inner_text() == ATTACK
    page.fill("#search", "onerror")
    page.click("#search-next")
    page.locator("#lanes-canvas").focus()
    page.keyboard.press("ArrowRight")
    onto(page, "#timeline-canvas")
    page.evaluate("weftrace.timeline.range(0, 2e5, true)")
    assert ATTACK in page.locator("#event-panel").inner_text()
    assert page.locator("[data-table=kernels] button.find", has_text="onerror").count() >= 1
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, svg[onload], iframe").count() == 0


def test_the_policy_stops_what_is_injected(open_html: Any, html: str) -> None:
    """Were a name ever to become markup, it still could not run."""
    page = open_html(html, expect_errors=True)
    page.evaluate("""() => {
        const holder = document.createElement('div');
        holder.innerHTML = '<img src="x" onerror="window.pwned = 1">';
        const script = document.createElement('script');
        script.textContent = 'window.pwned = 1';
        document.body.append(holder, script);
    }""")
    page.wait_for_timeout(100)
    assert page.evaluate("window.pwned") is None


@pytest.mark.parametrize(
    ("basis", "counted", "idle"),
    [
        ("device", r"device events? on \d+ streams?$", "nothing runs"),
        ("host", r"host operators? on \d+ threads?$", "no host operator was recorded"),
        ("ranges", r"ranges? on \d+ threads?$", "no range was recorded"),
    ],
)
def test_tiles_name_what_the_file_holds(open_html: Any, basis: str, counted: str, idle: str) -> None:
    """A file without device events has no tile that counts some, and none that knows what the device did."""
    report = documents.cpu_only()
    report["ranks"][0]["basis"] = basis
    page = open_html(render_html(report, []))
    notes = {key: page.locator(f'#cards [data-card="{key}"] .card-note').inner_text() for key in ("span", "idle")}
    assert re.search(r"^[\d,]+ " + counted, notes["span"]), notes
    assert f", {idle}; 25.0 µs more are unrecorded" in notes["idle"], notes

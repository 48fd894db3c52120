"""A click's answer: beside the picture, in the window, never over what was clicked; and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import wait_until
from tests.fuzz import few
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.report import analyze, render_html

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

Rect = dict[str, float]
US = 1000

#: (width, height, share of the window's height that the panel may take)
SCREENS = [(1400, 900, 1.0), (768, 1024, 0.46), (420, 800, 0.46)]


def rect(page: Page, selector: str) -> Rect:
    found: Rect = page.evaluate(
        """(selector) => {
          const { left, top, right, bottom } = document.querySelector(selector).getBoundingClientRect();
          return { left, top, right, bottom };
        }""",
        selector,
    )
    return found


def settled(page: Page) -> None:
    """Scrolling, and measuring after it, take a frame each."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def brought(page: Page, selector: str, top: float) -> None:
    """Scrolls the page until an element's top is so far below the window's."""
    page.evaluate(
        """([selector, top]) => {
          const now = document.querySelector(selector).getBoundingClientRect().top;
          scrollBy({ top: now - top, behavior: "instant" });
        }""",
        [selector, top],
    )
    settled(page)


def answered(page: Page, canvas: str, y: float, part: str, share: float) -> None:
    """The panel shows this part, lies in the window, and not over the row at `y` of the picture."""
    settled(page)
    assert page.locator(part).is_visible()
    panel, shown, picture = rect(page, "#dock"), rect(page, part), rect(page, canvas)
    size = page.viewport_size
    assert size is not None
    assert panel["left"] >= 0 and panel["right"] <= size["width"] and panel["bottom"] <= size["height"]
    assert panel["top"] >= 0 and 100 <= panel["bottom"] - panel["top"] <= share * size["height"]
    assert panel["top"] <= shown["top"] < panel["bottom"] - 60  # it begins within the panel
    row = (picture["top"] + y - 8, picture["top"] + y + 8)
    assert row[0] >= 0 and row[1] <= size["height"], "the clicked row is out of sight"
    beside = panel["left"] >= picture["right"] or row[1] <= panel["top"] or row[0] >= panel["bottom"]
    assert beside, f"the panel {panel} covers the row {row} of {picture}"
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize(("width", "height", "share"), few(SCREENS, 2))
def test_a_click_is_answered_in_the_window(open_html: Any, html: str, width: int, height: int, share: float) -> None:
    page = open_html(html, viewport={"width": width, "height": height})
    wide = width >= 1100
    # A line where the pictures are wide, two where they are narrower.
    page.evaluate("document.getElementById('lanes-lead').textContent = 'abcdefg '.repeat(21)")
    for low in (False, True):  # the picture's row near the window's head, and near its foot
        brought(page, "#timeline-canvas", height - 70 if low else 120)
        place = page.evaluate("weftrace.timeline.place(0)")
        y = place["y"] - rect(page, "#timeline-canvas")["top"]
        page.mouse.click(place["x"], place["y"])
        assert page.evaluate("weftrace.timeline.stats().selected") == 0
        answered(page, "#timeline-canvas", y, "#event-panel", share)
        if wide or not low:
            assert abs(rect(page, "#timeline-canvas")["top"] + y - place["y"]) < 2, "the row jumped"
        shown = rect(page, "#timeline-canvas")["top"]
        page.keyboard.press("Escape")
        assert page.locator("#dock").is_hidden()
        assert abs(rect(page, "#timeline-canvas")["top"] - shown) < 2, "the picture jumped"

        brought(page, "#lanes-canvas", height - 160 if low else 80)
        box = page.evaluate("weftrace.lanes.place(weftrace.lanes.boxes().find((b) => b.name === 'mlp(B)'))")
        y = box["y"] - rect(page, "#lanes-canvas")["top"]
        page.mouse.click(box["x"], box["y"])
        answered(page, "#lanes-canvas", y, "#box-panel", share)
        assert "mlp(B)" in page.locator("#box-panel").inner_text()
        page.keyboard.press("Escape")
        assert not shown_parts(page)

    for picture in ("#lanes-canvas", "#timeline-canvas"):
        brought(page, picture, 0.6 * height)
        at = rect(page, picture)
        x, y = at["left"] + 0.3 * (at["right"] - at["left"]), 60
        page.keyboard.down("Shift")
        page.mouse.move(x, at["top"] + y)
        page.mouse.down()
        page.mouse.move(x + 20, at["top"] + y)
        page.mouse.move(x + 60, at["top"] + y)
        page.mouse.up()
        page.keyboard.up("Shift")
        answered(page, picture, y, "#range-panel", share)
        page.locator("#range-panel .close").click()
        assert not shown_parts(page) and page.locator("#dock").is_hidden()


def shown_parts(page: Page) -> list[str]:
    """What the panel shows: of a failure it is to be seen which part is open, and what it says."""
    parts: list[str] = page.locator("#dock-parts > :not([hidden])").all_inner_texts()
    return parts


def test_two_answers_stand_together_the_last_one_first(page: Page) -> None:
    page.evaluate("weftrace.timeline.range(6e6, 9e6, true)")
    page.evaluate("weftrace.timeline.select(0)")
    settled(page)
    assert rect(page, "#event-panel")["top"] < rect(page, "#range-panel")["top"]
    page.locator("#event-panel .close").click()
    assert page.locator("#event-panel").is_hidden() and page.locator("#range-panel").is_visible()
    # From the keyboard: in by I, out by Escape, and back where one was.
    page.locator("#timeline-canvas").focus()
    page.evaluate("weftrace.timeline.select(1)")
    page.keyboard.press("i")
    assert page.evaluate("document.activeElement.id") == "dock"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "copy"
    page.keyboard.press("Escape")
    assert page.locator("#dock").is_hidden()
    assert page.evaluate("document.activeElement.id") == "timeline-canvas"


def test_the_first_of_two_clicks_picks(page: Page) -> None:
    """The panel that it opens makes the picture narrower: something else lies under the second."""
    brought(page, "#timeline-canvas", 200)
    late = page.evaluate("[...weftrace.data().start].findIndex((start, i) => start === 16.5e6)")
    place = page.evaluate("(event) => weftrace.timeline.place(event)", late)
    assert place["x"] > 1440 - 356
    page.mouse.dblclick(place["x"], place["y"])
    assert page.evaluate("weftrace.timeline.stats().selected") == late
    view, dur = page.evaluate("[weftrace.timeline.view.start, weftrace.data().dur[weftrace.timeline.stats().selected]]")
    assert view == 16.5e6 - 0.6 * dur


# ---- what it says


@pytest.fixture
def summary(open_html: Any, tmp_path: Path) -> Iterator[Page]:
    """A matrix product that aten::linear called in step 3, a copy, and an all-reduce that a record tells of."""
    file = TraceFile(world_size=8)
    file.host("ProfilerStep#3", 0, 400).host("aten::linear", 10, 40, cat="cpu_op")
    shapes = {"Input Dims": [[64], [64, 512], [512, 64], [], []], "Input type": ["c10::Half", "c10::Half", "c10::Half",
              "Scalar", ""], "Call stack": "model.py(7): forward;train.py(3): main"}  # fmt: skip
    file.host("aten::addmm", 15, 30, cat="cpu_op", **shapes)
    launched: dict[str, Any] = {"grid": [8, 16, 5], "block": [128, 2, 1], "registers per thread": 122, "graph id": 9,
                                "shared memory": 12544, "est. achieved occupancy %": 25}  # fmt: skip
    file.kernel(GEMM, 200, 100, launch=20, **launched)
    file.kernel("Memcpy HtoD (Pinned -> Device)", 310, 10, launch=60, cat="gpu_memcpy", bytes=1 << 20)
    record = {"Collective name": "allreduce", "dtype": "BFloat16", "Process Group Name": "2", "Group size": 8,
              "Process Group Ranks": "[0, 1, 2, 3, 8, 9, 10, 11]", "In msg nelems": 4096,
              "Out msg nelems": 4096}  # fmt: skip
    file.host("record_param_comms", 70, 20, cat="cpu_op", **record)
    file.kernel(ALL_REDUCE, 500, 100, launch=80, stream=20, blocks=20)
    made = analyze(file.trace(tmp_path))
    yield open_html(render_html(made.document, made.timelines))


def facts(page: Page, name: str) -> dict[str, str]:
    """The lines of the panel of an event with this name."""
    page.evaluate(
        "(name) => weftrace.timeline.select(weftrace.data().name.indexOf(weftrace.data().names.indexOf(name)))", name
    )
    return dict(
        page.locator("#event-panel dl > div").evaluate_all(
            "(lines) => lines.map((line) => [...line.children].map((part) => part.textContent))"
        )
    )


def test_a_kernel_tells_all_that_the_file_has(summary: Page) -> None:
    assert facts(summary, GEMM) == {
        "starts": "0 ns", "takes": "100 µs", "ends": "100.000 µs", "stream": "7", "launch delay": "180 µs",
        "step": "3", "correlation": "1", "CUDA graph": "9", "grid": "8 × 16 × 5", "block": "128 × 2 × 1 = 256 threads",
        "blocks": "640 on 132 SMs", "SMs held": "at most 132", "registers": "122 per thread",
        "shared memory": "12.2 KiB per block", "occupancy": "25 %, estimated",
    }  # fmt: skip
    panel = summary.locator("#event-panel")
    assert panel.locator(".full-name").inner_text() == GEMM
    lists = panel.locator(".listed").all_inner_texts()
    assert lists == [
        "Inputs of its operator\n[64] c10::Half\n[64, 512] c10::Half\n[512, 64] c10::Half\nScalar",
        "Operator and its callers\naten::addmm\naten::linear",
        "Within ranges\nProfilerStep#3",
        "Its launch\nGo to its launch: cudaLaunchKernel",
        "Stack, innermost first\nmodel.py(7): forward\ntrain.py(3): main",
    ]
    panel.get_by_role("button", name="aten::addmm").click()
    assert panel.locator(".full-name").inner_text() == "aten::addmm"
    assert panel.locator(".listed").first.inner_text().startswith("Inputs\n[64] c10::Half")


def test_bytes_and_bandwidth(summary: Page) -> None:
    """1 MiB in 10 µs; 4096 elements of 2 bytes in 100 µs, by metrics.md: payload / duration."""
    copy = facts(summary, "Memcpy HtoD (Pinned -> Device)")
    assert (copy["bytes"], copy["bandwidth"]) == ("1.0 MiB (1,048,576)", "104.9 GB/s")
    reduced = facts(summary, ALL_REDUCE)
    assert {key: reduced[key] for key in ("collective", "bytes", "algbw", "in", "out", "process group", "ranks")} == {
        "collective": "all_reduce", "bytes": "8.0 KiB (8,192)", "algbw": "0.082 GB/s", "in": "4,096 BFloat16",
        "out": "4,096 BFloat16", "process group": "2, 8 ranks", "ranks": "0–3, 8–11",
    }  # fmt: skip
    assert reduced["SMs held"] == "20"
    launch = facts(summary, "cudaLaunchKernel")
    assert launch.keys() == {"starts", "takes", "ends", "thread", "step"}
    assert "It launched 1 device event" in summary.locator("#event-panel").inner_text()


def test_facts_are_copied_as_text(summary: Page) -> None:
    facts(summary, GEMM)
    summary.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    summary.locator("#event-panel .copy").click()
    wait_until(summary, "window.copied !== undefined")
    lines = summary.evaluate("window.copied").splitlines()
    assert lines[:4] == ["class: compute", f"name: {GEMM}", "starts: 0 ns", "takes: 100 µs"]
    assert lines[-2:] == ["operators: aten::addmm < aten::linear", "stack: model.py(7): forward;train.py(3): main"]


def test_a_click_on_a_gap_tells_what_the_device_waited_for(open_html: Any, tmp_path: Path) -> None:
    """In µs: 300 to 700 waits for resize until the call at 600, 1 in that call, and its way; 800 to 1000 is held."""
    file = TraceFile().kernel(GEMM, 100, 200, launch=10).kernel(GEMM, 700, 100, launch=600)
    file.host("resize", 320, 270, cat="cpu_op").kernel(GEMM, 1000, 100, launch=610).host("train", 0, 700)
    report = analyze(file.trace(tmp_path))
    page = open_html(render_html(report.document, report.timelines))
    assert page.evaluate("weftrace.data().waits.flat") == [200 * US, 600 * US, 700 * US, 900 * US]
    page.locator("#timeline-canvas").scroll_into_view_if_needed()
    settled(page)
    lane = page.evaluate("weftrace.timeline.place(0)")["y"]
    box = page.locator("#timeline-canvas").bounding_box()

    def at(us: float) -> float:
        view = page.evaluate("[weftrace.timeline.view.start, weftrace.timeline.view.length]")
        return float(box["x"] + (us * US - view[0]) / view[1] * box["width"])

    page.mouse.click(at(450), lane)
    panel = page.locator("#gap-panel")
    words = panel.inner_text()
    assert "The device waited 400 µs" in words and "in resize" in words and "cudaLaunchKernel" in words
    parts = dict(panel.locator("[data-part]").evaluate_all("(all) => all.map((e) => [e.dataset.part, +e.dataset.ns])"))
    assert sum(parts.values()) == 400 * US and parts["host_ns"] == 300 * US and parts["call_ns"] == US
    panel.get_by_text("Go to: ").click()
    assert page.evaluate("weftrace.timeline.stats().selected") == 1 and panel.is_hidden()
    page.evaluate("weftrace.timeline.gap(1)")
    assert "Unrecorded 200 µs" in panel.inner_text()
    page.keyboard.press("Escape")
    assert panel.is_hidden()

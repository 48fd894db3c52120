"""The page of a job in a browser: what it says of all ranks, what it paints of them, and how one is opened."""

from __future__ import annotations

import random
import re
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.browser import wait_until
from tests.report import job_documents
from tests.report.job_documents import MS, SHIFT
from tests.report.slow_rank import slow_rank
from tests.report.test_html_page import onto, window
from weftrace.report import analyze, render_html
from weftrace.trace import open_trace
from weftrace.units import percent

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

#: The pixels of a rank's row, [columns][y][r, g, b] of each band from its top, and the colours that they are mixed of.
PIXELS = """([place, band, view]) => {
  weftrace.job.timeline.view.set(...view);
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const { left, width, rows } = weftrace.job.timeline.drawn();
    const { y, upper, lower } = rows[place];
    const canvas = document.getElementById("job-canvas");
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
    copy.drawImage(canvas, 0, 0);
    const [top, high] = band === "upper" ? [y, upper] : [y + upper, lower];
    const { data } = copy.getImageData(left, top, width, high);
    const inks = ["raised", "compute", "memory", "communication", "waiting"].map((role) =>
      getComputedStyle(document.documentElement).getPropertyValue(`--${role}`).trim());
    done({ data: btoa(Array.from(data, (each) => String.fromCharCode(each)).join("")), width, high, inks });
  })));
}"""


def painted(page: Page, place: int, band: str, view: tuple[float, float], *of: str) -> np.ndarray[Any, Any]:
    """The share of each column of a band that colours take, by solving each pixel for what it is mixed of."""
    got = page.evaluate(PIXELS, [place, band, view])
    names = ("raised", "compute", "memory", "communication", "waiting")
    inks = {name: [int(ink[at : at + 2], 16) for at in (1, 3, 5)] for name, ink in zip(names, got["inks"], strict=True)}
    pixels = (
        np.frombuffer(b64decode(got["data"]), np.uint8).astype(float).reshape(got["high"], got["width"], 4)[:, :, :3]
    )
    mixed = np.array([[*inks[name], 255.0] for name in ("raised", *of)]).T
    known = np.concatenate((pixels, np.full((*pixels.shape[:2], 1), 255.0)), axis=2).reshape(-1, 4).T
    shares = np.linalg.lstsq(mixed, known, rcond=None)[0].reshape(len(of) + 1, got["high"], got["width"])
    found: np.ndarray[Any, Any] = shares[1:].mean(axis=1)
    return found


def share_of(stretches: list[tuple[int, int]], view: tuple[float, float], columns: int) -> np.ndarray[Any, Any]:
    """The share of each column of a view that stretches fill, on a bitmap of microseconds."""
    ran = np.zeros(100_000)
    for start, end in stretches:
        ran[start // 1000 : end // 1000] = 1
    so_far = np.concatenate(([0.0], np.cumsum(ran)))
    edges = np.linspace(*view, columns + 1) / 1000
    return np.asarray(np.diff(np.interp(edges, np.arange(len(so_far)), so_far)) / np.diff(edges))


def test_a_row_is_painted_as_it_worked_and_waited_at_every_zoom(open_html: Any) -> None:
    """Random waits inside communication, on a rank that begins 0.2 ms after the job: by a method of the test's."""
    job = job_documents.late_job(4)
    dice = random.Random(11)
    edges = sorted(dice.sample(range(0, 29_000_000, 1_000), 400))
    moves = list(zip(edges[::2], edges[1::2], strict=True))
    waits = [(a, a + (b - a) // 3_000 * 1_000) for a, b in moves]
    rank = job["ranks"][2]
    rank["waits"] = [[a, b, b - a] for a, b in waits if b > a]
    lane = next(lane for lane in rank["lanes"] if lane["lane"] == "communication")
    lane["busy"] = [[a, b, b - a] for a, b in moves]
    job["lateness"]["worst"] = []
    page = open_html(render_html(job, []))
    shift = 2 * SHIFT
    on_job = [(a + shift, b + shift) for a, b in waits]
    moving = [(b + shift, end + shift) for (_, b), (_, end) in zip(waits, moves, strict=True)]
    for view in ((0, 30 * MS), (3 * MS, 5 * MS), (10.3 * MS, 10.5 * MS)):
        communicating, waiting = painted(page, 2, "lower", view, "communication", "waiting")
        columns = len(waiting)
        assert np.abs(waiting - share_of(on_job, view, columns)).max() < 0.02, view
        assert np.abs(communicating - share_of(moving, view, columns)).max() < 0.02, view
    # A profiler that shows the transfer only: waits lie before it, and nothing is taken from it.
    for one in job["ranks"]:
        lane = next(lane for lane in one["lanes"] if lane["lane"] == "communication")
        lane["busy"] = [[end, end + MS, MS] for _, end, _ in one["waits"]]
    bare = open_html(render_html(job, []))
    communicating, waiting = painted(bare, 0, "lower", (16.1 * MS, 19.9 * MS), "communication", "waiting")
    assert (communicating + waiting).mean() == pytest.approx(1, abs=0.01)
    assert communicating.mean() == pytest.approx(0.9 / 3.8, abs=0.01)
    # The late rank computes while the others wait: 6 to 9 ms of the second step.
    for place, role, share in ((1, "compute", 1.0), (0, "compute", 0.0)):
        (computing,) = painted(page, place, "upper", (16.1 * MS, 18.9 * MS), role)
        assert computing.mean() == pytest.approx(share, abs=0.01)
    assert painted(page, 0, "lower", (16.1 * MS, 18.9 * MS), "waiting").mean() == pytest.approx(1, abs=0.01)
    assert painted(page, 1, "lower", (16.1 * MS, 18.9 * MS), "waiting").mean() == pytest.approx(0, abs=0.01)


def test_the_job_comes_first_and_the_rank_that_came_late_is_open(open_html: Any) -> None:
    """By the pencil of job_documents.py: 4 ranks, of which 1 is late by 3 ms in 2 of 3 steps; 3 others wait."""
    page = open_html(render_html(job_documents.late_job(4), []))
    headline = page.locator("h1").inner_text()
    tile = {
        key: page.locator(f'#job-cards [data-card="{key}"] .card-value').inner_text()
        for key in ("job_span", "job_idle", "job_exposed", "suffered", "origin")
    }
    # Spans 30 - 0.1 r ms; idle 3 ms a rank in the first step; exposed 3 x 9 + 3 = 30 ms by four ranks.
    assert tile["job_span"] == "29.9 ms"
    assert tile["suffered"] == "15.1 %" and tile["origin"] == "rank 1"  # 18 of 119.4 ms
    cost = page.locator('#job-cards [data-card="origin"] .card-note').inner_text()
    assert cost == "the others wait 6.00 ms each for it, 20.1 % of their time; last to enter 2 of 3 collectives"
    assert re.findall(r"[\d.]+ %", headline) == [tile["job_idle"]]
    parts = page.locator("#job-account .sum").inner_text()
    assert parts.endswith("= 119.40 ms")
    # The open rank: said, in a part of its own with its own tiles, below the job's and all ranks.
    assert page.locator("#opened-name").inner_text() == "Rank 1"
    assert page.locator("#opened-why").inner_text() == "details: the latest"
    assert page.locator('#cards [data-card="span"] .card-value').inner_text() == "29.9 ms"
    order = page.evaluate(
        "['job-cards', 'job', 'late', 'ranks', 'opened', 'cards', 'lanes']"
        ".map((id) => document.getElementById(id).getBoundingClientRect().top)"
    )
    assert order == sorted(order)
    clocks = page.locator("#job-clocks").inner_text()
    assert "3 collectives matched across ranks (3 by number)" in clocks
    assert "clock offsets of the ranks were subtracted" in clocks and "known to 2.00 µs" in clocks
    # Every colour that is drawn stands in the legend.
    assert page.locator("#job .legend .swatch").count() == 6


def test_without_lateness_the_rank_that_computes_longest_is_open(open_html: Any) -> None:
    job = job_documents.late_job(4)
    works = [
        {"rank": r, "device": r, "path": "", "name": "", "stage": None, "compute_ns": 6 * MS, "peers_ns": 6 * MS,
         "ratio": 1.25 if r == 2 else 1.0, "share_of_steps": 1.0, "phase": None, "phase_ratio": None,
         "is_slow": r == 2}
        for r in range(4)
    ]  # fmt: skip
    job |= {"lateness": None, "slow_work": {"num_steps": 3, "ranks": works, "stages": [], "varies": None,
                                            "num_slowest": 1}}  # fmt: skip
    page = open_html(render_html(job, []))
    assert page.locator("#opened-name").inner_text() == "Rank 2"
    assert page.locator("#opened-why").inner_text() == "details: the slowest to compute"
    assert "1.25×" in page.locator("[data-table=ranks] tbody tr.slowest").inner_text()
    assert page.locator("#job-waits").is_hidden() and page.locator("#job-steps").is_visible()
    assert page.locator("#step-choices button").all_inner_texts() == ["span", "idle", "exposed"]
    assert page.locator("#job-clocks").inner_text().startswith("No collective could be matched across the ranks")
    # A share exactly between two is rounded as the headline's: 1/16 is 6.25 %.
    for rank in job["ranks"]:
        rank |= {"steps": [], "span_ns": 16 * MS, "idle_ns": MS}
    page = open_html(render_html(job, []))
    assert page.locator("#late").is_hidden()
    assert page.locator('[data-card="job_idle"] .card-value').inner_text() == percent(1 / 16) == "6.2 %"


def test_rows_of_clocks_that_differ_lie_on_one_axis(open_html: Any, tmp_path: Path) -> None:
    """Eight ranks that begin together by clocks up to 20 ms apart; rank 5 slows down in the third step."""
    report = analyze(open_trace(slow_rank(8, steps=4).write(tmp_path)), workers=1)
    ranks = report.document["ranks"]
    assert len({rank["start_ns"] // MS for rank in ranks}) > 4
    assert max(rank["shift_ns"] for rank in ranks) < 3_000 and min(rank["shift_ns"] for rank in ranks) == 0
    page = open_html(render_html(report.document, report.timelines))
    assert page.locator("#opened-name").inner_text() == "Rank 5"
    # The worst collectives are marked where they are: their last start lies in a stretch of the last rank.
    lateness = report.document["lateness"]
    assert lateness is not None
    for worst in lateness["worst"][:20]:
        rank = ranks[worst["last"]]
        own = worst["start_ns"] - rank["shift_ns"]
        lane = next(lane for lane in rank["lanes"] if lane["lane"] == "communication")
        assert any(start - 3_000 < own < end for start, end, _ in lane["busy"])
    # What the tiles say, the headline says in the same digits.
    said = page.locator("h1").inner_text()
    shown = page.locator("#job-summary").inner_text()
    numbers = re.findall(r"[\d.,]+ (?:%|ms|µs)", said.replace("\N{NO-BREAK SPACE}", " "))
    hidden = percent(
        sum(rank["hidden_communication_ns"] for rank in ranks) / sum(rank["communication_ns"] for rank in ranks)
    )
    assert len(numbers) >= 2 and [number for number in numbers if number not in shown and number != hidden] == []


def test_a_click_opens_the_rank_at_the_time_in_view(open_html: Any) -> None:
    page = open_html(render_html(job_documents.late_job(4), []))
    page.locator("#job-canvas").scroll_into_view_if_needed()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.evaluate("weftrace.job.timeline.view.set(12e6, 18e6)")
    place = page.evaluate("weftrace.job.timeline.drawn()")
    box = page.locator("#job-canvas").bounding_box()
    assert box is not None
    third = place["rows"][2]
    x, y = box["x"] + place["left"] + 0.8 * place["width"], box["y"] + third["y"] + 3
    page.mouse.move(x - 9, y)
    page.mouse.move(x, y)
    tip = page.locator("#tooltip").inner_text()
    assert "rank 2" in tip and "waiting for others\n100.0 %" in tip and "computing\n0.0 %" in tip
    page.mouse.click(x, y)
    assert page.evaluate("weftrace.rank()") == 2
    assert page.locator("#opened-name").inner_text() == "Rank 2"
    assert page.locator("#opened-why").is_hidden()
    assert window(page, "lanes") == (12 * MS - 2 * SHIFT, 18 * MS - 2 * SHIFT)
    top = page.locator("#opened").evaluate("(part) => part.getBoundingClientRect().top")
    assert 0 <= top < 200
    # Keys: from the open rank a row up, and Enter.
    page.locator("#job-canvas").focus()
    page.keyboard.press("ArrowUp")
    assert page.locator("#job-live").inner_text().startswith("rank 1: computing ")
    page.keyboard.press("Enter")
    assert page.evaluate("weftrace.rank()") == 1
    # The order of rows.
    page.locator('[data-order="late"]').click()
    drawn = page.evaluate("weftrace.job.timeline.drawn().rows.map((row) => row.name)")
    assert drawn == ["rank 1", "rank 0", "rank 2", "rank 3"]
    start, end = window(page, "job")
    onto(page, "#job-canvas")
    page.mouse.wheel(0, -200)
    wait_until(page, "(end) => Number(document.getElementById('job-canvas').dataset.end) < end", arg=end)
    page.keyboard.press("Home")
    assert window(page, "job") == (0, 30 * MS) != (start, end)
    # The address tells what is seen of all ranks, too.
    page.evaluate("location.hash = 'all=12000000..18000000&rank=3'")
    wait_until(page, "() => weftrace.rank() === 3")
    assert window(page, "job") == (12 * MS, 18 * MS)
    page.locator("#job-canvas").focus()
    page.keyboard.press("d")
    wait_until(page, "() => location.hash === '#all=12900000..18900000&rank=3'")


def test_steps_pairs_and_worst_collectives(open_html: Any) -> None:
    page = open_html(render_html(job_documents.late_job(4), []))
    # A map that was laid out anew is painted in the next frame, and has no place for a cell before.
    pixel = """async ([grid, row, column]) => {
      const map = weftrace.job[grid === "step-map" ? "steps" : "pairs"];
      const placed = () => (map.grid ?? map).place(row, column);
      for (let frame = 0; !placed() && frame < 1000; frame += 1) await new Promise(requestAnimationFrame);
      const canvas = document.querySelector(`#${grid} canvas`), at = canvas.getBoundingClientRect();
      const { x, y } = placed();
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
      copy.drawImage(canvas, 0, 0);
      const [r, g, b, opaque] = copy.getImageData(x - at.left, y - at.top, 1, 1).data;
      if (opaque !== 255) throw new Error(`nothing is painted in row ${row}, column ${column}`);
      return "#" + [r, g, b].map((c) => c.toString(16).padStart(2, "0")).join("");
    }"""
    role = "(role) => getComputedStyle(document.documentElement).getPropertyValue(`--${role}`).trim()"
    waiting, raised = page.evaluate(role, "waiting"), page.evaluate(role, "raised")
    cells = [[page.evaluate(pixel, ["step-map", row, step]) for step in range(3)] for row in range(4)]
    assert cells == [[raised] * 3, [raised, waiting, waiting], [raised] * 3, [raised] * 3]
    assert page.locator("#step-legend .ramp-words").inner_text().split("\n") == [
        "0 ns",
        "4.50 ms",
        "9.00 ms",
    ]  # three waited
    page.locator('[data-measure="suffered_ns"]').click()
    assert page.evaluate(pixel, ["step-map", 0, 1]) == waiting
    assert page.evaluate(pixel, ["step-map", 1, 1]) == raised
    assert [choice.inner_text() for choice in page.locator("#step-choices button").all()] == [
        "caused waiting", "late by", "waited for others", "span", "idle", "exposed",
    ]  # fmt: skip
    page.locator("#step-map canvas").scroll_into_view_if_needed()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    at = page.evaluate("weftrace.job.steps.grid.place(3, 2)")
    page.mouse.move(at["x"], at["y"])
    tip = page.locator("#tooltip").inner_text()
    assert "rank 3, step 2" in tip and "waited for others\n3.00 ms" in tip
    page.mouse.click(at["x"], at["y"])
    assert page.evaluate("weftrace.rank()") == 3
    assert window(page, "lanes") == (20 * MS - 3 * SHIFT, 30 * MS - 3 * SHIFT)
    # Who waits for whom: rows wait, columns came last.
    assert page.evaluate(pixel, ["pair-map", 2, 1]) == waiting
    assert page.evaluate(pixel, ["pair-map", 1, 2]) == raised
    rows = page.locator("[data-table=late-worst] tbody tr")
    assert rows.count() == 2 and "9.00" in rows.first.inner_text()
    heads = page.locator("[data-table=late-worst] thead th").all_inner_texts()
    assert "caused by" in heads[3] and rows.first.locator("td").nth(3).inner_text() == "rank 1"
    rows.first.click()
    start, end = window(page, "job")
    assert 10 * MS < start < 16 * MS and 20 * MS < end < 23 * MS
    kinds = page.locator("[data-table=late-kinds] tbody tr").inner_text()
    assert "rank 1, 2 times (67 %)" in kinds and "rank 1 (100 %)" in kinds


def test_many_ranks_scroll_in_their_own_box_and_list_their_pairs(open_html: Any) -> None:
    page = open_html(render_html(job_documents.late_job(256, late=200), []), viewport={"width": 420, "height": 800})
    parts = page.locator("#overview, #job, #late, #opened")
    assert parts.evaluate_all("(all) => all.every((part) => part.scrollWidth <= part.clientWidth)")
    assert "256 ranks, 3 pixels each: scroll for the rest" in page.locator("#job-rows").inner_text()
    assert page.locator("#job-body").evaluate("(box) => [box.clientHeight, box.scrollHeight]") == [570, 46 + 256 * 3]
    assert page.locator("#opened-name").inner_text() == "Rank 200"
    pairs = page.locator("[data-table=pairs]")
    assert pairs.locator("tbody tr").count() == 20
    assert "rank 200" in pairs.locator("tbody tr").first.inner_text()
    assert "Each cell is 2 ranks" in page.locator("#step-legend").inner_text()
    page.locator('[data-order="late"]').click()
    page.locator("#job-body").evaluate("(box) => box.scrollTo(0, 200)")
    place = page.evaluate("weftrace.job.timeline.drawn().rows[0]")
    assert place["name"] == "rank 200" and place["y"] == 46 - 200


#: A rank as the page has it, with what is read when it is opened.
WHOLE = """(position) => {
  const rank = weftrace.report.ranks[position];
  const whole = { ...rank, lanes: rank.lanes.map((lane) => ({ ...lane, boxes: lane.boxes })) };
  for (const name of weftrace.report.details.rank) if (rank[name] !== undefined) whole[name] = rank[name];
  for (const name of weftrace.report.details.idle_account) {
    whole.idle_account = { ...whole.idle_account, [name]: rank.idle_account[name] };
  }
  return whole;
}"""


def test_a_rank_is_read_when_it_is_opened(open_html: Any) -> None:
    job = job_documents.replayed(job_documents.late_job(8))
    page = open_html(render_html(job, []))
    assert page.evaluate("() => [[...weftrace.read], weftrace.rank()]") == [[1], 1]
    page.locator("#rank-select").select_option("4")
    assert page.evaluate("() => [[...weftrace.read], weftrace.rank()]") == [[1, 4], 4]
    assert page.locator("#kernel-table tbody tr").count() == len(job["ranks"][4]["kernels"])
    for position in (4, 6):
        rank = {name: value for name, value in job["ranks"][position].items() if name != "shares"}
        assert page.evaluate(WHOLE, position) == rank
    assert page.evaluate("() => [...weftrace.read]") == [1, 4, 6]

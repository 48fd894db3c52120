"""The page of a comparison: what it draws is what was measured, and both steps move together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Open
from tests.comparison.render.phased import LAYERS, changed, changed_job
from tests.pages import check_modules
from weftrace.analysis import breakdown
from weftrace.comparison.diffs import Diff
from weftrace.comparison.document import diff_report
from weftrace.comparison.render.page import HOME, bars_of, diff_block, render_diff_html
from weftrace.comparison.render.words import MEDIAN_LESS_MEAN

#: Share of a canvas's device pixels between two heights that have the colour of each role.
FILLED = """([id, top, height, roles]) => {
  const canvas = document.getElementById(id), ratio = window.devicePixelRatio;
  const {data} = canvas.getContext("2d").getImageData(0, top * ratio, canvas.width, height * ratio);
  return roles.map(role => {
    const hex = getComputedStyle(document.documentElement).getPropertyValue("--" + role).trim();
    const own = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
    let seen = 0;
    for (let i = 0; i < data.length; i += 4) seen += own.every((c, k) => data[i + k] === c);
    return seen / (data.length / 4);
  });
}"""
#: Of each bar: its name, its begin and its length in pixels, and its length in ns.
FALLS = """() => {
  const svg = document.querySelector("#waterfall svg");
  return [...svg.querySelectorAll("rect.fall")].map((rect, i) => ({
    name: weftrace.bars[i].name, x: +rect.getAttribute("x"), width: +rect.getAttribute("width"), ns: +rect.dataset.ns,
    change: weftrace.bars[i].to_ns - weftrace.bars[i].from_ns}));
}"""
VIEWS = """() => ["before", "after"].map(run => {
  const {start, end} = weftrace.pictures.lanes[run].view;
  return [start, end];
})"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Diff]:
    yield changed(tmp_path_factory.mktemp("runs"))


def test_modules_are_joined_in_order_and_none_is_left_over() -> None:
    check_modules(HOME, ("diff",))


def test_bars_add_up_to_the_change_of_the_median_step(found: Diff) -> None:
    document = diff_report(found)
    for most in (1, 2, 12):
        bars = bars_of(document, most)
        assert sum(bar["change_ns"] for bar in bars) == document.change_ns == found.change_ns
        effects = ("by_number_ns", "by_duration_ns", "by_overlap_ns", "by_kernel_ns")
        for bar in bars:
            of = sum(bar[key] for key in effects)  # type: ignore[literal-required]
            assert of == (0 if bar["name"] == MEDIAN_LESS_MEAN else bar["change_ns"])
    assert found.remainder_ns and MEDIAN_LESS_MEAN in [bar["name"] for bar in bars]


def test_the_page_draws_what_was_measured(found: Diff, open_html: Open) -> None:
    page = open_html(render_diff_html(diff_report(found)))
    assert page.inner_text("h1") == diff_report(found).headline
    _bars_are_true_to_scale(page, found)
    _lanes_are_filled_as_measured(page, found)
    _both_move_together(page)
    _lines_join_the_same_phases(page)
    _a_phase_is_laid_above_itself(page)
    _a_row_opens_both_where_it_ran(page)
    _another_step_can_be_chosen(page)


def _bars_are_true_to_scale(page: Any, found: Diff) -> None:
    falls = page.evaluate(FALLS)
    ns_of_pixel = falls[-1]["ns"] / falls[-1]["width"]
    for one, other in pairwise(falls[1:]):
        assert one["width"] == pytest.approx(abs(one["change"]) / ns_of_pixel, abs=0.02)
        ends = one["x"] + (one["width"] if one["change"] > 0 else 0)
        begins = other["x"] + (other["width"] if other["change"] < 0 else 0)
        if other is not falls[-1]:
            assert begins == pytest.approx(ends, abs=0.03)
    assert falls[0]["x"] + falls[0]["width"] == pytest.approx(falls[1]["x"], abs=0.03)
    assert falls[-2]["x"] + falls[-2]["width"] == pytest.approx(falls[-1]["x"] + falls[-1]["width"], abs=0.03)
    assert sum(fall["change"] for fall in falls[1:-1]) == found.change_ns
    assert "The axis begins at" in page.inner_text("#fall-lead")
    summary = page.inner_text("#waterfall").replace("\n", " ")
    assert ", longer" in summary and ", by " not in summary  # in the words of the tables
    assert "comparable …" not in page.inner_text("#cards")


def _lanes_are_filled_as_measured(page: Any, found: Diff) -> None:
    """The strip between the lanes, of which each nanosecond has one colour: exposed where it was measured so."""
    longest = max(page.evaluate("() => Object.values(weftrace.pictures.steps()).map(step => step.lanes.span_ns)"))
    for run, side in (("before", found.before), ("after", found.after)):
        step = page.evaluate(f"() => weftrace.pictures.steps().{run}.step")
        summary = breakdown(side.ranks[0].work.of_step(step))  # type: ignore[union-attr]
        strip = page.evaluate(f"() => weftrace.pictures.lanes.{run}.extent()[0]") + 92 + 5
        shares = page.evaluate(FILLED, [f"{run}-canvas", strip + 1, 4, ["exposed", "idle"]])
        measured = [summary.exposed_communication_ns / longest, summary.idle_ns / longest]
        assert shares == pytest.approx(measured, abs=0.01), run


def _both_move_together(page: Any) -> None:
    page.evaluate("() => weftrace.pictures.lanes.before.view.set(100_000, 200_000)")
    assert page.evaluate(VIEWS) == [[100_000, 200_000]] * 2
    page.locator("#after-canvas").focus()
    page.keyboard.press("Home")
    one, other = page.evaluate(VIEWS)
    assert one == other and one[0] == 0


def _lines_join_the_same_phases(page: Any) -> None:
    joins = page.evaluate("() => weftrace.pictures.joins()")
    assert not joins["apart"] and len(joins["joins"]) == 2 * LAYERS
    steps = page.evaluate("() => weftrace.pictures.steps()")
    for join in joins["joins"]:
        for run in ("before", "after"):
            starts: dict[int, int] = {}
            for lane in steps[run]["lanes"]["lanes"]:
                for box in lane["boxes"]:
                    if box["name"] == join["name"]:
                        starts[box["phase"]] = min(box["start_ns"], starts.get(box["phase"], box["start_ns"]))
            assert join[f"{run}_ns"] == sorted(starts.values())[join["nth"]]
    assert [join["name"] for join in page.evaluate("() => weftrace.pictures.seen()")] == ["attn(F)", "mlp(F)"] * LAYERS


def _a_phase_is_laid_above_itself(page: Any) -> None:
    join = page.evaluate("() => weftrace.pictures.joins().joins[3]")
    page.locator("#lanes").scroll_into_view_if_needed()
    place = page.evaluate("""() => {
      const {lanes} = weftrace.pictures;
      return lanes.after.place(lanes.after.boxes().filter(box => box.lane === "compute")[3]);
    }""")
    page.mouse.click(place["x"], place["y"])
    (one, _), (other, _) = page.evaluate(VIEWS)
    assert other - one == join["after_ns"] - join["before_ns"] > 0
    assert page.inner_text("#align [aria-pressed=true]") == "At mlp(F) 2"
    page.click("#align button:first-child")
    (one, _), (other, _) = page.evaluate(VIEWS)
    assert one == other == 0


def _a_row_opens_both_where_it_ran(page: Any) -> None:
    page.locator("#mover-table tbody tr", has_text="all_reduce").focus()
    page.keyboard.press("Enter")
    for run, (start, end) in zip(("before", "after"), page.evaluate(VIEWS), strict=True):
        event = page.evaluate(f"""() => {{
          const events = weftrace.pictures.streams.{run}.events(), labels = weftrace.pictures.labels("{run}");
          const at = [...events.label].findIndex(label => labels[label].family === "all_reduce");
          return [events.start[at], events.start[at] + events.dur[at]];
        }}""")
        assert start < event[0] < event[1] < end
    assert "1 before, 1 after" in page.inner_text("#marked")
    page.click("#marked button:last-child")
    assert page.inner_text("#marked") == ""


def _another_step_can_be_chosen(page: Any) -> None:
    first = page.locator("#chosen select").first
    chosen = (int(first.input_value()) + 1) % first.locator("option").count()
    first.select_option(str(chosen))
    steps = page.evaluate("() => weftrace.pictures.steps()")
    block = page.evaluate("() => weftrace.block.ranks[0]")
    assert steps["before"]["step"] == block["before"]["steps"][chosen]["step"]
    assert steps["after"]["step"] == block["after"]["steps"][block["after"]["shown"]]["step"]
    (one, _), (other, _) = page.evaluate(VIEWS)
    assert one == other == 0


def test_a_comparison_read_from_a_file_says_that_it_has_no_pictures(found: Diff, open_html: Open) -> None:
    report = replace(diff_report(found), diff=None)
    assert diff_block(report)["ranks"] == []
    page = open_html(render_diff_html(report), color_scheme="dark")
    assert page.is_hidden("#both") and page.is_hidden("#streams")
    assert "holds no events" in page.inner_text("#lanes-missing")
    assert page.is_visible("#waterfall svg") and page.is_visible("#mover-table table")


def test_of_a_job_a_row_shows_the_lanes_of_its_rank(tmp_path: Path, open_html: Open) -> None:
    found = changed_job(tmp_path)
    page = open_html(render_diff_html(diff_report(found)))
    assert page.locator("#rank-table tbody tr").count() == 3
    assert page.evaluate("() => weftrace.pictures.ranks()") == ["rank 2", "rank 1", "rank 0"]
    page.locator("#rank-table tbody tr", has_text="rank 1").press("Enter")
    assert page.locator("#chosen select").first.input_value() == "1"
    spans = page.evaluate("() => Object.values(weftrace.pictures.steps()).map(step => step.lanes.span_ns)")
    assert spans[1] - spans[0] == pytest.approx(found.by_rank()["change_ns"][1], rel=0.01)

"""The page of simulated schedules: safe as text, and in a browser as much painted as ranks are busy, at every zoom."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from typing import Any

import pytest

from tests.browser import Open, wait_until
from tests.pages import check_modules, page_blocks
from tests.pipeline.render import simulations
from weftrace.pipeline import Costs, compare
from weftrace.pipeline.comparing.variants import variant_of
from weftrace.pipeline.generators.families import FAMILIES
from weftrace.pipeline.render import colours, page
from weftrace.pipeline.render.comparison_page import render_comparison_html
from weftrace.pipeline.render.page import HOME, picture_block, render_schedules_html
from weftrace.pipeline.render.picture import picture_of
from weftrace.pipeline.render.words import headline
from weftrace.pipeline.simulation import Simulation, simulate

#: Of each row of a picture's canvas, the columns that are painted at a height within its cells; grid lines are none.
PAINTED = """([picture, rows, row, axis]) => {
  const canvas = document.querySelectorAll(".schedule canvas")[picture];
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
  return Array.from({ length: rows }, (_, i) => {
    const { data } = context.getImageData(0, axis + row * i + 2, canvas.width, 1);
    const painted = [];
    for (let x = 0; x < canvas.width; x += 1) {
      const [r, g, b, a] = data.slice(4 * x, 4 * x + 4);
      const hex = `#${[r, g, b].map((c) => c.toString(16).padStart(2, "0")).join("")}`;
      painted.push(a > 0 && hex !== line);
    }
    return painted;
  });
}"""
AXIS, ROW = 22, 24


def block(html: str) -> Any:
    return page_blocks(html)["weftrace-schedules"]


def busy_columns(simulation: Simulation, rank: int, start: float, length: float, width: int) -> list[bool]:
    """Columns that an action covers, its ends rounded to whole pixels."""
    columns = [False] * width
    for begin, end in simulation.actions.filter(rank=rank).select("start_ns", "end_ns").iter_rows():
        first, last = (round_half_up((at - start) / length * width) for at in (begin, end))
        columns[max(first, 0) : max(last, 0)] = [True] * (min(last, width) - max(first, 0))
    return columns[:width]


def round_half_up(value: float) -> int:
    return int(value + 0.5) if value >= 0 else -int(0.5 - value)


def test_modules_are_joined_after_what_they_import() -> None:
    check_modules(HOME, ["schedule", "comparison"])


def test_the_block_holds_every_action_and_what_it_waited_for() -> None:
    simulation = simulations.dual(4, 8)
    summary = block(render_schedules_html([simulation]))["pictures"][0]
    assert summary["headline"] == headline_of(simulation)
    actions = simulation.actions
    for name in ("stage", "micro_batch", "back_stage", "back_micro_batch", "start_ns", "end_ns"):
        assert summary["cells"][name] == actions[name].to_list()
    for one in summary["ranks"]:
        first, last = one["cells"]
        ends = [0, *summary["cells"]["end_ns"][first:last]]
        for cell, free in zip(range(first, last), ends, strict=False):
            cause = summary["cells"]["cause"][cell]
            assert (cause is None) == (summary["cells"]["start_ns"][cell] == free)
            if cause is not None:  # with no time on the way, it ended when this one began
                assert summary["cells"]["end_ns"][cause] == summary["cells"]["start_ns"][cell]
        assert max(one["held"]) == one["peak"] == 5


def headline_of(simulation: Simulation) -> str:
    return headline(picture_of(simulation, 8))


def test_of_a_large_schedule_some_ranks_are_held_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_CELLS", 400)
    summary = picture_block(simulations.f1b(40, 20))  # 40 actions a rank
    assert [one["rank"] for one in summary.ranks] == [0, 5, 10, 15, 20, 24, 29, 34, 39]
    assert summary.left_out == "9 of 40 ranks are drawn, evenly chosen: 0, 5, 10, … 39."
    assert summary.peak == 20 and len(summary.cells["kind"]) == 9 * 40


def test_a_name_cannot_leave_its_block(open_html: Open) -> None:
    attack = '</script><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
    schedule = simulations.f1b(2, 2).schedule
    named = simulate(schedule.with_actions(schedule.actions, name=attack), simulations.UNITS)
    opened = open_html(render_schedules_html([named]))
    assert opened.evaluate("() => window.pwned") is None
    assert "<img" in opened.locator("h1").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_row_is_painted_where_its_rank_is_busy_and_nowhere_else(open_html: Open, scheme: str) -> None:
    both = [simulations.dual(costs=simulations.MEASURED), simulations.vee()]
    opened = open_html(render_schedules_html(both), color_scheme=scheme)
    until = max(simulation.makespan_ns for simulation in both)
    for number, simulation in enumerate(both):
        for start, end in ((0, until), (0.3 * simulation.makespan_ns, 0.51 * simulation.makespan_ns)):
            opened.evaluate("([i, start, end]) => window.weftrace.shown[i].view.set(start, end)", [number, start, end])
            opened.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            painted: Any = opened.evaluate(PAINTED, [number, simulation.schedule.num_ranks, ROW, AXIS])
            for rank, columns in enumerate(painted):
                wanted = busy_columns(simulation, rank, start, end - start, len(columns))
                assert sum(map(int.__ne__, columns, wanted)) <= 4, (scheme, rank, start)  # a tick's line over an edge
                assert any(wanted)


def test_pointing_at_a_cell_tells_what_it_is_and_what_it_waited_for(open_html: Open) -> None:
    opened = open_html(render_schedules_html([simulations.f1b()]))
    box = opened.locator(".schedule canvas").bounding_box()
    assert box is not None
    at = {time: box["x"] + box["width"] * time / 33 for time in (6, 11)}
    opened.mouse.move(at[11], box["y"] + AXIS + 8)
    tip = opened.locator("#tooltip").inner_text()
    assert "backward of micro-batch 0, stage 0" in tip and "from\n10\nto\n12" in tip
    assert "idle before\n6\nwaited for\nbackward of micro-batch 0, stage 1, on rank 1" in tip
    opened.mouse.move(at[6], box["y"] + AXIS + 8)
    assert opened.locator("#tooltip").is_hidden()
    opened.mouse.move(at[11], box["y"] + AXIS + 4 * ROW + 60)
    assert "most\n4, on rank 0\nleast\n1" in opened.locator("#tooltip").inner_text()


def test_zooming_shows_numbers_of_micro_batches_and_keeps_them(open_html: Open) -> None:
    opened = open_html(render_schedules_html([simulations.dual(16, 64)]))
    opened.locator(".schedule canvas").hover()
    for _ in range(3):
        opened.keyboard.press("w")
    view: Any = opened.evaluate("() => { const { view } = window.weftrace.shown[0]; return [view.start, view.end]; }")
    assert 0 < view[0] < view[1] < 206_000
    opened.get_by_role("button", name="Show the whole step").click()
    assert opened.evaluate("() => window.weftrace.shown[0].view.length") == 206_000


def test_colours_are_those_of_the_other_pictures(open_html: Open) -> None:
    opened = open_html(render_schedules_html([simulations.dual()]), color_scheme="light")
    told_by = "[...document.querySelectorAll('.shades:not(.pair) i')]"
    drawn: Any = opened.evaluate(f"() => {told_by}.map((e) => getComputedStyle(e).backgroundColor)")
    summary = [f"#{''.join(f'{int(part):02x}' for part in re.findall('[0-9]+', one))}" for one in drawn]
    assert summary == [colours.colour(kind, shade, 2) for kind in "FBIW" for shade in (0, 1)]


#: Colours that cover at least so many pixels of a picture's canvas, and those of the page.
COVERED = """(least) => {
  const canvas = document.querySelector(".schedule canvas");
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const counts = new Map();
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] < 255) continue;
    const color = [data[i], data[i + 1], data[i + 2]].join();
    counts.set(color, (counts.get(color) ?? 0) + 1);
  }
  const rgb = (e, property) => getComputedStyle(e)[property].match(/[0-9]+/g).slice(0, 3).join();
  const swatches = [...document.querySelectorAll(".shades i")].map((e) => rgb(e, "backgroundColor"));
  const line = rgb(document.querySelector(".key-line"), "borderTopColor");
  return { drawn: [...counts].filter(([, n]) => n >= least).map(([color]) => color), swatches, line };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_that_covers_much_stands_in_the_legend(open_html: Open, scheme: str) -> None:
    opened = open_html(render_schedules_html([simulations.dual()]), color_scheme=scheme)
    found: Any = opened.evaluate(COVERED, 1200)
    keys = {tuple(map(int, color.split(","))) for color in (*found["swatches"], found["line"])}
    edges = {tuple(round(0.72 * channel) for channel in key) for key in keys}
    strange = []
    for color in (tuple(map(int, color.split(","))) for color in found["drawn"]):
        is_grey = max(color) - min(color) < 25  # text, frames, lines of the grid
        near = min(sum(abs(a - b) for a, b in zip(color, key, strict=True)) for key in keys | edges)
        is_band = (scheme == "light" and color == (185, 224, 229)) or (scheme == "dark" and color == (26, 71, 80))
        if not is_grey and near > 9 and not is_band:
            strange.append(color)
    assert not strange and len(found["drawn"]) > 8


#: The highest painted pixel of each of these columns of a canvas, between two heights; grid lines are none.
HIGHEST = """([columns, top, bottom]) => {
  const canvas = document.querySelector(".schedule canvas");
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return columns.map((part) => {
    const { data } = context.getImageData(Math.floor(part * canvas.width), top, 1, bottom - top);
    const y = Array.from({ length: bottom - top }, (_, i) => i).findIndex((i) => data[4 * i + 3] > 0);
    return y < 0 ? bottom : top + y;
  });
}"""


def test_the_memory_band_reaches_up_to_the_rank_that_holds_most(open_html: Open) -> None:
    simulation = simulations.dual()
    opened = open_html(render_schedules_html([simulation]))
    moments = [unit + 0.5 for unit in range(66) if unit % 10]  # units; at tens there are lines of the grid
    floor = AXIS + 8 * ROW + 20 + 74
    drawn: Any = opened.evaluate(HIGHEST, [[moment / 66 for moment in moments], floor - 90, floor])
    curves = [simulation.memory(rank) for rank in range(8)]
    for moment, y in zip(moments, drawn, strict=True):
        most = max(curve.filter(curve["time_ns"] <= moment * 1_000)["bytes"][-1] for curve in curves)
        assert floor - y == pytest.approx(74 * most / 9, abs=2), moment


def test_a_comparison_without_a_possible_schedule_draws_no_axes_of_nothing(open_html: Open) -> None:
    none = compare(Costs.units(), num_devices=3, num_micro_batches=4, families=["dualpipe"])
    tab = open_html(render_comparison_html(none))
    assert tab.locator("#trade-chart").inner_text() == "No schedule is possible here."
    assert "takes an even number" in tab.locator("#impossible").inner_text()


@pytest.mark.parametrize("width", [420, 1400])
def test_names_of_points_lie_apart_at_their_points_and_the_axis_has_one_unit(open_html: Open, width: int) -> None:
    """13 schedules, many in a row of points: a name without room is at the end of a line."""
    costs = Costs(forward_ns=19_480_000, input_ns=22_320_000, weight_ns=5_960_000, overlapped_ns=25_800_000)
    families = [variant_of(name) for name in FAMILIES]
    compared = compare(costs, num_devices=4, num_micro_batches=8, families=families)
    tab = open_html(render_comparison_html(compared))
    tab.set_viewport_size({"width": width, "height": 900})
    wait_until(tab, "document.querySelector('#trade-chart svg').clientWidth < innerWidth")
    boxes = "es => es.map(e => [e, e.previousElementSibling].map(b => b.getBoundingClientRect().toJSON()))"
    named = tab.locator(".point-word").evaluate_all(boxes)
    assert len(named) > 8
    for word, place in named:
        gaps = (word["left"] - place["right"], place["left"] - word["right"], word["top"] - place["bottom"])
        assert max(*gaps, place["top"] - word["bottom"]) <= 14, (word, place)
    for (one, _), (other, _) in combinations(named, 2):
        across = min(one["right"], other["right"]) - max(one["left"], other["left"])
        down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
        assert min(across, down) <= 3, (one, other)
    stairs = tab.locator("#trade-chart .frontier").get_attribute("d") or ""
    corners = [tuple(map(float, corner.split())) for corner in stairs.strip("M").split("L")]
    assert len(corners) > 2 and all(sum(a != b for a, b in zip(*pair, strict=True)) == 1 for pair in pairwise(corners))
    ticks = tab.locator("#trade-chart .tick[text-anchor=middle]").all_text_contents()
    assert len(ticks) > 1, ticks
    assert {tick.split()[1] for tick in ticks} == {"ms"}, ticks


def test_a_comparison_stars_every_law_that_does_not_hold(open_html: Open) -> None:
    """V-Half's needs F = I = W."""
    compared = compare(Costs.units(1, 2, 1), num_devices=4, num_micro_batches=8, families=["v-half"])
    tab = open_html(render_comparison_html(compared))
    assert tab.locator("#schedule-table tbody tr").last.inner_text().count("*") == 1

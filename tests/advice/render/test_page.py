"""The pages of critical paths and what-ifs: what is painted is as much as the frames say, at every zoom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.advice.runs import two_streams
from tests.browser import Open, wait_until
from tests.fuzz import few
from tests.pages import check_modules, page_blocks, rows_of
from tests.report.job_documents import late_job, replayed
from weftrace.advice.changes import NoHostGaps, parse_change
from weftrace.advice.critical_paths import CriticalPath, critical_path_of
from weftrace.advice.document import critical_path_report
from weftrace.advice.outputs import CRITICAL_PATH, STRAGGLERS, WHAT_IF
from weftrace.advice.render.page import HOME, render_path_html, render_sensitivity_html, render_what_if_html
from weftrace.advice.sensitivities import curve
from weftrace.advice.waterfalls import waterfall
from weftrace.advice.whatif_document import what_if_report, worth_of
from weftrace.advice.whatifs import what_if
from weftrace.outputs import Output
from weftrace.plan.inference.values import Inferred

#: Share of the band's pixels that each colour fills, by the role that it has; of device pixels, without names.
BAND = """([top, height]) => {
  const canvas = document.querySelector(".path-frame canvas");
  const ratio = window.devicePixelRatio;
  const {data} = canvas.getContext("2d").getImageData(0, top * ratio, canvas.width, height * ratio);
  const counts = new Map(), seen = {};
  for (const pixel of new Uint32Array(data.buffer)) counts.set(pixel, (counts.get(pixel) || 0) + 1);
  for (const [pixel, count] of counts) {
    const hex = "#" + [0, 8, 16].map(by => ((pixel >> by) & 255).toString(16).padStart(2, "0")).join("");
    seen[hex] = (seen[hex] || 0) + count;
  }
  const style = getComputedStyle(document.documentElement);
  const {classes, roles} = weftrace.block.picture;
  const all = data.length / 4;
  return Object.fromEntries(classes.map((name, i) =>
    [name, (seen[style.getPropertyValue("--" + roles[i]).trim()] || 0) / all]));
}"""

#: How far the pixels of a row lie, on average, from the ground's colour towards that of the host: edges are blended.
COVERED = """([top, height]) => {
  const canvas = document.querySelector(".path-frame canvas");
  const ratio = window.devicePixelRatio;
  const {data} = canvas.getContext("2d").getImageData(0, top * ratio, canvas.width, height * ratio);
  const style = getComputedStyle(document.documentElement);
  const of = role => {
    const hex = style.getPropertyValue("--" + role).trim();
    return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
  };
  const ground = of("raised"), ink = of(weftrace.block.roles.host);
  const way = ink.map((c, k) => c - ground[k]), length = way.reduce((sum, c) => sum + c * c, 0);
  let sum = 0;
  for (let i = 0; i < data.length; i += 4) {
    const along = way.reduce((total, c, k) => total + c * (data[i + k] - ground[k]), 0) / length;
    sum += Math.min(1, Math.max(0, along));
  }
  return sum / (data.length / 4);
}"""


def page_of(inferred: Inferred) -> str:
    return render_path_html(critical_path_report(inferred), worth_of(inferred))


def block_of(html: str, name: str) -> Any:
    return page_blocks(html)[name]


def read_back(output: Output, value: Any) -> Any:
    """The value as it is after it was saved."""
    assert output.document and output.load
    return output.load(output.document(value), what="saved")


def test_modules_are_joined_in_order_and_none_is_left_over() -> None:
    check_modules(HOME, ("advice", "path", "sensitivity", "stragglers", "what_if"))


def test_the_block_says_what_the_frames_say(tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    path = critical_path_of(inferred)
    block = block_of(page_of(inferred), "weftrace-path")
    document = block["document"]
    for key, frame in (("class", path.by_class), ("phase", path.by_phase), ("kernel", path.by_kernel),
                       ("cause", path.by_cause), ("family", path.by_family)):  # fmt: skip
        assert [tuple(row.values()) for row in document[f"by_{key}"]] == frame.rows()
        assert sum(row["time_ns"] for row in document[f"by_{key}"]) == block["picture"]["span_ns"]
    assert sum(bar["time_ns"] for bar in document["waterfall"]) == inferred.replay.span_ns
    assert document["replay"]["error"] == inferred.replay.error and document["headline"].startswith(path.sentence)
    assert len(block["waits"]) == block["num_waits"] == path.path.filter(pl.col("confidence") < 1).height


def shares(path: CriticalPath, from_ns: int, to_ns: int) -> dict[str, float]:
    """The share of each class in a stretch of the path, from its begin."""
    begin = path.parts.item(0, "from_ns")
    cut = path.parts.with_columns((pl.col("from_ns", "until_ns") - begin).clip(from_ns, to_ns))
    sums = cut.group_by(pl.col("class_").cast(pl.String)).agg((pl.col("until_ns") - pl.col("from_ns")).sum())
    return {name: ns / (to_ns - from_ns) for name, ns in sums.rows()}


@pytest.mark.parametrize(
    ("part", "scheme"), few([((0.2, 0.7), "dark"), ((0.0, 1.0), "light"), ((0.41, 0.43), "light")], 1)
)
def test_the_band_is_filled_by_each_class_as_long_as_it_was(
    part: tuple[float, float], scheme: str, open_html: Open, tmp_path: Path
) -> None:
    inferred = two_streams(tmp_path, num=150)
    path = critical_path_of(inferred)
    page = open_html(render_path_html(critical_path_report(inferred)), color_scheme=scheme)
    from_ns, to_ns = (round(each * path.span_ns) for each in part)
    page.evaluate(f"() => weftrace.picture.view.set({from_ns}, {to_ns})")
    wait_until(page, f"() => +document.querySelector('.path-frame canvas').dataset.start === {from_ns}")
    drawn = page.evaluate(BAND, [24, 34])
    expected = shares(path, from_ns, to_ns)
    for name, share in drawn.items():
        # Names are written over, and edges of shares fall between pixels.
        assert share == pytest.approx(expected.get(name, 0), abs=0.06), name
    assert sum(drawn.values()) > 0.8


def test_a_row_is_filled_as_long_as_the_path_was_on_it(open_html: Open, tmp_path: Path) -> None:
    """Of ops far thinner than a pixel too."""
    inferred = two_streams(tmp_path, num=600, more=0)
    path = critical_path_of(inferred)
    page = open_html(render_path_html(critical_path_report(inferred)))
    rows: Any = page.evaluate("() => weftrace.block.picture.rows.map(row => row.name)")
    row = rows.index("thread 0")
    top = 24 + 34 + 12 + 28 * sum(name.startswith("stream") for name in rows)
    assert row == len(rows) - 1
    drawn = page.evaluate(COVERED, [top, 18])
    begin = path.parts.item(0, "from_ns")
    on_row = path.path.filter(stream=1_000_000, class_="host", until_ns=pl.col("until_ns").clip(begin))
    of = on_row.select(pl.col("until_ns") - pl.col("from_ns").clip(begin)).sum().item()
    assert drawn == pytest.approx(of / path.span_ns, abs=0.05)


def test_nothing_is_painted_on_a_row_where_nothing_ran(open_html: Open, tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    page = open_html(page_of(inferred))
    found: Any = page.evaluate("""() => {
      const {view, data} = weftrace.picture;
      const {rows} = data.block, {start, dur} = data.ops;
      const row = rows.findIndex(each => each.name === "stream 7");
      const {first, count} = rows[row];
      const gaps = [];
      for (let i = first; i + 1 < first + count; i += 1) {
        if (start[i + 1] - start[i] - dur[i] > 5000) gaps.push([start[i] + dur[i], start[i + 1]]);
      }
      return {gaps, row};
    }""")
    assert found["gaps"]
    middle = sum(found["gaps"][0]) / 2
    page.evaluate(f"() => weftrace.picture.view.set({middle} - 1000, {middle} + 1000)")
    wait_until(page, "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(true))))")
    colours = page.evaluate(f"""() => {{
      const canvas = document.querySelector(".path-frame canvas"), ratio = window.devicePixelRatio;
      const top = 24 + 34 + 12 + {found["row"]} * 28;
      const {{data}} = canvas.getContext("2d").getImageData(0, (top + 3) * ratio, canvas.width, 16 * ratio);
      return [...new Set(Array.from({{length: data.length / 4}}, (_, i) => data.slice(4 * i, 4 * i + 3).join()))];
    }}""")
    assert len(colours) == 1, colours


def test_the_waterfall_is_as_wide_as_its_bars(open_html: Open, tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    page = open_html(page_of(inferred))
    drawn: Any = page.eval_on_selector_all(
        "#waterfall rect.fall", "all => all.map(one => [+one.dataset.ns, +one.getAttribute('width')])"
    )
    bars = waterfall(inferred).bars.get_column("time_ns").abs().to_list()
    assert [ns for ns, _ in drawn] == bars
    scale = max(width for _, width in drawn) / max(bars)
    assert [width for _, width in drawn] == pytest.approx([ns * scale for ns in bars], abs=0.02)


def test_an_op_tells_why_it_ran_then(open_html: Open, tmp_path: Path) -> None:
    page = open_html(page_of(two_streams(tmp_path)))
    page.locator(".path-frame canvas").first.scroll_into_view_if_needed()
    place: Any = page.evaluate("""() => {
      const {view, data} = weftrace.picture, {path, block} = data;
      const row = block.rows.findIndex(each => each.on_device && each.path_count > 1);
      const own = block.rows[row], at = own.path_first + 1;
      const box = document.querySelector(".path-frame canvas").getBoundingClientRect();
      const middle = path.start[at] + path.dur[at] / 2;
      return {x: box.left + (middle - view.start) / view.length * box.width, y: box.top + 24 + 34 + 12 + row * 28 + 12};
    }""")
    page.mouse.move(place["x"], place["y"])
    tip = page.inner_text("#tooltip")
    assert "reached by" in tip.lower() and "confidence" in tip.lower()


def test_before_and_after_are_seen_on_one_scale_of_time(open_html: Open, tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    answer = what_if(inferred, [parse_change("compute=2"), NoHostGaps()])
    page = open_html(render_what_if_html(what_if_report(answer, inferred)))
    page.evaluate("() => weftrace.before.view.set(100_000, 400_000)")
    ends: Any = page.evaluate("() => ['before', 'after'].map(k => [weftrace[k].view.start, weftrace[k].view.end])")
    assert ends[0] == ends[1] == [100_000, 400_000]
    limits: Any = page.evaluate("() => ['before', 'after'].map(k => weftrace[k].view.max)")
    assert limits == [max(answer.before.span_ns, answer.after.span_ns)] * 2
    falls: Any = page.evaluate("() => weftrace.differences.map(d => d.after_ns - d.before_ns)")
    assert sum(falls) == answer.after_ns - answer.replayed_ns


def test_pages_of_documents_alone_show_what_those_hold(open_html: Open, tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    report = read_back(CRITICAL_PATH, critical_path_report(inferred))
    page = open_html(render_path_html(report))
    assert page.is_hidden("#picture") and page.is_hidden("#saved") and page.is_visible("#part-table table")
    answer = what_if_report(what_if(inferred, [parse_change("compute=2")]), inferred)
    page = open_html(render_what_if_html(read_back(WHAT_IF, answer)))
    assert page.is_hidden("#picture") and page.is_visible("#waterfall svg")


def test_a_curve_is_drawn_with_its_knee(open_html: Open, tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    page = open_html(render_sensitivity_html(worth_of(inferred)))
    points = curve(inferred, "communication").points
    assert page.locator("#curve circle.dot").count() == points.height
    knee = points.get_column("factor").to_list().index(curve(inferred, "communication").flat_until)
    ring, dots = page.locator("#curve circle.ring"), page.locator("#curve circle.dot")
    assert ring.get_attribute("cx") == dots.nth(knee).get_attribute("cx")
    assert page.locator("#gain-table tbody tr").count() > 3


def test_the_page_of_stragglers_draws_what_the_document_holds(open_html: Open) -> None:
    slowdown = replayed(late_job(4))["slowdown"]
    assert STRAGGLERS.load and STRAGGLERS.page
    html = STRAGGLERS.page(STRAGGLERS.load({"schema": STRAGGLERS.schema, **slowdown}, what="saved"))
    assert rows_of(block_of(html, "weftrace-stragglers")) == slowdown
    page = open_html(html)
    names = page.locator("[data-bars=ranks] .share-name").all_inner_texts()
    assert names == ["rank 1", "rank 3", "rank 0", "rank 2"]
    assert page.evaluate("weftrace.grid.place(3, 2).x > weftrace.grid.place(3, 1).x")
    assert page.locator("#step-legend").inner_text().endswith("The largest, 3.00 ms, is in rank 1, step 1.")

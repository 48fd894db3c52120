"""Every colour that a picture draws stands in its legend, in the light and in the dark; and no two mean the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import combinations, cycle
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Open
from tests.fuzz import few
from tests.moe.render import profiles
from tests.render.extreme_pages import PAGES, strained
from tests.render.test_colours import blocks
from tests.report import documents, job_documents
from tests.tracefile import ALL_REDUCE, DISPATCH, GEMM, TraceFile
from weftrace.moe.render.page import render_profile_html
from weftrace.report import analyze, render_html

#: Colours of a picture's canvases that fill more than so many pixels, text, hatches and outlines left out; the swatches
#: of its legend; and the page's own colours, which say nothing: its ground, lines and ink.
DRAWN = """([canvases, legend, least]) => {
  const draw = CanvasRenderingContext2D.prototype;
  const hex = (r, g, b) => "#" + [r, g, b].map((c) => c.toString(16).padStart(2, "0")).join("");
  const style = getComputedStyle(document.documentElement);
  const ground = ["panel", "raised", "page", "line", "text", "muted", "accent"].map((r) => style.getPropertyValue(`--${r}`).trim());
  draw.fillText = draw.strokeText = draw.stroke = draw.strokeRect = () => {};
  weftrace.lanes.view.pan(1);
  weftrace.timeline?.view.pan(1);
  document.getElementById("job-in")?.click();
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const counts = new Map();
    for (const id of canvases) {
      const canvas = document.getElementById(id);
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
      for (const pixel of new Uint32Array(data.buffer)) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    }
    const keys = [...document.querySelectorAll(`#${legend} .swatch`)].map((e) => {
      const s = getComputedStyle(e);
      const told = s.backgroundImage === "none" ? s.backgroundColor : s.borderTopColor; // a hatch has its colour's border
      if (told === "rgba(0, 0, 0, 0)") return "none";
      return hex(...told.match(/[0-9]+/g).slice(0, 3).map(Number));
    });
    const drawn = [...counts].filter(([pixel, n]) => n >= least && pixel >>> 24 === 255);
    done({ drawn: drawn.map(([pixel]) => hex(pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255)), keys, ground });
  })));
}"""  # noqa: E501
LEAST = 150  # pixels


def channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def summary(colour: str, keys: list[str], ground: list[str]) -> bool:
    """Whether a colour is a key's, the page's own, or between a key's and the page's ground: paler."""
    for key in keys:
        for base in ground[:2]:
            a, b, c = channels(base), channels(key), channels(colour)
            span = [y - x for x, y in zip(a, b, strict=True)]
            widest = max(range(3), key=lambda i: abs(span[i]))
            share = (c[widest] - a[widest]) / (span[widest] or 1)
            if -0.02 <= share <= 1.02 and all(abs(a[i] + share * span[i] - c[i]) <= 4 for i in range(3)):
                return True
    return any(max(abs(x - y) for x, y in zip(channels(g), channels(colour), strict=True)) <= 2 for g in ground)


def by_name() -> Any:
    """Twelve families in the compute lane, more than have shades, and three in the communication lane."""
    one = documents.rank()
    for lane, number in zip(one["lanes"], (12, 3), strict=True):
        lane["boxes"] = [
            {**lane["boxes"][0], "name": f"{lane['lane']} family {n}", "phase": None, "direction": None,
             "start_ns": 1_500_000 * n, "end_ns": 1_500_000 * n + 1_400_000, "busy_ns": 1_400_000 - 100_000 * n}
            for n in range(number)
        ]  # fmt: skip
    documents.fill_lanes(one)
    one |= {"exposed": [], "num_exposed": 0}
    return documents.document(one)


def by_micro_batch() -> Any:
    one = documents.rank()
    for lane in one["lanes"]:
        for at, box in enumerate(lane["boxes"]):
            box |= {"name": f"ATTN{at % 2}", "direction": None}
    return documents.document(one)


def families(folder: Path) -> str:
    """A trace without phases: each family of kernels is a shade of its class, beside the class itself."""
    file = TraceFile()
    names = (GEMM, "void flash::flash_fwd_kernel<128>(int)", "triton_poi_fused_gelu_7", "vectorized_layer_norm_kernel",
             "void at::native::reduce_kernel<512, 1>(int)", "indexSelectLargeIndex", "softmax_warp_forward",
             ALL_REDUCE, DISPATCH)  # fmt: skip
    for at in range(40):
        name = names[at % len(names)]
        file.kernel(name, 50_000 + 100 * at, 90, stream=20 if name in (ALL_REDUCE, DISPATCH) else 7)
    report = analyze(file.trace(folder))
    return render_html(report.document, report.timelines)


def many_classes(folder: Path) -> str:
    report = strained(folder)
    return render_html(report.document, report.timelines)


PICTURES: dict[str, Callable[[Path], str]] = {
    "directions": lambda _: render_html(documents.document(), []),
    "names": lambda _: render_html(by_name(), []),
    "micro-batches": lambda _: render_html(by_micro_batch(), []),
    "families": families,
    "all classes": many_classes,
    "a profile": lambda _: render_profile_html(profiles.made("decode", num_layers=2)),
    "a job": lambda _: render_html(job_documents.late_job(), []),
}


def in_turn(names: Iterable[str]) -> list[tuple[str, str]]:
    """Each picture once, the first in the light scheme, the next in the dark one, and so on."""
    return list(zip(names, cycle(["light", "dark"]), strict=False))


@pytest.mark.parametrize(("name", "scheme"), few(in_turn(PICTURES), 4))
def test_every_colour_drawn_stands_in_the_legend(name: str, scheme: str, open_html: Open, tmp_path: Path) -> None:
    page = open_html(PICTURES[name](tmp_path), color_scheme=scheme)
    pictures = [(["lanes-canvas"], "lanes-legend")]
    if page.locator("#job").count() and page.locator("#job").is_visible():
        pictures.append((["job-canvas"], "job"))
    if page.locator("#timeline-present").count() and page.locator("#timeline-present").is_visible():
        pictures.append((["timeline-canvas", "timeline-axis"], "timeline-legend"))
    for canvases, legend in pictures:
        found: Any = page.evaluate(DRAWN, [canvases, legend, LEAST])
        assert len(found["keys"]) >= 3 and "none" not in found["keys"]
        assert len(found["drawn"]) > 3
        strange = [colour for colour in found["drawn"] if not summary(colour, found["keys"], found["ground"])]
        assert not strange, (legend, strange, found["keys"])
        assert all(distance(one, other) > 5 for one, other in combinations(found["keys"], 2)), "two keys look the same"


def test_a_search_has_its_key(open_html: Open, tmp_path: Path) -> None:
    page = open_html(many_classes(tmp_path))
    assert "found" not in page.locator("#timeline-legend").inner_text()
    page.locator("#search").fill("gemm")
    assert "found" in page.locator("#timeline-legend").inner_text()
    found: Any = page.evaluate(DRAWN, [["timeline-canvas"], "timeline-legend", LEAST])
    assert not [colour for colour in found["drawn"] if not summary(colour, found["keys"], found["ground"])]


#: Roles that say what something is, in the pictures of one page.
MEANINGS = (
    *("compute", "communication", "barrier", "memory", "fused", "idle", "exposed", "hidden", "outside", "annotation"),
    *(
        "waiting",
        "operator",
        "launch",
        "other",
        "forward",
        "backward",
        "weight",
        "input",
        "idle-host",
        "idle-call",
        "launch-latency",
        "turnaround",
        "held",
        "unrecorded",
    ),
    *("unknown-wait", *(f"hue{n}" for n in range(1, 9))),
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_two_meanings_share_a_colour(theme: str) -> None:
    """By the distance of CIE 1976 in L*a*b*: 2.3 is just seen."""
    colours = blocks("page.css", ":root") | (blocks("page.css", ':root[data-theme="dark"]') if theme == "dark" else {})
    near = [
        (a, b, round(distance(colours[a], colours[b]), 1))
        for a, b in combinations(MEANINGS, 2)
        if distance(colours[a], colours[b]) < 7
    ]
    assert not near


def distance(one: str, other: str) -> float:
    return math.dist(lab(one), lab(other))


def lab(colour: str) -> tuple[float, float, float]:
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in (c / 255 for c in channels(colour))]
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    x, y, z = (sum(k * c for k, c in zip(row, linear, strict=True)) for row in rows)
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x / 0.9505, y, z / 1.089))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


#: The fills and lines of a page's charts that no key of their section has. Neutral: the page's ground, lines and ink.
UNTOLD = """() => {
  const style = getComputedStyle(document.documentElement);
  const paint = document.createElement("i");
  document.body.append(paint);
  const rgb = (c) => {
    paint.style.color = c;
    return getComputedStyle(paint).color;
  };
  const roles = ["panel", "raised", "page", "line", "strong-line", "text", "muted", "faint", "accent"];
  const neutral = new Set(roles.map((role) => rgb(style.getPropertyValue(`--${role}`).trim())));
  const missing = new Set();
  let seen = 0;
  for (const shape of document.querySelectorAll(":is(.chart, .icicle) :is(rect, path, circle, line)")) {
    const box = shape.closest("section");
    const swatches = box.querySelectorAll(".legend :is(.swatch, .line-key), .scale-colors, .row-mark");
    const keys = new Set([...swatches].flatMap((e) => {
      const s = getComputedStyle(e);
      return [s.backgroundColor, s.borderTopColor];
    }));
    const { fill, stroke, opacity } = getComputedStyle(shape);
    for (const color of shape.tagName === "line" ? [stroke] : [fill, stroke]) {
      if (color === "none" || color.startsWith("rgba") || neutral.has(color) || opacity === "0") continue;
      seen += 1;
      if (!keys.has(color)) missing.add(`${box.id} ${shape.tagName}.${shape.getAttribute("class")} ${color}`);
    }
  }
  return { missing: [...missing], seen };
}"""


@pytest.mark.parametrize(("name", "scheme"), few(in_turn(["one rank", "flops", "placement", "replay"]), 2))
def test_every_colour_of_a_chart_stands_in_its_section_s_legend(
    name: str, scheme: str, open_html: Open, tmp_path: Path
) -> None:
    found: Any = open_html(PAGES[name](tmp_path), color_scheme=scheme).evaluate(UNTOLD)
    assert found["seen"] > 20
    assert not found["missing"]

"""The lane picture as SVG: what is filled is what ran, at every zoom, and what is named was there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.moe.render.profiles import made
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.moe.render.picture import profile_picture
from weftrace.render.lanes_scene import lanes_svg
from weftrace.report import analyze

SVG = "{http://www.w3.org/2000/svg}"
_PIECE = re.compile(r"M(\S+) (\S+)h(\S+)V(\S+)h\S+z")
LEFT, RIGHT, BAND = 118, 12, 64


def filled(text: str) -> dict[str, float]:
    """Class of a box -> the part of a band that is filled with it."""
    found: dict[str, float] = {}
    root = ElementTree.fromstring(text)
    width = float(root.attrib["width"]) - LEFT - RIGHT
    for path in root.iter(f"{SVG}path"):
        for _, top, wide, bottom in _PIECE.findall(path.attrib["d"]):
            area = float(wide) * (float(bottom) - float(top)) / (BAND * width)
            if path.attrib["class"][0] == "r" or "lane" in path.attrib["class"]:
                found[path.attrib["class"]] = found.get(path.attrib["class"], 0.0) + area
    return found


@pytest.mark.parametrize("kind", ["train", "prefill", "decode"])
@pytest.mark.parametrize("part", [(0.0, 1.0), (0.3, 0.6), (0.41, 0.43)])
def test_each_role_is_filled_as_long_as_it_ran(kind: str, part: tuple[float, float]) -> None:
    picture = profile_picture(made(kind, num_layers=3))
    start, end = (round(each * picture["span_ns"]) for each in part)
    drawn = filled(lanes_svg(picture, title="t", start_ns=start, end_ns=end))
    lanes = {each["lane"]: each for each in picture["lanes"]}
    ran: dict[str, float] = {}
    for lane in lanes.values():
        for box in lane["boxes"]:
            role = box["direction"] or str(box["micro_batch"])
            a, b = max(start, box["start_ns"]), min(end, box["end_ns"])
            inside = sum(max(0, min(b, y) - max(a, x)) for x, y, _ in lane["busy"])
            ran[f"r{role}"] = ran.get(f"r{role}", 0.0) + inside / (end - start)
    assert drawn.keys() == {role for role, share in ran.items() if share > 0}
    for role, share in drawn.items():
        assert share == pytest.approx(ran[role], abs=0.012), role  # numbers have two digits


def test_gaps_of_a_measured_lane_are_not_filled(tmp_path: Path) -> None:
    """Kernels of 3 µs every 10 µs: 30 % of the band, however small the picture."""
    file = TraceFile(rank=0)
    for at in range(2_000):
        file.kernel(GEMM, 10 * at, 3)
    file.kernel(ALL_REDUCE, 5_000, 2_500, stream=20)
    report: Any = analyze(file.trace(tmp_path)).document
    for width in (400, 960, 2_400):
        drawn = filled(lanes_svg(report["ranks"][0], title="t", width=width))
        assert drawn["lane0"] == pytest.approx(0.3, abs=0.02), width
        assert drawn["lane1"] == pytest.approx(0.125, abs=0.01), width


def test_tooltips_tell_short_boxes_apart(tmp_path: Path) -> None:
    """Phases of 200 ns each, 250 ns apart, after 100 ms of another: starts of three digits would be the same."""
    file = TraceFile().host("long(F)", 0, 5).kernel(GEMM, 10, 100_000, launch=1)
    for number in range(4):
        file.host(f"short{number}(F)", 10 + 10 * number, 5)
        file.kernel(GEMM, 100_010 + 0.25 * number, 0.2, launch=11 + 10 * number)
    report: Any = analyze(file.trace(tmp_path)).document
    text = lanes_svg(report["ranks"][0], title="t", start_ns=100_000_000)
    starts = re.findall(r"short\d\(F\)[^<:]*: from ([^,]+),", text)
    assert starts == ["100.00000 ms", "100.00025 ms", "100.00050 ms", "100.00075 ms"]


def test_names_from_traces_are_text_and_the_file_is_sound() -> None:
    picture: Any = profile_picture(made("decode", num_layers=1))
    picture["lanes"][0]["boxes"][0]["name"] = "</text><script>x</script>\x1b"
    text = lanes_svg(picture, title="<b> & \x00")
    assert "<script" not in text and "\x1b" not in text
    root = ElementTree.fromstring(text)
    assert root[0].text is not None and root[0].text.startswith("<b> &")


def test_sms_arrows_and_marks_are_drawn() -> None:
    text = lanes_svg(profile_picture(made("decode", num_layers=1)), title="t")
    assert ">132 SMs<" in text and ">0 SMs<" in text
    assert text.count('class="arrow') == 8
    assert "▾ issued" in text


def test_nothing_at_all_is_drawn_as_nothing() -> None:
    picture: Any = profile_picture(made("decode", num_layers=1))
    empty: Any = {**picture, "span_ns": 0, "lanes": [], "busy": [], "exposed": [], "hidden": [], "arrows": []}
    assert filled(lanes_svg(empty, title="t")) == {}

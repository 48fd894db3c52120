"""Efficiency as it is shown: in the document, the terminal and the page, by pencil on made traces."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.report.rated import bare_file, called, rated_file
from tests.tracefile import TraceFile
from weftrace.errors import WeftraceError
from weftrace.report import Report, analyze, print_report, render_html
from weftrace.report.document import report_document
from weftrace.report.render.figures_efficiency import efficiency_figure
from weftrace.report.render.tables import to_markdown
from weftrace.report.render.terminal_efficiency import parts_line


def printed(report: Report, width: int = 80) -> str:
    out = io.StringIO()
    print_report(report.document, Console(file=out, width=width))
    return out.getvalue()


def test_the_terminal_tells_rates_parts_and_shapes(tmp_path: Path) -> None:
    text = printed(analyze(rated_file().trace(tmp_path)))
    words = " ".join(text.split())
    assert "FLOPs are known for 68.8 % of device time; MFU at least 28.0 %, HFU at least 28.0 % of H100 SXM" in words
    assert "FLOPs 68.8 %, bytes alone 23.4 %, no operator 7.8 % (launched outside of every operator)" in words
    assert "mm 4096x4096 4096x4096 2 400.0 62.5 % 687 TFLOP/s 69.5 % of peak" in words
    assert "mm 64x4096 4096x4096 1 40.0" in words
    assert "1.01 TB/s 30.0 % of roof" in words  # the addition: 3 x 32 MiB in 100 µs
    assert max(map(len, text.splitlines())) <= 80


def test_without_shapes_one_sentence_says_how_to_record_them(tmp_path: Path) -> None:
    report = analyze(bare_file().trace(tmp_path))
    section = printed(report).partition("Efficiency")[2].partition("\n\n")[0]
    assert " ".join(section.split()) == (
        "Operators were recorded without shapes, so there are no FLOPs: record with "
        "torch.profiler.profile(record_shapes=True)."
    )


def test_no_mfu_is_told_without_what_is_rated(tmp_path: Path) -> None:
    file = rated_file(device="NVIDIA Unheard")
    text = " ".join(printed(analyze(file.trace(tmp_path))).split())
    assert "MFU at least" not in text and "held against no peak" in text
    asked = analyze(file.trace(tmp_path), hardware="h200")
    text = " ".join(printed(asked).split())
    assert "Efficiency of the peaks of H200" in text and "FLOPs are known for 68.8 %" in text
    with pytest.raises(WeftraceError, match="h9000"):
        analyze(file.trace(tmp_path), hardware="h9000")


def test_parts_are_rounded_so_that_they_add_up() -> None:
    parts = [{"part": name, "reason": "why", "total_ns": 1} for name in ("flops", "bytes", "no shapes")]
    assert parts_line(parts) == "FLOPs 33.3 %, bytes alone 33.4 %, no shapes 33.3 % (why)"
    parts[1]["reason"] = "no formula: bytes of its inputs alone"
    assert "bytes alone 33.4 % (33.3 % of operators without a formula)" in parts_line(parts)


def test_a_document_holds_the_tables_and_an_older_one_still_loads(tmp_path: Path) -> None:
    document = json.loads(json.dumps(analyze(rated_file().trace(tmp_path)).document))
    efficiency = report_document(document, "report")["ranks"][0]["efficiency"]
    (top, *_) = efficiency["shapes"]
    assert (top["operator"], top["num_calls"], top["flops"]) == ("aten::mm", 2, 2 * 2 * 4096**3)
    assert efficiency["num_shapes"] == len(efficiency["shapes"]) == 3
    assert efficiency["total_ns"] == sum(row["total_ns"] for row in efficiency["parts"]) == 640_000
    del document["ranks"][0]["efficiency"]
    assert "efficiency" not in report_document(document, "older")["ranks"][0]


def test_a_document_holds_500_shapes_and_says_how_many_there_are(tmp_path: Path) -> None:
    file = TraceFile()
    for at in range(600):
        called(file, "aten::mm", [[at + 1, 64], [64, 64]], 100 + 30 * at, 10)
    efficiency = analyze(file.trace(tmp_path)).document["ranks"][0]["efficiency"]
    assert (len(efficiency["shapes"]), efficiency["num_shapes"], efficiency["num_operators"]) == (500, 600, 1)


def test_names_of_operators_are_never_sent_to_a_terminal_raw(tmp_path: Path) -> None:
    file = rated_file()
    called(file, "evil::\x1b[31mred", [[4096, 4096]], 1200, 900)
    assert "\x1b" not in printed(analyze(file.trace(tmp_path)))


def test_markdown_and_the_figure_tell_the_same(tmp_path: Path) -> None:
    document = analyze(rated_file().trace(tmp_path)).document
    assert "| mm 4096x4096 4096x4096 | 2 | 400 µs | 62.5 % | 687 TFLOP/s | 69.5 % of peak |" in to_markdown(document)
    figure = efficiency_figure(document["ranks"][0])
    places = {trace.name: list(zip(trace.x, trace.y, strict=True)) for trace in figure.data}
    assert places["matmul"][0] == (pytest.approx(4096 / 3), pytest.approx(2 * 4096**3 / 200e-6))
    assert "bf16: 989 TFLOP/s" in places
    with pytest.raises(WeftraceError, match="no operator with arithmetic"):
        efficiency_figure(analyze(bare_file().trace(tmp_path)).document["ranks"][0])


def test_flops_by_module_add_up_to_those_of_the_operators(tmp_path: Path) -> None:
    file = rated_file()
    for name, ts, dur in (("Net_0", 80, 900), ("Linear_0", 81, 200), ("Linear_1", 381, 200)):
        file.host(f"nn.Module: {name}", ts, dur, cat="python_function")
    report = analyze(str(file.write(tmp_path / "trace.json")), by=("module", "line"))
    rank = report.document["ranks"][0]
    net, first, second = rank["modules"]["nodes"]
    product = 2 * 4096**3
    assert (first["flops"], second["flops"]) == (product, product)
    assert first["flops_per_s"] == pytest.approx(product / 200e-6)
    assert net["flops"] + rank["modules"]["outside"]["flops"] == rank["efficiency"]["flops"]
    words = " ".join(printed(report).split())
    assert "≥ FLOP FLOP/s Net" in words, words and "275 G 687 T" in words
    bare = bare_file()
    bare.host("nn.Module: Net_0", 80, 900, cat="python_function")
    assert "≥ FLOP" not in printed(analyze(str(bare.write(tmp_path / "bare.json")), by="module"))


PLACES = """() => [...document.querySelectorAll("#roofline-chart .dot")].map((dot) => {
  const circle = dot.querySelector("circle");
  return [dot.getAttribute("aria-label"), +circle.getAttribute("cy"), +circle.getAttribute("r")];
})"""


def test_the_page_has_a_point_for_each_shape_under_its_roof(open_html: Any, tmp_path: Path) -> None:
    page = open_html(render_html(analyze(rated_file().trace(tmp_path)).document, []))
    points = page.evaluate(PLACES)
    assert [name for name, _, _ in points] == [
        "aten::mm [4096x4096] [4096x4096]", "aten::add [4096x4096] [4096x4096]", "aten::mm [64x4096] [4096x4096]"
    ]  # fmt: skip
    assert points[0][2] > points[1][2] > points[2][2], "the area is the time"
    page.locator("#roofline-chart .dot").first.dispatch_event("click")
    picked = page.locator("#roofline-picked").inner_text()
    assert "687 TFLOP/s" in picked and "of the bf16 peak 69.5 %" in picked
    assert page.locator("#shape-table tbody tr").count() == 3
    shares = [float(text.split()[0]) for text in page.locator("#efficiency-parts li .muted").all_inner_texts()]
    assert sum(shares) == pytest.approx(100, abs=0.15)


def test_a_page_without_shapes_says_so_and_draws_nothing(open_html: Any, tmp_path: Path) -> None:
    page = open_html(render_html(analyze(bare_file().trace(tmp_path)).document, []))
    assert "record_shapes=True" in page.locator("#efficiency").inner_text()
    assert not page.locator("#efficiency-body").is_visible()

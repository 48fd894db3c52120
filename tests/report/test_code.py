"""Time by module and by function in the document, the terminal, CSV and the page's numbers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

import weftrace as wt
from tests.browser import Open
from tests.tracefile import GEMM, TraceFile
from weftrace.analysis.module_times import NODE_SCHEMA
from weftrace.errors import TraceError, WeftraceError
from weftrace.report import analyze
from weftrace.report.code_document import _largest
from weftrace.report.document import report_document
from weftrace.report.render.tables import to_markdown
from weftrace.report.render.terminal import print_report
from weftrace.units import duration, percent


def model_file(folder: Path, *, rank: int = 0) -> Path:
    """Net_0 with two layers of two Linears each, each of which launches one kernel; and one kernel outside."""
    file = TraceFile(rank=rank, world_size=2)
    frame = {"cat": "python_function"}
    file.host("train.py(3): main", 0, 990, **frame).host("nn.Module: Net_0", 0, 400, **frame)
    for layer in range(2):
        file.host(f"nn.Module: Layer_{layer}", 10 + 200 * layer, 180, **frame)
        for linear in range(2):
            start = 20 + 200 * layer + 80 * linear
            file.host(f"nn.Module: Linear_{2 * layer + linear}", start, 60, **frame)
            file.host("<built-in function linear>", start, 10, **frame)
            file.kernel(GEMM, start + 20, 30 + 10 * linear, launch=start + 1)
    file.kernel(GEMM, 500, 20, launch=480)
    path = folder / f"rank{rank}.json"
    path.write_text(json.dumps({**file.facts, "traceEvents": file.events}))
    return path


def printed(document: Any, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, color_system=None)
    print_report(document, console)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_document_holds_what_was_asked_for_and_is_sound(tmp_path: Path) -> None:
    report = analyze(model_file(tmp_path), by=("module", "line"))
    (rank,) = report.document["ranks"]
    assert [node["name"] for node in rank["modules"]["folded"]] == ["Net", "Layer", "Linear"]
    assert [node["num_members"] for node in rank["modules"]["folded"]] == [1, 2, 4]
    assert [node["parent"] for node in rank["modules"]["folded"]] == [None, 0, 1]
    assert [node["name"] for node in rank["lines"]["nodes"]] == ["train.py(3): main"]
    own = sum(node["self_ns"] for node in rank["modules"]["nodes"]) + rank["modules"]["outside"]["self_ns"]
    assert own == rank["serial_ns"] == 160_000
    report_document(json.loads(json.dumps(report.document)), "the document")
    assert not {"modules", "lines"} & set(analyze(tmp_path / "rank0.json").document["ranks"][0])


def test_the_terminal_prints_a_tree_of_what_is_alike(tmp_path: Path) -> None:
    text = printed(analyze(model_file(tmp_path), by="module", timelines=False).document)
    start = text.index("Time by module")
    summary = [line.rstrip() for line in text[start:].split("\n\n")[0].splitlines()]
    assert summary == [
        "Time by module  launched in it, or for its backward",
        "module        total µs  share   own  idle",
        "Net              140.0 87.5 %   0.0 220.0",
        "  Layer ×2       140.0 87.5 %   0.0 190.0",
        "    Linear ×4    140.0 87.5 % 140.0  80.0",
        "(outside)         20.0 12.5 %  20.0 100.0",
    ]


def test_a_report_without_says_that_frames_would_tell_it(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    said = "Python frames were recorded: see the time by module or function with --by module or --by line."
    assert said in " ".join(printed(analyze(path).document).split())
    assert said not in " ".join(printed(analyze(path, by="line").document).split())
    assert "with_stack=True" in printed(analyze(TraceFile().kernel(GEMM, 0, 1).trace(tmp_path), by="module").document)


def test_markdown_has_the_tree_of_modules_where_it_was_asked_for(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    rows = to_markdown(analyze(path, by=("module", "line")).document).splitlines()
    head = rows.index("| module | total | own | backward | exposed | share of the work |")
    assert rows[head - 2].startswith("Time by module of ")
    (rank,) = analyze(path, by="module").document["ranks"]
    net, layer, linear = rank["modules"]["folded"]
    for row, node, name in ((2, net, "Net"), (3, layer, "· Layer ×2"), (4, linear, "· · Linear ×4")):
        cells = [cell.strip() for cell in rows[head + row].strip("|").split("|")]
        assert cells[:3] == [name, duration(node["total_ns"]), duration(node["self_ns"])]
        assert cells[-1] == percent(node["total_ns"] / rank["serial_ns"])
    assert rows[head + 5].startswith("| (outside) |")
    assert "| line | total | own | backward | exposed | share of the work |" in rows
    assert "module" not in to_markdown(analyze(path).document)


def test_modules_that_launched_nothing_are_not_denied(tmp_path: Path) -> None:
    frame = {"cat": "python_function"}
    file = TraceFile().host("nn.Module: Net_0", 0, 10, **frame).host("train.py(3): main", 0, 10, **frame)
    file.kernel(GEMM, 500, 20, launch=480)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**file.facts, "traceEvents": file.events}))
    text = printed(analyze(path, by=("module", "line"), timelines=False).document)
    for what in ("modules", "functions"):
        assert f"The file has {what}, but none of them launched the device work shown here." in text
    assert "with_stack=True" not in text
    assert text.count("(outside)") == 2


def test_a_function_whose_name_is_huge_is_cut_in_no_time(tmp_path: Path) -> None:
    file = TraceFile().host("folder/" * 9_000 + "model.py(3): forward", 0, 900, cat="python_function")
    file.kernel(GEMM, 500, 20, launch=480)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**file.facts, "traceEvents": file.events}))
    text = printed(analyze(path, by="line", timelines=False).document)
    (row,) = [line for line in text.splitlines() if "model.py(3): forward" in line]
    assert row.startswith("…") and row.split()[-3:] == ["100.0", "%", "20.0"]
    assert len(row) <= 80


def test_csv_has_a_row_a_place_and_its_path(tmp_path: Path) -> None:
    wt.save(analyze(model_file(tmp_path), by="module"), tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert len(rows) == 8
    assert rows[3]["path"] == "Net_0 > Layer_0 > Linear_1"
    assert (rows[3]["total_ns"], rows[-1]["path"]) == ("40000", "(outside)")


def test_ranks_of_a_job_are_each_told(tmp_path: Path) -> None:
    for rank in range(2):
        model_file(tmp_path, rank=rank)
    document = analyze(tmp_path, by="module", workers=1).document
    assert [rank["modules"]["num_nodes"] for rank in document["ranks"]] == [7, 7]


def test_a_trace_that_was_read_without_frames_cannot_tell(tmp_path: Path) -> None:
    trace = wt.open(model_file(tmp_path))
    with pytest.raises(TraceError, match="frames=True"):
        analyze(trace, by="module")
    assert "modules" in analyze(wt.open(tmp_path / "rank0.json", frames=True), by="module").document["ranks"][0]


def test_a_tree_too_large_keeps_its_largest_nodes_and_all_time() -> None:
    parents, totals = [-1, 0, 1, 1, 0, -1], [100, 60, 50, 5, 30, 7]
    zeros = [0] * 6
    columns: dict[str, Any] = dict.fromkeys(NODE_SCHEMA, zeros)
    own = [10, 5, 50, 5, 30, 7]
    nodes = pl.DataFrame(
        columns | {"name": list("abcdef"), "parent": parents, "total_ns": totals, "self_ns": own}, NODE_SCHEMA
    )
    kept = _largest(nodes, 4)
    assert kept.select("name", "parent", "self_ns").rows() == [
        ("a", -1, 10), ("b", 0, 10), ("c", 1, 50), ("e", 0, 30), ("(smaller ones)", -1, 7),
    ]  # fmt: skip
    assert kept.get_column("self_ns").sum() == sum(own)
    assert _largest(nodes, 6).equals(nodes)


def test_own_and_idle_times_add_up_where_a_job_has_many_roots(tmp_path: Path) -> None:
    for rank in range(11):
        file = TraceFile(rank=rank, world_size=11)
        for at in range(510):
            file.host(f"nn.Module: Linear_{at}", 10 * at, 8, cat="python_function")
            file.kernel(GEMM, 10 * at + 2, 3, launch=10 * at + 1)
        (tmp_path / f"rank{rank}.json").write_text(json.dumps({**file.facts, "traceEvents": file.events}))
    summary = analyze(tmp_path, by="module", timelines=False, workers=1).document["ranks"][0]
    code = summary["modules"]
    assert (code["num_nodes"], len(code["nodes"])) == (510, 501)
    assert sum(node["self_ns"] for node in (*code["nodes"], code["outside"])) == summary["serial_ns"]
    assert sum(node["idle_ns"] for node in (*code["nodes"], code["outside"])) == summary["idle_ns"]
    assert (code["nodes"][-1]["name"], code["nodes"][-1]["num_members"]) == ("(smaller ones)", 10)


def test_the_page_draws_an_icicle_that_is_gone_into_and_a_table(open_html: Open, tmp_path: Path) -> None:
    report = analyze(model_file(tmp_path), by=("module", "line"))
    wt.save(report, tmp_path / "out.html")
    page = open_html((tmp_path / "out.html").read_text())
    assert page.locator("nav a[href='#code']").is_visible()
    rows = page.locator("#code-chart g")
    widths = page.locator("#code-chart rect").evaluate_all("rects => rects.map(r => Number(r.getAttribute('width')))")
    names = [text.split(":")[0] for text in rows.evaluate_all("gs => gs.map(g => g.getAttribute('aria-label'))")]
    assert names[:3] == ["Net_0", "Net_0 › Layer_0", "Net_0 › Layer_0 › Linear_0"]
    whole = widths[0] + widths[-1]  # the drawn share is the measured one
    assert [round(160 * width / whole) for width in widths] == [140, 70, 30, 40, 70, 30, 40, 20]
    rows.nth(1).click()
    assert page.locator("#code-path").inner_text() == "all › Net_0 › Layer_0"
    assert rows.count() == 4  # what is above it, it, and its two Linears
    rows.nth(2).hover()
    assert "30.0 µs, 42.9 % of Layer_0" in page.locator("#tooltip, .tooltip, .tip").first.inner_text()
    page.locator("#code-tools button", has_text="Fold equal siblings").click()
    assert page.locator('[data-table="code"] tbody tr').count() == 4
    page.locator("#code-filter input").fill("linear")
    assert page.locator('[data-table="code"] tbody tr').inner_text().startswith("Layer ×2 › Linear ×4")
    page.locator("#code-tools button", has_text="Functions").click()
    page.locator("#code-filter input").fill("")
    assert "train.py(3): main" in page.locator("#code-chart").inner_text()
    legend = page.locator("#code-legend .swatch").evaluate_all("keys => keys.map(k => k.className.split(' ').pop())")
    drawn = page.locator("#code-chart rect").evaluate_all("rects => rects.map(r => r.getAttribute('class'))")
    assert set(drawn) <= set(legend)


def test_a_page_without_has_no_section_of_it(open_html: Open, tmp_path: Path) -> None:
    wt.save(analyze(model_file(tmp_path)), tmp_path / "out.html")
    page = open_html((tmp_path / "out.html").read_text())
    assert not page.locator("#code").is_visible() and not page.locator("nav a[href='#code']").is_visible()


def test_figures_hold_every_node_and_their_parts_add_up(tmp_path: Path) -> None:
    report = analyze(model_file(tmp_path), by=("module", "line"))
    drawn = wt.figure(report, "modules").data[0]
    assert list(drawn.labels) == [
        "Net_0",
        "Layer_0",
        "Linear_0",
        "Linear_1",
        "Layer_1",
        "Linear_2",
        "Linear_3",
        "(outside)",
    ]
    assert list(drawn.parents) == ["", "0", "1", "1", "0", "4", "4", ""]
    assert [value // 1000 for value in drawn.values] == [140, 70, 30, 40, 70, 30, 40, 20]
    assert list(wt.figure(report, "functions").data[0].labels) == ["train.py(3): main"]
    with pytest.raises(WeftraceError, match='by="module"'):
        wt.figure(analyze(tmp_path / "rank0.json"), "modules")


def test_a_deep_stack_shows_what_one_went_into(open_html: Open, tmp_path: Path) -> None:
    file = TraceFile()
    for at in range(60):
        file.host(f"m{at}.py({at + 1}): f{at}", at, 900 - 2 * at, cat="python_function")
    file.kernel(GEMM, 500, 20, launch=400).kernel(GEMM, 950, 20, launch=930)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**file.facts, "traceEvents": file.events}))
    wt.save(analyze(path, by="line"), tmp_path / "out.html")
    page = open_html((tmp_path / "out.html").read_text())
    page.locator("#code-filter input").fill("f59")
    page.locator("#code-table tbody button.find").first.click()
    assert page.locator("#code-path").inner_text().startswith("all › … › m53.py(54): f53 › ")
    assert page.locator("#code-path b").inner_text() == "m59.py(60): f59"
    assert page.locator("#code-chart svg").bounding_box()["height"] == 7 * 30  # type: ignore[index]
    assert page.locator("#code-chart g").last.get_attribute("aria-label").endswith("f59: 20.0 µs")  # type: ignore[union-attr]
    legend = page.locator("#code-legend .key").all_inner_texts()
    assert legend[-1] == "53 other classes, (outside)"  # one colour for both

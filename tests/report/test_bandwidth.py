"""Bandwidth of collectives as it is drawn: on the page, as a figure, in the terminal and in Markdown."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.report import job_documents
from tests.tracefile import ALL_REDUCE, TraceFile, collective
from weftrace.errors import WeftraceError
from weftrace.report import analyze, print_report, render_html
from weftrace.report.document import report_document
from weftrace.report.render.figures_bandwidth import bandwidth_figure
from weftrace.report.render.tables import to_markdown

US = 1_000


def row(kind: str, size: int, basis: str, whole: float, transfer: float | None) -> dict[str, Any]:
    """whole, transfer: busbw in GB/s, of collectives whose factor is 1."""
    return {
        "collective": kind, "group": "dp [0, 1]", "group_size": 2, "payload_bytes": size, "num_events": 4,
        "num_matched": 0 if transfer is None else 2, "total_ns": 4 * round(size / whole),
        "whole_ns": round(size / whole), "whole_busbw_GBps": whole, "basis": basis,
        "transfer_ns": None if transfer is None else round(size / transfer), "algbw_GBps": transfer,
        "busbw_GBps": transfer, "least_busbw_GBps": transfer, "best_busbw_GBps": transfer, "uncertainty_ns": US,
    }  # fmt: skip


def job() -> Any:
    """An all-reduce that waits for nine tenths, a reduce of which a member's file is absent, and a broadcast of which
    only the whole is known."""
    document = job_documents.late_job(4)
    document["bandwidth"] = {
        "rows": [
            row("all_reduce", 64 << 20, "all ranks", 10.0, 100.0),
            row("reduce", 1 << 20, "ranks present", 20.0, 40.0),
            row("broadcast", 1 << 10, "whole", 0.05, None),
        ],
        "num_ranks": 4, "num_rows_left": 3, "left_ns": 70 * US, "num_unsized": 5, "num_without_factor": 0,
        "num_left_early": 0,
    }  # fmt: skip
    return report_document(document, "job")


PLACES = """() => [...document.querySelectorAll("#bandwidth .spot")].map((spot) =>
  [...spot.querySelectorAll("circle, path")].map((mark) => {
    const { x, y, width, height } = mark.getBBox();
    return [mark.tagName, mark.getAttribute("class"), x + width / 2, y + height / 2];
  }))"""


def test_the_scatter_has_a_mark_of_the_whole_and_one_of_the_transfer(open_html: Any) -> None:
    page = open_html(render_html(job(), []))
    all_reduce, reduce, broadcast = page.evaluate(PLACES)
    assert [mark[:2] for mark in all_reduce] == [["circle", "waiting"], ["circle", "communication"]]
    assert [mark[:2] for mark in reduce] == [["circle", "waiting"], ["path", "communication"]], "a triangle: at least"
    assert [mark[:2] for mark in broadcast] == [["circle", "waiting"]]
    decade = all_reduce[0][3] - all_reduce[1][3]  # from 10 to 100 GB/s
    assert all_reduce[0][2] == pytest.approx(all_reduce[1][2], abs=0.1)
    assert reduce[0][3] - reduce[1][3] == pytest.approx(0.301 * decade, abs=1), "twice as fast"
    assert all_reduce[0][2] - reduce[0][2] == pytest.approx(0.6 * (reduce[0][2] - broadcast[0][2]), abs=1), "64: 1,024"
    page.locator("#bandwidth .spot circle.communication").hover()
    tip = page.locator("#tooltip").inner_text()
    assert "all_reduce, 64.0 MiB" in tip and "dp [0, 1]" in tip and "100.0 GB/s" in tip
    cells = page.locator("#bandwidth-table tbody tr").nth(1).inner_text()
    assert "≥40.0" in cells and "ranks present" in cells
    rest = page.locator("#bandwidth-rest").inner_text()
    assert rest == "Not listed: 3 rows that took less, 70.0 µs in all. In no row because no size is recorded: 5 events."


def test_where_only_the_whole_is_known_the_page_says_so(open_html: Any) -> None:
    document = job()
    document["bandwidth"]["rows"] = [row("broadcast", 1 << 10, "whole", 0.05, None)]
    page = open_html(render_html(document, []))
    assert page.locator("#bandwidth-table thead").inner_text().replace("?", "").split()[-2:] == ["whole", "GB/s"]
    assert (
        page.locator("#bandwidth-rest").inner_text().startswith("Only the whole duration is known, including waiting")
    )


def test_a_page_without_sizes_has_no_bandwidth(open_html: Any) -> None:
    page = open_html(render_html(job_documents.late_job(4), []))
    assert page.locator("#bandwidth").is_hidden()


def test_terminal_and_markdown_say_what_is_a_bound() -> None:
    text = io.StringIO()
    print_report(job(), Console(file=text, width=100))
    part = text.getvalue().partition("\nBandwidth")[2].partition("\n\n")[0]
    lines = [line.split() for line in part.splitlines()]
    assert lines[2] == ["all_reduce", "2", "64.0", "MiB", "10.0", "671.1", "100.0", "100.0", "all", "ranks"]
    assert lines[3][-4:] == ["≥40.0", "≥40.0", "ranks", "present"]
    assert lines[4][-2:] == ["–", "whole"]
    assert "3 rows more; the JSON report leaves out 3 of them (70.0 µs); 5 events record no size." in " ".join(
        part.split()
    )
    assert "| 1.0 MiB | 4 | 20.0 GB/s | ≥40.0 GB/s | ≥40.0 GB/s | ranks present |" in to_markdown(job())


def test_peaks_notes_and_algbw_are_shown_where_they_are_known(open_html: Any) -> None:
    """An all-reduce that reached a fifth of its link, one that is above it, and an all-to-all of an unknown group."""
    document = job()
    first, second, third = document["bandwidth"]["rows"]
    first |= {"bound": "link", "peak_GBps": 450.0, "peak_share": 100 / 450, "sized_by": None, "note": None}
    third |= {"whole_busbw_GBps": None, "group_size": None, "sized_by": "shapes", "whole_ns": 2_048}
    second |= {"bound": None, "peak_GBps": None, "peak_share": None, "sized_by": None, "note": None}
    document["bandwidth"]["notes"] = ["all_reduce of 64.0 MiB: 500.0 GB/s is above the link's peak: why."]
    document = report_document(document, "job")
    text = io.StringIO()
    print_report(document, Console(file=text, width=120))
    part = text.getvalue().partition("\nBandwidth")[2].partition("\n\n")[0]
    lines = [line.split() for line in part.splitlines()]
    assert lines[2][-4:] == ["22.2", "%", "all", "ranks"] and lines[4][4:6] == ["0.5", "algbw"]
    assert "above the link's peak: why." in part
    page = open_html(render_html(document, []))
    assert document["bandwidth"] is not None
    assert page.locator("#bandwidth-notes li").all_inner_texts() == document["bandwidth"]["notes"]
    cells = page.locator("#bandwidth-table tbody tr").first.inner_text()
    assert "450" in cells and "22.2" in cells
    assert "0.5 algbw" in page.locator("#bandwidth-table tbody tr").nth(2).inner_text()


def test_one_rank_alone_has_its_bandwidth_with_what_is_inside_of_it(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {
        "In msg nelems": 1_000_000, "Out msg nelems": 1_000_000, "dtype": "Float", "Group size": 8,
        "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
    }  # fmt: skip
    file = TraceFile(world_size=8).kernel(ALL_REDUCE, 100, 1_000, **collective("allreduce"), **sizes)
    text = io.StringIO()
    print_report(analyze(file.write(tmp_path / "rank0.json"), timelines=False).document, Console(file=text, width=100))
    part = text.getvalue().partition("\nBandwidth")[2]
    assert "With one rank alone" in part and "waiting for other ranks inside" in part
    # 4 MB in 1 ms x 2 x 7/8 = 7 GB/s, of an H800's 160; of an H100's, which the user knows better, 450
    other = analyze(tmp_path / "rank0.json", timelines=False, hardware="H100 SXM").document["bandwidth"]
    assert other is not None and other["rows"][0]["peak_share"] == pytest.approx(7 / 450)
    assert "7.0" in part.splitlines()[2] and "≥4.4 %" in part.splitlines()[2]


def test_the_figure_has_both_series() -> None:
    pytest.importorskip("plotly")
    whole, transfer = bandwidth_figure(job()).data
    assert list(whole.y) == [10.0, 20.0, 0.05] and list(transfer.y) == [100.0, 40.0]
    assert list(transfer.x) == [64 << 20, 1 << 20]
    assert list(transfer.marker.symbol) == ["circle", "triangle-up"]
    with pytest.raises(WeftraceError, match="size and group"):
        bandwidth_figure(job_documents.late_job(4))

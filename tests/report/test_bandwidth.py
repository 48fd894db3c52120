"""Bandwidth of collectives as it is drawn: on the page, as a figure, in the terminal and in Markdown."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tests.report import job_documents
from weftrace.errors import WeftraceError
from weftrace.report import print_report, render_html
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
    assert rest == "3 rows that took less, 70.0 µs in all, are not listed. 5 events record no size, and are in no row."


def test_where_only_the_whole_is_known_the_page_says_so(open_html: Any) -> None:
    document = job()
    document["bandwidth"]["rows"] = [row("broadcast", 1 << 10, "whole", 0.05, None)]
    page = open_html(render_html(document, []))
    assert page.locator("#bandwidth-table thead").inner_text().replace("?", "").split()[-2:] == ["whole", "GB/s"]
    assert page.locator("#bandwidth-rest").inner_text().startswith("Only the whole is known, with waiting inside")


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
    assert "3 rows more, of which 3 (70.0 µs) are in no document; 5 events record no size." in " ".join(part.split())
    assert "| 1.0 MiB | 4 | 20.0 GB/s | ≥40.0 GB/s | ≥40.0 GB/s | ranks present |" in to_markdown(job())


def test_the_figure_has_both_series() -> None:
    pytest.importorskip("plotly")
    whole, transfer = bandwidth_figure(job()).data
    assert list(whole.y) == [10.0, 20.0, 0.05] and list(transfer.y) == [100.0, 40.0]
    assert list(transfer.x) == [64 << 20, 1 << 20]
    assert list(transfer.marker.symbol) == ["circle", "triangle-up"]
    with pytest.raises(WeftraceError, match="size and group"):
        bandwidth_figure(job_documents.late_job(4))

"""What is taken along from a table is all of it, exact, under the document's names."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import Open, wait_until
from tests.flops.small_reports import TINY
from tests.render.extreme_pages import strained
from tests.report import job_documents
from tests.report.test_code import model_file
from weftrace.flops.render.page import render_flops_html
from weftrace.report import analyze, render_html

if TYPE_CHECKING:
    from playwright.sync_api import Page


def saved(page: Page, table: str, kind: str) -> str:
    """The text of the file that a table's button saves."""
    with page.expect_download() as download:
        page.locator(f'{table} .export button:text-is("{kind}")').click()
    assert download.value.suggested_filename.endswith(f".{kind.lower()}")
    return Path(download.value.path()).read_text("utf-8")


@pytest.fixture
def report(tmp_path: Path) -> Any:
    return strained(tmp_path)


def test_all_rows_are_saved_as_the_document_has_them(open_html: Open, report: Any) -> None:
    page = open_html(render_html(report.document, report.timelines))
    rank = report.document["ranks"][0]
    for table, key in (("kernels", "kernels"), ("stalls", None), ("steps", "steps"), ("collectives", "collectives")):
        wanted = rank[key] if key else rank["launch"]["host_stalls"]
        plain = [{name: v for name, v in row.items() if not isinstance(v, dict | list)} for row in wanted]
        rows = json.loads(saved(page, f'[data-table="{table}"]', "JSON"))
        assert len(rows) == len(plain)  # also those behind "Show all"
        for row in rows:
            assert any(row.items() >= one.items() for one in plain), row
    cells = list(csv.reader(io.StringIO(saved(page, '[data-table="kernels"]', "CSV"), newline="")))
    assert cells[0][: len(rank["kernels"][0])] == list(rank["kernels"][0])
    assert sorted(int(row[cells[0].index("total_ns")]) for row in cells[1:]) == sorted(
        kernel["total_ns"] for kernel in rank["kernels"]
    )
    assert {row[0] for row in cells[1:]} == {kernel["name"] for kernel in rank["kernels"]}  # quoted commas and all


def test_what_a_filter_hides_is_left_out_and_the_order_is_that_on_the_screen(open_html: Open, report: Any) -> None:
    page = open_html(render_html(report.document, report.timelines))
    page.locator("#kernel-kind").select_option("communication")
    page.locator('[data-table="kernels"] button[data-sort="total_ns"]').click()  # the least first
    rows = json.loads(saved(page, '[data-table="kernels"]', "JSON"))
    assert {row["kind"] for row in rows} == {"communication"}
    assert [row["total_ns"] for row in rows] == sorted(row["total_ns"] for row in rows)


def test_copying_gives_a_spreadsheet_its_columns(open_html: Open, report: Any) -> None:
    page = open_html(render_html(report.document, report.timelines))
    page.evaluate("""() => {  // a page of a file may have no clipboard: what would have been copied the old way
      Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true });
      document.execCommand = () => { window.copied = document.activeElement.value; return true; };
    }""")
    page.locator('[data-table="families"] .export button:text-is("Copy")').click()
    wait_until(page, "window.copied")
    lines = page.evaluate("window.copied").splitlines()
    families = report.document["ranks"][0]["families"]
    assert lines[0].split("\t")[:5] == list(families[0]) and len(lines) == 1 + len(families)


def test_a_name_is_no_formula_of_a_spreadsheet(open_html: Open, report: Any) -> None:
    document = report.document
    document["ranks"][0]["families"][0]["family"] = '=HYPERLINK("http://x", "a")'
    page = open_html(render_html(document, []))
    text = saved(page, '[data-table="families"]', "CSV")
    assert '"\'=HYPERLINK(""http://x"", ""a"")"' in text
    assert "=HYPERLINK" in {row["family"][:10] for row in json.loads(saved(page, '[data-table="families"]', "JSON"))}


def test_other_tables_too(open_html: Open, report: Any) -> None:
    """The overlap matrix, and the tree of modules, closed as it is."""
    page = open_html(render_html(report.document, []))
    matrix = report.document["ranks"][0]["overlap_matrix"]
    rows = json.loads(saved(page, "#matrix", "JSON"))
    assert [row["communication"] for row in rows] == matrix["communication"]
    assert [row["hidden_ns"] for row in rows] == matrix["hidden_ns"]
    page = open_html(render_flops_html(TINY, "h100"))
    page.locator("#tree-tools button", has_text="Close all").click()
    modules = json.loads(saved(page, "#tree", "JSON"))
    assert [row["path"] for row in modules] == [module.path for module in TINY.modules]
    assert modules[0]["params"] == 48


def test_a_module_is_saved_with_its_path(open_html: Open, tmp_path: Path) -> None:
    report = analyze(model_file(tmp_path), by="module")
    page = open_html(render_html(report.document, []))
    rows = json.loads(saved(page, '[data-table="code"]', "JSON"))
    code: Any = report.document["ranks"][0]["modules"]
    assert {row["path"] for row in rows} >= {"Net_0 > Layer_0 > Linear_1", "(outside)"}
    for row in rows:  # and with nothing that is not the document's, but the share that the column shows
        (node,) = [each for each in (*code["nodes"], code["outside"]) if each["name"] == row["name"]]
        assert row.keys() - node.keys() == {"path", "share"}
        assert all(row[key] == node[key] for key in row.keys() & node.keys()), row


def test_a_number_that_a_browser_would_round_is_left_out(open_html: Open) -> None:
    """Nanoseconds since 1970 do not fit a float64: 1,700,000,000,000,000,001 would become …,000."""
    document = job_documents.late_job(3)
    for rank in document["ranks"]:
        rank["start_ns"] = 1_700_000_000_000_000_001
    rows = json.loads(saved(open_html(render_html(document, [])), '[data-table="ranks"]', "JSON"))
    assert [row["span_ns"] for row in rows] == [rank["span_ns"] for rank in document["ranks"]]
    assert not [row for row in rows if "start_ns" in row]

"""The report as Markdown to paste and its kernels as CSV: by hand on a small document, and safe with hostile names."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

import weftrace as wt
from tests.report import documents
from tests.report.job_documents import late_job
from weftrace.report import Report
from weftrace.report.render.tables import kernels_csv, to_markdown


def test_markdown_by_hand() -> None:
    text = to_markdown(documents.document())
    assert text.startswith("**82.1 % of communication is hidden behind computation, and the largest loss ")
    assert "weftrace 0.1.0 of train.json.gz" in text
    rows = text.splitlines()
    # span 20.5 ms: compute 18.2, exposed communication 2.0, exposed memory 0.2, idle 0.1
    assert (
        "| rank 0 | 20.5 ms | 18.2 ms (88.8 %) | 2.00 ms (9.8 %) | 200 µs (1.0 %) | 100 µs (0.5 %) | 82.1 % |  |"
    ) in rows
    assert "| mlp(B) | compute | 2 | 3.00 ms |  |  |" in rows
    assert "| combine(F) | communication | 2 | 1.50 ms | 500 µs | 1.00 ms |" in rows


def test_markdown_says_why_the_device_waited() -> None:
    document = documents.document()
    rows = to_markdown(document).splitlines()
    at = rows.index("| cause | time | of idle | gaps | where |")
    assert rows[at + 2] == "| data loading | 50.0 µs | 50.0 % | 3 | resize of data/pictures.py |"
    assert rows[at + 4] == "| unrecorded work | 25.0 µs | 25.0 % | 3 |  |"
    del document["ranks"][0]["idle_account"]  # a report of an earlier version
    assert "| cause |" not in to_markdown(document)


def test_markdown_of_a_job_tells_what_is_missing() -> None:
    text = to_markdown(documents.job())
    assert text.index("| rank 3 |") < text.index("| rank 0 |"), "the longest span first"
    assert "3 dropped" in next(row for row in text.splitlines() if row.startswith("| rank 1 |"))
    assert "- not used: rank8.json.gz: not a trace: no traceEvents" in text


@pytest.mark.parametrize("name", ["nothing", "hostile", "no_phases", "cpu_only", "no_communication"])
def test_every_table_keeps_its_shape(name: str) -> None:
    document = getattr(documents, name)()
    text = to_markdown(document)
    assert "\x1b" not in text and "<img" not in text.replace("\\<img", "")
    widths = [row.replace("\\|", "").count("|") for row in text.splitlines() if row.startswith("|")]
    assert set(widths) <= {9, 7, 6}
    read = list(csv.reader(io.StringIO(kernels_csv(document))))
    assert {len(row) for row in read} == {15}
    assert len(read) == 1 + sum(len(rank["kernels"]) for rank in document["ranks"])


def test_kernels_are_those_of_the_document() -> None:
    document: Any = documents.job(2)
    rows = list(csv.DictReader(io.StringIO(kernels_csv(document))))
    summary = [(rank["rank"], kernel) for rank in document["ranks"] for kernel in rank["kernels"]]
    assert [(row["rank"], row["name"], row["total_ns"]) for row in rows] == [
        (str(rank), kernel["name"], str(kernel["total_ns"])) for rank, kernel in summary
    ]


def test_ranks_in_no_sum_are_in_no_column_that_is_added_up() -> None:
    document: Any = documents.job(3)
    document["ranks"][1]["apart"] = "duplicate"
    assert {row["rank"] for row in csv.DictReader(io.StringIO(kernels_csv(document)))} == {"0", "2"}
    line = next(row for row in to_markdown(document).splitlines() if row.startswith("| rank 1 |"))
    assert line.endswith("| not counted in the job; 3 dropped |")


def test_a_report_is_saved_as_both(tmp_path: Path) -> None:
    report = Report(document=documents.document())
    wt.save(report, tmp_path / "report.md", tmp_path / "kernels.csv")
    assert (tmp_path / "report.md").read_text("utf-8") == to_markdown(report.document)
    assert (tmp_path / "kernels.csv").read_text("utf-8") == kernels_csv(report.document)


def test_markdown_of_a_job_names_the_late_rank_first() -> None:
    rows = to_markdown(late_job()).splitlines()
    head = rows.index("| rank | caused by it | late by | waited | entered last |")
    assert rows[head + 2] == "| rank 1 | 18.0 ms | 6.00 ms | 0 ns | 2 of 3 |"
    assert rows[head + 3].startswith("| rank 0 | 0 ns | 0 ns | 6.00 ms |")

"""`weftrace.diff/1`: what it says adds up, follows its schema, and is read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl

import weftrace as wt
from tests.comparison.written import Step, run
from weftrace.comparison.document import DiffReport, diff_report
from weftrace.comparison.outputs import REPORT
from weftrace.files.documents import SEAL, document_text, read_document
from weftrace.files.schemas import schema_for


def written(report: DiffReport) -> Any:
    """As the file has it."""
    assert REPORT.document is not None
    return REPORT.document(report)


def checked(document: Any) -> Any:
    """The document as it is in a file, without its seal, once it is what its schema says."""
    summary = json.loads(document_text(document))
    jsonschema.Draft202012Validator(schema_for(REPORT).json_schema()).validate(summary)
    return {key: each for key, each in summary.items() if key != SEAL}


def test_parts_and_remainder_add_up_to_the_change_of_the_median_step(tmp_path: Path) -> None:
    before = run(tmp_path, [Step(gemms_us=(us, us)) for us in (100, 101, 102, 103, 100)], name="before")
    after = run(tmp_path, [Step(gemms_us=(us, us), hidden_us=90) for us in (130, 131, 150, 130, 130)], name="after")
    document = checked(written(diff_report(wt.diff(before, after))))
    assert document["change_ns"] == document["after"]["median_ns"] - document["before"]["median_ns"]
    assert sum(row["change_ns"] for row in document["parts"]) + document["remainder_ns"] == document["change_ns"]
    assert document["remainder_ns"] != 0
    for row in document["parts"]:
        effects = sum(row[f"by_{effect}_ns"] for effect in ("number", "duration", "overlap", "kernel"))
        assert effects == row["change_ns"] == row["after_ns"] - row["before_ns"]
    by_part = {row["part"]: row["change_ns"] for row in document["parts"]}
    assert list(by_part) == ["compute", "exposed communication", "idle"]
    assert by_part["exposed communication"] == -70_000


def test_a_report_is_saved_and_read_back_as_it_was(tmp_path: Path) -> None:
    found = wt.diff(run(tmp_path, [Step()], name="a"), run(tmp_path, [Step(gemms_us=(120, 100, 100))], name="b"))
    wt.save(found, tmp_path / "diff.json", tmp_path / "diff.csv", tmp_path / "diff.md")
    again = wt.load(tmp_path / "diff.json")
    assert isinstance(again, DiffReport) and read_document(tmp_path / "diff.json") == checked(
        written(diff_report(found))
    )
    wt.save(again, tmp_path / "again.json.gz")
    assert read_document(tmp_path / "again.json.gz") == read_document(tmp_path / "diff.json")
    movers = pl.read_csv(tmp_path / "diff.csv").filter(pl.col("change_ns") == 20_000)
    assert {("family", "gemm")} <= set(movers.select("level", "name").rows())

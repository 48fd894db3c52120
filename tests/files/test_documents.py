"""Documents as files: short ones indented, the tables of long ones as columns, and both read back as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.report import documents
from weftrace.errors import DocumentError
from weftrace.files.documents import document_text, read_document, write_document
from weftrace.files.schemas import schemas


def long_report() -> dict[str, Any]:
    report: dict[str, Any] = documents.document(documents.rank(documents.layers(60), number=0))
    rank = report["ranks"][0]
    rank["phases"] = [{**rank["phases"][at % 60], "start_ns": at} for at in range(20_000)]
    return report


def test_tables_of_a_long_document_stand_as_columns(tmp_path: Path) -> None:
    report = long_report()
    write_document(report, tmp_path / "report.json")
    text = (tmp_path / "report.json").read_bytes()
    phases = json.loads(text)["ranks"][0]["phases"]["as_columns"]
    assert phases["start_ns"] == list(range(20_000)) and phases["layer"] is None
    assert len(text) < 0.5 * len(json.dumps(report, separators=(",", ":")))
    assert read_document(tmp_path / "report.json") == report
    schema = next(each for each in schemas() if each.schema == report["schema"])
    jsonschema.validate(json.loads(text), json.loads(schema.text()))
    few = {**report, "ranks": [{**report["ranks"][0], "phases": report["ranks"][0]["phases"][:9]}]}
    jsonschema.validate(few, json.loads(schema.text()))


def test_a_short_document_is_read_by_eye() -> None:
    text = document_text(documents.document(documents.rank(documents.layers(60), number=0)))
    assert b"as_columns" not in text and text.count(b"\n") > 1_000


def test_rows_come_back_whatever_they_hold(tmp_path: Path) -> None:
    inner = [{"a": at, "same": 1} for at in range(200)]
    value = {
        "alike": [{"a": 1, "b": None}] * 500,
        "nested": [{"rows": inner, "list": [at], "empty": [], "flag": True} for at in range(120)],
        "mixed": [{"a": 1}, {"b": 2}] * 300,
        "few": inner[:5],
        "true or one": [{"x": True, "y": 0}, {"x": 1, "y": 1}] * 100,
        "long": "x" * 4_000_000,
    }
    write_document(value, tmp_path / "value.json")
    assert b"as_columns" in (tmp_path / "value.json").read_bytes()
    assert json.dumps(read_document(tmp_path / "value.json")) == json.dumps(value)


@pytest.mark.parametrize("columns", [{"a": [1, 2], "b": [1]}, 5, [1], None])
def test_columns_that_do_not_fit_together_are_refused(columns: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(json.dumps({"schema": "x", "rows": {"as_columns": columns}}))
    with pytest.raises(DocumentError, match="columns of a table do not fit together"):
        read_document(tmp_path / "bad.json")

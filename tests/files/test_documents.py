"""Documents as files: short ones indented, the tables of long ones as columns, and both read back as they were."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import zstandard

from tests.fuzz import is_thorough
from tests.report import documents
from weftrace.errors import DocumentError
from weftrace.files.documents import SEAL, document_text, read_bytes, read_document, toml_of, write_document
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


def refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(DocumentError) as error:
        read_document(path)
    return str(error.value).replace(f"{path}: ", "")


def test_a_changed_value_is_told_and_another_format_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    document = {"schema": "weftrace.x/1", "weftrace": "1", "a": [1, 2.0, None], "b": {"2": "é", "10": float("nan")}}
    write_document(document, path)
    text = path.read_bytes()
    whole = read_document(path)
    assert whole == {**document, "b": {"2": "é", "10": None}}
    path.write_text(json.dumps(json.loads(text), indent=7))
    assert read_document(path) == whole
    assert refused(path, text.replace(b"2.0", b"3.0")).startswith("was changed since weftrace wrote it")
    path.write_text(json.dumps({key: each for key, each in json.loads(text).items() if key != "sha256"} | {"a": 5}))
    assert read_document(path)["a"] == 5


def test_each_flipped_bit_of_a_document_is_told_or_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_document(documents.document(documents.rank(documents.layers(2), number=0)), path)
    whole, text = read_document(path), path.read_bytes()
    rng = random.Random(0)
    for bit in rng.sample(range(8 * len(text)), 1_000 if is_thorough() else 100):
        flipped = bytearray(text)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert read_document(path) | {SEAL: 0} == whole | {SEAL: 0}, bit
        except DocumentError:
            continue


def test_a_document_of_no_use_is_refused_before_it_takes_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weftrace.files.documents.MOST_VALUES", 1_000)
    path = tmp_path / "x.json"
    path.write_bytes(gzip.compress(b'{"a": "' + b"x" * 3_000_000))
    with pytest.raises(DocumentError, match=r"has more than 976.6 KiB"):
        read_bytes(path, most=1_000_000)
    assert refused(path, b"[" * 500_000) == "holds more than 1,000 values, the most that are read of a document"
    monkeypatch.undo()
    assert refused(path, b'{"a":' * 5_000) == "not a document: nested too deeply"
    assert refused(path, b'{"as_columns":{"a":' * 900 + b"1" + b"}}" * 900).startswith("not a document: nested")


@pytest.mark.parametrize("number", ["9" * 5_000, "-1e999", "1e+000400"])
def test_a_number_that_is_too_large_is_refused_with_its_place(number: str, tmp_path: Path) -> None:
    summary = refused(tmp_path / "x.json", f'{{"a": [1, {{"b": {number}}}]}}'.encode())
    assert summary.endswith(" - at `$.a[1].b`") and len(summary) < 100


@pytest.mark.parametrize("column", [{"x": 1}, {"as_columns": {"a": [1, 2, 3]}}])
def test_a_column_is_a_list_or_one_plain_value(column: Any, tmp_path: Path) -> None:
    """An object in each of a million rows would be walked a million times."""
    text = json.dumps({"rows": {"as_columns": {"a": [1, 2], "b": column}}})
    assert "columns of a table do not fit together" in refused(tmp_path / "x.json", text.encode())


def test_only_a_text_that_ends_early_is_called_cut(tmp_path: Path) -> None:
    assert "cut off" in refused(tmp_path / "x.json", b'{"schema": "weftr')
    assert "not JSON" in refused(tmp_path / "x.json", b'{"schema": "\\ud800"}')


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress])
def test_damaged_compression_is_told(packed: Callable[[bytes], bytes], tmp_path: Path) -> None:
    whole = packed(json.dumps({"schema": "x", "rows": list(range(9_000))}).encode())
    for data in (whole[: len(whole) // 2], whole[:60] + bytes([whole[60] ^ 8]) + whole[61:]):
        assert "cut off" in refused(tmp_path / "x.json.gz", data)


@pytest.mark.parametrize("text", ["a = " + "[" * 9_000, "a = " + "9" * 5_000, "a = 1979-13-01", "a = ", "[[a]"])
def test_no_toml_is_told_in_one_line(text: str) -> None:
    with pytest.raises(DocumentError, match=r"^f\.toml: not TOML: .{5,180}; a hint$"):
        toml_of(text, "f.toml", hint="; a hint")

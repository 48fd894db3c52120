"""`-` is standard input: read like a file, by every command that takes a trace."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.cli.test_cli import Run, run, small
from weftrace.files import standard_input
from weftrace.trace import read, save_parquet

__all__ = ["run"]  # a fixture


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[bytes], None]]:
    """Makes bytes be what standard input holds; what is kept of it lies in a folder of its own."""
    folder = tmp_path / "kept"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))

    def given(data: bytes) -> None:
        standard_input._kept.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    yield given
    standard_input._kept.cache_clear()


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_a_trace_comes_through_a_pipe(run: Run, pipe: Any, tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    train = small().write(tmp_path / "train.json")
    expected = json.loads(run("report", train, "--json")[1])["ranks"][0]
    pipe(packed(train.read_bytes()))
    code, out, err = run("-", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["ranks"][0] == {**expected, "path": "standard input"}


def test_an_error_calls_it_standard_input(run: Run, pipe: Any) -> None:
    pipe(b"<\x91\xff\x00\x01\x02" * 20)
    code, _, err = run("-")
    assert code == 3
    assert err.startswith("weftrace: standard input: is not trace JSON: it seems to be binary data.")


def test_other_commands_read_it_too_and_workers_of_a_job(run: Run, pipe: Any, tmp_path: Path) -> None:
    train = small().write(tmp_path / "train.json")
    pipe(train.read_bytes())
    assert "Nothing changed" in run("diff", train, "-")[1]
    assert run("query", "-", "select count(*) as n from events", "--json")[0] == 0
    assert run("lanes", "-", "-q")[0] == 0
    assert run("annotate", "-", "-o", tmp_path / "annotated.json")[0] == 0
    other = small(1).write(tmp_path / "rank1.json")
    assert len(json.loads(run("report", "-", other, "--json", "--workers", 1)[1])["ranks"]) == 2
    code, _, err = run("annotate", "-", "--in-place")
    assert code == 2 and "standard input is no file" in err and not Path("-").exists()


def test_parquet_and_a_saved_report_come_through_a_pipe(run: Run, pipe: Any, tmp_path: Path) -> None:
    train = small().write(tmp_path / "train.json")
    save_parquet(read(train), tmp_path / "train.parquet")
    pipe((tmp_path / "train.parquet").read_bytes())
    assert json.loads(run("-", "--json")[1])["ranks"][0]["span_ns"] == 150_000
    run("report", train, "-q", "-o", tmp_path / "saved.json")
    pipe((tmp_path / "saved.json").read_bytes())
    assert run("diff", "-", train)[0] == 0


def test_an_empty_pipe_and_a_terminal_are_told(run: Run, pipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(b"")
    assert run("report", "-")[::2] == (3, f"weftrace: standard input is empty: {EMPTY}\n")
    pipe(b"{}")
    monkeypatch.setattr(sys.stdin.buffer, "isatty", lambda: True, raising=False)
    code, _, err = run("report", "-")
    assert code == 3 and "standard input is a terminal. Pipe a trace into it" in err
    pipe(b"hello")
    assert run("report", "-")[0] == 3


EMPTY = "did what writes to it fail? Pipe a trace into it: zstdcat train.json.zst | weftrace report -"

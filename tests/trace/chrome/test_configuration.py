"""How a trace was made goes with it: what weftrace writes, and what a capture puts into torch's file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.tracefile import GEMM, TraceFile
from weftrace.trace import Trace, load_parquet, read_chrome, save_parquet, write_chrome

TOLD = {
    "profile.kind": "train",
    "profile.ep": "64",
    "profile.sms": "112 + 20",
    "capture.torch": "2.10.0",
    "capture.é": "x",
}


def written(folder: Path, **facts: Any) -> Path:
    file = TraceFile(rank=0)
    file.kernel(GEMM, 10, 5)
    path = folder / "rank0.json"
    path.write_text(json.dumps({**file.facts, **facts, "traceEvents": file.events}))
    return path


def trace_of(folder: Path) -> Trace:
    return read_chrome(written(folder))


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_configuration_is_one_object_of_the_file_and_is_read_back(tmp_path: Path, name: str) -> None:
    trace = trace_of(tmp_path)
    assert trace.configuration == {}
    trace = replace(trace, info={**trace.info, **TOLD})
    write_chrome(trace, tmp_path / name)
    again = read_chrome(tmp_path / name)
    assert dict(again.configuration) == TOLD and again == trace
    assert again.info == {**trace.info, "displayTimeUnit": "ms"}
    if name == "t.json":
        assert json.loads((tmp_path / name).read_text())["weftrace"] == TOLD


def test_parquet_keeps_it_too(tmp_path: Path) -> None:
    save_parquet(replace(trace_of(tmp_path), info=TOLD), tmp_path / "t.parquet")
    assert dict(load_parquet(tmp_path / "t.parquet").configuration) == TOLD


@pytest.mark.parametrize("as_text", [False, True])
def test_what_a_capture_put_into_torchs_file_is_read(tmp_path: Path, as_text: bool) -> None:
    summary = {"capture.world_size": 4, "capture.bounded": True, "profile.kind": "prefill", "capture.share": 0.25}
    trace = read_chrome(written(tmp_path, weftrace=json.dumps(summary) if as_text else summary))
    assert dict(trace.configuration) == {
        "capture.world_size": "4", "capture.bounded": "true", "profile.kind": "prefill", "capture.share": "0.25",
    }  # fmt: skip


@pytest.mark.parametrize(
    "summary",
    [None, 7, [], "", "no JSON", {"profile.x": {}, "profile.y": None, "capture.z": [1], "else": "x", "profile": 1}],
)
def test_what_is_none_tells_nothing(tmp_path: Path, summary: Any) -> None:
    assert dict(read_chrome(written(tmp_path, weftrace=summary)).configuration) == {}

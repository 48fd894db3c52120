"""A report drawn as a trace: lengths are the medians, slices nest, and weftrace opens what it wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.flops.small_reports import TINY, UNTIMED, huge
from weftrace.errors import FlopsError, WeftraceError
from weftrace.flops.join.counters import RECONSTRUCTED, annotate_flops, reconstructed_step, write_counters
from weftrace.flops.several.merge import merge
from weftrace.flops.values import Parallel
from weftrace.trace import Trace, open_trace


def opened(path: Path) -> Trace:
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    return trace


def test_the_step_by_pencil() -> None:
    """forward: fc1 110, act 20, fc2 60, the model's own 12, then (outside) 5; backward from the end: fc2 90, act 30,
    fc1 110; optimizer: (outside) 41. The second step of the table in small_reports, the one of median length.
    """
    found = [
        (s.module, s.phase.value[0], s.depth, s.start_ns, s.own_start_ns, s.end_ns) for s in reconstructed_step(TINY)
    ]
    assert found == [
        (None, "f", 0, 0, 207, 207),
        (0, "f", 1, 0, 190, 202),
        (1, "f", 2, 0, 0, 110),
        (2, "f", 2, 110, 110, 130),
        (3, "f", 2, 130, 130, 190),
        (4, "f", 1, 202, 202, 207),
        (None, "b", 0, 207, 437, 437),
        (0, "b", 1, 207, 437, 437),
        (3, "b", 2, 207, 207, 297),
        (2, "b", 2, 297, 297, 327),
        (1, "b", 2, 327, 327, 437),
        (None, "o", 0, 437, 478, 478),
        (4, "o", 1, 437, 437, 478),
    ]


def test_slices_nest_and_add_up() -> None:
    report = huge(200)
    slices = reconstructed_step(report)
    own = sum(s.end_ns - s.own_start_ns for s in slices)
    assert own == max(s.end_ns for s in slices)
    open_ends: list[int] = []
    for each in slices:
        del open_ends[each.depth :]
        assert all(each.end_ns <= end for end in open_ends)
        open_ends.append(each.end_ns)


@pytest.mark.parametrize("name", ["step.json", "step.json.gz"])
def test_weftrace_opens_what_it_wrote(tmp_path: Path, name: str) -> None:
    number = write_counters(TINY, tmp_path / name, "h100")
    trace = opened(tmp_path / name)
    events = trace.events.with_columns(pl.col("name").cast(pl.String))
    assert events.height == 13 and trace.quality.num_dropped == 0
    fc2 = events.filter(pl.col("name") == "fc2")
    assert fc2.get_column("dur_ns").to_list() == [60, 90]
    assert trace.quality.skipped == {"counter": number - 13 - 3}


def test_counters_are_rates_of_each_stretch(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    write_counters(TINY, path, "h100")
    summary = json.loads(path.read_text())
    assert summary["weftrace_reconstructed"] == RECONSTRUCTED
    rates = [(e["ts"], e["args"]["value"]) for e in summary["traceEvents"] if e["ph"] == "C" and e["name"] == "FLOP/s"]
    assert rates[0] == (0, round(192e9 / 110, 3))  # fc1 forward: 192 FLOPs in 110 ns
    assert rates[-1] == (0.478, 0)
    mfu = [e["args"]["value"] for e in summary["traceEvents"] if e["ph"] == "C" and e["name"] == "MFU %"]
    assert len(mfu) == len(rates)
    write_counters(TINY, path)
    assert not any(e["name"] == "MFU %" for e in json.loads(path.read_text())["traceEvents"])


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(FlopsError, match="no module was timed"):
        write_counters(UNTIMED, tmp_path / "x.json")
    with pytest.raises(WeftraceError, match="abacus"):
        write_counters(TINY, tmp_path / "x.json", "abacus")
    assert not list(tmp_path.iterdir())


def test_counters_on_a_profilers_trace(tmp_path: Path) -> None:
    """Forward 10 to 20 µs, backward 20 to 50 µs: 288 FLOPs in 10 µs, 384 in 30 µs."""
    engine = "autograd::engine::evaluate_function: MmBackward0"
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}
        for name, ts, dur in (("aten::mm", 10, 5), ("aten::mm", 15, 5), (engine, 20, 30))
    ]
    source, out = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    annotate_flops(opened(source), replace(TINY, ops=TINY.ops[:-1]), out, device="h100")
    added = [e for e in json.loads(out.read_text())["traceEvents"] if e["ph"] == "C" and e["name"] == "FLOP/s"]
    assert [(e["ts"], e["args"]["value"]) for e in added] == [(10, 28.8e6), (20, 12.8e6), (50, 0)]
    assert opened(out).events.height == 3


def test_rates_of_merged_ranks_are_of_one(tmp_path: Path) -> None:
    """Two ranks that do the same: the counts double, the rates stay."""
    ranks = [replace(TINY, rank=rank, parallel=Parallel(data=2)) for rank in range(2)]
    one, both = tmp_path / "one.json", tmp_path / "both.json"
    write_counters(ranks[0], one, "h100")
    write_counters(merge(ranks), both, "h100")
    documents = [json.loads(path.read_text()) for path in (one, both)]
    rates = [[(e["name"], e["ts"], e["args"]["value"]) for e in d["traceEvents"] if e["ph"] == "C"] for d in documents]
    assert rates[0] == rates[1] and len(rates[0]) > 10
    assert documents[0]["weftrace_notes"] == []
    assert documents[1]["weftrace_notes"] == ["rates are the mean of 2 ranks, counts of all of them together"]


def test_a_report_of_an_unknown_accelerator_has_no_mfu(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    write_counters(replace(TINY, hardware="X900"), path)
    summary = json.loads(path.read_text())
    assert "X900" in summary["weftrace_notes"][0]
    assert {e["name"] for e in summary["traceEvents"] if e["ph"] == "C"} == {"FLOP/s", "bytes/s"}

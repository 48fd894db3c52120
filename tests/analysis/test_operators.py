"""Device time by the operator that launched it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
from hypothesis import given, settings

from tests.analysis.random_traces import random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import operators
from weftrace.trace import Trace, events_frame
from weftrace.units import US


def test_by_pencil(tmp_path: Path) -> None:
    # thread 1   aten::linear ├─────────────────┤ 100-200       aten::linear ├────┤ 300-350     x 400 outside
    #              aten::mm      ├────────┤ 110-150
    # launches                   x 120         x 160                 x 310 x 320
    # thread 2                   x 120, no operator of its own
    file = TraceFile()
    file.host("aten::linear", 100, 100, cat="cpu_op").host("aten::mm", 110, 40, cat="cpu_op")
    file.host("aten::linear", 300, 50, cat="cpu_op").host("a range, not an operator", 0, 1000)
    file.kernel(GEMM, 1000, 40, launch=120).kernel(GEMM, 1100, 10, launch=160)
    file.kernel(GEMM, 1200, 10, launch=310).kernel(GEMM, 1300, 5, launch=320)
    file.kernel(ALL_REDUCE, 1400, 20, launch=400).kernel(GEMM, 1500, 10, launch=120, launch_tid=2)
    file.kernel(GEMM, 1600, 5, linked=False)
    table = operators(file.trace(tmp_path))
    assert table.operators.rows() == [("aten::mm", 1, 1, 40 * US, 0.4), ("aten::linear", 2, 3, 25 * US, 0.25)]
    assert (table.num_without, table.without_ns) == (3, 35 * US)


def test_an_operator_ends_before_its_end_and_begins_at_its_start(tmp_path: Path) -> None:
    file = TraceFile().host("aten::mm", 100, 10, cat="cpu_op")
    file.kernel(GEMM, 200, 1, launch=100).kernel(GEMM, 300, 2, launch=110)
    table = operators(file.trace(tmp_path))
    assert table.operators.get_column("total_ns").to_list() == [1 * US]
    assert table.without_ns == 2 * US


def test_nothing_at_all() -> None:
    table = operators(Trace(events=events_frame({}, 0)))
    assert table.operators.is_empty()
    assert (table.num_without, table.without_ns) == (0, 0)


@settings(max_examples=examples(50))
@given(traces())
def test_agrees_with_looking_at_every_operator(trace: Trace) -> None:
    is_range = pl.col("name").is_in(["attn(F)", "attn(B)", "dispatch(F)"])
    cat = pl.when(is_range).then(pl.lit("cpu_op")).otherwise(pl.col("cat").cast(pl.String)).cast(pl.Categorical())
    work = random_work(replace(trace, events=trace.events.with_columns(cat.alias("cat"))))
    calls = work.trace.events.filter(pl.col("cat") == "cpu_op").to_dicts()
    expected: Counter[str] = Counter()
    for event in work.events.to_dicts():
        thread, at = (event["launch_pid"], event["launch_tid"]), event["launch_ts_ns"]
        mine = [call for call in calls if (call["pid"], call["tid"]) == thread]
        around = [call for call in mine if at is not None and call["ts_ns"] <= at < call["ts_ns"] + call["dur_ns"]]
        inner = max(around, key=lambda call: (call["ts_ns"], -call["dur_ns"]), default={"name": ""})
        expected[inner["name"]] += event["end_ns"] - event["start_ns"]
    table = operators(work)
    without_ns = expected.pop("", 0)
    assert dict(table.operators.select("name", "total_ns").iter_rows()) == dict(expected)
    assert table.without_ns == without_ns
    assert int(table.operators.get_column("num_events").sum()) + table.num_without == work.events.height

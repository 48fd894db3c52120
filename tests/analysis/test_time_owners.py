"""Whose is each nanosecond? By pencil, and in sums that equal the breakdowns exactly."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given, settings

from tests.analysis.random_traces import random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import breakdown, steps
from weftrace.analysis.time_account import Breakdown
from weftrace.analysis.time_owners import PARTS, own_times
from weftrace.trace import Trace, read_chrome, work_of
from weftrace.units import US


def _parts(summary: Breakdown) -> dict[str, int]:
    values = (summary.compute_ns, summary.exposed_communication_ns, summary.exposed_memory_ns, summary.idle_ns)
    return dict(zip(PARTS, values, strict=True))


def _sums(rows: pl.DataFrame) -> dict[str, int]:
    found = dict(rows.group_by("part").agg(pl.col("own_ns").sum()).iter_rows())
    return {part: found.get(part, 0) for part in PARTS}


@settings(max_examples=examples(60), deadline=None)
@given(trace=traces())
def test_owned_times_add_up_to_the_breakdown(trace: Trace) -> None:
    work = random_work(trace)
    rows = own_times(work)
    assert _sums(rows) == _parts(breakdown(work))
    assert (rows["own_ns"] >= 0).all() and (rows["own_ns"] <= rows["union_ns"]).all()
    assert (rows["union_ns"] <= rows["raw_ns"]).all()
    for step in steps(work):
        assert _sums(rows.filter(pl.col("step") == step.step)) == _parts(step.breakdown)
        alone = own_times(work.of_step(step.step))
        assert _sums(alone) == _parts(step.breakdown)


def test_by_pencil(tmp_path: Path) -> None:
    """Two gemms that overlap, an all-reduce half behind them, a copy, a gap that the host makes.

    host     launches at            10 11 12 13 ................ 900
    7        [gemm 100-200]                      [gemm 1000-1100]
    20             [gemm 150-260]
    30             [all-reduce 150-300]
    40                          [copy 280-340]
    """
    file = (
        TraceFile()
        .kernel(GEMM, 100, 100, launch=10).kernel(GEMM, 150, 110, launch=11, stream=20)
        .kernel(ALL_REDUCE, 150, 150, launch=12, stream=30)
        .kernel("Memcpy DtoD (Device -> Device)", 280, 60, launch=13, stream=40, cat="gpu_memcpy")
        .kernel(GEMM, 1000, 100, launch=900)
    )  # fmt: skip
    work = work_of(read_chrome(file.write(tmp_path / "trace.json")))
    rows = own_times(work).select("part", "cause", "num", "raw_ns", "union_ns", "own_ns")
    assert [(part, cause, num, *(ns // US for ns in times)) for part, cause, num, *times in rows.iter_rows()] == [
        ("compute", None, 1, 100, 100, 100),
        ("compute", None, 1, 110, 60, 60),
        ("compute", None, 1, 100, 100, 100),
        ("exposed communication", None, 1, 150, 150, 40),
        ("exposed memory", None, 1, 60, 60, 40),
        ("idle", "host_wait", 1, 660, 660, 660),
    ]

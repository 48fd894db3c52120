"""Kernels by name, family and stream."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings

from tests.analysis.random_traces import bits, random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile, collective
from weftrace.analysis import kernel_table, kernel_times
from weftrace.analysis.intervals import Intervals, of_events
from weftrace.trace import Trace, events_frame
from weftrace.units import US


def test_by_pencil(tmp_path: Path) -> None:
    # GEMM of 1, 2, 3, 4 and 90 µs; an unknown of 20; an all-reduce of 30: in sum 150
    file = TraceFile()
    for number, dur in enumerate((1, 2, 3, 4, 90)):
        file.kernel(GEMM, 100 + 100 * number, dur, blocks=64 if dur < 90 else 500)
    file.kernel("mystery", 600, 20, stream=8).kernel(ALL_REDUCE, 620, 30, stream=20, blocks=16)
    table = kernel_table(file.trace(tmp_path))
    gemm, nccl, mystery = table.kernels.to_dicts()
    assert gemm["name"] == GEMM and (gemm["num_events"], gemm["total_ns"], gemm["mean_ns"]) == (5, 100 * US, 20 * US)
    assert (gemm["min_ns"], gemm["p50_ns"], gemm["p99_ns"], gemm["max_ns"]) == (1 * US, 3 * US, 90 * US, 90 * US)
    assert gemm["share"] == 100 / 150
    assert (gemm["sms"], gemm["sms_exact"]) == (132, False)  # what held longest: 500 blocks, 90 of 100 µs
    assert (nccl["kind"], nccl["sms"], nccl["sms_exact"]) == ("communication", 16, True)
    assert (mystery["kind"], mystery["family"]) == ("compute", "other")
    assert table.unnamed.rows() == [("mystery", 1, 20 * US)]
    assert table.unnamed_share == 20 / 120
    assert table.streams.rows() == [
        (7, 100 * US, 5, "compute"),
        (8, 20 * US, 1, "compute"),
        (20, 30 * US, 1, "communication"),
    ]
    assert table.families.rows()[0] == ("compute", "gemm", 5, 100 * US, 100 * US)


def test_sum_and_union_of_a_family_differ_where_streams_overlap(tmp_path: Path) -> None:
    table = kernel_table(TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 105, 10, stream=8).trace(tmp_path))
    assert table.families.rows() == [("compute", "gemm", 2, 20 * US, 15 * US)]


def test_what_is_unnamed_but_not_compute_is_not_other_compute(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 10).kernel("moves something", 200, 90, cat="gpu_memcpy")
    file.kernel("my_ring", 300, 90, **collective("allreduce"))
    table = kernel_table(file.trace(tmp_path))
    assert table.unnamed.is_empty()
    assert table.unnamed_share == 0


def test_equal_totals_stand_in_order_of_name(tmp_path: Path) -> None:
    file = TraceFile().kernel("b", 100, 10).kernel("c", 120, 10).kernel("a", 140, 10)
    assert kernel_table(file.trace(tmp_path)).kernels["name"].to_list() == ["a", "b", "c"]


def test_nothing_at_all() -> None:
    table = kernel_table(Trace(events=events_frame({}, 0)))
    assert (
        table.kernels.is_empty() and table.families.is_empty() and table.streams.is_empty() and table.unnamed.is_empty()
    )
    assert table.unnamed_share == 0


@settings(max_examples=examples(30))
@given(traces())
def test_tables_add_up(trace: Trace) -> None:
    work = random_work(trace)
    table = kernel_table(work)
    total = int((work.events["end_ns"] - work.events["start_ns"]).sum())
    for part in (table.kernels, table.families):
        assert part["num_events"].sum() == work.events.height
        assert part["total_ns"].sum() == total
    assert abs(sum(table.kernels["share"]) - (total > 0)) < 1e-9
    assert table.streams["num_events"].sum() == work.events.height
    for row in table.streams.iter_rows(named=True):
        assert row["busy_ns"] == bits(work.events.filter(pl.col("stream") == row["stream"])).sum()
    for row in table.families.iter_rows(named=True):
        assert row["busy_ns"] == bits(work.events.filter(pl.col("family").cast(pl.String) == row["family"])).sum()
    assert 0 <= table.unnamed_share <= 1


def test_many_streams_are_taken_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A union for each family, and none for each of 500 streams."""
    file = TraceFile()
    for stream in range(500):
        file.kernel(GEMM, 100 + 10 * stream, 5, stream=stream).kernel(GEMM, 103 + 10 * stream, 5, stream=stream)
    unions: list[pl.DataFrame] = []

    def counted(part: pl.DataFrame) -> Intervals:
        unions.append(part)
        return of_events(part)

    monkeypatch.setattr(kernel_times, "of_events", counted)
    streams = kernel_table(file.trace(tmp_path)).streams
    assert len(unions) == 1
    assert streams.select("stream", "busy_ns", "num_events").rows() == [(stream, 8 * US, 2) for stream in range(500)]

"""Idle time by cause."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given, settings

from tests.analysis.random_traces import bits, random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import breakdown, idle
from weftrace.trace import Trace, events_frame
from weftrace.units import US


def causes(file: TraceFile, folder: Path, threshold_ns: int = 30 * US) -> tuple[int, int, int, int]:
    i = idle(file.trace(folder), threshold_ns=threshold_ns)
    return i.host_wait_ns, i.dependency_wait_ns, i.kernel_gap_ns, i.unknown_ns


def test_launched_after_the_gap_began_is_host_wait(tmp_path: Path) -> None:
    # [GEMM 100-110]          [GEMM 120-130]    launched at 115: 10 µs of waiting for the host
    assert causes(TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 120, 10, launch=115), tmp_path) == (10 * US, 0, 0, 0)


def test_queued_in_time_is_a_kernel_gap_below_the_threshold_and_a_dependency_above(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 120, 10, launch=50)
    assert causes(file, tmp_path) == (0, 0, 10 * US, 0)
    assert causes(file, tmp_path, threshold_ns=10 * US) == (0, 10 * US, 0, 0)  # the threshold itself is not below it


def test_a_launch_at_the_very_end_of_the_predecessor_was_in_time(tmp_path: Path) -> None:
    assert causes(TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 120, 10, launch=110), tmp_path) == (0, 0, 10 * US, 0)


def test_without_a_launch_the_cause_is_unknown(tmp_path: Path) -> None:
    assert causes(TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 120, 10, linked=False), tmp_path) == (0, 0, 0, 10 * US)


def test_gaps_of_a_stream_are_not_gaps_of_the_device(tmp_path: Path) -> None:
    # stream 7   [GEMM 100-110]                  [GEMM 160-170]   launched at 50: held 50 µs by the all-reduce
    # stream 20         [all-reduce 105-150]
    # device                                 150-160 idle, which is back-to-back
    file = TraceFile().kernel(GEMM, 100, 10).kernel(ALL_REDUCE, 105, 45, stream=20).kernel(GEMM, 160, 10, launch=50)
    i = idle(file.trace(tmp_path))
    assert (i.idle_ns, i.kernel_gap_ns) == (10 * US, 10 * US)
    stream7, stream20 = i.by_stream.to_dicts()
    assert (stream7["stream"], stream7["idle_ns"], stream7["dependency_wait_ns"]) == (7, 50 * US, 50 * US)
    assert (stream20["stream"], stream20["idle_ns"]) == (20, 0)


def test_a_kernel_within_another_one_leaves_no_gap(tmp_path: Path) -> None:
    # [GEMM 100-150], [GEMM 110-120] inside, [GEMM 155-160]: one gap, of 5 µs
    file = TraceFile().kernel(GEMM, 100, 50).kernel(GEMM, 110, 10, stream=8).kernel(GEMM, 155, 5, launch=90)
    assert causes(file, tmp_path) == (0, 0, 5 * US, 0)


def test_nothing_at_all() -> None:
    i = idle(Trace(events=events_frame({}, 0)))
    assert i.idle_ns == 0
    assert i.by_stream.columns == [
        "stream",
        "idle_ns",
        "host_wait_ns",
        "dependency_wait_ns",
        "kernel_gap_ns",
        "unknown_ns",
    ]


@settings(max_examples=examples(30))
@given(traces())
def test_causes_add_up_to_idle(trace: Trace) -> None:
    work = random_work(trace)
    i = idle(work, threshold_ns=5)
    assert i.idle_ns == breakdown(work).idle_ns
    parts = [f"{cause}_ns" for cause in ("host_wait", "dependency_wait", "kernel_gap", "unknown")]
    assert i.by_stream.select(pl.sum_horizontal(parts)).to_series().to_list() == i.by_stream["idle_ns"].to_list()
    assert i.by_stream["stream"].to_list() == sorted(work.events["stream"].unique())
    for row in i.by_stream.iter_rows(named=True):
        mine = work.events.filter(pl.col("stream") == row["stream"])
        extent = mine["end_ns"].max() - mine["start_ns"].min()  # type: ignore[operator]
        assert row["idle_ns"] == extent - bits(mine).sum()

"""The three latencies that a replay keeps, each told by the ops that nothing else held up."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.plan import infer
from weftrace.plan.inference.medians import median_ns


def test_a_gap_is_told_where_no_launch_and_no_other_stream_can_have_made_it(tmp_path: Path) -> None:
    # stream 7   [100-140]2[142-180]2[182-220] 12 [232-260]5[265-280]     the fourth waits for stream 20, which ends at
    # stream 20                  [150-230]                                230; the fifth is launched at 258
    file = (
        TraceFile().kernel(GEMM, 100, 40, launch=10).kernel(GEMM, 142, 38, launch=20).kernel(GEMM, 182, 38, launch=30)
    )
    file.kernel(ALL_REDUCE, 150, 80, stream=20, launch=40).kernel(GEMM, 232, 28, launch=50)
    assert infer(file.kernel(GEMM, 265, 15, launch=258).trace(tmp_path)).kept.gap_ns == 2_000


def test_a_gap_is_told_too_where_the_host_is_hardly_ahead(tmp_path: Path) -> None:
    # stream 7   [14-40]2[42-60]    launches take 4; the second is made 20 before the first ends
    file = TraceFile().kernel(GEMM, 14, 26, launch=10).kernel(GEMM, 42, 18, launch=20)
    assert infer(file.trace(tmp_path)).kept.gap_ns == 2_000


def test_a_launch_latency_is_told_by_a_device_that_had_nothing_to_do(tmp_path: Path) -> None:
    # stream 7   [106-140]            launched at 100, the call ends at 101: 5 µs; on stream 20 the same at 200
    # stream 20          [160-180]    launched at 130, while stream 7 worked: it may have waited
    file = TraceFile().kernel(GEMM, 106, 34, launch=100).kernel(ALL_REDUCE, 160, 20, stream=20, launch=130)
    kept = infer(file.kernel(ALL_REDUCE, 206, 20, stream=20, launch=200).trace(tmp_path)).kept
    assert kept.launch_latency_ns == 5_000


def test_a_wait_latency_is_told_by_ops_that_waited_for_nothing_else(tmp_path: Path) -> None:
    # stream 7   [100-140][142-180]        recorded at 20 and 26; stream 20 is free, its ops launched at 40 and 50
    # stream 20            [143-170]  [183-190]
    file = TraceFile().kernel(GEMM, 100, 40, launch=10).kernel(GEMM, 142, 38, launch=24)
    file.kernel(ALL_REDUCE, 143, 27, stream=20, launch=40).kernel(ALL_REDUCE, 183, 7, stream=20, launch=50)
    for number, recorded, waited in ((91, 20, 30), (93, 26, 45)):
        file.host("cudaEventRecord", recorded, 1, cat="cuda_runtime", correlation=number)
        file.host("cudaStreamWaitEvent", waited, 1, cat="cuda_runtime", correlation=number + 1)
        args = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": number, "correlation": number + 1}
        file.host("Stream Wait Event", waited, 1, cat="cuda_sync", pid=0, tid=20, stream=20, device=0, **args)
    inferred = infer(file.trace(tmp_path))
    assert inferred.kept.wait_latency_ns == 3_000
    assert inferred.edges.filter(source="recorded").height == 2


def test_a_median_of_whole_microseconds_lies_between_them() -> None:
    # of 2, 2, 2, 3 µs three quarters lie in 1.5 to 2.5: half of all is reached at 1.5 + 2 / 3
    assert median_ns(pl.Series([2_000, 2_000, 2_000, 3_000])) == 2_167
    assert median_ns(pl.Series([2_000, 2_000])) == 2_000
    assert median_ns(pl.Series([1_999, 2_000, 3_000])) == 2_000
    assert median_ns(pl.Series([], dtype=pl.Int64)) == 0


def test_ops_that_overlap_on_one_stream_are_counted(tmp_path: Path) -> None:
    # stream 7   [100-140]            the second begins 10 before the first ends, as a programmatic dependent launch may
    #                 [130-180]
    file = TraceFile().kernel(GEMM, 100, 40, launch=10).kernel(GEMM, 130, 50, launch=20)
    assert [note for note in infer(file.trace(tmp_path)).notes if "overlapped" in note] == [
        "1 op on a device overlapped the next on the same stream, by 10.0 µs together: each counts until the next "
        "begins, and however long it takes, the next begins at its end."
    ]
    apart = TraceFile().kernel(GEMM, 100, 40, launch=10).kernel(GEMM, 142, 38, launch=20)
    assert not any("overlapped" in note for note in infer(apart.trace(tmp_path)).notes)

"""Launch delay, queue length, and what the host did instead of launching."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings

from tests.analysis.random_traces import random_work, traces
from tests.fuzz import examples
from tests.tracefile import GEMM, TraceFile
from weftrace.analysis import host_stalls, queue_length, queueing
from weftrace.trace import Trace, events_frame, work_of
from weftrace.units import MS, US


def test_delay_by_pencil(tmp_path: Path) -> None:
    # launches at 10, 20, 30; starts at 15, 120, 130; the fourth has no launch
    file = TraceFile().kernel(GEMM, 15, 5, launch=10).kernel(GEMM, 120, 5, launch=20).kernel(GEMM, 130, 5, launch=30)
    q = queueing(file.kernel(GEMM, 140, 5, linked=False).trace(tmp_path))
    assert q.num_linked == 3
    assert (q.delay_p50_ns, q.delay_max_ns) == (100 * US, 100 * US)
    assert queueing(TraceFile().kernel(GEMM, 15, 5, launch=10).trace(tmp_path)).delay_p50_ns == 5 * US


def test_queue_by_pencil(tmp_path: Path) -> None:
    # launches  10      20      30
    # starts        15              40      60
    # length    1   0   1       2   1       0
    file = TraceFile().kernel(GEMM, 15, 5, launch=10).kernel(GEMM, 40, 5, launch=20, stream=8)
    trace = file.kernel(GEMM, 60, 5, launch=30).trace(tmp_path)
    assert queue_length(trace).rows() == [
        (10 * US, 1), (15 * US, 0), (20 * US, 1), (30 * US, 2), (40 * US, 1), (60 * US, 0)
    ]  # fmt: skip
    assert queue_length(trace, stream=8).rows() == [(20 * US, 1), (40 * US, 0)]
    q = queueing(trace)
    assert q.queue_max == 2
    assert q.queue_mean == (5 * 1 + 5 * 0 + 10 * 1 + 10 * 2 + 20 * 1) / 50


def test_a_start_before_the_launch_counts_as_at_the_launch(tmp_path: Path) -> None:
    trace = TraceFile().kernel(GEMM, 10, 5, launch=12).trace(tmp_path)
    assert queue_length(trace).rows() == [(12 * US, 0)]  # never negative
    assert queueing(trace).delay_p50_ns == -2 * US  # and the delay is told as it was recorded


def test_kernels_of_one_graph_queue_one_by_one(tmp_path: Path) -> None:
    file = TraceFile().host("cudaGraphLaunch", 10, 1, cat="cuda_runtime", correlation=9)
    for start in (20, 30, 40):
        file.kernel(GEMM, start, 5, linked=False, correlation=9)
    q = queueing(file.trace(tmp_path))
    assert (q.num_linked, q.queue_max) == (3, 3)


def test_host_calls_that_wait(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 10, 5).host("cudaDeviceSynchronize", 20, 30, cat="cuda_runtime")
    file.host("cudaStreamSynchronize", 60, 4, cat="cuda_runtime").host(
        "cudaStreamSynchronize", 70, 4, cat="cuda_runtime"
    )
    calls = queueing(file.trace(tmp_path)).host_blocked
    assert calls.rows() == [("cudaDeviceSynchronize", 1, 30 * US), ("cudaStreamSynchronize", 2, 8 * US)]


def test_of_a_step_only_that_steps_calls(tmp_path: Path) -> None:
    file = TraceFile().host("ProfilerStep#1", 0, 50).host("ProfilerStep#2", 50, 50)
    file.kernel(GEMM, 10, 5, launch=5).kernel(GEMM, 60, 5, launch=55)
    file.host("cudaDeviceSynchronize", 20, 10, cat="cuda_runtime").host(
        "cudaDeviceSynchronize", 80, 3, cat="cuda_runtime"
    )
    trace = file.trace(tmp_path)
    assert queueing(work_of(trace, step=2)).host_blocked.rows() == [("cudaDeviceSynchronize", 1, 3 * US)]
    assert queueing(trace).host_blocked["num_events"].to_list() == [2]


def test_stalls_by_pencil(tmp_path: Path) -> None:
    # main thread  [dispatch 0 ------------------------------ 9000][mlp 9000 - 9500]
    #               op 10-20 .. quiet 20 to 7000 .. op 7000-7100 .. quiet 1900 to the end of dispatch
    # worker thread has operators all along, and they do not count
    file = TraceFile().host("dispatch(F)", 0, 9000).host("mlp(F)", 9000, 500)
    file.host("aten::empty", 10, 10, cat="cpu_op").host("aten::empty", 7000, 100, cat="cpu_op")
    for start in range(0, 9000, 500):
        file.host("aten::add", start, 400, cat="cpu_op", tid=2)
    trace = file.kernel(GEMM, 9800, 5, launch=9100).trace(tmp_path)
    assert host_stalls(trace).rows() == [("dispatch(F)", 2, 8880 * US, 6980 * US)]
    assert host_stalls(trace, threshold_ns=2 * MS).rows() == [("dispatch(F)", 1, 6980 * US, 6980 * US)]
    assert queueing(trace).host_stalls.equals(host_stalls(trace))


def test_a_long_operator_is_no_stall(tmp_path: Path) -> None:
    file = TraceFile().host("mlp(F)", 0, 9000).host("aten::mm", 1, 8999, cat="cpu_op").kernel(GEMM, 9800, 5, launch=50)
    assert host_stalls(file.trace(tmp_path)).is_empty()


def test_nothing_at_all(tmp_path: Path) -> None:
    for trace in (Trace(events=events_frame({}, 0)), TraceFile().kernel(GEMM, 10, 5, linked=False).trace(tmp_path)):
        q = queueing(trace)
        assert q.num_linked == q.queue_max == q.queue_mean == 0
        assert q.delay_p50_ns is q.delay_p99_ns is q.delay_max_ns is None
        assert q.host_blocked.is_empty() and q.host_stalls.is_empty()


@settings(max_examples=examples(30))
@given(traces())
def test_queue_length_agrees_with_counting(trace: Trace) -> None:
    work = random_work(trace)
    linked = work.events.filter(work.events["launch_ts_ns"].is_not_null())
    launches, starts = linked["launch_ts_ns"].to_list(), linked["start_ns"].to_list()
    for ts, length in queue_length(work).iter_rows():
        assert length == sum(t <= ts for t in launches) - sum(t <= ts for t in starts)
    for stream in (0, 7, 20):
        lengths = queue_length(work, stream=stream)["queue_length"]
        assert lengths.is_empty() or (lengths.min() >= 0 and lengths[-1] == 0)  # type: ignore[operator]

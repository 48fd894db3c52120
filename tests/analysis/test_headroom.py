"""Distance from perfect overlap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings

from tests.analysis.random_traces import random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import breakdown, headroom
from weftrace.trace import Trace, events_frame, work_of
from weftrace.units import US


def test_bound_by_compute_by_pencil(tmp_path: Path) -> None:
    # stream 7   [GEMM 100-130]       stream 8  [GEMM 130-150]     compute 50, longest stream 30
    # stream 20                                       [all-reduce 150-160]
    file = TraceFile().kernel(GEMM, 100, 30).kernel(GEMM, 130, 20, stream=8).kernel(ALL_REDUCE, 150, 10, stream=20)
    h = headroom(file.trace(tmp_path))
    assert (h.span_ns, h.ideal_ns, h.headroom_ns, h.bound_by) == (60 * US, 50 * US, 10 * US, "compute")
    assert h.longest_chain_ns == 30 * US
    assert "no waits between streams are recorded" in h.assumption


def test_bound_by_communication(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 10)
    file.kernel(ALL_REDUCE, 110, 30, stream=20).kernel(ALL_REDUCE, 140, 30, stream=21)
    assert headroom(file.trace(tmp_path)).bound_by == "communication"


def test_bound_by_one_stream_that_does_both(tmp_path: Path) -> None:
    h = headroom(TraceFile().kernel(GEMM, 100, 30).kernel(ALL_REDUCE, 130, 30).trace(tmp_path))
    assert (h.bound_by, h.longest_chain_ns, h.headroom_ns) == ("chain", 60 * US, 0)


def test_events_that_overlap_on_their_stream_count_once_in_the_chain(tmp_path: Path) -> None:
    h = headroom(TraceFile().kernel(GEMM, 100, 30).kernel(GEMM, 120, 30).trace(tmp_path))
    assert h.longest_chain_ns == 50 * US


def waiting_streams(*, device: int = 0) -> TraceFile:
    # stream 7   [GEMM 100-140]                               cudaEventRecord at 20 (correlation 91)
    # stream 20                [all-reduce 140-170]           cudaStreamWaitEvent at 30 (correlation 92), launched at 40
    file = TraceFile().kernel(GEMM, 100, 40, launch=10).kernel(ALL_REDUCE, 140, 30, stream=20, launch=40)
    file.host("cudaEventRecord", 20, 1, cat="cuda_runtime", correlation=91)
    file.host("cudaStreamWaitEvent", 30, 1, cat="cuda_runtime", correlation=92)
    waits: dict[str, Any] = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 91}
    place: dict[str, Any] = {"cat": "cuda_sync", "pid": 0, "tid": 20, "stream": 20, "device": device}
    return file.host("Stream Wait Event", 35, 0, correlation=92, **place, **waits)


def test_a_recorded_wait_lengthens_the_chain(tmp_path: Path) -> None:
    h = headroom(waiting_streams().trace(tmp_path))
    assert (h.longest_chain_ns, h.bound_by, h.headroom_ns) == (70 * US, "chain", 0)
    assert "1 recorded wait between streams" in h.assumption


def test_a_wait_of_another_device_does_not(tmp_path: Path) -> None:
    file = waiting_streams(device=1).kernel(GEMM, 100, 5, device=1, stream=20)
    h = headroom(work_of(file.trace(tmp_path), device=0))
    assert h.longest_chain_ns == 40 * US


def test_a_real_file_with_recorded_waits(shared_data: Path) -> None:
    # a memset of 1 µs and a GEMM of 123 on each of the streams 20, 28 and 24; stream 24 waits for stream 20. The host
    # waits for the others, which is no wait of a stream.
    import weftrace

    trace = weftrace.open(shared_data / "hta-event-sync-multi-stream.json.gz")
    assert isinstance(trace, Trace)
    h = headroom(trace)
    assert h.longest_chain_ns == 2 * (1 + 123) * US
    assert (h.bound_by, h.ideal_ns) == ("compute", 3 * 123 * US)
    assert "1 recorded wait between streams" in h.assumption


def test_nothing_at_all() -> None:
    h = headroom(Trace(events=events_frame({}, 0)))
    assert (h.span_ns, h.ideal_ns, h.headroom_ns, h.longest_chain_ns) == (0, 0, 0, 0)


@settings(max_examples=examples(25))
@given(traces())
def test_the_ideal_lies_between_the_bounds_and_the_span(trace: Trace) -> None:
    work = random_work(trace)
    h, b = headroom(work), breakdown(work)
    assert h.ideal_ns == max(b.compute_ns, b.communication_ns, h.longest_chain_ns)
    assert 0 <= h.headroom_ns <= h.span_ns == b.span_ns

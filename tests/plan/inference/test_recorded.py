"""Waits that a profiler recorded, read as Kineto and HIP write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import weftrace
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.plan.inference.streams.recorded import Recorded, recorded_waits
from weftrace.trace import Trace, work_of


def read(file: TraceFile, folder: Path, *, device: int | None = None) -> Recorded:
    work = work_of(file.trace(folder), device=device)
    return recorded_waits(work.trace.events, work.events, device=work.device)


def call(file: TraceFile, name: str, ts: float, dur: float = 1, *, correlation: int) -> TraceFile:
    return file.host(name, ts, dur, cat="cuda_runtime", correlation=correlation)


def sync(
    file: TraceFile, kind: str, ts: float, *, correlation: int, stream: int = -1, device: int = 0, **args: Any
) -> TraceFile:
    summary = {"cuda_sync_kind": kind, "stream": stream, "correlation": correlation, "device": device, "context": 1}
    return file.host(kind, ts, 1, cat="cuda_sync", pid=device, tid=stream, **summary, **args)


def on_event(stream: int, correlation: int) -> dict[str, int]:
    return {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": correlation, "wait_on_cuda_event_id": 9}


def two_gemms() -> TraceFile:
    # stream 7    [0: GEMM 100-140][1: GEMM 140-180]              launched at 10 and 24
    # stream 20                    [2: all-reduce 142-170]        launched at 40
    file = TraceFile().kernel(GEMM, 100, 40, launch=10).kernel(GEMM, 140, 40, launch=24)
    return file.kernel(ALL_REDUCE, 142, 28, stream=20, launch=40)


def test_a_stream_waits_for_what_was_launched_before_the_event_was_recorded(tmp_path: Path) -> None:
    file = call(call(two_gemms(), "cudaEventRecord", 20, correlation=91), "cudaStreamWaitEvent", 30, correlation=92)
    sync(file, "Stream Wait Event", 31, correlation=92, stream=20, **on_event(7, 91))
    found = read(file, tmp_path)
    assert found.streams.select("op", "on").rows() == [(2, 0)]
    assert (found.num_unknown, found.num_contradicted, len(found.calls)) == (0, 0, 0)


def test_of_two_waits_for_one_stream_the_later_op_counts(tmp_path: Path) -> None:
    # the second wait's event was recorded after the GEMM at 24, which ends at 180: the all-reduce starts at 190
    file = TraceFile().kernel(GEMM, 100, 40, launch=10).kernel(GEMM, 140, 40, launch=24)
    file.kernel(ALL_REDUCE, 190, 28, stream=20, launch=40)
    for number, recorded, waited in ((91, 20, 30), (93, 26, 32)):
        call(file, "cudaEventRecord", recorded, correlation=number)
        call(file, "cudaStreamWaitEvent", waited, correlation=number + 1)
        sync(file, "Stream Wait Event", waited, correlation=number + 1, stream=20, **on_event(7, number))
    assert read(file, tmp_path).streams.select("op", "on").rows() == [(2, 1)]


def test_a_wait_that_the_stamps_contradict_is_dropped_and_counted(tmp_path: Path) -> None:
    # Kineto named a later record of an event used again: the GEMM that ends at 180 cannot have been waited for at 142
    file = call(call(two_gemms(), "cudaEventRecord", 25, correlation=91), "cudaStreamWaitEvent", 30, correlation=92)
    sync(file, "Stream Wait Event", 31, correlation=92, stream=20, **on_event(7, 91))
    found = read(file, tmp_path)
    assert (len(found.streams), found.num_contradicted) == (0, 1)


def test_events_of_before_the_recording_are_counted_as_unknown(tmp_path: Path) -> None:
    file = call(two_gemms(), "cudaStreamWaitEvent", 30, correlation=92)
    sync(file, "Stream Wait Event", 31, correlation=92, stream=20, **on_event(-1, -1))
    call(file, "cudaStreamWaitEvent", 32, correlation=93)
    sync(file, "Stream Wait Event", 33, correlation=93, stream=20, **on_event(7, 5))  # no such call in the file
    found = read(file, tmp_path)
    assert (len(found.streams), found.num_unknown) == (0, 2)


def test_a_wait_on_the_own_stream_or_for_an_idle_one_is_no_edge(tmp_path: Path) -> None:
    file = two_gemms()
    for number, (stream, on) in ((91, (20, 20)), (93, (20, 99)), (95, (99, 7))):
        call(file, "cudaEventRecord", 26, correlation=number)
        call(file, "cudaStreamWaitEvent", 28, correlation=number + 1)
        sync(file, "Stream Wait Event", 29, correlation=number + 1, stream=stream, **on_event(on, number))
    found = read(file, tmp_path)
    assert (len(found.streams), found.num_unknown, found.num_contradicted) == (0, 0, 0)


def test_the_host_waits_for_an_event_a_stream_and_the_device(tmp_path: Path) -> None:
    file = call(two_gemms(), "cudaEventRecord", 20, correlation=91)
    first = len(file.events)
    call(file, "cudaEventSynchronize", 50, 91, correlation=92)
    call(file, "cudaStreamSynchronize", 150, 25, correlation=93)
    call(file, "cudaDeviceSynchronize", 176, 10, correlation=94)
    sync(file, "Event Sync", 51, correlation=92, **on_event(7, 91))
    sync(file, "Stream Sync", 151, correlation=93, stream=20)
    sync(file, "Context Sync", 177, correlation=94)
    found = read(file, tmp_path).calls
    assert found.rows() == [
        (first, 0, "Event Sync"),
        (first + 1, 2, "Stream Sync"),
        (first + 2, 1, "Context Sync"),
        (first + 2, 2, "Context Sync"),
    ]


def test_a_query_that_found_its_event_done_blocks_nothing(tmp_path: Path) -> None:
    file = call(call(two_gemms(), "cudaEventRecord", 20, correlation=91), "cudaEventQuery", 200, correlation=92)
    sync(file, "Event Sync", 201, correlation=92, **on_event(7, 91))
    found = read(file, tmp_path)
    assert (len(found.calls), found.num_unknown, len(found.unnamed)) == (0, 0, 0)


def test_without_records_only_a_wait_for_the_device_tells_for_what(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 40, launch=10, call="hipLaunchKernel")
    first = len(file.events)
    call(file, "hipStreamSynchronize", 50, 91, correlation=92)
    call(file, "hipDeviceSynchronize", 142, 3, correlation=93)
    found = read(file, tmp_path)
    assert found.calls.rows() == [(first + 1, 0, "Context Sync")]
    assert found.unnamed.tolist() == [first]


def test_records_of_another_device_are_not_of_this_one(tmp_path: Path) -> None:
    file = call(call(two_gemms(), "cudaEventRecord", 20, correlation=91), "cudaStreamWaitEvent", 30, correlation=92)
    sync(file, "Stream Wait Event", 31, correlation=92, stream=20, device=1, **on_event(7, 91))
    file.kernel(GEMM, 100, 5, device=1, stream=20)
    assert len(read(file, tmp_path, device=0).streams) == 0


def test_nothing_recorded_and_nothing_launched(tmp_path: Path) -> None:
    found = read(two_gemms(), tmp_path)
    assert (len(found.streams), len(found.calls), len(found.unnamed)) == (0, 0, 0)
    file = call(TraceFile().kernel(GEMM, 100, 40, linked=False), "cudaDeviceSynchronize", 50, 91, correlation=92)
    assert len(read(file, tmp_path).calls) == 0


def test_a_real_file_with_records(shared_data: Path) -> None:
    # GEMMs on the streams 20, 28 and 24, each behind its memset; 24 waits for 20; the host waits for all in the end.
    trace = weftrace.open(shared_data / "hta-event-sync-multi-stream.json.gz")
    assert isinstance(trace, Trace)
    work = work_of(trace)
    found = recorded_waits(trace.events, work.events, device=work.device)
    stream = work.events.get_column("stream")
    assert [(stream[op], stream[on]) for op, on, _ in found.streams.rows()] == [(24, 20)]
    assert work.events["name"][found.streams["on"]].to_list() == ["ampere_sgemm_128x64_nn"]
    assert sorted(stream[on] for _, on, kind in found.calls.rows() if kind == "Context Sync") == [20, 24, 28]
    assert len(found.calls) == 3  # the three other records are of queries
    assert (found.num_unknown, found.num_contradicted) == (0, 0)


def test_events_without_a_stream_are_on_one_of_their_own(tmp_path: Path) -> None:
    file = call(two_gemms(), "cudaDeviceSynchronize", 50, 140, correlation=92)
    del file.events[-2]["args"]["stream"]  # of the all-reduce
    file.events[-2]["tid"] = "a queue"
    work = work_of(file.trace(tmp_path))
    assert work.events.get_column("stream").null_count() == 1
    found = recorded_waits(work.trace.events, work.events, device=work.device)
    assert found.calls.get_column("on").to_list() == [1, 2]

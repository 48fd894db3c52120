"""What one device did: which events count, as what class, and which durations are believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile, collective
from weftrace.analysis import breakdown
from weftrace.errors import TraceError
from weftrace.trace import WORK_SCHEMA, Trace, Work, events_frame, work_of, works_of
from weftrace.units import MS, US, S


def classes(work: Work) -> list[tuple[str, str | None]]:
    return work.events.select(pl.col("kind", "collective").cast(pl.String)).rows()


def ends(work: Work) -> list[int]:
    """End of each event, µs."""
    return [end // US for end in work.events["end_ns"]]


# --- which events count -------------------------------------------------------------------------------------------


def test_device_work_whatever_its_stream_and_nothing_else(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 10, stream=0)
    for cat in ("gpu_user_annotation", "cuda_sync", "cpu_op"):
        file.host("not device work", 90, 500, cat=cat, pid=0, tid=7, stream=7, device=0)
    work = work_of(file.trace(tmp_path))
    assert dict(work.events.schema) == WORK_SCHEMA
    assert work.events.select("stream", "start_ns", "end_ns").rows() == [(0, 100 * US, 110 * US)]
    assert (work.basis, work.device, work.num_sms) == ("device", 0, 132)


def test_old_categories_count(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 10, cat="Kernel").kernel("Memcpy HtoD", 120, 5, cat="Memcpy")
    assert [kind for kind, _ in classes(work_of(file.trace(tmp_path)))] == ["compute", "memory"]


def test_devices_are_told_apart(tmp_path: Path) -> None:
    trace = TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 105, 10, device=3).trace(tmp_path)
    with pytest.raises(TraceError, match=r"trace\.json: holds work of devices 0, 3: choose one of them"):
        work_of(trace)
    with pytest.raises(TraceError, match=r"no work of device 1; devices with work: \(0, 3\)"):
        work_of(trace, device=1)
    first, second = works_of(trace)
    assert (first.device, ends(first), second.device, ends(second)) == (0, [110], 3, [115])
    assert first.num_overlapping == second.num_overlapping == 0


def test_work_that_does_not_tell_its_device_belongs_to_the_first() -> None:
    columns: dict[str, list[Any]] = {
        "name": [GEMM, GEMM], "cat": ["kernel", "kernel"], "ts_ns": [0, 10], "dur_ns": [5, 5], "stream": [7, None],
        "device": [None, 2],
    }  # fmt: skip
    assert works_of(Trace(events=events_frame(columns, 2)))[0].events.height == 2
    (work,) = works_of(Trace(events=events_frame({**columns, "device": [None, None]}, 2)))
    assert (work.device, work.events.height) == (0, 2)


def test_an_empty_trace() -> None:
    (work,) = works_of(Trace(events=events_frame({}, 0)))
    assert (work.basis, work.device, work.start_ns, work.end_ns, work.steps) == ("none", None, 0, 0, ())
    assert dict(work.events.schema) == WORK_SCHEMA


# --- classes ------------------------------------------------------------------------------------------------------


def test_metadata_beats_the_name(tmp_path: Path) -> None:
    send_recv = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    file = TraceFile().kernel(send_recv, 100, 5, **collective("all_to_all")).kernel(send_recv, 110, 5)
    file.kernel("my_ring", 120, 5, **collective("_allgather_base")).kernel("my_ring", 130, 5)
    file.kernel("Memcpy PtoP (Device -> Device)", 140, 5, cat="gpu_memcpy", **collective("allgather"))
    file.kernel("Memcpy PtoP (Device -> Device)", 150, 5, cat="gpu_memcpy").kernel(GEMM, 160, 5, **collective("?"))
    work = work_of(file.trace(tmp_path))
    assert classes(work) == [
        ("communication", "all_to_all"), ("communication", "send_recv"), ("communication", "all_gather"),
        ("compute", None), ("communication", "all_gather"), ("memory", None), ("compute", None),
    ]  # fmt: skip
    assert set(work.events.filter(pl.col("kind") == "communication")["role"]) == {"data"}


def test_a_barrier_only_waits(tmp_path: Path) -> None:
    work = work_of(TraceFile().kernel(ALL_REDUCE, 100, 5, **collective("barrier")).trace(tmp_path))
    assert work.events.select(pl.col("collective", "role").cast(pl.String)).rows() == [("barrier", "barrier")]


def test_what_is_copied_is_memory_whatever_it_is_called(tmp_path: Path) -> None:
    file = TraceFile().kernel("unheard of", 100, 5, cat="gpu_memcpy").kernel("gemm", 110, 5, cat="gpu_memset")
    assert [kind for kind, _ in classes(work_of(file.trace(tmp_path)))] == ["memory", "memory"]


# --- durations ----------------------------------------------------------------------------------------------------


def busy_file(*, window: bool = False) -> TraceFile:
    """129 ms of GEMMs of 1 ms, back to back on stream 7, with host calls to the end."""
    file = TraceFile()
    if window:
        file.host("PyTorch Profiler (0)", 0, 130_000, cat="Trace", pid="Spans", tid="PyTorch Profiler")
    for number in range(129):
        file.kernel(GEMM, 1000 * number, 999, launch=1000 * number)
    return file


@pytest.mark.parametrize("window", [False, True])
def test_an_absurd_duration_does_not_own_the_result(tmp_path: Path, window: bool) -> None:
    # the 41st kernel says it took 5 s; the 42nd started on its stream 0.5 ms after it
    file = busy_file(window=window).kernel(ALL_REDUCE, 40_999.5, 5_000_000, launch=40_000)
    work = work_of(file.trace(tmp_path))
    assert work.num_clipped == 1
    assert work.end_ns == 128_999 * US
    b = breakdown(work)
    assert b.span_ns == 128_999 * US
    assert b.communication_ns == 500  # to the start of the next
    assert b.compute_ns == 129 * 999 * US


@pytest.mark.parametrize("window", [False, True])
def test_an_absurd_duration_with_nothing_after_it_ends_with_the_recording(tmp_path: Path, window: bool) -> None:
    file = busy_file(window=window).kernel(ALL_REDUCE, 100_000, 5_000_000, stream=20, launch=99_000)
    work = work_of(file.trace(tmp_path))
    assert work.num_clipped == 1
    assert work.end_ns == (130_000 if window else 128_999) * US


def test_two_absurd_durations_in_a_row(tmp_path: Path) -> None:
    file = busy_file().kernel(GEMM, 40_999.5, 5_000_000, launch=40_000).kernel(GEMM, 41_999.5, 5_000_001, launch=41_000)
    work = work_of(file.trace(tmp_path))
    assert (work.num_clipped, work.end_ns) == (2, 128_999 * US)


def test_without_host_or_window_the_streams_order_is_evidence_enough(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 0, 5_000_000, linked=False)
    for number in range(1, 20):
        file.kernel(GEMM, 1000 * number, 999, linked=False)
    work = work_of(file.trace(tmp_path))
    assert (work.num_clipped, work.end_ns) == (1, 19_999 * US)


def test_a_kernel_that_ends_after_the_hosts_last_event_is_believed(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 0, 900_000)  # launched, and nothing recorded afterwards
    assert work_of(file.trace(tmp_path)).num_clipped == 0


def test_programmatic_dependent_launch_is_not_clipped(tmp_path: Path) -> None:
    # [first 0-50 ms            ]
    #  [second 1-51 ms           ]     starts early, waits for the first, and ends after it
    #   [third 2-51.5 ms           ]
    file = TraceFile().kernel(GEMM, 0, 50_000).kernel(GEMM, 1000, 50_000).kernel(GEMM, 2000, 49_500)
    work = work_of(file.trace(tmp_path))
    assert work.num_clipped == 0
    assert work.num_overlapping == 2
    assert breakdown(work).compute_ns == 51_500 * US


@pytest.mark.parametrize("args", [{"graph id": 4}, {}])
def test_branches_of_a_graph_are_not_clipped(tmp_path: Path, args: dict[str, Any]) -> None:
    # one launch, two branches that the profiler puts on one stream
    file = TraceFile().host("cudaGraphLaunch", 0, 1, cat="cuda_runtime", correlation=5)
    for start, dur in ((10, 50_000), (20, 100), (200, 100)):
        file.kernel(GEMM, start, dur, linked=False, correlation=5, **args)
    work = work_of(file.trace(tmp_path))
    assert (work.num_clipped, work.num_overlapping) == (0, 2)


def test_queues_that_rocm_shares_are_not_clipped(tmp_path: Path) -> None:
    file = TraceFile()
    for number in range(20):
        file.kernel(GEMM, 1000 * number, 999, call="hipLaunchKernel")
    file.kernel(ALL_REDUCE, 500, 60_000, call="hipLaunchKernel").host(
        "hipDeviceSynchronize", 30_000, 31_000, cat="cuda_runtime"
    )
    assert work_of(file.trace(tmp_path)).num_clipped == 0


def test_a_wait_of_ordinary_length_is_not_clipped(tmp_path: Path) -> None:
    # an all-reduce waits 60 of 129 ms on a stream of its own
    assert work_of(busy_file().kernel(ALL_REDUCE, 10_000, 60_000, stream=20).trace(tmp_path)).num_clipped == 0


def test_simulated_durations_are_believed(tmp_path: Path) -> None:
    trace = replace(busy_file().kernel(GEMM, 40_999.5, 5_000_000, launch=40_000).trace(tmp_path), simulated=True)
    assert work_of(trace).num_clipped == 0


def test_a_small_overlap_is_counted_and_kept(tmp_path: Path) -> None:
    work = work_of(TraceFile().kernel(GEMM, 0, 10).kernel(GEMM, 8, 10).kernel(GEMM, 8, 2, stream=8).trace(tmp_path))
    assert (work.num_overlapping, work.num_clipped) == (1, 0)
    assert ends(work) == [10, 18, 10]


# --- outside the recording ----------------------------------------------------------------------------------------


def test_events_far_outside_the_recording_are_left_out_and_counted(tmp_path: Path) -> None:
    file = busy_file(window=True).kernel(GEMM, 90_000_000, 5, linked=False).kernel(GEMM, -5_000_000, 5, linked=False)
    work = work_of(file.trace(tmp_path))
    assert work.num_out_of_window == 2
    assert (work.events.height, work.end_ns) == (129, 128_999 * US)


def test_without_a_stated_recording_the_host_tells_it(tmp_path: Path) -> None:
    # one kernel at the beginning of all time, one an hour late, and one that ran 900 ms behind a host of 129 ms
    file = busy_file().kernel(GEMM, -1e9, 5, launch=5000).kernel(GEMM, 3.6e9, 5, launch=6000)
    work = work_of(file.kernel(GEMM, 1_029_000, 5, launch=7000).trace(tmp_path))
    assert (work.num_out_of_window, work.events.height) == (2, 130)
    assert breakdown(work).span_ns == 1_029_005 * US


def test_a_device_clock_that_is_a_little_off_is_no_reason(tmp_path: Path) -> None:
    file = TraceFile().host("PyTorch Profiler (0)", 0, 1000, cat="Trace", pid="Spans", tid="PyTorch Profiler")
    work = work_of(file.kernel(GEMM, -900_000, 5).kernel(GEMM, 900_000, 5).trace(tmp_path))
    assert (work.num_out_of_window, work.events.height) == (0, 2)


@pytest.mark.parametrize("inside", [0, 5])
def test_when_most_lie_outside_it_is_the_window_that_is_wrong(tmp_path: Path, inside: int) -> None:
    file = TraceFile().host("PyTorch Profiler (0)", 0, 1000, cat="Trace", pid="Spans", tid="PyTorch Profiler")
    for number in range(10):
        file.kernel(GEMM, (0 if number < inside else 60_000_000) + 10 * number, 5)
    work = work_of(file.trace(tmp_path))
    assert (work.num_out_of_window, work.events.height) == (0, 10)


def test_times_at_the_ends_of_64_bits_neither_wrap_nor_crash() -> None:
    limit = (1 << 63) - 1
    columns: dict[str, list[Any]] = {
        "name": [GEMM] * 4, "cat": ["kernel"] * 4, "stream": [7, 7, 8, 9], "device": [0] * 4,
        "ts_ns": [0, 5 * MS, limit - 5, 10], "dur_ns": [10, 10, 10, limit],
    }  # fmt: skip
    work = work_of(Trace(events=events_frame(columns, 4)))
    assert work.num_out_of_window == 1  # the year 2262
    assert (work.events["end_ns"] >= work.events["start_ns"]).all()
    b = breakdown(work)
    assert b.span_ns == b.compute_ns + b.exposed_communication_ns + b.exposed_memory_ns + b.idle_ns > S


def test_numbers_that_are_no_devices_are_refused(tmp_path: Path) -> None:
    """300 of one event each, each of which would be analysed for itself."""
    file = TraceFile()
    for device in range(300):
        file.kernel(GEMM, 100 + 10 * device, 5, device=device)
    trace = file.trace(tmp_path)
    for ask in (works_of, work_of):
        with pytest.raises(TraceError, match="300 device events on 300 devices: no process drives so many"):
            ask(trace)


def test_a_small_file_of_a_node_of_many_partitions_is_read(tmp_path: Path) -> None:
    file = TraceFile()
    for device in range(64):
        file.kernel(GEMM, 100 + 10 * device, 5, device=device)
    assert [work.device for work in works_of(file.trace(tmp_path))] == list(range(64))

"""What host threads did, and what they waited for: calls, blocking, and the time between. Times in µs unless told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.plan import timetable
from weftrace.plan.inference.inferring import infer
from weftrace.plan.inference.streams.device import device_ops
from weftrace.plan.inference.streams.launches import with_calls
from weftrace.plan.inference.threads.host import host_calls
from weftrace.plan.inference.values import FIRST_THREAD, Inferred
from weftrace.trace import Trace, open_trace, work_of
from weftrace.units import US

COPY = "Memcpy HtoD (Pageable -> Device)"


def call(file: TraceFile, name: str, ts: float, dur: float, **args: Any) -> TraceFile:
    return file.host(name, ts, dur, cat="cuda_runtime", **args)


def rows(inferred: Inferred, *columns: str) -> list[tuple[Any, ...]]:
    """Ops with their times in µs: those of a host thread have no event."""
    ops = inferred.plan.ops.select("name", "stream", pl.col("duration_ns") / US).hstack(
        inferred.measured.drop("family")
    )
    return ops.filter(pl.col("event").is_null()).select(columns).rows()


def waits(inferred: Inferred, source: str) -> list[tuple[str, str]]:
    """Names of who waits and for whom."""
    chosen = inferred.plan.waits.hstack(inferred.edges).filter(source=source)
    name = inferred.plan.ops.get_column("name").cast(pl.String)
    return list(zip(name.gather(chosen["op"]), name.gather(chosen["on"]), strict=True))


def replayed_us(inferred: Inferred, name: str) -> list[tuple[float, float]]:
    times = inferred.times.ops.filter(pl.col("name").cast(pl.String) == name)
    return times.select(pl.col("start_ns", "end_ns") / US).rows()


def test_a_call_that_waited_counts_what_it_took_after_the_end_of_what_it_waited_for(tmp_path: Path) -> None:
    # host    [launch 10-11]  [sync 20              -104]  [launch 110-111]
    # device       [GEMM 12                   -100]             [GEMM 112-122]
    file = TraceFile().kernel(GEMM, 12, 88, launch=10).kernel(GEMM, 112, 10, launch=110)
    inferred = infer(call(file, "cudaDeviceSynchronize", 20, 84).trace(tmp_path))
    assert waits(inferred, "blocking") == [("cudaDeviceSynchronize", GEMM)]
    assert rows(inferred, "name", "duration_ns") == [
        ("cudaLaunchKernel", 1), ("host work", 9), ("cudaDeviceSynchronize", 4), ("host work", 6),
        ("cudaLaunchKernel", 1),
    ]  # fmt: skip
    halved = pl.when(kind="compute").then(pl.col("duration_ns") // 2).otherwise("duration_ns")
    faster = timetable(inferred.plan.with_ops(duration_ns=halved))
    # from the first call, at 10: the GEMM 2-46, the call until 50, work until 56, its launch 57, latency 1, 5
    assert faster.makespan_ns == 63 * US


def test_a_call_that_did_not_wait_counts_whole(tmp_path: Path) -> None:
    # the GEMM has ended at 22; the call takes 5 all the same
    file = TraceFile().kernel(GEMM, 12, 10, launch=10).kernel(GEMM, 112, 10, launch=110)
    inferred = infer(call(file, "cudaDeviceSynchronize", 30, 5).trace(tmp_path))
    assert ("cudaDeviceSynchronize", 5) in rows(inferred, "name", "duration_ns")
    assert waits(inferred, "blocking") == [("cudaDeviceSynchronize", GEMM)]


def test_a_call_waits_on_each_stream_once(tmp_path: Path) -> None:
    # the second call finds on stream 7 what the first has waited for
    file = TraceFile().kernel(GEMM, 12, 10, launch=10).kernel(ALL_REDUCE, 14, 10, stream=20, launch=11)
    call(call(file, "cudaDeviceSynchronize", 15, 10), "cudaDeviceSynchronize", 50, 10)
    file.kernel(ALL_REDUCE, 42, 16, stream=20, launch=40)
    assert waits(infer(file.trace(tmp_path)), "blocking") == [
        ("cudaDeviceSynchronize", GEMM), ("cudaDeviceSynchronize", ALL_REDUCE), ("cudaDeviceSynchronize", ALL_REDUCE)
    ]  # fmt: skip


@pytest.mark.parametrize(("ends", "found"), [(99, [("cudaStreamSynchronize", ALL_REDUCE)]), (130, [])])
def test_which_stream_a_call_waited_for_is_told_by_which_ended_as_it_returned(
    tmp_path: Path, ends: float, found: list[tuple[str, str]]
) -> None:
    # the call returns at 100; stream 7 is busy until 300, stream 20 until 99: or until 130, and then neither held it
    file = TraceFile().kernel(GEMM, 12, 288, launch=10).kernel(ALL_REDUCE, 14, ends - 14, stream=20, launch=11)
    assert waits(infer(call(file, "cudaStreamSynchronize", 15, 85).trace(tmp_path)), "blocking") == found


@pytest.mark.parametrize("name", ["cudaStreamSynchronize", "cudaEventSynchronize"])
def test_what_ended_just_after_a_call_returned_was_not_what_it_waited_for(tmp_path: Path, name: str) -> None:
    # device   [GEMM 12                  -104]     the call returns at 100, 2 after the end of the all-reduce
    #          [all-reduce 14     -98]
    file = TraceFile().kernel(GEMM, 12, 92, launch=10).kernel(ALL_REDUCE, 14, 84, launch=12, stream=20)
    assert waits(infer(call(file, name, 15, 85).trace(tmp_path)), "blocking") == [(name, ALL_REDUCE)]


def test_a_call_waits_for_an_event_in_the_midst_of_a_stream(tmp_path: Path) -> None:
    # GEMM, all-reduce, GEMM on one stream; the call returns 2 after the all-reduce has ended
    file = (
        TraceFile()
        .kernel(GEMM, 12, 18, launch=10)
        .kernel(ALL_REDUCE, 30, 30, launch=11)
        .kernel(GEMM, 60, 30, launch=13)
    )
    inferred = infer(call(file, "cudaEventSynchronize", 20, 42).trace(tmp_path))
    assert waits(inferred, "blocking") == [("cudaEventSynchronize", ALL_REDUCE)]
    assert ("cudaEventSynchronize", 2) in rows(inferred, "name", "duration_ns")
    assert 0 < inferred.edges.filter(source="blocking").item(0, "confidence") < 1


def test_a_copy_that_the_host_waits_for_is_launched_and_then_waited_for(tmp_path: Path) -> None:
    # host    [cudaMemcpyAsync 10                     -60]
    # device                [copy 30          -55]          latency 1 (from the GEMMs): put on its stream until 29
    file = TraceFile().kernel(GEMM, 4, 2, launch=2).kernel(GEMM, 72, 2, launch=70)
    file.kernel(COPY, 30, 25, linked=False, cat="gpu_memcpy", correlation=77)
    inferred = infer(call(file, "cudaMemcpyAsync", 10, 50, correlation=77).trace(tmp_path))
    assert waits(inferred, "blocking") == [("cudaMemcpyAsync", COPY)]
    ops = rows(inferred, "name", "what", "duration_ns")
    assert [op for op in ops if op[0] == "cudaMemcpyAsync"] == [
        ("cudaMemcpyAsync", "launch", 19), ("cudaMemcpyAsync", "blocking", 5)
    ]  # fmt: skip
    assert replayed_us(inferred, COPY) == [(28, 53)]  # the plan begins with the first call, at 2


def test_a_copy_that_goes_on_after_its_call_blocks_nothing(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 4, 2, launch=2)
    file.kernel(COPY, 14, 25, linked=False, cat="gpu_memcpy", correlation=77)
    inferred = infer(call(file, "cudaMemcpyAsync", 10, 3, correlation=77).trace(tmp_path))
    assert waits(inferred, "blocking") == []


@pytest.mark.parametrize(("returns", "visible"), [(110, True), (400, False)])
def test_memory_is_waited_for_only_where_times_show_it(tmp_path: Path, returns: float, visible: bool) -> None:
    # cudaFree from 20 on; the device runs empty at 100. Back at 110, it waited; back at 400, it did something else
    file = TraceFile().kernel(GEMM, 12, 88, launch=10).kernel(GEMM, 512, 10, launch=510)
    inferred = infer(call(file, "cudaFree", 20, returns - 20).trace(tmp_path))
    assert waits(inferred, "blocking") == ([("cudaFree", GEMM)] if visible else [])
    assert ("cudaFree" in {name for (name,) in rows(inferred, "name")}) == visible


def test_a_launch_inside_another_call_is_the_outer_calls(tmp_path: Path) -> None:
    # [cudaLaunchKernelExC 10   [cuLaunchKernelEx 12-14]  -20]: both are linked
    file = (
        TraceFile()
        .kernel(GEMM, 22, 8, linked=False, correlation=77)
        .kernel(ALL_REDUCE, 31, 8, linked=False, correlation=78)
    )
    call(file, "cudaLaunchKernelExC", 10, 10, correlation=78)
    file.host("cuLaunchKernelEx", 12, 2, cat="cuda_driver", correlation=77)
    inferred = infer(file.trace(tmp_path))
    assert rows(inferred, "name", "duration_ns") == [("cudaLaunchKernelExC", 10)]
    assert waits(inferred, "launch") == [(GEMM, "cudaLaunchKernelExC"), (ALL_REDUCE, "cudaLaunchKernelExC")]


def test_threads_of_several_processes_are_apart_and_begin_when_they_did(tmp_path: Path) -> None:
    # threads 1 and 2 of process 1; a process 9 that launches nothing here, whose call for its own device is not ours
    file = TraceFile().kernel(GEMM, 12, 10, launch=10).kernel(GEMM, 52, 10, launch=50, launch_tid=2)
    call(file, "cudaDeviceSynchronize", 60, 30, pid=9, tid=1)
    inferred = infer(file.trace(tmp_path))
    assert rows(inferred, "name", "stream", "start_ns", "duration_ns") == [
        ("cudaLaunchKernel", FIRST_THREAD, 0, 1), ("host work", FIRST_THREAD + 1, 0, 40),
        ("cudaLaunchKernel", FIRST_THREAD + 1, 40 * US, 1),
    ]  # fmt: skip


def test_gaps_between_calls_do_not_add_up(tmp_path: Path) -> None:
    # a gap of 3 between kernels back to back holds between the host's ops too: 100 launches end when they did
    file = TraceFile()
    for i in range(100):
        file.kernel(GEMM, 1000 + 23 * i, 20, launch=10 + 7 * i)
    inferred = infer(file.trace(tmp_path))
    assert inferred.kept.gap_ns == 3 * US
    ends = inferred.measured.filter(what="launch").get_column("end_ns")
    replayed = inferred.times.end_ns[inferred.measured.get_column("what").to_numpy() == "launch"]
    assert (ends - pl.Series(replayed)).abs().max() <= 3 * US  # type: ignore[operator]


def test_a_host_that_launches_faster_than_the_devices_gap_is_not_held_up_by_it(tmp_path: Path) -> None:
    # kernels of 3 every 13, a gap of 10 between; launched every 6: a gap after each call and each work would be 20
    file = TraceFile()
    for i in range(100):
        file.kernel(GEMM, 1000 + 13 * i, 3, launch=900 + 6 * i)
    replay = infer(file.trace(tmp_path)).replay
    assert replay.replayed_ns == replay.span_ns == (99 * 13 + 3) * US


def test_of_a_part_of_a_run_only_its_part_of_the_host_is_in_the_plan(tmp_path: Path) -> None:
    # two steps of 1,000: launch, GEMM, and a call that waits for it
    file = TraceFile()
    for begin in (0, 1000, 2000):
        file.host(f"ProfilerStep#{begin // 1000}", begin, 900)
        call(file.kernel(GEMM, begin + 102, 98, launch=begin + 100), "cudaDeviceSynchronize", begin + 150, 60)
    inferred = infer(work_of(file.trace(tmp_path), step=1))
    assert rows(inferred, "name", "start_ns", "duration_ns") == [
        ("cudaLaunchKernel", 0, 1), ("host work", US, 49), ("cudaDeviceSynchronize", 50 * US, 10)
    ]  # fmt: skip


RECORDED = (
    "deepseek-v3-train", "hta-event-sync-multi-stream", "hta-mi250-minitoy", "hta-triton-example",
    "hta-two-ranks/sampled_rank-0", "hta-two-ranks/sampled_rank-1", "tracelens-h100-bert-small",
    "tracelens-mi300-bert-small", "tracelens-vllm-decode-graph",
)  # fmt: skip
FEW_LAUNCHES = ("hta-event-sync-multi-stream", "hta-triton-example", "tracelens-vllm-decode-graph")


@pytest.mark.parametrize("name", RECORDED)
def test_no_recorded_run_replays_worse_than_three_percent(name: str, shared_data: Path) -> None:
    trace = open_trace(shared_data / f"{name}.json.gz")
    assert isinstance(trace, Trace)
    assert abs(infer(trace).replay.error) < 0.03


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in FEW_LAUNCHES])
def test_a_launchs_latency_is_steadier_since_the_end_of_its_call_than_since_its_start(
    name: str, shared_data: Path
) -> None:
    trace = open_trace(shared_data / f"{name}.json.gz")
    assert isinstance(trace, Trace)
    on_device = device_ops(work := work_of(trace))
    free = pl.col("end_ns").shift(1).over("stream").alias("free_ns")
    summary = with_calls(on_device.with_columns(free), host_calls(work, on_device))
    summary = summary.filter(
        pl.col("free_ns") <= pl.col("call_start_ns"), pl.col("start_ns") - pl.col("call_start_ns") < 30 * US
    )
    since = [
        summary.select(pl.col("start_ns") - pl.col(column)).to_series() for column in ("call_end_ns", "call_start_ns")
    ]
    spread = [float(each.quantile(0.75) or 0) - float(each.quantile(0.25) or 0) for each in since]
    assert spread[0] < spread[1]


@pytest.mark.parametrize("name", ["hta-mi250-minitoy", "tracelens-mi300-bert-small", "tracelens-h100-bert-small"])
def test_recorded_runs_with_calls_that_block_replay(name: str, shared_data: Path) -> None:
    trace = open_trace(shared_data / f"{name}.json.gz")
    assert isinstance(trace, Trace)
    replay = infer(trace).replay
    assert abs(replay.error) < 0.001
    assert abs(replay.worst_phase_ns) < 5 * US


def test_work_of_a_thread_is_named_by_the_outermost_operator_that_it_prepares(tmp_path: Path) -> None:
    # aten::linear [5                40]              aten::add [60   70]
    #    aten::addmm [10        30]
    # launch            [20-21]  [35-36]    [50-51]        [65-66]
    file = TraceFile().host("aten::linear", 5, 35, cat="cpu_op").host("aten::addmm", 10, 20, cat="cpu_op")
    file.host("aten::add", 60, 10, cat="cpu_op")
    for at in (20, 35, 50, 65):
        file.kernel(GEMM, at + 5, 2, launch=at)
    assert [name for name, _ in rows(infer(file.trace(tmp_path)), "name", "duration_ns") if "host" in name] == [
        "host work: aten::linear", "host work", "host work: aten::add",
    ]  # fmt: skip

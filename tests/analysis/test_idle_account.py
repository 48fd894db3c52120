"""Why the device waited: by pencil, one gap at a time. Times of the pictures are µs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

import weftrace as wt
from tests.analysis.random_traces import random_work, traces
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import IdleAccount, idle_account
from weftrace.trace import open_trace
from weftrace.units import US

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def account(file: TraceFile, folder: Path) -> IdleAccount:
    trace = open_trace(file.write(folder / "trace.json"), frames=True)
    assert isinstance(trace, wt.Trace)
    found = idle_account(trace)
    assert found.causes["ns"].sum() == found.idle_ns
    parts = ("host", "call", "launch_latency", "turnaround", "held", "unrecorded", "unknown")
    assert sum(getattr(found, f"{part}_ns") for part in parts) == found.idle_ns
    return found


def causes(found: IdleAccount) -> dict[str, int]:
    return {row["cause"]: row["ns"] // US for row in found.causes.iter_rows(named=True)}


def frame(file: TraceFile, name: str, ts: float, dur: float) -> TraceFile:
    return file.host(name, ts, dur, cat="python_function")


def eager() -> TraceFile:
    """Ten kernels of 10 µs with latency 5: launched 100 µs apart, each in an operator of 20 µs."""
    file = TraceFile()
    for number in range(10):
        at = 100 * number
        file.host("aten::mm", at, 20, cat="cpu_op").kernel(GEMM, at + 15, 10, launch=at + 9)
    return file


def test_a_gap_is_cut_at_the_launch_of_what_ends_it(tmp_path: Path) -> None:
    """device ████ 25 ······················ 115 ████
    host      silent till 100, aten::mm to 109, call 109-110, latency 110-115"""
    found = account(eager(), tmp_path)
    assert (found.host_ns, found.call_ns, found.launch_latency_ns) == (9 * 84 * US, 9 * US, 9 * 5 * US)
    assert causes(found) == {"python": 9 * 75, "operators": 9 * 10, "launch_latency": 9 * 5}


def test_what_was_on_its_way_when_a_gap_began_waited_for_its_latency_first(tmp_path: Path) -> None:
    """device ████ 925 ···· 929 ████
    host      call 922-923, usual latency until 928, then turnaround"""
    found = account(eager().kernel(GEMM, 929, 10, launch=922), tmp_path)
    assert (found.launch_latency_ns, found.turnaround_ns) == (9 * 5 * US, 4 * US)  # queued: not cut
    assert causes(found)["launch_latency"] == 9 * 5 + 3
    assert causes(found)["turnaround"] == 1


def test_the_deepest_function_with_most_of_the_time_is_named(tmp_path: Path) -> None:
    """A loader of 5,000 µs, 4,000 of which are zoom's, whose own built-in sleeps."""
    file = TraceFile().kernel(GEMM, 15, 10, launch=9).kernel(GEMM, 5_215, 10, launch=5_209)
    file.host(LOADER, 30, 5_000)
    frame(file, "torch/utils/data/dataloader.py(703): __next__", 31, 4_998)
    frame(file, "vision/transform.py(12): resize", 40, 4_500)
    frame(file, "scipy/ndimage/_interpolation.py(739): zoom", 100, 4_000)
    frame(file, "<built-in method acquire of _thread.lock object at 0x7f0011>", 200, 3_900)
    row = account(file, tmp_path).causes.row(0, named=True)
    assert (row["cause"], row["ns"], row["num_main"]) == ("data_loading", 5_000 * US, 1)
    assert (row["name"], row["name_ns"]) == ("scipy/ndimage/_interpolation.py(739): zoom", 4_000 * US)


def test_a_function_that_is_called_from_many_places_counts_as_one(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 15, 10, launch=9)
    for number, caller in enumerate(("a", "b", "c")):
        at = 1_000 * number + 30
        frame(file, f"train.py({number}): {caller}", at, 900)
        frame(file, "metrics.py(7): accuracy", at + 50, 800)
        file.kernel(GEMM, at + 960, 10, launch=at + 954)
    row = account(file, tmp_path).causes.row(0, named=True)
    assert (row["cause"], row["name"], row["name_ns"]) == ("python", "metrics.py(7): accuracy", 2_400 * US)


def test_what_is_held_long_with_nothing_running_is_not_recorded(tmp_path: Path) -> None:
    """Queued at 10, and the device runs nothing from 30 to 5,030."""
    file = TraceFile().kernel(GEMM, 15, 15, launch=9).kernel(GEMM, 5_030, 10, launch=10)
    found = account(file, tmp_path)
    assert (found.unrecorded_ns, causes(found)) == (5_000 * US, {"unrecorded": 5_000})


def test_a_hole_in_one_graph_replay_is_not_recorded(tmp_path: Path) -> None:
    """One launch, two nodes; 80 µs between them, which no node fills."""
    file = TraceFile().kernel(GEMM, 15, 10, launch=5, call="cudaGraphLaunch")
    file.events.append({**file.events[-1], "ts": 105, "dur": 10})
    assert causes(account(file, tmp_path)) == {"unrecorded": 80}


def test_launches_without_their_work_fill_a_gap(tmp_path: Path) -> None:
    """A synchronisation of 1,500 µs after 20 launches whose kernels, of some 100 µs each, are not in the file; after 5
    of them no more than half of the gap is explained."""
    for num, hidden in ((20, True), (5, False)):
        file = TraceFile().kernel(GEMM, 15, 100, launch=9)
        for number in range(num):
            file.kernel(GEMM, 0, 1, launch=20 + 4 * number)
            file.events = [event for event in file.events if event["ts"] or event["cat"] != "kernel"]
        file.host("cudaStreamSynchronize", 110, 1_500, cat="cuda_runtime").kernel(GEMM, 1_700, 100, launch=1_690)
        assert (causes(account(file, tmp_path)) == {"unrecorded": 1_585}) is hidden


def test_a_long_gap_whose_launch_is_lost_is_not_recorded(tmp_path: Path) -> None:
    """5,000 µs without any record, which end with a kernel that nothing launched; ten others have launches."""
    file = eager().kernel(GEMM, 5_925, 10, launch=5_919)
    file.events = [event for event in file.events if event["ts"] != 5_919]
    assert causes(account(file, tmp_path))["unrecorded"] == 5_000


def test_what_the_host_waited_for_is_named(tmp_path: Path) -> None:
    """A copy of 8 bytes, and 90 µs of operators until the next launch: the copy's operator is named, and what it is."""
    for operator, cause in (("aten::_local_scalar_dense", "blocking_sync"), ("aten::copy_", "blocking_copy")):
        file = TraceFile().kernel(GEMM, 15, 100, launch=9)
        file.host(operator, 20, 100, cat="cpu_op").host("cudaStreamSynchronize", 30, 89, cat="cuda_runtime")
        file.host("aten::mm", 121, 95, cat="cpu_op").kernel(GEMM, 215, 10, launch=210)
        row = account(file, tmp_path).causes.row(0, named=True)
        assert (row["cause"], row["name"], row["within"]) == (cause, "cudaStreamSynchronize", operator)


def test_a_collection_is_read_without_stacks(tmp_path: Path) -> None:
    """torch.profiler writes collections among the Python frames: they are told, and no stacks were recorded."""
    file = frame(eager().kernel(GEMM, 2_015, 10, launch=2_009), "Python GC", 1_000, 900)
    found = account(file, tmp_path)
    assert (causes(found)["garbage_collection"], found.with_stacks) == (900, False)
    trace = open_trace(file.write(tmp_path / "again.json"))
    assert isinstance(trace, wt.Trace)
    assert causes(idle_account(trace)) == causes(found)


def test_silence_long_after_a_wait_is_work_of_its_own(tmp_path: Path) -> None:
    """The host waits until 120 and launches again at 170, or only at 620."""
    for launch, cause in ((170, "blocking_sync"), (620, "python")):
        file = TraceFile().kernel(GEMM, 15, 100, launch=9).kernel(GEMM, launch + 5, 10, launch=launch)
        file.host("cudaStreamSynchronize", 30, 90, cat="cuda_runtime")
        assert account(file, tmp_path).causes["cause"][0] == cause


def test_a_hole_that_repeats_in_each_step_is_not_recorded(tmp_path: Path) -> None:
    """1,000 µs in each of four steps, to a microsecond, in which no host record lies."""
    file = TraceFile()
    for step in range(4):
        at = 3_000 * step
        file.host(f"ProfilerStep#{step}", at, 3_000)
        file.kernel(GEMM, at + 20, 1_000, launch=at + 10).kernel(
            ALL_REDUCE, at + 2_021 + step % 2, 900, launch=at + 2_015
        )
    found = account(file, tmp_path)
    assert found.unrecorded_ns >= 4 * 900 * US


def test_an_iteration_that_was_cut_out_is_told(tmp_path: Path) -> None:
    """Steps 0 to 5 of 1,000 µs, and step 3 is not in the file: nor is any record of the host."""
    file = TraceFile()
    for step in (0, 1, 2, 4, 5):
        at = 1_000 * step
        file.host(f"ProfilerStep#{step}", at, 990)
        file.host("aten::mm", at + 5, 900, cat="cpu_op").kernel(GEMM, at + 20, 960, launch=at + 10)
    assert causes(account(file, tmp_path))["file_cut"] == 1_040


@pytest.mark.parametrize(
    ("call", "kernel", "cause"),
    [
        ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", "blocking_copy"),
        ("hipMemcpyWithStream", "Memcpy HtoD (Host -> Device)", "blocking_copy"),
        ("cudaGraphLaunch", GEMM, "graph_launch"),
        ("cudaLaunchKernel", "a_kernel_of_its_own", "first_use"),
    ],
)
def test_a_call_that_blocks_is_told_by_what_it_waits_for(tmp_path: Path, call: str, kernel: str, cause: str) -> None:
    """Ten launches of 1 µs, then one call of 3,000 µs."""
    file = eager().host("aten::to", 990, 3_200, cat="cpu_op")
    file.kernel(kernel, 4_005, 10, launch=1_000, call=call)
    file.events[-2 if file.events[-1]["cat"] == "kernel" else -1]["dur"] = 3_000
    row = account(file, tmp_path).causes.row(0, named=True)
    assert (row["cause"], row["ns"] // US, row["name"]) == (cause, 3_000, call)


def test_a_device_that_ran_dry_at_a_blocking_call_waited_for_that(tmp_path: Path) -> None:
    """.item() at the end of each step: the device is done at 500, the host launches again at 690."""
    file = TraceFile()
    for step in range(5):
        at = 1_000 * step
        file.host("aten::mm", at, 30, cat="cpu_op").kernel(GEMM, at + 20, 480, launch=at + 10)
        file.host("aten::item", at + 40, 480, cat="cpu_op").host(
            "cudaStreamSynchronize", at + 50, 460, cat="cuda_runtime"
        )
        file.host("aten::add", at + 680, 30, cat="cpu_op").kernel(GEMM, at + 695, 310, launch=at + 690)
    row = account(file, tmp_path).causes.row(0, named=True)
    assert (row["cause"], row["num_gaps"]) == ("blocking_sync", 5)


def test_autograd_is_named_by_the_annotation_of_the_thread_that_waits(tmp_path: Path) -> None:
    file = TraceFile().host("## backward ##", 0, 1_000, tid=1)
    file.kernel(GEMM, 15, 10, launch=9, launch_tid=2).kernel(GEMM, 515, 10, launch=509, launch_tid=2)
    row = account(file, tmp_path).causes.row(0, named=True)
    assert (row["cause"], row["name"], row["ns"]) == ("backward_thread", "## backward ##", 484 * US)


def test_ddp_s_broadcast_of_buffers_is_told_from_the_forward_after_it(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 15, 10, launch=9).host("DistributedDataParallel.forward", 100, 2_000)
    file.host("aten::flatten_dense_tensors", 110, 100, cat="cpu_op").host("c10d::broadcast_", 220, 30, cat="cpu_op")
    file.host("aten::copy_", 300, 200, cat="cpu_op").host("aten::conv2d", 1_000, 100, cat="cpu_op")
    file.kernel(GEMM, 1_060, 10, launch=1_054)
    found = causes(account(file, tmp_path))
    assert found["buffer_broadcast"] == 900  # from the start of the forward to its first convolution
    assert found["operators"] == 55


def test_many_small_collectives_are_told_by_what_gaps_separate(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 15, 10, launch=9)
    for number in range(20):
        file.kernel(ALL_REDUCE, 150 + 120 * number, 5, launch=145 + 120 * number)
    row = account(file, tmp_path).separated.row(0, named=True)
    assert (row["before"], row["after"], row["num_gaps"]) == (ALL_REDUCE, ALL_REDUCE, 19)


def test_a_thread_that_recorded_nothing_in_the_gaps_is_silent_there(tmp_path: Path) -> None:
    """On CPUs: twelve operators, one after another, from 20 to 140, and the next at 1,000."""
    file = TraceFile()
    for number in range(12):
        file.host("aten::mul", 20 + 10 * number, 10, cat="cpu_op")
    assert account(file.host("aten::mul", 1_000, 10, cat="cpu_op"), tmp_path).idle_ns == (1_000 - 140) * US


@given(trace=traces())
def test_parts_and_causes_add_up_on_random_traces(trace: wt.trace.Trace) -> None:
    work = random_work(trace)
    found = idle_account(work)
    assert found.causes["ns"].sum() == found.idle_ns == wt.analysis.breakdown(work).idle_ns
    middle = (work.start_ns + work.end_ns) // 2
    halves = [idle_account(work.between(*ends)) for ends in ((work.start_ns, middle), (middle, work.end_ns))]
    assert sum(half.idle_ns for half in halves) == found.idle_ns


def test_what_the_host_did_stands_in_one_order(tmp_path: Path) -> None:
    """Twelve operators, each of which launches by a call of its own name: the same rows in the same order each time."""
    file = TraceFile()
    for number in range(12):
        at = 100 * number
        file.host(f"aten::op{number}", at, 60, cat="cpu_op")
        file.kernel(GEMM, at + 65, 10, launch=at + 50, call=f"cudaLaunch{number}")
    trace = open_trace(file.write(tmp_path / "trace.json"), frames=True)
    assert isinstance(trace, wt.Trace)
    found = [idle_account(trace) for _ in range(8)]
    names = [node["name"] for node in found[0].host.iter_rows(named=True)]
    assert len(names) >= 11
    for other in found[1:]:
        assert other.host.equals(found[0].host)
        assert list(other.latency_ns) == list(found[0].latency_ns) == sorted(found[0].latency_ns)

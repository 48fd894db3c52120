"""Host threads that wait without a call: for a kernel, or for another thread. Times in µs unless told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import weftrace
from tests.plan.inference.test_host import call, replayed_us, rows, waits
from tests.tracefile import DISPATCH, GEMM, NOTIFY, TraceFile
from weftrace.plan import Op, Plan, Resource, Wait, simulate, timetable
from weftrace.plan.as_traces import INVENTED_HOST
from weftrace.plan.inference.inferring import infer
from weftrace.plan.inference.values import FIRST_THREAD, Inferred
from weftrace.trace import Trace, open_trace
from weftrace.units import US

NODE = "autograd::engine::evaluate_function: MmBackward0"


def handed_over(node: str = NODE) -> list[tuple[str, str]]:
    """What waits for what in `backward`: its thread for the forward's, then the forward's for its end."""
    return [("host waits", "host work: aten::mm"), ("host waits", f"host work: {node}")]


def operator(file: TraceFile, name: str, ts: float, dur: float, tid: int = 1) -> TraceFile:
    return file.host(name, ts, dur, cat="cpu_op", tid=tid)


def polling(num_layers: int, early: float = 40) -> TraceFile:
    # a layer, every 10,000
    # host    [launches 0-3]              (quiet)       [empty_like 4960-4970][launch 4980]
    # device            [GEMM 10-4000][notify 4000            -              5000]  [dispatch 5010-6000]
    file = TraceFile()
    for begin in range(0, 10_000 * num_layers, 10_000):
        file.kernel(GEMM, begin + 10, 3990, launch=begin).kernel(NOTIFY, begin + 4000, 1000, launch=begin + 2)
        operator(file, "aten::empty_like", begin + 5000 - early, 10)
        file.kernel(DISPATCH, begin + 5010, 990, launch=begin + 5000 - early + 20)
    return file


def half_as_long(inferred: Inferred, name: str) -> pl.DataFrame:
    of_name = pl.col("name").cast(pl.String) == name
    halved = pl.when(of_name).then(pl.col("duration_ns") // 2).otherwise("duration_ns")
    return timetable(inferred.plan.with_ops(duration_ns=halved)).ops


def test_a_thread_that_goes_on_with_the_same_kernel_each_time_waited_for_it(tmp_path: Path) -> None:
    inferred = infer(polling(3).trace(tmp_path))
    assert waits(inferred, "quiet") == [("host waits", NOTIFY)] * 3
    summary = inferred.edges.filter(source="quiet").row(0, named=True)
    assert (summary["votes_for"], summary["votes_against"], summary["confidence"]) == (3, 0, 0.75)
    assert inferred.kept.quiet_latency_ns == -40 * US
    assert {dur for name, dur in rows(inferred, "name", "duration_ns") if name == "host waits"} == {0}
    assert inferred.replay.error == pytest.approx(0, abs=0.005)


def test_what_a_thread_waited_for_moves_it(tmp_path: Path) -> None:
    inferred = infer(polling(2).trace(tmp_path))
    first = half_as_long(inferred, NOTIFY).filter(pl.col("name").cast(pl.String) == DISPATCH).row(0, named=True)
    was = replayed_us(inferred, DISPATCH)[0][0]
    assert first["start_ns"] == (was - 500) * US


def test_once_is_no_repeat_and_said(tmp_path: Path) -> None:
    inferred = infer(polling(1).trace(tmp_path))
    assert waits(inferred, "quiet") == []
    assert any("1 stretch in which the host recorded nothing" in note for note in inferred.notes)
    assert inferred.replay.error == pytest.approx(0, abs=0.005)


def test_of_a_host_that_was_invented_nothing_is_told(tmp_path: Path) -> None:
    trace = polling(1).trace(tmp_path)
    inferred = infer(replace(trace, info={**trace.info, **INVENTED_HOST}))
    assert inferred.notes == ("the host of this simulated run is invented, so the plan has none",)


def test_a_thread_that_goes_on_at_other_times_did_not_wait(tmp_path: Path) -> None:
    inferred = infer(polling(3, early=400).trace(tmp_path))
    assert waits(inferred, "quiet") == []
    assert inferred.notes == ()


def backward() -> TraceFile:
    # thread 1   [mm 0-20: launch 5]                                                [add_ 500-520: launch 505]
    # thread 2                        [node 100-120: launch 105] [node 300-400: launch 305]
    file = TraceFile()
    for name, ts, dur, tid in (
        ("aten::mm", 0, 20, 1),
        (NODE, 100, 20, 2),
        (NODE, 300, 100, 2),
        ("aten::add_", 500, 20, 1),
    ):
        operator(file, name, ts, dur, tid)
        file.kernel(GEMM, ts + 8, 2, launch=ts + 5, launch_tid=tid)
    return file


def test_the_thread_of_a_backward_waits_for_the_forwards_which_waits_for_its_end(tmp_path: Path) -> None:
    inferred = infer(backward().trace(tmp_path))
    # thread 1's sign before is the end of its operator, at 20; thread 2's, at 400
    assert waits(inferred, "autograd") == handed_over()
    stretches = inferred.measured.hstack(inferred.plan.ops.select("stream", "name", "duration_ns"))
    summary = stretches.filter(pl.col("name").cast(pl.String) == "host waits").select(
        "stream", "start_ns", "end_ns", "duration_ns"
    )
    origin = 5 * US  # the first launch
    assert summary.rows() == [
        (FIRST_THREAD + 1, 0, 100 * US - origin, 80 * US),
        (FIRST_THREAD, 20 * US - origin, 500 * US - origin, 100 * US),
    ]  # fmt: skip
    assert inferred.edges.filter(source="autograd").get_column("confidence").to_list() == [1, 1]
    assert inferred.replay.error == pytest.approx(0, abs=0.01)


def test_a_node_whose_operator_begins_with_it_is_a_node(tmp_path: Path) -> None:
    # in whole µs, as profilers wrote until 2024, the range of a node and that of its operator have the same stamps
    file = backward()
    for ts, dur in ((100, 20), (300, 100)):
        operator(file, "MmBackward0", ts, dur, tid=2)
    file.events.reverse()
    assert waits(infer(file.trace(tmp_path)), "autograd") == handed_over("MmBackward0")


def test_what_the_backwards_thread_does_moves_the_forwards(tmp_path: Path) -> None:
    inferred = infer(backward().trace(tmp_path))
    of_backward = pl.col("stream") == FIRST_THREAD + 1
    longer = pl.when(of_backward).then(pl.col("duration_ns") * 2).otherwise("duration_ns")
    after = timetable(inferred.plan.with_ops(duration_ns=longer))
    # thread 2 works 80 until its first node, and from there on until 400: 380 in all, done twice
    assert after.makespan_ns - inferred.times.makespan_ns == 380 * US


def turns(num_turns: int) -> TraceFile:
    # two threads of no framework: [1: 0-100][2: 110-200][1: 210-300] ...
    file = TraceFile()
    for turn in range(num_turns):
        operator(file, "work", 100 * turn + 10, 90, tid=1 + turn % 2)
        file.kernel(GEMM, 100 * turn + 30, 20, launch=100 * turn + 20, launch_tid=1 + turn % 2)
    return file


@pytest.mark.parametrize(("num_turns", "found"), [(12, True), (4, False)])
def test_threads_that_take_turns_again_and_again_wait_for_each_other(
    tmp_path: Path, num_turns: int, found: bool
) -> None:
    inferred = infer(turns(num_turns).trace(tmp_path))
    assert bool(waits(inferred, "thread")) == found
    longer = pl.when(kind="host", stream=FIRST_THREAD).then(pl.col("duration_ns") * 2).otherwise("duration_ns")
    after = timetable(inferred.plan.with_ops(duration_ns=longer))
    of_other = (inferred.plan.ops.get_column("stream") == FIRST_THREAD + 1).to_numpy()
    assert (after.end_ns[of_other].max() > inferred.times.end_ns[of_other].max()) == found


@pytest.mark.parametrize(("pauses", "found"), [([300], True), ([100, 400, 700, 250], False)])
def test_what_a_thread_does_unrecorded_before_it_hands_over_takes_as_long_each_time(
    tmp_path: Path, pauses: list[int], found: bool
) -> None:
    # [1: 0-100]  300  [2: 400-500]  300  [1: 800-900] ...
    file, at = TraceFile(), 0
    for turn in range(12):
        operator(file, "work", at + 10, 90, tid=1 + turn % 2)
        file.kernel(GEMM, at + 30, 20, launch=at + 20, launch_tid=1 + turn % 2)
        at += 100 + pauses[turn % len(pauses)]
    assert bool(waits(infer(file.trace(tmp_path)), "thread")) == found


def test_threads_that_work_side_by_side_wait_for_nobody(tmp_path: Path) -> None:
    file = TraceFile()
    for turn in range(12):
        operator(file, "work", 150 * turn + 10, 90, tid=1)
        file.kernel(GEMM, 150 * turn + 30, 20, launch=150 * turn + 20, launch_tid=1)
        operator(file, "work", 210 * turn + 10, 100, tid=2)
        file.kernel(GEMM, 210 * turn + 60, 20, stream=9, launch=210 * turn + 22, launch_tid=2)
    assert waits(infer(file.trace(tmp_path)), "thread") == []


def test_deepseeks_dispatch_waits_for_its_counts_and_its_backward_for_its_forward(shared_data: Path) -> None:
    trace = open_trace(shared_data / "deepseek-v3-train.json.gz")
    assert isinstance(trace, Trace)
    inferred = infer(trace)
    polled = waits(inferred, "quiet")
    assert [waiter for waiter, _ in polled] == ["host waits"] * 4
    assert all("notify_dispatch" in awaited for _, awaited in polled)
    assert -67 * US <= inferred.kept.quiet_latency_ns <= -25 * US
    assert len(waits(inferred, "autograd")) == 28


def running_ahead(num_kernels: int, room: int) -> Plan:
    # launches of 5, kernels of 60: the host would run far ahead, but has room for so many launches in the queue
    host = Resource(stream=1000)
    calls = [
        Op(
            id=f"l{i}", name="cudaLaunchKernel", duration_ns=5 * US, resource=host, kind="host",
            after=(Wait(f"k{i - room}", since="start", why="host"),) if i >= room else (),
        )
        for i in range(num_kernels)
    ]  # fmt: skip
    kernels = [
        Op(id=f"k{i}", name="gemm", duration_ns=60 * US, after=(Wait(f"l{i}", why="launch", lag_ns=2 * US),))
        for i in range(num_kernels)
    ]
    return Plan.of([op for pair in zip(calls, kernels, strict=True) for op in pair], name="running ahead")


def test_launches_that_wait_for_room_in_the_queue_wait_for_the_device(tmp_path: Path) -> None:
    true = running_ahead(300, room=100)
    inferred = infer(open_again(simulate(true), tmp_path))
    queued = inferred.plan.waits.hstack(inferred.edges).filter(source="blocking")
    assert 190 <= queued.height <= 200
    assert queued.get_column("since").unique().to_list() == ["start"]
    assert inferred.replay.error == pytest.approx(0, abs=1e-3)
    halved = pl.when(kind="compute").then(pl.col("duration_ns") // 2).otherwise("duration_ns")
    spans = [timetable(plan.with_ops(duration_ns=halved)).makespan_ns for plan in (inferred.plan, true)]
    assert spans[0] == pytest.approx(spans[1], rel=0.01)


def test_launches_that_take_long_for_other_reasons_wait_for_nobody(tmp_path: Path) -> None:
    file = TraceFile()
    for i in range(100):
        call(file, "cudaLaunchKernel", 100 * i, 60 if i % 3 else 3, correlation=500 + i)
        file.kernel(GEMM, 70 * i + 5000, 60, linked=False, correlation=500 + i)
    assert waits(infer(file.trace(tmp_path)), "blocking") == []


def open_again(trace: Trace, folder: Path) -> Trace:
    """A trace written, and read as a profiler's would be."""
    weftrace.save(trace, folder / "run.json")
    read = open_trace(folder / "run.json")
    assert isinstance(read, Trace)
    return read


def test_silence_before_an_operator_is_not_told_to_be_the_operators(tmp_path: Path) -> None:
    # thread  [mm 0-20: launch 5-10]   nothing recorded   [to 3020-3040: launch 3030-3035]
    file = TraceFile()
    for name, ts in (("aten::mm", 0), ("aten::to", 3020)):
        operator(file, name, ts, 20)
        file.kernel(GEMM, ts + 40, 10, launch=ts + 5 if ts == 0 else ts + 10)
    inferred = infer(file.trace(tmp_path))
    of_host = [row for row in rows(inferred, "name", "duration_ns") if row[0].startswith("host work")]
    # from the first launch's end to where the second operator begins, and from there to its launch
    assert [name for name, _ in of_host] == ["host work", "host work: aten::to"]
    assert of_host[0][1] > 3_000 and of_host[1][1] <= 10
    assert inferred.replay.error == pytest.approx(0, abs=0.005)


def test_a_thread_does_not_poll_for_a_kernel_that_begins_after_it_has_gone_on(tmp_path: Path) -> None:
    # In each of three layers the host is quiet for 2 ms, and goes on 50 us before the GEMM that it launched before
    # begins, which is so short that it ends within the time that counts as "just then".
    file = TraceFile()
    for at in range(0, 9_000, 3_000):
        file.kernel(GEMM, at + 2_060, 10, launch=at).kernel(GEMM, at + 2_100, 10, launch=at + 2_010)
    inferred = infer(file.trace(tmp_path))
    assert "host waits" not in inferred.plan.ops.get_column("name").cast(pl.String)
    assert not any("clocks" in note for note in inferred.notes)

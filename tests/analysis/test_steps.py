"""One account a ProfilerStep, over a window of the device's time; the windows tile the trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from tests.analysis.random_traces import bits, device_events, of_kind, random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile, collective
from weftrace.analysis import Breakdown, breakdown, idle, outside_steps, overlap, queueing, steps
from weftrace.errors import TraceError
from weftrace.trace import Trace, Work, events_frame, open_trace, step_windows, work_of, works_of
from weftrace.units import US

COPY = "Memcpy HtoD (Pinned -> Device)"
PARTS = (
    "span_ns", "busy_ns", "idle_ns", "compute_ns", "communication_ns", "hidden_communication_ns",
    "exposed_communication_ns", "fused_ns", "memory_ns", "exposed_memory_ns", "serial_ns",
)  # fmt: skip


def two_steps() -> TraceFile:
    """Step 1's all-reduce runs into step 2, whose copy ran ahead.

    host      [step 1: 0-100][step 2: 100-200]
    device 7  [GEMM 50-150, of 1]           [GEMM 200-300, of 1][GEMM 300-400, of 2]
    device 20                                          [all-reduce 290-350, of 1]
    device 30             [copy 160-180, of 2]
    """
    return (
        TraceFile().host("ProfilerStep#1", 0, 100).host("ProfilerStep#2", 100, 100)
        .kernel(GEMM, 50, 100, launch=10).kernel(GEMM, 200, 100, launch=20).kernel(GEMM, 300, 100, launch=110)
        .kernel(ALL_REDUCE, 290, 60, launch=30, stream=20)
        .kernel(COPY, 160, 20, launch=105, stream=30, cat="gpu_memcpy")
    )  # fmt: skip


def three_steps() -> TraceFile:
    # host     [step 5: 0-100][step 6: 100-200]   gap   [step 7: 250-300, the last]
    # device       [GEMM 50-120, of 5][all-reduce 130-150, of 6]   [GEMM 220-230, of none]  [GEMM 280-400, of 7]
    return (
        TraceFile().host("ProfilerStep#5", 0, 100).host("ProfilerStep#6", 100, 100).host("ProfilerStep#7", 250, 50)
        .kernel(GEMM, 50, 70, launch=10).kernel(ALL_REDUCE, 130, 20, launch=100).kernel(GEMM, 220, 10, launch=210)
        .kernel(GEMM, 280, 120, launch=299)
    )  # fmt: skip


def test_a_window_ends_where_the_next_begins_and_holds_all_that_runs_in_it(tmp_path: Path) -> None:
    work = work_of(two_steps().trace(tmp_path))
    assert step_windows(work.events).rows() == [(1, 50 * US, 300 * US), (2, 300 * US, 400 * US)]
    first, second = steps(work)
    b = first.breakdown
    assert (b.span_ns, b.compute_ns, b.exposed_communication_ns, b.exposed_memory_ns, b.idle_ns) == (
        250 * US, 200 * US, 0, 20 * US, 30 * US,
    )  # fmt: skip
    assert (first.from_other_steps_ns, first.ran_ahead_ns, first.spilled_ns) == (20 * US, 0, 50 * US)
    b = second.breakdown
    assert (b.span_ns, b.compute_ns, b.communication_ns, b.hidden_communication_ns, b.idle_ns) == (
        100 * US, 100 * US, 50 * US, 50 * US, 0,
    )  # fmt: skip
    assert (second.from_other_steps_ns, second.ran_ahead_ns, second.spilled_ns) == (50 * US, 20 * US, 0)


def test_other_steps_work_in_between_is_not_idle(tmp_path: Path) -> None:
    """Step 2 opens early on a stream of its own, then waits while step 1's long tail runs: the device never idles."""
    # device 7  [GEMM 50-100, of 1][GEMM 110-300, of 1][GEMM 300-320, of 2]
    # device 20                [GEMM 100-110, of 2]
    file = TraceFile().host("ProfilerStep#1", 0, 20).host("ProfilerStep#2", 20, 20)
    file.kernel(GEMM, 50, 50, launch=5).kernel(GEMM, 110, 190, launch=6).kernel(GEMM, 300, 20, launch=25)
    file.kernel(GEMM, 100, 10, launch=22, stream=20)
    work = work_of(file.trace(tmp_path))
    assert [step.breakdown.idle_ns for step in steps(work)] == [0, 0]
    assert breakdown(work.of_step(2)).idle_ns == 0
    assert breakdown(work.of_step(2, by="launch")).idle_ns == 190 * US


def test_by_pencil_with_work_of_no_step(tmp_path: Path) -> None:
    first, second, last = steps(three_steps().trace(tmp_path))
    assert (first.step, second.step, last.step) == (5, 6, 7)
    assert (first.breakdown.span_ns, first.breakdown.compute_ns, first.breakdown.idle_ns) == (80 * US, 70 * US, 10 * US)
    assert (second.breakdown.span_ns, second.breakdown.exposed_communication_ns) == (150 * US, 20 * US)
    assert (second.breakdown.compute_ns, second.from_other_steps_ns) == (10 * US, 10 * US)  # launched between the steps
    assert last.breakdown.span_ns == 120 * US  # the last step is kept, though the device outlives its host range


def test_a_step_by_launch_is_what_it_launched(tmp_path: Path) -> None:
    trace = three_steps().trace(tmp_path)
    by_launch = [work_of(trace, step=step, step_by="launch") for step in (5, 6, 7)]
    assert [breakdown(work).span_ns for work in by_launch] == [70 * US, 20 * US, 120 * US]
    assert [work.step_by for work in by_launch] == ["launch"] * 3
    assert works_of(trace, step=6, step_by="launch")[0].events.equals(by_launch[1].events)
    assert work_of(trace, step=6).step_by == "window" and work_of(trace).step_by is None


def test_one_step_is_the_same_account(tmp_path: Path) -> None:
    for file in (two_steps(), three_steps()):
        trace = file.trace(tmp_path)
        for step in steps(trace):
            work = work_of(trace, step=step.step)
            assert breakdown(work) == step.breakdown
            assert steps(work) == (step,) and outside_steps(work) == ()
            assert work.steps == (step.step,)
            assert work.of_step(step.step).events.equals(work.events)


def test_an_unknown_step_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.json: no step 4: steps in this file: 5, 6, 7"):
        work_of(three_steps().trace(tmp_path), step=4)
    with pytest.raises(TraceError, match="steps in this file: none"):
        work_of(TraceFile().kernel(GEMM, 0, 1).trace(tmp_path), step=0)


def test_a_copy_that_waits_for_the_step_before_opens_its_steps_window(tmp_path: Path) -> None:
    """Nothing ran when it began: it did not run ahead, it is where the step starts."""
    file = TraceFile().host("ProfilerStep#1", 0, 100).host("ProfilerStep#2", 100, 100)
    file.kernel(GEMM, 50, 50, launch=10).kernel(COPY, 120, 10, launch=105, stream=30, cat="gpu_memcpy")
    first, second = steps(file.kernel(GEMM, 140, 10, launch=110).trace(tmp_path))
    assert (first.breakdown.span_ns, second.breakdown.span_ns) == (70 * US, 30 * US)
    assert second.ran_ahead_ns == 0


def test_a_step_of_copies_alone_has_a_window(tmp_path: Path) -> None:
    file = TraceFile().host("ProfilerStep#1", 0, 100).host("ProfilerStep#2", 100, 100)
    file.kernel(GEMM, 50, 50, launch=10).kernel(COPY, 90, 30, launch=105, stream=30, cat="gpu_memcpy")
    first, second = steps(file.trace(tmp_path))
    assert (first.breakdown.span_ns, second.breakdown.span_ns) == (40 * US, 30 * US)


def test_a_step_that_starts_before_the_one_before_it_has_no_time_of_its_own(tmp_path: Path) -> None:
    """A kernel of step 2 that needs nothing runs before step 1's first: no window is negative, and all add up."""
    file = TraceFile().host("ProfilerStep#1", 0, 10).host("ProfilerStep#2", 10, 10).host("ProfilerStep#3", 20, 10)
    file.kernel(GEMM, 40, 5, launch=12, stream=20).kernel(GEMM, 50, 50, launch=5).kernel(GEMM, 100, 10, launch=25)
    work = work_of(file.trace(tmp_path))
    assert [step.breakdown.span_ns for step in steps(work)] == [0, 50 * US, 10 * US]
    assert [(part.place, part.breakdown.span_ns) for part in outside_steps(work)] == [("before", 10 * US)]
    empty = work.of_step(1)
    assert empty.events.is_empty() and empty.start_ns == empty.end_ns == work.start_ns + 10 * US


def test_without_a_launch_an_event_opens_no_window(tmp_path: Path) -> None:
    # ROCm 6.1 left every RCCL kernel without a launch; it counts where it runs, and nobody is said to have launched it
    file = two_steps().kernel(ALL_REDUCE, 170, 10, stream=21, linked=False)  # after step 2's copy, in step 1's time
    first, second = steps(file.trace(tmp_path))
    assert (first.breakdown.span_ns, first.breakdown.communication_ns) == (250 * US, 20 * US)
    assert first.from_other_steps_ns == 20 * US and second.ran_ahead_ns == 20 * US  # the copy's, as before


def test_without_a_launch_an_event_goes_with_the_one_that_started_before_it(tmp_path: Path) -> None:
    file = three_steps().kernel(ALL_REDUCE, 60, 100, stream=20, linked=False)
    file.kernel(ALL_REDUCE, 225, 1, stream=20, linked=False).kernel(ALL_REDUCE, 10, 1, stream=20, linked=False)
    trace = file.trace(tmp_path)
    first, second = (work_of(trace, step=step, step_by="launch") for step in (5, 6))
    assert breakdown(first).communication_ns == 100 * US
    assert (
        breakdown(second).communication_ns == 20 * US
    )  # the one at 225 follows a GEMM of no step, the one at 10 nothing


def test_work_before_the_first_step_and_after_the_last_is_told_apart(tmp_path: Path) -> None:
    # device  [GEMM 10-30, of none]  [GEMM 50-120, of 5] ... [GEMM 280-400, of 7]  [GEMM 420-430, after the last]
    file = three_steps().kernel(GEMM, 10, 20, launch=None, linked=False).kernel(GEMM, 420, 10, launch=410)
    work = work_of(file.trace(tmp_path))
    before, after = outside_steps(work)
    assert (before.place, before.breakdown.span_ns, before.breakdown.compute_ns) == ("before", 40 * US, 20 * US)
    assert (after.place, after.breakdown.span_ns, after.breakdown.compute_ns) == ("after", 30 * US, 10 * US)
    assert_tiles(work)


def test_no_steps_no_result(tmp_path: Path) -> None:
    for trace in (TraceFile().kernel(GEMM, 0, 10).trace(tmp_path), Trace(events=events_frame({}, 0))):
        assert steps(trace) == () and outside_steps(trace) == ()


def test_a_step_without_device_work_is_not_told(tmp_path: Path) -> None:
    file = TraceFile().host("ProfilerStep#1", 0, 100).host("ProfilerStep#2", 100, 100).kernel(GEMM, 150, 10, launch=110)
    assert [step.step for step in steps(file.trace(tmp_path))] == [2]


def test_a_collective_cut_by_a_border_keeps_its_bandwidth_and_counts_once(tmp_path: Path) -> None:
    sizes = collective("allreduce") | {"In msg nelems": 3_000_000, "dtype": "Float", "Group size": 4}
    file = TraceFile().host("ProfilerStep#1", 0, 10).host("ProfilerStep#2", 10, 10)
    file.kernel(GEMM, 50, 50, launch=1).kernel(ALL_REDUCE, 80, 60, launch=2, stream=20, **sizes)
    work = work_of(file.kernel(GEMM, 100, 50, launch=11).trace(tmp_path))
    whole = overlap(work).collectives.row(0, named=True)
    first, second = (overlap(work.of_step(step)).collectives.row(0, named=True) for step in (1, 2))
    assert (first["busy_ns"], second["busy_ns"]) == (20 * US, 40 * US)
    assert (first["payload_bytes"], second["payload_bytes"]) == (12_000_000, None)  # it is told where it starts
    assert first["algbw_GBps"] == whole["algbw_GBps"] == 200.0


def test_the_queue_of_a_window_is_the_devices_and_its_delays_are_of_what_starts_in_it(tmp_path: Path) -> None:
    work = work_of(two_steps().trace(tmp_path))
    second = queueing(work.of_step(2))
    assert (second.num_linked, second.delay_max_ns) == (1, 190 * US)  # not the all-reduce, which started before
    assert (second.queue_max, second.queue_mean) == (0, 0.0)  # its one launch has started
    # 50-160: 2 of 5 launches are to come ... by pencil: 3 queued (20, 30, 110 and the copy at 105: 4) until the copy
    assert queueing(work.of_step(1)).queue_max == 4


def assert_tiles(work: Work) -> None:
    """Windows touch, and every part of them and of what lies outside adds up to the whole trace's."""
    windows = step_windows(work.events)
    assert windows["step"].to_list() == list(work.steps)
    assert windows["start_ns"][1:].to_list() == windows["end_ns"][:-1].to_list()
    assert (windows["start_ns"] <= windows["end_ns"]).all()
    summary = steps(work)
    assert [step.step for step in summary] == list(work.steps)
    if not summary:
        return
    parts = [*(step.breakdown for step in summary), *(part.breakdown for part in outside_steps(work))]
    for name in PARTS:
        assert sum(getattr(part, name) for part in parts) == getattr(breakdown(work), name), name
    one_by_one = [work.of_step(step) for step in work.steps]
    assert [breakdown(part) for part in one_by_one] == [step.breakdown for step in summary]
    first, last = windows["start_ns"][0], windows["end_ns"][-1]
    tiles = [*one_by_one, work.between(work.start_ns, first), work.between(last, work.end_ns)]
    whole, causes = idle(work), [idle(part) for part in tiles]
    for name in ("host_wait_ns", "dependency_wait_ns", "kernel_gap_ns", "unknown_ns"):
        assert sum(getattr(cause, name) for cause in causes) == getattr(whole, name), name
    assert [cause.idle_ns for cause in causes] == [breakdown(part).idle_ns for part in tiles]
    if work.start_ns < work.end_ns:  # each event starts in one of them; a trace without a length has no tiles
        assert sum(part.started.height for part in tiles) == work.events.height
    assert all(part.events["start_ns"].is_sorted() for part in tiles)


@settings(max_examples=examples(150))
@given(traces())
def test_windows_tile_every_trace(trace: Trace) -> None:
    assert_tiles(random_work(trace))


@settings(max_examples=examples(60))
@given(traces())
def test_a_window_counts_every_nanosecond_in_it(trace: Trace) -> None:
    work, events = random_work(trace), device_events(trace)
    compute, communication = of_kind(events, "compute"), of_kind(events, "communication")
    for step, (_, start, end) in zip(steps(work), step_windows(work.events).iter_rows(), strict=True):
        inside = np.zeros_like(compute)
        inside[start:end] = True
        assert step.breakdown == Breakdown(
            start_ns=start, span_ns=end - start, busy_ns=int((bits(events) & inside).sum()),
            compute_ns=int((compute & inside).sum()), communication_ns=int((communication & inside).sum()),
            hidden_communication_ns=int((compute & communication & inside).sum()),
            fused_ns=int((of_kind(events, "fused") & inside).sum()),
            memory_ns=int((of_kind(events, "memory") & inside).sum()),
            exposed_memory_ns=int((of_kind(events, "memory") & ~compute & ~communication & inside).sum()),
            serial_ns=step.breakdown.serial_ns,
        )  # fmt: skip
        launched = work.events.filter(pl.col("link").is_not_null())
        mine = pl.col("step").eq_missing(step.step)
        assert step.from_other_steps_ns == int((bits(launched.filter(~mine)) & inside).sum())
        ran = bits(launched.filter(mine))
        assert (step.ran_ahead_ns, step.spilled_ns) == (int(ran[:start].sum()), int(ran[end:].sum()))


@settings(max_examples=examples(30))
@given(traces())
def test_steps_by_launch_share_out_the_events(trace: Trace) -> None:
    work = random_work(trace)
    parts = [work.of_step(step, by="launch") for step in work.steps]
    assert sum(part.events.height for part in parts) == work.events["step"].count()
    windows = {
        int(str(name).removeprefix("ProfilerStep#")): (ts, ts + dur)
        for name, ts, dur in trace.events.select("name", "ts_ns", "dur_ns").iter_rows()
        if str(name).startswith("ProfilerStep#")
    }
    for ts, step in work.events.select("launch_ts_ns", "step").drop_nulls("launch_ts_ns").iter_rows():
        assert step == next((number for number, (start, end) in windows.items() if start <= ts < end), None)


def test_windows_tile_recorded_traces(recorded_traces: list[Path]) -> None:
    for path in recorded_traces:
        trace = open_trace(path)
        assert isinstance(trace, Trace)
        for work in works_of(trace):
            assert_tiles(work)

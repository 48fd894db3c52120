"""One breakdown a ProfilerStep."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.analysis.random_traces import random_work, traces
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import breakdown, steps
from weftrace.errors import TraceError
from weftrace.trace import Trace, events_frame, work_of
from weftrace.units import US


def three_steps() -> TraceFile:
    # host     [step 5: 0-100][step 6: 100-200]   gap   [step 7: 250-300, the last]
    # device       [GEMM 50-120, of 5][all-reduce 130-150, of 6]   [GEMM 220-230, of none]  [GEMM 280-400, of 7]
    return (
        TraceFile().host("ProfilerStep#5", 0, 100).host("ProfilerStep#6", 100, 100).host("ProfilerStep#7", 250, 50)
        .kernel(GEMM, 50, 70, launch=10).kernel(ALL_REDUCE, 130, 20, launch=100).kernel(GEMM, 220, 10, launch=210)
        .kernel(GEMM, 280, 120, launch=299)
    )  # fmt: skip


def test_by_pencil(tmp_path: Path) -> None:
    first, second, last = steps(three_steps().trace(tmp_path))
    assert (first.step, second.step, last.step) == (5, 6, 7)
    assert (first.breakdown.span_ns, first.breakdown.compute_ns) == (
        70 * US,
        70 * US,
    )  # its tail is its own, not step 6's
    assert (second.breakdown.span_ns, second.breakdown.exposed_communication_ns) == (20 * US, 20 * US)
    assert last.breakdown.span_ns == 120 * US  # the last step is kept, though the device outlives its window


def test_one_step_is_the_same_account(tmp_path: Path) -> None:
    trace = three_steps().trace(tmp_path)
    for step in steps(trace):
        work = work_of(trace, step=step.step)
        assert breakdown(work) == step.breakdown
        assert [s.breakdown for s in steps(work)] == [step.breakdown]


def test_an_unknown_step_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.json: no step 4: steps in this file: 5, 6, 7"):
        work_of(three_steps().trace(tmp_path), step=4)
    with pytest.raises(TraceError, match="steps in this file: none"):
        work_of(TraceFile().kernel(GEMM, 0, 1).trace(tmp_path), step=0)


def test_without_a_launch_an_event_goes_with_the_one_that_started_before_it(tmp_path: Path) -> None:
    # ROCm 6.1 left every RCCL kernel without a launch; they must not be missing from the steps
    file = three_steps().kernel(ALL_REDUCE, 60, 100, stream=20, linked=False)
    file.kernel(ALL_REDUCE, 225, 1, stream=20, linked=False).kernel(ALL_REDUCE, 10, 1, stream=20, linked=False)
    first, second, _ = steps(file.trace(tmp_path))
    assert first.breakdown.communication_ns == 100 * US
    assert (
        second.breakdown.communication_ns == 20 * US
    )  # the one at 225 follows a GEMM of no step, the one at 10 nothing


def test_no_steps_no_result(tmp_path: Path) -> None:
    assert steps(TraceFile().kernel(GEMM, 0, 10).trace(tmp_path)) == ()
    assert steps(Trace(events=events_frame({}, 0))) == ()


def test_a_step_without_device_work_is_not_told(tmp_path: Path) -> None:
    file = TraceFile().host("ProfilerStep#1", 0, 100).host("ProfilerStep#2", 100, 100).kernel(GEMM, 150, 10, launch=110)
    assert [step.step for step in steps(file.trace(tmp_path))] == [2]


@settings(max_examples=30)
@given(traces())
def test_steps_share_out_the_events(trace: Trace) -> None:
    work = random_work(trace)
    parts = [work.of_step(step) for step in work.steps]
    assert sum(part.events.height for part in parts) == work.events["step"].count()
    assert [step.breakdown for step in steps(work)] == [breakdown(part) for part in parts]
    windows = {
        int(str(name).removeprefix("ProfilerStep#")): (ts, ts + dur)
        for name, ts, dur in trace.events.select("name", "ts_ns", "dur_ns").iter_rows()
        if str(name).startswith("ProfilerStep#")
    }
    for ts, step in work.events.select("launch_ts_ns", "step").drop_nulls("launch_ts_ns").iter_rows():
        assert step == next((number for number, (start, end) in windows.items() if start <= ts < end), None)

"""What a pipeline's ranks did, from the ranges of their traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.pipeline.measured.rank_traces import write_ranks
from tests.tracefile import GEMM, TraceFile
from weftrace.errors import TraceError
from weftrace.pipeline import Action, Schedule
from weftrace.pipeline.measured.run_costs import costs_of_run
from weftrace.pipeline.measured.runs import has_actions, run_of
from weftrace.pipeline.measured.sourced_costs import costs_of_trace
from weftrace.trace import open_trace
from weftrace.units import US


def pair() -> Schedule:
    actions = [
        Action(rank=0, kind="F", stage=0, micro_batch=0),
        Action(rank=0, kind="B", stage=0, micro_batch=0),
        Action(rank=1, kind="F", stage=1, micro_batch=0),
        Action(rank=1, kind="B", stage=1, micro_batch=0),
    ]
    return Schedule.of(actions, name="pair", rank_of=[[0, 1]], num_micro_batches=1)


START, END = np.array([0, 40_000, 12_000, 20_000]), np.array([10_000, 60_000, 20_000, 36_000])


def test_actions_come_back_as_they_were_written(tmp_path: Path) -> None:
    waits = (np.array([0, 15_000, 0, 0]), np.array([0, 39_000, 12_000, 0]))
    folder = write_ranks(tmp_path / "ranks", pair(), [(START, END)] * 2, [waits] * 2)
    run = run_of(open_trace(folder), workers=1)
    assert (run.steps, run.num_ranks, run.basis, run.has_waits) == ((0, 1), 2, "host", True)
    step = run.of_step()
    assert [str(Action(**row)) for row in step.actions.select(*pair().actions.columns).rows(named=True)] == [
        "0F0", "0B0", "1F0", "1B0",
    ]  # fmt: skip
    first = step.actions["start_ns"][0]
    assert (step.actions["start_ns"] - first).to_list() == START.tolist()
    assert (step.actions["end_ns"] - first).to_list() == END.tolist()
    assert step.actions["waited_ns"].to_list() == [0, 24_000, 12_000, 0]
    assert (step.actions["waited_until_ns"] - first).to_list()[1:3] == [39_000, 12_000]
    assert step.actions["waited_until_ns"].to_list()[::3] == [-1, -1]
    assert step.makespan_ns == 60_000
    with pytest.raises(TraceError, match="no pipeline step 7; recorded are 0, 1"):
        run.of_step(7)


def test_a_whole_backward_is_not_taken_for_an_input_gradient(tmp_path: Path) -> None:
    """B takes 20 and 16 us: of these nothing tells W, so it is asked for; of halves, 10 and 8 are W."""
    ranks = open_trace(write_ranks(tmp_path / "ranks", pair(), [(START, END)]))
    with pytest.raises(TraceError, match=r"its backwards are B, the full backward.*--weight-share"):
        costs_of_trace(ranks)
    with pytest.raises(TraceError, match="from 0 to 1, not 2"):
        costs_of_trace(ranks, weight_share=2)
    summary = costs_of_trace(ranks, weight_share=0.5)
    assert (summary.costs.input_ns, summary.costs.weight_ns) == ((10_000, 8_000), (10_000, 8_000))
    assert summary.costs.backward_ns == (20_000, 16_000)
    assert summary.notes[-1].startswith("assumed: W is 0.5 of a full backward")
    assert costs_of_run(run_of(ranks), pair()).source.endswith("W is 0, because nothing tells W's share")
    assert "W is 0" not in summary.costs.source


def test_on_a_device_an_action_is_what_was_launched_in_its_range(tmp_path: Path) -> None:
    # host    [0F0 0-10]  [0B0 10-20]      device  0F0: 30-50 and 55-60   0B0: 60-90
    file = TraceFile().host("0F0", 0, 10).host("0B0", 10, 10)
    file.kernel(GEMM, 30, 20, launch=2).kernel(GEMM, 55, 5, launch=8).kernel(GEMM, 60, 30, launch=12)
    run = run_of(file.trace(tmp_path))
    assert run.basis == "device" and not run.has_waits
    first = run.actions["start_ns"][0]
    assert [(row["start_ns"] - first, row["end_ns"] - first) for row in run.actions.rows(named=True)] == [
        (0, 30 * US), (30 * US, 60 * US),
    ]  # fmt: skip


def test_what_tells_no_actions_is_refused(tmp_path: Path) -> None:
    trace = TraceFile().host("attn(F)", 0, 10).kernel(GEMM, 30, 20, launch=2).trace(tmp_path)
    assert not has_actions(trace)
    with pytest.raises(TraceError, match="no range names an action of a pipeline, such as 3F5"):
        run_of(trace)


def test_two_traces_of_one_rank_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        TraceFile(rank=3).host("0F0", 0, 10).write(tmp_path / f"{name}.json")
    with pytest.raises(TraceError, match="a second trace of rank 3"):
        run_of(open_trace(tmp_path), workers=1)


def test_torchs_own_ranges_are_read_where_a_device_tells_the_times(tmp_path: Path) -> None:
    file = TraceFile().host("ProfilerStep#3", 0, 40).host("PP:0F1", 0, 10).host("PP:1RECV_B0", 10, 5)
    file.host("PP:(0F2;3B0)OVERLAP_F_B", 15, 10).host("ProfilerStep#4", 40, 40).host("PP:0F1", 45, 10)
    for launch in (2, 16, 46):
        file.kernel(GEMM, 100 + launch, 8, launch=launch)
    run = run_of(file.trace(tmp_path))
    names = [str(Action(**row)) for row in run.actions.select(*pair().actions.columns).rows(named=True)]
    assert names == ["0F1", "0F2&3B0", "0F1"] and run.actions["step"].to_list() == [0, 0, 1]
    assert (run.actions["end_ns"] - run.actions["start_ns"]).to_list() == [8 * US] * 3
    with pytest.raises(TraceError, match="waits for messages inside its ranges, and the trace has no operators"):
        run_of(TraceFile().host("PP:0F1", 0, 10).trace(tmp_path))

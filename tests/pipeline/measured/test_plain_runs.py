"""Timelines of forwards and backwards are runs of a pipeline: their schedule is told, and what slipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.jobs import recipes, write
from tests.jobs.simulate import COMPUTE, Job, run
from weftrace.errors import TraceError
from weftrace.pipeline import Schedule, generate
from weftrace.pipeline.measured.plain_runs import measured_run, on_stages_of
from weftrace.pipeline.measured.sourced_costs import costs_of_trace
from weftrace.pipeline.measured.told_schedules import told_schedule
from weftrace.pipeline.plan_vs_measured.planned_and_measured import Slip, slip
from weftrace.trace import Job as Traces
from weftrace.trace import Trace, open_trace


def written(job: Job, folder: Path, how: str = "one_file") -> Trace | Traces:
    times = run(job)
    if how == "one_file":
        return open_trace(write.one_file(job, times, folder / "job.json"))
    if how == "table":
        return open_trace(write.table(job, times, folder / "job.parquet"))
    return open_trace(write.file_a_rank(job, times, folder / "ranks"))


def told(job: Job, folder: Path, how: str = "one_file", **facts: int) -> tuple[Schedule, Slip]:
    found = measured_run(written(job, folder, how), workers=1, **facts)
    schedule = told_schedule(found)
    return schedule, slip(schedule, on_stages_of(found, schedule))


@pytest.mark.parametrize("how", ["one_file", "table", "file_a_rank"])
def test_the_schedule_of_a_timeline_is_told(tmp_path: Path, how: str) -> None:
    job = recipes.pipeline(2, 4)
    schedule, found = told(job, tmp_path, how)
    assert schedule == generate("1f1b", num_ranks=4, num_micro_batches=6)
    last, own = max(op.step for op in job.ops), run(job)
    ops = [at for at, op in enumerate(job.ops) if op.step == last and op.dp == 0 and op.micro_batch >= 0]
    ops = [at for at in ops if job.ops[at].kind == COMPUTE]
    span = max(own.end[at] for at in ops) - min(own.began[at] for at in ops)
    assert found.measured_ns == pytest.approx(span, abs=2_000)
    assert abs(found.error) < 0.01
    assert any("one of 2 replicas" in note for note in found.notes)


@pytest.mark.parametrize(("name", "schedule"), [("gpipe", "gpipe"), ("interleaved", "interleaved"), ("zb1p", "zb1p")])
def test_schedules_are_told_apart(tmp_path: Path, name: str, schedule: str) -> None:
    found, summary = told(recipes.pipeline(1, 4, schedule=schedule, num_mb=8, steps=2), tmp_path)
    assert found == generate(name, num_ranks=4, num_micro_batches=8)
    assert abs(summary.error) < 0.02


def test_a_slow_replica_is_the_one_that_is_taken(tmp_path: Path) -> None:
    job = recipes.pipeline(2, 2, steps=2)
    for op in job.ops:
        if op.kind == COMPUTE and op.dp == 1 and op.stage == 1:
            op.ns *= 1.5
    _, slow = told(job, tmp_path)
    _, fast = told(job, tmp_path, replica=0)
    assert slow.measured_ns > 1.2 * fast.measured_ns
    assert "DP 1" in " ".join(slow.notes) and "because its steps take longest" in " ".join(slow.notes)
    with pytest.raises(TraceError, match="no replica 2: there are 2, counted from 0"):
        told(job, tmp_path, replica=2)


def test_an_order_of_no_family_is_a_schedule_as_it_ran(tmp_path: Path) -> None:
    # rank 0: F0 F1 B1 B0; rank 1: F0 F1 B1 B0
    events = []
    for rank in range(2):
        for at, (name, number) in enumerate((("forward", 0), ("forward", 1), ("backward", 1), ("backward", 0))):
            start = 10 * at + (rank if name == "forward" else 20 - rank)
            events.append({"name": name, "ph": "X", "pid": 0, "tid": rank, "ts": 1000 * start, "dur": 800,
                           "args": {"pp_rank": rank, "step": 7, "micro_batch": number}})  # fmt: skip
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = measured_run(open_trace(path))
    schedule = told_schedule(found)
    assert schedule.name == "as it ran" and found.steps == (7,)
    assert [str(action) for action in schedule.listed() if action.rank == 0] == ["0F0", "0F1", "0B1", "0B0"]
    assert slip(schedule, found).measured_ns == 50_800_000


def test_costs_are_over_all_replicas(tmp_path: Path) -> None:
    job = recipes.pipeline(2, 4)
    costs = costs_of_trace(written(job, tmp_path), weight_share=0.5)
    assert costs.costs.forward_ns == pytest.approx((1e6,) * 4, rel=0.01)
    assert costs.costs.backward_ns == pytest.approx((2e6,) * 4, rel=0.01)
    assert "over all 2 data-parallel replicas" in costs.notes


def test_a_measured_job_of_eight_ranks(shared_data: Path) -> None:
    found = measured_run(open_trace(shared_data / "bytedance-straggler-ST.json.gz"))
    assert told_schedule(found, 23).name == generate("1f1b", num_ranks=4, num_micro_batches=4).name
    assert abs(slip(told_schedule(found), found).error) < 0.01

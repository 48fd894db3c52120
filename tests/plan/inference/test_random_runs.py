"""The random runs themselves: what the other tests of this folder take for the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import weftrace
from tests.plan.inference.random_runs import random_run
from weftrace.trace import Trace, work_of


def test_a_trace_tells_when_each_op_ran_and_what_launched_it(tmp_path: Path) -> None:
    for seed in range(12):
        run = random_run(seed)
        for rank in run.plan.ranks:
            weftrace.save(run.trace(rank), tmp_path / "run.json")
            read = weftrace.open(tmp_path / "run.json")
            assert isinstance(read, Trace) and not read.simulated and not read.quality.num_dropped
            work = work_of(read)
            ops = run.times.ops.with_row_index("row").filter(pl.col("kind") != "host", rank=rank).sort("start_ns")
            assert work.num_unlinked == 0 and work.num_overlapping == 0
            assert work.events.get_column("kind").cast(pl.String).equals(ops.get_column("kind").cast(pl.String))
            off_ns = work.events.get_column("start_ns") - work.start_ns - (ops["start_ns"] - ops["start_ns"][0])
            assert off_ns.abs().max() < (1_000 if run.shape.whole_us else 1)


def test_hidden_waits_leave_no_record() -> None:
    run = random_run(0, num_ranks=1)
    names = {
        shown: set(run.trace(0, shown).events.get_column("name").cast(pl.String).unique())
        for shown in ("records", "calls", "nothing")
    }
    assert {"Stream Wait Event", "cudaEventRecord", "cudaStreamWaitEvent"} <= names["records"]
    assert names["records"] - names["calls"] >= {"Stream Wait Event", "cudaEventRecord"}
    assert names["calls"] - names["nothing"] == {"cudaStreamWaitEvent"}


def test_runs_differ_in_what_an_inference_could_assume() -> None:
    runs = [random_run(seed) for seed in range(40)]
    launches = [run.plan.waits.filter(why="launch").get_column("lag_ns").to_numpy() for run in runs]
    medians = np.array([np.median(lags) for lags in launches])
    assert medians.max() > 3 * medians.min()
    assert all(np.ptp(lags) > lags.mean() / 2 for lags in launches)
    assert {len(run.plan.ranks) for run in runs} >= {1, 2, 3, 4}
    assert {run.shape.has_phases for run in runs} == {run.shape.whole_us for run in runs} == {True, False}

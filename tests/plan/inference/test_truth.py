"""Inference against truth: random runs whose plan is known, written as a profiler would, read, inferred and replayed.

`pytest -s` prints what was found, in each way in which a file may tell of waits between streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import weftrace
from tests.fuzz import examples
from tests.plan.bellman_ford import constraints_of, relaxed
from tests.plan.inference.random_runs import Run, Shown, random_run
from tests.plan.inference.truth import Found, found, inferred_crossings, inferred_from, reread, span_ns, without_a_wait
from tests.plan.path_links import check_path
from tests.plan.random_plans import Frames
from weftrace.advice.jobs import infer_job
from weftrace.plan import Inferred, Plan, Timetable, critical_path, infer
from weftrace.trace import Trace


def some(num: int) -> int:
    """More than of other examples: of too few, one that is missed is a tenth."""
    return min(num, 3 * examples(num) // 2)


#: Seeds of each way to show waits, and of jobs of two ranks and more: up to 200 runs in all.
SEEDS: dict[Shown, range] = {
    "records": range(some(70)),
    "calls": range(70, 70 + some(60)),
    "nothing": range(130, 130 + some(60)),
}
JOBS = range(190, 190 + some(10))
#: More, in which autograd's thread launches a part.
AUTOGRAD = range(200, 206)
MOST_OFF = 0.01
NOTHING = Found(num_true=0, num_found=0, num_inferred=0, num_exact=0, num_sound=0, num_sure=0, num_sure_and_sound=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@cache
def runs(shown: Shown, folder: Path) -> list[tuple[int, Run, Inferred]]:
    made = [(seed, random_run(seed, num_ranks=1)) for seed in SEEDS[shown]]
    return [(seed, run, inferred_from(run, shown, folder)) for seed, run in made]


@pytest.mark.parametrize("shown", SEEDS)
def test_a_replay_spans_what_was_measured(shown: Shown, folder: Path) -> None:
    errors = {seed: inferred.replay.error for seed, _, inferred in runs(shown, folder)}
    off = np.abs(list(errors.values()))
    print(f"\n{shown}: span off by {np.median(off):.2%} (median), {off.max():.2%} (most) of {len(off)} runs")
    assert {seed: error for seed, error in errors.items() if abs(error) > MOST_OFF} == {}


@pytest.mark.parametrize(
    ("shown", "recall", "precision"), [("records", 1, 1), ("calls", 0.98, 0.93), ("nothing", 0.98, 0.96)]
)
def test_waits_between_streams_are_found(shown: Shown, recall: float, precision: float, folder: Path) -> None:
    total = sum((found(run, inferred) for _, run, inferred in runs(shown, folder)), NOTHING)
    print(f"\n{shown}: {total}")
    assert total.num_found >= recall * total.num_true
    assert total.num_sound >= precision * total.num_inferred
    assert total.num_sure_and_sound >= 0.99 * total.num_sure


def scaled(kind: str, factor: float) -> Callable[[Plan], Plan]:
    time = pl.col("duration_ns")
    return lambda plan: plan.with_ops(duration_ns=pl.when(pl.col("kind") == kind).then(time * factor).otherwise(time))


@pytest.mark.parametrize("shown", SEEDS)
@pytest.mark.parametrize(("kind", "factor"), [("communication", 0.5), ("communication", 1.5), ("compute", 0.7)])
def test_a_what_if_comes_out_as_on_the_true_plan(shown: Shown, kind: str, factor: float, folder: Path) -> None:
    change = scaled(kind, factor)
    ends = {
        seed: (span_ns(change(inferred.plan)), span_ns(change(run.plan))) for seed, run, inferred in runs(shown, folder)
    }
    off = {seed: found / true - 1 for seed, (found, true) in ends.items()}
    summary(f"{shown}, {kind} x{factor}", off)
    assert {seed: each for seed, each in off.items() if abs(each) > 2 * MOST_OFF} == {}


@pytest.mark.parametrize(("shown", "share"), [("records", 1), ("calls", 0.8), ("nothing", 0.75)])
def test_a_dropped_wait_saves_what_it_saves_on_the_true_plan(shown: Shown, share: float, folder: Path) -> None:
    # Where records are hidden, a wait that never held anything up is not found, and may, once another is dropped.
    off = {}
    for seed, run, inferred in runs(shown, folder):
        if (dropped := without_a_wait(run, inferred)) is not None:
            off[seed] = span_ns(dropped[0]) / span_ns(dropped[1]) - 1
    summary(f"{shown}, a wait dropped", off)
    assert np.mean(np.abs(list(off.values())) <= 2 * MOST_OFF) >= share


def summary(what: str, off: Mapping[Any, float]) -> None:
    size = np.abs(list(off.values()))
    within = (size <= 2 * MOST_OFF).mean()
    print(f"\n{what}: off by {np.median(size):.2%} (median), {size.max():.2%} (most), {within:.0%} of {len(off)} runs "
          f"within {2 * MOST_OFF:.0%}")  # fmt: skip


def test_a_jobs_plan_spans_what_was_measured_and_changes_as_the_true_one(folder: Path) -> None:
    slow = (pl.col("kind") == "compute") & (pl.col("rank") == 1)
    time = pl.col("duration_ns")
    changes: list[Callable[[Plan], Plan]] = [
        scaled("communication", 0.5),
        scaled("compute", 0.7),
        lambda plan: plan.with_ops(duration_ns=pl.when(slow).then(time * 1.3).otherwise(time)),
    ]
    spans: dict[int, float] = {}
    off: dict[tuple[int, int], float] = {}
    for seed in JOBS:
        run = random_run(seed, num_ranks=2 + seed % 3)
        ranks = [reread(run, "records", folder, rank) for rank in run.plan.ranks]
        job = infer_job(ranks)
        spans[seed] = job.replay.error
        off |= {
            (seed, at): span_ns(change(job.plan)) / span_ns(change(run.plan)) - 1 for at, change in enumerate(changes)
        }
    summary("jobs, replayed", spans)
    summary("jobs, communication x0.5, compute x0.7 and one rank slower", off)
    assert all(abs(error) <= MOST_OFF for error in spans.values()), spans
    assert all(abs(each) <= 2 * MOST_OFF for each in off.values()), off


def test_a_plan_of_two_threads_that_wait_for_each_other_changes_as_the_true_one(folder: Path) -> None:
    spans: dict[int, float] = {}
    off: dict[tuple[int, str], float] = {}
    for seed in AUTOGRAD:
        run = random_run(seed, num_ranks=1, autograd=True)
        inferred = inferred_from(run, "calls", folder)
        assert (inferred.edges.get_column("source") == "autograd").any()
        spans[seed] = inferred.replay.error
        for kind in ("communication", "compute", "host"):
            change = scaled(kind, 0.7)
            off[seed, kind] = span_ns(change(inferred.plan)) / span_ns(change(run.plan)) - 1
    summary("autograd, replayed", spans)
    summary("autograd, communication, compute and host x0.7", off)
    assert all(abs(error) <= MOST_OFF for error in spans.values()), spans
    assert all(abs(each) <= 2 * MOST_OFF for each in off.values()), off


def by_kind(times: Timetable) -> dict[str, float]:
    """What the critical path is made of: the share of the makespan that ops of each kind have."""
    path = critical_path(times).group_by(pl.col("kind").cast(pl.String)).agg(pl.sum("until_ns") - pl.sum("from_ns"))
    return {kind: time_ns / times.makespan_ns for kind, time_ns in path.iter_rows()}


@pytest.mark.parametrize(("shown", "share"), [("records", 0.9), ("calls", 0.8), ("nothing", 0.7)])
def test_the_critical_path_is_made_of_what_the_true_one_is(shown: Shown, share: float, folder: Path) -> None:
    off = {}
    for seed, run, inferred in runs(shown, folder)[::2]:
        true, own = by_kind(run.times), by_kind(inferred.times)
        off[seed] = max(abs(own.get(kind, 0) - true.get(kind, 0)) for kind in {*true, *own})
    summary(f"{shown}, share of any kind of op in the critical path", off)
    assert np.mean(np.array(list(off.values())) <= 2 * MOST_OFF) >= share


def test_the_critical_path_is_a_longest_path(folder: Path) -> None:
    for _, _, inferred in runs("records", folder)[::8] + runs("calls", folder)[::8]:
        plan, times = inferred.plan, inferred.times
        starts, ends = relaxed(constraints_of(plan.ops, plan.waits, plan.gap_ns))
        assert (starts, ends) == (times.start_ns.tolist(), times.end_ns.tolist())
        frames = Frames(ops=plan.ops, waits=plan.waits, gap_ns=plan.gap_ns, spoilt="")
        check_path(frames, times, critical_path(times))


def test_on_a_real_file_the_waits_found_with_its_records_hidden_are_those_recorded(shared_data: Path) -> None:
    # One wait is recorded. Nothing was held up by it, so nothing votes: it is told by what is left, and says so.
    trace = weftrace.open(shared_data / "hta-event-sync-multi-stream.json.gz")
    assert isinstance(trace, Trace)
    hidden = replace(
        trace, events=trace.events.filter(pl.col("cat") != "cuda_sync", pl.col("name") != "cudaEventRecord")
    )
    true, guessed = (
        set(inferred_crossings(infer(each)).select("op", "on").rows()) for each in (trace, hidden)
    )  # fmt: skip
    both = len(true & guessed)
    print(f"\n{trace.path}: recall {both / len(true):.0%} of {len(true)}, precision {both / len(guessed):.0%}")
    assert true == guessed
    assert len(true) == 1

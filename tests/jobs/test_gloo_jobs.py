"""Real trainings over gloo with a slow rank: it is named, and S is what the clock says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.fuzz import thorough_case
from tests.jobs.gloo_jobs import PLANTED, STEPS, record
from tests.living import SIZE, Ranks
from weftrace.advice import infer_job, infer_lanes_of, slowdown_of
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.pipeline import generate
from weftrace.pipeline.measured.plain_runs import measured_run
from weftrace.pipeline.measured.run_costs import costs_of_run
from weftrace.pipeline.measured.told_schedules import told_schedule
from weftrace.pipeline.plan_vs_measured.planned_and_measured import slip
from weftrace.trace import open_trace

TRIES = 4


def until(fits: Callable[[], bool]) -> bool:
    """Again, where others keep this machine busy: a rank that gets no processor is slow too."""
    return any(fits() for _ in range(TRIES))


def told(folder: Path) -> JobSlowdown:
    return slowdown_of(infer_lanes_of(open_trace(folder), workers=1))


@pytest.mark.thorough  # times of real processes: a busy machine has other ones
@pytest.mark.parametrize("name", ["ddp, forward", "ddp, loader", "1f1b, forward"])
def test_a_planted_sleep_is_told(ranks: Ranks, tmp_path: Path, name: str) -> None:
    kind, slow = PLANTED[name]

    def fits() -> bool:
        steps = record(ranks, kind, tmp_path / "slow", slow)
        ratio = steps / record(ranks, kind, tmp_path / "evenly", slow.of_all(SIZE))
        found = told(tmp_path / "slow")
        assert found.num_ranks == SIZE and found.num_steps == STEPS and found.is_trusted
        first = found.causes[0]
        is_named = slow.rank in first.ranks or slow.rank in first.stages  # of one pipeline a rank is a stage
        worst = int(found.workers.sort("slowdown", descending=True).get_column("rank")[0])
        return is_named and worst == slow.rank and abs(found.slowdown - ratio) < 0.08

    assert until(fits)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("1f1b", "1F1B"), thorough_case("gpipe", "GPipe"), thorough_case("interleaved", "interleaved 1F1B")],
)
def test_pipelines_of_torch(ranks: Ranks, tmp_path: Path, kind: str, name: str) -> None:
    record(ranks, kind, tmp_path)
    inferred = infer_job(open_trace(tmp_path), workers=1)
    works = inferred.works
    assert [dict(work.trace.plain.workers[0].places) for work in works if work.trace.plain] == [
        {"pp": stage} for stage in range(SIZE)
    ]
    pairs = pl.concat([work.events.filter(pl.col("group_size") == 2) for work in works])
    assert pairs.height == pairs.select("group", "comm_seq").unique().height * 2  # each has its partner
    assert pairs.height == 2 * STEPS * (48 if kind != "interleaved" else 2 * 7 * 8)
    run = measured_run(open_trace(tmp_path), workers=1)
    assert run.has_waits and len(run.steps) == STEPS
    assert name in {told_schedule(run, step).name for step in run.steps}  # a busy machine may disturb some of 1F1B


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("dualpipev", "dualpipev"),
        *(thorough_case(name, name) for name in ("gpipe", "interleaved", "interleaved-zb", "zbv")),
        thorough_case("looped", None),
    ],
)
def test_runs_of_torch_are_read_by_its_names(ranks: Ranks, tmp_path: Path, kind: str, family: str | None) -> None:
    """Whatever the times are: the order is that of the family, waits are none of the costs, and causes add up."""
    record(ranks, kind, tmp_path)
    run = measured_run(open_trace(tmp_path), workers=1)
    schedule = told_schedule(run)
    assert (run.basis, run.has_waits, len(run.steps)) == ("host", True, STEPS)
    if family is None:
        assert schedule.name == "as it ran"
    else:
        assert schedule == generate(family, num_ranks=SIZE, num_micro_batches=8)
    found = slip(schedule, run)
    assert found.measured_ns - found.planned_ns == found.own_ns + found.p2p_ns + found.between_ns - found.slack_ns
    forward = costs_of_run(run, schedule, typical="median").forward_ns
    layer = 2_500_000 if schedule.num_stages == 2 * SIZE else 5_000_000  # it sleeps so long
    assert isinstance(forward, tuple) and min(forward) >= layer
    assert [step.step for step in found.steps if step.forecast_ns] == list(run.steps)

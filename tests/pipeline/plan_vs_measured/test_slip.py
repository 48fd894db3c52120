"""A measured step beside its plan: what was injected is what is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.pipeline.measured.rank_traces import write_ranks
from weftrace.errors import TraceError
from weftrace.pipeline import Action, Costs, Schedule, generate, plan_of, simulate
from weftrace.pipeline.generators.dualpipe import dualpipe, dualpipe_v
from weftrace.pipeline.measured.runs import MeasuredRun, run_of
from weftrace.pipeline.plan_vs_measured.planned_and_measured import Slip, planned_of, slip
from weftrace.plan import Timetable, timetable
from weftrace.trace import open_trace

COSTS = Costs(forward_ns=10_000, input_ns=11_000, weight_ns=8_000, overlapped_ns=24_000, latency_ns=2_000)


def jittered(schedule: Schedule, costs: Costs, seed: int) -> tuple[Timetable, np.ndarray, np.ndarray]:
    """The plan with durations and messages that take longer: its times, what was added to actions, and to messages."""
    plan, rng = plan_of(schedule, costs), np.random.default_rng(seed)
    longer = rng.integers(0, 3_000, len(schedule))
    later = rng.integers(0, 2_000, len(plan.waits)) * (rng.random(len(plan.waits)) < 0.3)
    waits = plan.waits.with_columns(lag_ns=pl.col("lag_ns") + pl.Series(later))
    ops = plan.ops.with_columns(duration_ns=pl.col("duration_ns") + pl.Series(longer))
    return timetable(replace(plan, ops=ops, waits=waits)), longer, later


def measured(tmp_path: Path, schedule: Schedule, times: Timetable, costs: Costs | None = COSTS) -> Slip:
    """Through traces, with the waits that the runtime would have told."""
    num = len(schedule)
    start, end = times.start_ns[:num], times.end_ns[:num]
    rank = schedule.actions["rank"].to_numpy()
    free = np.where(np.diff(rank, prepend=-1) != 0, 0, np.roll(end, 1))
    folder = write_ranks(tmp_path, schedule, [(start, end)], [(free, start)])
    return slip(schedule, run_of(open_trace(folder), workers=1), costs)


@pytest.mark.parametrize("schedule", [dualpipe(4, 8), dualpipe_v(2, 6)], ids=lambda s: s.name)
@pytest.mark.parametrize("seed", range(3))
def test_injected_causes_are_recovered_exactly(tmp_path: Path, schedule: Schedule, seed: int) -> None:
    times, longer, later = jittered(schedule, COSTS, seed)
    summary = measured(tmp_path, schedule, times)
    assert summary.measured_ns == times.makespan_ns and summary.planned_ns == simulate(schedule, COSTS).makespan_ns
    assert (
        summary.measured_ns - summary.planned_ns
        == summary.own_ns + summary.p2p_ns + summary.between_ns - summary.slack_ns
    )
    assert summary.actions["own_ns"].to_list() == longer.tolist()
    assert summary.between_ns == 0
    # Along the path: the messages on it carry what was injected, as far as they were waited for.
    injected = dict(zip(plan_of(schedule, COSTS).waits.select("op", "on").rows(), later, strict=True))
    for row in summary.actions[list(summary.path)].with_columns(row=pl.Series(summary.path)).rows(named=True):
        if row["reason"] == "input" and row["kind"] != "F&B":  # of two messages the later one is taken
            assert row["p2p_ns"] == injected[row["row"], row["cause"]]
    assert summary.own_ns == sum(longer[row] for row in summary.path)
    ranks = summary.ranks
    assert [int(ranks[f"{name}_ns"].sum()) for name in ("own", "p2p", "between")] == [
        summary.own_ns, summary.p2p_ns, summary.between_ns,
    ]  # fmt: skip
    assert (ranks["busy_ns"] + ranks["idle_ns"]).to_list() == [summary.measured_ns] * schedule.num_ranks


def test_a_run_as_planned_has_no_slip(tmp_path: Path) -> None:
    schedule = dualpipe(4, 8)
    summary = measured(tmp_path, schedule, timetable(plan_of(schedule, COSTS)))
    assert (summary.own_ns, summary.p2p_ns, summary.between_ns, summary.slack_ns) == (0, 0, 0, 0)
    assert summary.error == 0 and summary.notes == ()
    assert set(summary.actions["late_ns"]) == {0}


def test_without_costs_the_run_gives_them_and_the_error_is_the_predictions(tmp_path: Path) -> None:
    schedule = dualpipe(4, 8)
    summary = measured(tmp_path, schedule, timetable(plan_of(schedule, COSTS)), costs=None)
    assert summary.costs_from == "run" and summary.error == 0
    assert summary.costs.forward_ns == (10_000,) * 4 and summary.costs.latency_ns == 2_000
    # Pairs of stages that did not run together gain as much of F + B = 29 as those that did.
    assert summary.costs.overlapped_ns == ((24_000,) * 4,) * 4


@pytest.mark.parametrize(
    ("change", "forward", "gradient"),
    [
        ({"latency_ns": 700}, 700, 700),
        ({"latency_ns": 700, "bytes_per_s": 1e9, "message_bytes": 1_500}, 2_200, 2_200),
        ({"latency_ns": 700, "bytes_per_s": 1e9, "message_bytes": 1_500, "blocking": True}, 2_200, 2_200),
    ],
)
def test_what_a_message_was_to_take_is_read_from_every_kind_of_plan(
    change: dict[str, Any], forward: int, gradient: int
) -> None:
    # rank 0  F0 .. .. B0      one micro-batch: no message waits for another
    # rank 1     F0 B0
    order = [(0, "F"), (0, "B"), (1, "F"), (1, "B")]
    actions = [Action(rank=r, kind=k, stage=r, micro_batch=0) for r, k in order]  # type: ignore[arg-type]
    schedule = Schedule.of(actions, name="by hand", rank_of=[[0, 1]], num_micro_batches=1)
    planned = planned_of(simulate(schedule, Costs(forward_ns=10_000, input_ns=11_000, weight_ns=8_000, **change)))
    assert planned.transit_ns.tolist() == [forward, gradient]
    assert planned.start_ns.tolist() == [0, 39_000 + 2 * forward, 10_000 + forward, 20_000 + forward]


def test_an_output_that_leaves_before_its_pair_ends_has_a_negative_transit() -> None:
    early = replace(COSTS, output_ready=(0.5, 0.5), latency_ns=1_000)
    transit = planned_of(simulate(dualpipe(4, 8), early)).transit_ns
    assert set(transit.tolist()) <= {0, 1_000, 1_000 - 12_000}
    assert 1_000 - 12_000 in transit


def test_a_run_of_another_plan_is_refused_with_the_first_action_that_differs(tmp_path: Path) -> None:
    schedule = dualpipe(4, 8)
    times = timetable(plan_of(schedule, COSTS))
    num = len(schedule)
    folder = write_ranks(tmp_path / "a", schedule, [(times.start_ns[:num], times.end_ns[:num])])
    run = run_of(open_trace(folder), workers=1)
    with pytest.raises(TraceError, match=r"action 1 of rank 0 in step 0 is 0F0; .* has 0F1 there"):
        slip(schedule.with_actions(schedule.actions[[1, 0, *range(2, num)]], name="other"), run, COSTS)
    with pytest.raises(TraceError, match=r"traces of 4 ranks; .* has 2"):
        slip(dualpipe_v(2, 8), run, COSTS)
    with pytest.raises(TraceError, match="no more on that rank"):
        slip(dualpipe(4, 8).with_actions(schedule.actions.filter(pl.col("micro_batch") < 1)), run, COSTS)
    with pytest.raises(TraceError, match="no pipeline step 4"):
        slip(schedule, run, COSTS, step=4)


def with_clocks(run: MeasuredRun, ahead_ns: list[int]) -> MeasuredRun:
    """The run with the clock of each rank ahead by so much."""
    ahead = pl.Series(np.array(ahead_ns)[run.actions["rank"].to_numpy()])
    until = pl.col("waited_until_ns")
    moved = run.actions.with_columns(
        pl.col("start_ns", "end_ns") + ahead, pl.when(until >= 0).then(until + ahead).otherwise(until)
    )
    return replace(run, actions=moved)


def test_clocks_that_differ_are_brought_together_by_the_messages_between_them(tmp_path: Path) -> None:
    schedule = dualpipe(4, 8)
    times, _, _ = jittered(schedule, COSTS, 1)
    num, rank = len(schedule), schedule.actions["rank"].to_numpy()
    start, end = times.start_ns[:num], times.end_ns[:num]
    free = np.where(np.diff(rank, prepend=-1) != 0, 0, np.roll(end, 1))
    same = run_of(open_trace(write_ranks(tmp_path / "same", schedule, [(start, end)], [(free, start)])), workers=1)
    apart = with_clocks(same, [0, 700_000, -300_000, 40_000])
    true, summary = slip(schedule, same, COSTS), slip(schedule, apart, COSTS)
    assert true.notes == () and "clocks of the ranks differed by up to 1.00 ms" in summary.notes[0]
    assert abs(summary.measured_ns - true.measured_ns) <= 2_000  # the jitter of the quickest messages
    assert summary.actions["own_ns"].to_list() == true.actions["own_ns"].to_list()
    assert (
        summary.measured_ns - summary.planned_ns
        == summary.own_ns + summary.p2p_ns + summary.between_ns - summary.slack_ns
    )


def test_clocks_that_differ_by_less_than_messages_take_are_told_by_those_waited_for_both_ways(tmp_path: Path) -> None:
    costs = Costs(forward_ns=10_000_000, input_ns=8_000_000, weight_ns=4_000_000, latency_ns=500_000)
    run = measured(tmp_path / "a", schedule := generate("1f1b", num_ranks=4, num_micro_batches=8),
                   timetable(plan_of(schedule, costs)), None).run  # fmt: skip
    apart = with_clocks(run, [0, 300_000, 600_000, 900_000])
    summary = slip(schedule, apart)
    assert (summary.p2p_ns, summary.error, summary.costs.latency_ns) == (0, 0, 500_000)
    assert "seem to have differed by up to 900 µs (± 1.50 ms)" in summary.notes[0]
    assert slip(schedule, replace(apart, has_one_clock=True)).notes == ()
    late = run.actions.with_columns(pl.when(pl.col("kind") == "F").then("waited_ns").otherwise(0).alias("waited_ns"))
    assert slip(schedule, replace(apart, actions=late)).notes == ()  # gradients may have been there long before

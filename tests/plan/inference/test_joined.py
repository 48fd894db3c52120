"""Ranks of a job become one plan: who came late holds the others up in the plan too, and all clocks are one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import weftrace as wt
from tests.analysis.jobs import Job
from weftrace.advice.critical_paths import critical_path_of
from weftrace.advice.deciding_ranks import decided_steps
from weftrace.advice.jobs import infer_job
from weftrace.errors import PlanError
from weftrace.plan import Inferred, Op, Plan, Resource, Timetable, Wait, simulate_ranks, timetable
from weftrace.plan.inference.joining import joined
from weftrace.trace import Trace
from weftrace.units import US

DATA = Path(os.environ.get("WEFTRACE_DATA", "../shared/data"))


def ops_of_rank(rank: int, work_us: list[int], transfer_us: int) -> Iterator[Op]:
    """Per step: 10 us of launching each, a GEMM, then an all-reduce on another stream that waits for it."""
    host = Resource(rank=rank, stream=1_000)
    for step, time_us in enumerate(work_us):
        gemm, reduce = f"gemm {rank}.{step}", f"reduce {rank}.{step}"
        yield Op(id=f"launch {gemm}", name="cudaLaunchKernel", kind="host", duration_ns=5 * US, resource=host)
        yield Op(id=f"launch {reduce}", name="cudaLaunchKernel", kind="host", duration_ns=5 * US, resource=host)
        yield Op(id=gemm, name="gemm", duration_ns=time_us * US, resource=Resource(rank=rank, stream=7), phase="mlp(F)",
                 after=(Wait(f"launch {gemm}", why="launch"), *([f"reduce {rank}.{step - 1}"] if step else []))
                 )  # fmt: skip
        yield Op(id=reduce, name="all_reduce", kind="communication", duration_ns=transfer_us * US, meet=step,
                 resource=Resource(rank=rank, stream=20), phase="dispatch(F)",
                 after=(Wait(f"launch {reduce}", why="launch"), gemm))  # fmt: skip


def job(work_us: list[list[int]], transfer_us: int = 20) -> Plan:
    ops = [op for rank, work in enumerate(work_us) for op in ops_of_rank(rank, work, transfer_us)]
    return Plan.of(ops, name="job")


def with_data_waits(inferred: Inferred, plan: Plan) -> Inferred:
    """The true waits between streams, which nothing records, added to what was inferred: the two plans have one order
    of ops on each stream."""
    key = ["rank", "stream"]

    def numbered(ops: pl.DataFrame) -> pl.DataFrame:
        device = ops.with_row_index("row").filter(pl.col("kind") != "host")
        return device.select("row", *key, pl.int_range(pl.len()).over(key).alias("nth"))

    same = numbered(plan.ops).join(numbered(inferred.plan.ops), on=[*key, "nth"], suffix="_there")
    to = dict(same.select("row", "row_there").iter_rows())
    data = plan.waits.filter(why="data")
    moved = data.with_columns(pl.col("op", "on").replace_strict(to, return_dtype=pl.UInt32))
    waits = pl.concat([inferred.plan.waits, moved])
    return replace(inferred, plan=replace(inferred.plan, waits=waits))


def spans(times: Timetable) -> int:
    device = times.ops.filter(pl.col("kind") != "host")
    first, last = device.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return int(last - first)


#  rank 0   gemm 100 | wait 200 | transfer 20 | gemm 300 | transfer 20
#  rank 1   gemm 300            | transfer 20 | gemm 100 | wait 200 | transfer 20
LATE = [[100, 300], [300, 100]]


def test_a_member_of_a_collective_lasts_its_transfer_and_waits_for_the_last_to_come() -> None:
    traces = simulate_ranks(job(LATE))
    inferred = infer_job(traces.values())
    plan = inferred.plan
    reduces = plan.ops.filter(kind="communication")
    assert plan.ranks == (0, 1)
    assert reduces["duration_ns"].to_list() == [20 * US] * 4
    by_rank = [set(reduces.filter(rank=rank)["meet"].to_list()) for rank in (0, 1)]
    assert by_rank[0] == by_rank[1] and len(by_rank[0]) == 2
    measured = inferred.measured.filter(pl.Series(plan.ops["kind"] == "communication"))
    assert sorted((measured["end_ns"] - measured["start_ns"]).to_list()) == [20 * US, 20 * US, 220 * US, 220 * US]
    assert inferred.notes[0] == "2 of 2 collectives hold the ranks together"
    assert len(inferred.works) == 2 and set(inferred.measured["at"]) == {0, 1}


def test_the_joined_plan_replays_as_measured_and_follows_a_change_of_one_rank() -> None:
    truth = job(LATE)
    inferred = with_data_waits(infer_job(simulate_ranks(truth).values()), truth)
    assert inferred.replay.span_ns == spans(timetable(truth)) == (300 + 20 + 300 + 20) * US
    assert inferred.replay.error == pytest.approx(0, abs=1e-3)
    faster = inferred.plan.with_ops(
        duration_ns=pl.when(rank=1, kind="compute").then(pl.col("duration_ns") // 2).otherwise("duration_ns")
    )
    # rank 1: 150 then 50; rank 0: 100 then 300
    assert spans(timetable(faster)) == pytest.approx((150 + 20 + 300 + 20) * US, abs=100)


def test_each_step_is_decided_by_the_rank_that_came_last() -> None:
    truth = job(LATE)
    inferred = with_data_waits(infer_job(simulate_ranks(truth).values()), truth)
    step = inferred.plan.ops.select(
        pl.when(pl.col("kind") != "host")
        .then(pl.int_range(pl.len()).over("rank", "stream"))
        .cast(pl.Int32)
        .alias("step")
    )
    inferred = replace(inferred, plan=replace(inferred.plan, ops=inferred.plan.ops.with_columns(step)))
    path = critical_path_of(inferred)
    summary = decided_steps(path)
    assert summary.select("step", "rank", "what", "time_ns").rows() == [
        (0, 1, "mlp(F)", 300 * US), (1, 0, "mlp(F)", 300 * US)
    ]  # fmt: skip
    assert summary["path_ns"].sum() == path.span_ns


def later(trace: Trace, by_ns: int) -> Trace:
    return replace(
        trace, events=trace.events.with_columns(pl.col("ts_ns") + by_ns), simulated=False, path=f"{trace.rank}"
    )


def test_a_clock_that_is_ahead_is_set_back_and_no_waiting_comes_of_it() -> None:
    traces = simulate_ranks(job([[100, 300, 50, 70, 200, 30], [300, 100, 60, 80, 40, 210]]))
    ahead = infer_job([later(traces[0], 0), later(traces[1], 50_000_000)])
    right = infer_job(traces.values())
    assert ahead.plan.ops["duration_ns"].to_list() == right.plan.ops["duration_ns"].to_list()
    assert ((ahead.measured["start_ns"] - right.measured["start_ns"]).abs() <= 1).all()


def test_a_rank_whose_recording_begins_later_starts_later_in_the_plan() -> None:
    #  rank 0   gemm 100, all-reduce from 110; rank 1's first launch is at 500
    begin = Op(id="idle", name="idle", kind="host", duration_ns=500 * US, resource=Resource(rank=1, stream=1_000))
    ops = [op for rank, work in enumerate(LATE) for op in ops_of_rank(rank, work, transfer_us=20)]
    inferred = infer_job(simulate_ranks(Plan.of([begin, *ops], name="later")).values())
    origin = inferred.edges.filter(source="origin")
    assert origin.height == 1
    late = inferred.plan.waits.filter(pl.Series(inferred.edges["source"] == "origin"))
    assert late["lag_ns"].to_list() == [500 * US] and late["since"].to_list() == ["start"]
    assert inferred.times.start_ns[late["op"][0]] == 500 * US
    assert inferred.kept.num_pinned == 1


def test_sends_and_receives_of_four_ranks_with_clocks_of_their_own_are_meets(tmp_path: Path) -> None:
    #  forward through a pipeline, rank after rank, then an all-reduce of all; rank 2 is late in the middle step
    run = Job(4, ahead={1: 7_000_000, 3: -3_000_000})
    for step in range(3):
        run.step = step
        for rank in range(4):
            run.work(rank, (100 + (300 if (rank, step) == (2, 1) else 0)) * US)
        for low in range(3):
            run.meet((low, low + 1), 30 * US, group="pp", collective="send", sender=low)
        run.meet(range(4), 50 * US)
    inferred = infer_job(wt.open(run.write(tmp_path)), workers=1)
    assert inferred.notes[0] == "12 of 12 collectives hold the ranks together"
    sizes = inferred.plan.ops["meet"].drop_nulls().value_counts()["count"]
    assert sorted(sizes.to_list()) == [2] * 9 + [4] * 3
    transfers = inferred.plan.ops.filter(pl.col("meet").is_not_null())["duration_ns"]
    assert sorted(transfers.to_list()) == [30 * US] * 18 + [50 * US] * 12
    assert inferred.replay.span_ns == max(run.now.values())
    assert inferred.replay.error == pytest.approx(0, abs=1e-3)


MEMBERS = {"meeting": pl.Int64(), "at": pl.Int32(), "start_ns": pl.Int64(), "end_ns": pl.Int64()}


def first_collective(ranks: list[Inferred]) -> pl.DataFrame:
    rows = []
    for at, rank in enumerate(ranks):
        mine = rank.measured.filter(pl.Series(rank.plan.ops["kind"] == "communication"))
        start, end = mine.select(pl.col("start_ns", "end_ns") + rank.origin_ns).row(0)
        rows.append((0, at, start, end))
    return pl.DataFrame(rows, schema=MEMBERS, orient="row")


def test_a_collective_whose_members_end_far_apart_is_no_meet() -> None:
    ranks = [infer_job([trace]) for trace in simulate_ranks(job(LATE)).values()]
    apart = joined(ranks, first_collective(ranks), to_common=lambda at, times: times + at * 2_000_000)
    assert apart.plan.ops["meet"].null_count() == len(apart.plan)
    assert any("1 of 1 matched collectives keep each rank's measured time" in note for note in apart.notes)
    assert joined(ranks, first_collective(ranks)).plan.ops["meet"].count() == 2


def test_who_left_before_the_last_came_waits_for_nobody() -> None:
    #  rank 0   gemm 100 | reduce 20, gone at 120; rank 1 and 2 come at 300
    ranks = [infer_job([simulate_ranks(job(works))[0]]) for works in ([[100]], [[300]], [[300]])]
    inferred = joined(ranks, first_collective(ranks), numbers=[0, 1, 2])
    assert inferred.plan.ops.filter(pl.col("meet").is_not_null())["rank"].to_list() == [1, 2]
    assert "1 part of collectives ended before the last rank came: they wait for nobody" in inferred.notes


def test_two_ranks_need_two_numbers() -> None:
    ranks = [infer_job([trace]) for trace in simulate_ranks(job(LATE)).values()]
    with pytest.raises(PlanError, match="each needs a number of its own"):
        joined(ranks, pl.DataFrame(schema=MEMBERS), numbers=[3, 3])


@pytest.mark.skipif(not (DATA / "hta-two-ranks").exists(), reason="recorded traces are not here")
def test_two_recorded_ranks_become_one_plan() -> None:
    inferred = infer_job(wt.open(DATA / "hta-two-ranks"), workers=1)
    assert len(inferred.plan.ranks) == 2
    assert inferred.times.makespan_ns > 0
    assert inferred.notes[1] == "5 of 5 collectives hold the ranks together"
    assert inferred.notes[0].startswith("traces of 2 of 128 ranks: what these waited for the others")
    assert inferred.plan.ops["meet"].drop_nulls().value_counts()["count"].to_list() == [2] * 5


def test_latencies_of_joined_ranks_are_the_medians_of_theirs() -> None:
    ranks = [infer_job([trace]) for trace in simulate_ranks(job(LATE)).values()]
    ranks = [
        replace(rank, kept=replace(rank.kept, drain_ns=drain, graph_latency_ns=graph, num_pinned=1))
        for rank, drain, graph in zip(ranks, (18_000, 20_000), (0, 5_000), strict=True)
    ]
    kept = joined(ranks, pl.DataFrame(schema=MEMBERS)).kept
    assert (kept.drain_ns, kept.graph_latency_ns, kept.num_pinned) == (19_000, 2_500, 2)

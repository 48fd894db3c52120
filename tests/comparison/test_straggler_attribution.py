"""A rank that comes late is told as late: what others waited for it is a part of its own, to the nanosecond."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.jobs import Job
from tests.fuzz import examples, few
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.comparison.diffs import Diff, diff
from weftrace.comparison.runs import WAITING, Run, run_of
from weftrace.comparison.sides import Side, sides_of
from weftrace.comparison.straggler_attribution import straggler_attributions
from weftrace.plan import Op, Plan, Resource, Wait, simulate_ranks
from weftrace.units import MS, US, S

STEPS = 6


def work_and_meet(number: int, *, late: int = -1, delay: int = 0, **clocks: object) -> Job:
    """In each step two rounds of work and an all-reduce of all ranks; one rank works longer by `delay` a step."""
    job = Job(number, **clocks)  # type: ignore[arg-type]
    noise = random.Random(number)
    for job.step in range(STEPS):
        for half in range(2):
            for rank in range(number):
                longer = delay if rank == late and half else 0
                job.work(rank, 2 * MS + noise.randint(0, 5 * US) + longer)
            job.meet(range(number), 300 * US)
    return job


def check_parts(side: Side) -> None:
    """All parts of each step of each rank are its window, and none is negative."""
    assert (side.shares["own_ns"] >= 0).all() and (side.shares["own_ns"] <= side.shares["union_ns"]).all()
    assert (side.shares["union_ns"] <= side.shares["raw_ns"]).all()
    for at, rank in enumerate(side.ranks):
        sums = dict(side.shares.filter(at=at).group_by("step").agg(pl.col("own_ns").sum()).iter_rows())
        for step, start, end in rank.windows.iter_rows():
            if step in side.steady.steps:
                assert sums.get(step, 0) == end - start


def adds_up(found: Diff) -> None:
    for side in (found.before, found.after):
        check_parts(side)


def waiting(found: Diff) -> dict[str, int]:
    rows = found.by("part", "cause").filter(part=WAITING)
    return dict(rows.select("cause", "change_ns").iter_rows())


@pytest.mark.parametrize(("number", "late"), [(4, 2), (8, 0)])
def test_a_delayed_rank_is_told_as_lateness_of_that_rank(tmp_path: Path, number: int, late: int) -> None:
    """Clocks are up to three seconds apart, others in each run, and tell each time wrong by up to 2 µs."""
    delay = 700 * US
    clocks = [{rank: (rank * by) % (3 * S) - S for rank in range(1, number)} for by in (777_777_777, 555_555_555)]
    before = work_and_meet(number, ahead=clocks[0], jitter=2 * US).write(tmp_path / "before")
    after = work_and_meet(number, late=late, delay=delay, ahead=clocks[1], jitter=2 * US).write(tmp_path / "after")
    found = diff(before, after, workers=1)
    adds_up(found)
    largest = found.by("part", "cause").row(0, named=True)
    assert (largest["part"], largest["cause"]) == (WAITING, f"rank {late}")
    assert largest["change_ns"] == pytest.approx(delay * (number - 1) / number, rel=0.03)
    # all but the late one: next to nothing besides
    others = found.by_rank().filter(pl.col("rank") != late)
    assert others["part"].to_list() == [WAITING] * (number - 1)
    assert others["cause"].to_list() == [f"rank {late}"] * (number - 1)
    summary = straggler_attributions(found)[0]
    assert (summary.name, summary.change_ns) == (f"rank {late}", largest["change_ns"])
    assert summary.own is not None
    itself = summary.own.row(0, named=True)
    assert (itself["part"], itself["family"]) == ("compute", "gemm")
    assert itself["change_ns"] == pytest.approx(delay, rel=0.03)


def test_clocks_that_differ_make_no_lateness(tmp_path: Path) -> None:
    before = work_and_meet(4).write(tmp_path / "before")
    ahead = {1: 40 * MS, 2: -3 * S, 3: 7 * MS}
    after = work_and_meet(4, ahead=ahead, jitter=1 * US).write(tmp_path / "after")
    found = diff(before, after, workers=1)
    assert all(abs(change_ns) < 10 * US for change_ns in waiting(found).values())


def test_by_pencil(tmp_path: Path) -> None:
    """One step of two ranks, in µs. Rank 1 comes 60 late; for 20 of these rank 0 computes beside.

    rank 0   7   [gemm 100-200]   [gemm 220-240]
             20             [all-reduce 200 ──────────────── 300]      waits 200-260: 40 exposed, 20 hidden
    rank 1   7   [gemm 100-260]
             20                             [all-reduce 260─ 300]
    """
    args: dict[str, Any] = {"Collective name": "allreduce", "Process Group Name": "0", "Seq": 1, "Group size": 2}
    for folder, comes in (("before", 200), ("after", 260)):
        (tmp_path / folder).mkdir()
        for rank, start in enumerate((200, comes)):
            file = TraceFile(rank=rank, world_size=2).kernel(GEMM, 100, start - 100, launch=10)
            if rank == 0:
                file.kernel(GEMM, 220, 20, launch=11)
            end = 300 if folder == "after" else 240
            file.kernel(ALL_REDUCE, start, end - start, launch=12, stream=20, **args)
            file.write(tmp_path / folder / f"rank{rank}.json")
    one, other = sides_of(*(run_of(tmp_path / name, workers=1) for name in ("before", "after")))
    columns = ("part", "cause", "num", "raw_ns", "union_ns", "own_ns")
    found = other.shares.filter(pl.col("at") == 0, pl.col("kind") == "communication").select(columns)
    rows = [(part, cause, num, *(ns // US for ns in times)) for part, cause, num, *times in found.iter_rows()]
    assert sorted(rows) == [
        ("exposed communication", "data", 1, 40, 40, 40),
        (WAITING, "rank 1", 1, 60, 60, 40),
    ]
    assert one.shares.filter(pl.col("part") == WAITING).is_empty()


def meets_of_plan(number: int, *, late: int = -1, delay: int = 0, starts_later: int = 0) -> Plan:
    """Steps of a gemm and an all-reduce of all ranks, which the launches of a host precede."""

    def ops() -> list[Op]:
        made = []
        for rank in range(number):
            host = Resource(rank=rank, stream=1_000)
            for step in range(STEPS):
                gemm, reduce = f"gemm {rank}.{step}", f"reduce {rank}.{step}"
                launch = 5 * US + (starts_later if rank == late else 0)
                for op, ns in ((gemm, launch), (reduce, 5 * US)):
                    after = (f"reduce {rank}.{step - 1}",) if step and op == gemm else ()
                    made.append(Op(id=f"launch {op}", name="cudaLaunchKernel", kind="host", duration_ns=ns,
                                   resource=host, step=step, after=after))  # fmt: skip
                took = 300 * US + rank * US + (delay if rank == late else 0)
                made.append(Op(id=gemm, name="gemm", duration_ns=took, resource=Resource(rank=rank, stream=7),
                               phase="mlp(F)", step=step, after=(Wait(f"launch {gemm}", why="launch"),)))  # fmt: skip
                made.append(Op(id=reduce, name="all_reduce", kind="communication", duration_ns=20 * US, meet=step,
                               resource=Resource(rank=rank, stream=20), phase="dispatch(F)", step=step,
                               after=(Wait(f"launch {reduce}", why="launch"), gemm)))  # fmt: skip
        return made

    return Plan.of(ops(), name="job")


@pytest.mark.parametrize("late", few([3, 0, 5], 1))
def test_an_op_of_one_rank_of_a_plan_that_takes_longer(late: int) -> None:
    found = diff(simulate_ranks(meets_of_plan(6)), simulate_ranks(meets_of_plan(6, late=late, delay=100 * US)))
    adds_up(found)
    largest = found.by("part", "cause").row(0, named=True)
    assert (largest["part"], largest["cause"]) == (WAITING, f"rank {late}")
    summary = straggler_attributions(found)[0]
    assert summary.own is not None and summary.own.row(0, named=True)["part"] == "compute"
    assert summary.own.row(0, named=True)["change_ns"] == 100 * US


def test_a_rank_of_a_plan_that_starts_later_idles_and_the_others_wait_for_it() -> None:
    found = diff(simulate_ranks(meets_of_plan(4)), simulate_ranks(meets_of_plan(4, late=1, starts_later=80 * US)))
    largest = found.by("part", "cause").row(0, named=True)
    assert (largest["part"], largest["cause"]) == (WAITING, "rank 1")
    summary = straggler_attributions(found)[0]
    assert summary.own is not None
    itself = summary.own.row(0, named=True)
    assert (itself["part"], itself["change_ns"]) == ("idle", pytest.approx(80 * US, rel=0.15))


def test_where_only_transfers_are_recorded_waiting_is_taken_out_of_idle_time(tmp_path: Path) -> None:
    """As a simulator writes it: an all-reduce begins on all ranks when the last has come."""
    for folder, delay in (("before", 0), ("after", 50)):
        (tmp_path / folder).mkdir()
        for rank in range(4):
            file, now = TraceFile(rank=rank, world_size=4), 0
            for step in range(STEPS):
                args: dict[str, Any] = {"Collective name": "allreduce", "Process Group Name": "0", "Seq": step}
                work = 100 + 10 * rank + (delay if rank == 3 else 0)
                file.kernel(GEMM, now, work, launch=max(now - 5, 0))
                file.kernel(ALL_REDUCE, now + 130 + delay, 20, launch=now + 1, stream=20, **args | {"Group size": 4})
                file.host(f"ProfilerStep#{step}", max(now - 6, 0) + 0.5, 100)
                now += 150 + delay
            file.write(tmp_path / folder / f"rank{rank}.json")
    found = diff(tmp_path / "before", tmp_path / "after", workers=1)
    adds_up(found)
    assert waiting(found) == {"rank 3": 3 * 50 * US // 4}
    assert found.by("part").filter(part="idle")["change_ns"].to_list() in ([], [0])


@settings(max_examples=examples(10), deadline=None)
@given(data=st.data())
def test_parts_of_random_jobs_add_up(data: st.DataObject) -> None:
    """Plans of ranks that work and meet in groups, some beside computation."""
    number = data.draw(st.integers(2, 5))
    sides = []
    for _ in range(2):
        made: list[Op] = []
        last: dict[int, str] = {}
        for meet in range(data.draw(st.integers(1, 5))):
            members = sorted(data.draw(st.sets(st.integers(0, number - 1), min_size=2, max_size=number)))
            for rank in members:
                work = Op(id=f"w{rank}.{meet}", name="gemm", duration_ns=data.draw(st.integers(0, 300)),
                          resource=Resource(rank=rank, stream=7), step=meet // 2,
                          after=(last[rank],) if rank in last and data.draw(st.booleans()) else ())  # fmt: skip
                reduce = Op(id=f"r{rank}.{meet}", name="all_reduce", kind="communication", meet=meet, step=meet // 2,
                            duration_ns=data.draw(st.integers(0, 100)), resource=Resource(rank=rank, stream=20),
                            after=(f"w{rank}.{meet}",))  # fmt: skip
                made += [work, reduce]
                last[rank] = f"r{rank}.{meet}"
        sides.append(run_of(simulate_ranks(Plan.of(made, name="random"))))
    one, other = sides_of(*sides)
    for side in (one, other):
        check_parts(side)
    for run in sides:
        check_split(run)


def check_split(run: Run) -> None:
    for rank in run.ranks:
        if rank.waits is not None:
            nothing = rank.waits.group_by("step").agg(pl.col("raw_ns", "union_ns", "own_ns").sum())
            assert nothing.select(pl.all().exclude("step").abs().sum()).row(0) == (0, 0, 0) or nothing.is_empty()

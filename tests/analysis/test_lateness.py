"""Who came late, who waited: by pencil, in simulated jobs whose late ranks are known, and on recorded traces."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analyses import analysed
from tests.analysis.jobs import Job
from tests.fuzz import examples, few, thorough, thorough_case
from tests.trace.plain.pipeline_job import Op, artefact, converted, simulate, slow, slow_stage, write
from tests.trace.strategies import traces as hostile_traces
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import Lateness, arrivals, lateness
from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
from weftrace.report import analyze
from weftrace.trace import Trace, open_trace, works_of
from weftrace.units import MS, US, S


def late(folder: Path) -> Lateness:
    found = analysed(folder, workers=1).lateness
    assert found is not None
    return found


def column(found: Lateness, name: str) -> list[int]:
    values: list[int] = found.ranks.get_column(name).to_list()
    return values


def said(collective: str = "allreduce", *, seq: int = 1, group: str = "0", size: int = 2) -> dict[str, Any]:
    """What NCCL's metadata says of a kernel."""
    return {"Collective name": collective, "Process Group Name": group, "Seq": seq, "Group size": size}


def test_by_pencil(tmp_path: Path) -> None:
    # rank 0  [all_reduce  100 ─────────── 200]      waits 100-160, transfers 160-200
    # rank 1       [all_reduce  130 ────── 200]      waits 130-160
    # rank 2            [all_reduce  160 ─ 200]      came last, 30 after the second last
    for rank, start in enumerate((100, 130, 160)):
        file = TraceFile(rank=rank, world_size=3).kernel(GEMM, 10, 50)
        args = said(size=3)
        file.kernel(ALL_REDUCE, start, 200 - start, stream=20, **args).write(tmp_path / f"rank{rank}.json")
    found = late(tmp_path)
    assert (found.num_matched, found.num_unmatched, found.num_by_sequence) == (1, 0, 1)
    assert column(found, "suffered_ns") == [60 * US, 30 * US, 0]
    assert column(found, "transfer_ns") == [40 * US, 40 * US, 40 * US]
    assert column(found, "caused_ns") == [0, 0, 30 * US]
    assert column(found, "origin_ns") == [0, 0, 90 * US]
    assert column(found, "num_last") == [0, 0, 1]
    for told in (found.worst, found.collectives):
        assert told.select("last", "origin", "origin_ns", "waiting_ns").rows() == [(2, 2, 90 * US, 90 * US)]
    assert found.pairs.rows() == [(0, 2, 60 * US, 1), (1, 2, 30 * US, 1)]
    assert [stretch.tolist() for stretch in found.waits[0][:2]] == [[100 * US], [160 * US]]
    assert found.late == 2


def data_parallel(number: int, slow: int, delay: int, steps: int, **clocks: Any) -> Job:
    """Ten steps of work and one all-reduce of all; `slow` works longer by `delay` in each."""
    job = Job(number, **clocks)
    noise = random.Random(number)
    for job.step in range(steps):
        for rank in range(number):
            job.work(rank, 2 * MS + noise.randint(0, 20 * US) + (delay if rank == slow else 0))
        job.meet(range(number), 300 * US)
    return job


def check_waiting(found: Lateness, job: Job, *, jitter: int) -> None:
    """Waiting of each rank for each, and its transfer, are right to the jitter of each event."""
    summary = {(waiter, last): ns for waiter, last, ns, _ in found.pairs.rows()}
    num = max(column(found, "num_matched"))
    for pair, ns in job.waited.items():
        assert abs(summary.get(pair, 0) - ns) <= 4 * jitter * num, pair
    assert sum(column(found, "origin_ns")) == sum(column(found, "suffered_ns"))


@pytest.mark.parametrize(("number", "slow", "delay", "numbered"), [
    (2, 1, 10 * MS, True), thorough_case(2, 1, 10 * MS, False),
    thorough_case(2, 0, 500 * US, True), (2, 0, 500 * US, False),
    (8, 5, 3 * MS, True), thorough_case(8, 5, 3 * MS, False),
])  # fmt: skip
def test_a_planted_delay_is_named(tmp_path: Path, number: int, slow: int, delay: int, numbered: bool) -> None:
    """Clocks up to three seconds apart, each time told wrong by up to 3 us."""
    ahead = {rank: (rank * 777_777_777) % (3 * S) - S for rank in range(1, number)}
    job = data_parallel(number, slow, delay, 10, ahead=ahead, jitter=3 * US)
    analysis = analysed(job.write(tmp_path, numbered=numbered), workers=1)
    found = analysis.lateness
    assert found is not None
    assert (found.num_matched, found.num_unmatched) == (10, 0)
    assert found.num_by_sequence == (10 if numbered else 0)
    assert found.late == slow
    assert column(found, "num_last")[slow] == 10
    assert abs(column(found, "caused_ns")[slow] - 10 * delay) <= 10 * 30 * US
    assert abs(column(found, "origin_ns")[slow] - 10 * (number - 1) * delay) <= 10 * number * 30 * US
    assert found.clocks_applied and all(clock.applied for clock in analysis.clocks[1:])
    for clock in analysis.clocks[1:]:
        assert clock.offset_ns is not None and abs(clock.offset_ns - ahead[clock.rank]) <= 12 * US
    if numbered:
        check_waiting(found, job, jitter=3 * US)


def test_files_that_number_nothing_and_begin_at_different_steps(tmp_path: Path) -> None:
    """Rank 1's clock is 2 s ahead and its file lacks the first three of ten steps, all of about one length."""
    job = data_parallel(2, 1, 3 * MS, 10, ahead={1: 2 * S}, jitter=1 * US)
    job.events[1] = [event for event in job.events[1] if event.step >= 3]
    analysis = analysed(job.write(tmp_path, numbered=False), workers=1)
    found = analysis.lateness
    assert found is not None and (found.num_matched, found.num_unmatched, found.late) == (7, 3, 1)
    assert analysis.clocks[1].offset_ns is not None and abs(analysis.clocks[1].offset_ns - 2 * S) < 10 * US
    assert abs(column(found, "suffered_ns")[0] - 7 * 3 * MS) < 7 * 60 * US


def test_hta_two_ranks_by_independent_code(shared_data: Path) -> None:
    """Sampled files: of ten collectives a rank, those are the same whose ends agree; rank 1 is last in all."""
    events: list[list[tuple[str, float, float]]] = []
    zeros = []
    for rank in (0, 1):
        with gzip.open(shared_data / "hta-two-ranks" / f"sampled_rank-{rank}.json.gz") as file:
            every = json.load(file)["traceEvents"]
        kernels = [e for e in every if e.get("cat", "").lower() == "kernel" and "nccl" in e["name"]]
        zeros += [e["ts"] for e in kernels]
        events.append(sorted((e["name"], float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in kernels))
    waiting, count, by_last = 0.0, 0, [0, 0]
    for name, start, end in events[0]:
        for other, other_start, other_end in events[1]:
            if name == other and abs(end - other_end) <= 1000:  # us
                waiting += abs(start - other_start)
                count += 1
                by_last[other_start > start] += 1
    found = late(shared_data / "hta-two-ranks")
    assert (found.num_matched, by_last) == (count, column(found, "num_last")) == (5, [0, 5])
    assert sum(column(found, "suffered_ns")) == column(found, "origin_ns")[1] == round(1000 * waiting)
    assert 31 * MS < round(1000 * waiting) < 33 * MS
    assert found.not_the_same == found.num_unmatched == 10 and found.num_by_sequence == 0


def grid_job(*, slow: int, delay: int, stages: int = 4, replicas: int = 4, steps: int = 5) -> Job:
    """Pipelines of stages side by side, ranks replica * stages + stage: four micro-batches forward and back through the
    stages, by send and receive, then each stage's gradients are reduced over the replicas. `slow` needs longer for each
    micro-batch."""
    job = Job(stages * replicas)
    for job.step in range(steps):
        for replica in range(replicas):
            line = [replica * stages + stage for stage in range(stages)]
            for direction in (line, line[::-1]):
                for _ in range(4):
                    for place, rank in enumerate(direction):
                        if place:
                            before = direction[place - 1]
                            job.meet(sorted((before, rank)), 10 * US, group="pp", collective="send", sender=before)
                        job.work(rank, 1 * MS + (delay if rank == slow else 0))
        for stage in range(stages):
            job.meet(range(stage, stages * replicas, stages), 200 * US, group="dp")
    return job


@pytest.mark.parametrize("slow", [0, 5, 15])
def test_who_is_late_from_waiting_passes_the_blame_on(slow: int) -> None:
    """One slow worker delays its whole pipeline; the other stages come late into their reductions, and are not blamed.

    Each micro-batch also waits by nature for the stage before, in all pipelines alike: that is nobody's lateness.
    """
    job = grid_job(slow=slow, delay=500 * US)
    found = lateness(job.frames())
    assert found is not None and found.late == slow
    origin, caused = np.array(column(found, "origin_ns")), np.array(column(found, "caused_ns"))
    mates = [rank for rank in range(16) if rank // 4 == slow // 4 and rank != slow]
    assert (caused[mates] > 0).all()  # they did come last
    assert origin[slow] > 0.9 * origin.sum()
    # So it is told of each collective, of each kind and of each step too.
    kinds = {row["collective"]: row["origin"] for row in found.collectives.iter_rows(named=True)}
    assert kinds == {"all_reduce": slow, "send_recv": None}
    assert set(found.worst.get_column("origin")) == {slow} < set(found.worst.get_column("last"))
    by_step = found.steps.group_by("step").agg(pl.col("origin_ns", "suffered_ns").sum())
    assert ((by_step.get_column("origin_ns") - by_step.get_column("suffered_ns")).abs() <= 16).all()
    # every reduction of every stage waits for the slow pipeline, which is 8 x 0.5 ms later in each of 5 steps
    assert abs(int(origin.sum()) - sum(column(found, "suffered_ns"))) == 0
    assert found.collectives.get_column("collective").to_list().count("send_recv") == 1  # told, and counted for nobody


def test_sends_and_receives_of_nccl_are_paired_by_their_partners(tmp_path: Path) -> None:
    """Each rank numbers its own; who sent to whom, and the order, tell which belong together. Clocks 100 ms apart."""
    job = grid_job(slow=5, delay=500 * US, replicas=2, steps=3)
    job.ahead = {rank: rank * 100 * MS for rank in range(8)}
    found = late(job.write(tmp_path))
    assert found.late == 5 and found.num_unmatched == 0
    assert column(found, "origin_ns")[5] > 0.85 * sum(column(found, "origin_ns"))
    kinds = {row["collective"]: row["num"] for row in found.collectives.iter_rows(named=True)}
    assert kinds == {"send_recv": 2 * 3 * 2 * 4 * 3, "all_reduce": 4 * 3}


@pytest.mark.parametrize(("dp", "pp", "cut"), few([(2, 1, False), (0, 0, True), (1, 3, True)], 2))
def test_a_slow_worker_of_a_1f1b_pipeline_is_blamed(tmp_path: Path, dp: int, pp: int, cut: bool) -> None:
    """Of 3 x 4 ranks one computes 1.6 times as long; all stages of its pipeline come late into their reductions."""
    ops = simulate(3, 4, cost=slow(dp, pp, 1.6), steps=(1, 2, 3), transfers_only=cut)
    analysis = analysed(write(tmp_path / "job.json", artefact(ops) if cut else converted(ops)), workers=1)
    found = analysis.lateness
    assert found is not None and found.late is not None
    assert analysis.ranks[found.late].name == f"DP {dp} PP {pp}"
    assert column(found, "origin_ns")[found.late] > 0.85 * sum(column(found, "origin_ns"))
    assert bool(found.notes) == cut
    mates = [at for at, rank in enumerate(analysis.ranks) if dict(rank.places)["dp"] == dp]
    assert all(column(found, "num_last")[at] == 3 for at in mates)


@pytest.mark.parametrize(("restart", "cut"), few([(True, False), (False, True)], 1))
def test_a_file_a_rank_lays_its_steps_as_the_others_do(tmp_path: Path, restart: bool, cut: bool) -> None:
    """One file holds all ranks of steps 1, 7, ...; then each rank has a file, which lays its steps for itself.
    Reductions end up to 60 us apart, so that the lengths of a step differ from rank to rank, and clocks do not."""
    ops = simulate(3, 2, cost=slow(1, 0, 1.6), steps=(1, 7, 13, 19, 25, 31, 37, 43), transfers_only=cut)
    noise = random.Random(3)
    zero = {step: min(op.start for op in ops if op.step == step) for step in {op.step for op in ops}}
    moved = {step: -zero[step] if restart else 9e6 * step for step in zero}
    ops = [
        replace(op, start=op.start + moved[op.step], end=op.end + moved[op.step]
                + (noise.uniform(0, 60) if "reduce" in op.name else 0) - 200 * (op.name == "optimizer"))
        for op in ops
    ]  # fmt: skip
    whole = late(write(tmp_path / "job.json", converted(ops)))
    folder = tmp_path / "ranks"
    folder.mkdir()
    for at in range(6):
        write(folder / f"rank{at}.json", converted(ops, of=lambda op, at=at: op.pp * 3 + op.dp == at))  # type: ignore[misc]
    found = late(folder)
    assert (found.num_matched, found.num_unmatched) == (whole.num_matched, 0)
    assert found.late == whole.late == 1 and not found.clocks_applied and bool(found.notes) == cut
    assert column(found, "suffered_ns") == pytest.approx(column(whole, "suffered_ns"), abs=8 * 60 * US * 2)
    assert column(found, "caused_ns") == pytest.approx(column(whole, "caused_ns"), abs=8 * 60 * US * 2)


def test_a_step_that_one_file_lacks_shifts_no_number(tmp_path: Path) -> None:
    ops = simulate(3, 1, cost=slow(1, 0, 1.6), steps=(1, 2, 3, 4), transfers_only=False)
    for at in range(3):
        document = converted(ops, of=lambda op, at=at: op.dp == at and (at, op.step) != (2, 2))  # type: ignore[misc]
        write(tmp_path / f"rank{at}.json", document)
    found = late(tmp_path)
    assert (found.num_matched, found.num_unmatched, found.late) == (4, 0, 1)
    assert column(found, "num_matched") == [4, 4, 3] and column(found, "num_last") == [0, 4, 0]
    assert column(found, "suffered_ns") == pytest.approx([4 * 10_800 * US, 0, 3 * 10_800 * US], abs=US)


def test_ranks_of_one_file_have_one_clock(tmp_path: Path) -> None:
    """Two devices of one process, the ends of whose collectives always lie 30 us apart: so they did end."""
    file = TraceFile()
    for seq in range(8):
        for device in range(2):
            start = 1000 * seq + 100 + 300 * device
            length = 1000 * seq + 600 + 30 * device - start
            file.kernel(ALL_REDUCE, start, length, stream=20, device=device, **said(seq=seq))
    file.write(tmp_path / "rank0.json")
    found = late(tmp_path)
    assert found.num_matched == 8 and not found.clocks_applied and found.ahead_ns == (0, 0)
    assert column(found, "suffered_ns") == [8 * 300 * US, 0] and found.uncertainty_ns == 30 * US


def test_clocks_of_files_whose_rank_is_not_told_are_put_together_too(tmp_path: Path) -> None:
    for name, ahead in (("a", 0), ("b", 7_000_000)):
        file = TraceFile(rank=None)
        for seq in range(8):
            file.kernel(ALL_REDUCE, 1000 * seq + ahead, 100, stream=20, **said(seq=seq))
        file.write(tmp_path / f"{name}.json")
    document = analyze(open_trace(tmp_path), timelines=False, workers=1).document
    assert [rank["shift_ns"] for rank in document["ranks"]] == [0, 0]
    assert document["lateness"] is not None and document["lateness"]["clocks_applied"]


def test_a_meeting_has_no_more_ranks_than_its_group(tmp_path: Path) -> None:
    """Four pairs, told by the size of their group alone, as torch 2.2 does: their all-gathers end 20 us apart, and all
    of them end within what is one collective elsewhere."""
    for rank in range(8):
        file = TraceFile(rank=rank, world_size=8)
        for seq in range(6):
            end = 1000 * seq + 500 + 20 * (rank // 2)
            start = end - 100 + 50 * (rank % 2)
            args: dict[str, Any] = {"Collective name": "_allgather_base", "In msg nelems": 64, "Group size": 2}
            file.kernel(ALL_REDUCE, start, end - start, stream=20, **args)
            args = {"Collective name": "_allgather_base", "In msg nelems": 64, "Group size": 8}
            file.kernel(ALL_REDUCE, 1000 * seq + 800 + rank, 100 - rank, stream=20, **args)
        file.write(tmp_path / f"rank{rank}.json")
    found = late(tmp_path)
    assert (found.num_matched, found.num_unmatched) == (4 * 6 + 6, 0)
    assert column(found, "suffered_ns") == [6 * (50 * (1 - rank % 2) + 7 - rank) * US for rank in range(8)]


def test_ranks_of_a_tensor_parallel_group_are_not_taken_for_all_that_reduce(tmp_path: Path) -> None:
    """Two ranks of each stage do the same at the same time, to the nanosecond; reductions over three pipelines end up
    to 60 us apart. What the name says of gradients counts more."""
    noise = random.Random(4)
    ops = simulate(3, 2, cost=slow(1, 0, 1.6), transfers_only=False)
    ops = [replace(op, end=op.end + (noise.uniform(0, 60) if "reduce" in op.name else 0)) for op in ops]
    alone = late(write(tmp_path / "alone.json", converted([op for op in ops if op.name != "optimizer"])))
    events = []
    for event in converted([op for op in ops if op.name != "optimizer"])["traceEvents"]:
        for tp in range(2):
            rank = 2 * event["pid"] + tp
            events.append({**event, "pid": rank, "args": {**event["args"], "rank": rank, "tp_rank": tp}})
    found = late(write(tmp_path / "job.json", events))
    assert sum(column(found, "suffered_ns")) == 2 * sum(column(alone, "suffered_ns"))
    assert alone.late == 1 and found.late in (2, 3)


def test_ranks_that_share_a_stage_have_names_of_their_own(tmp_path: Path) -> None:
    """The file tells rank and stage, and not which of several pipelines: "PP 0" alone would name two."""
    document = converted(simulate(2, 2, cost=slow(0, 0, 1.6), transfers_only=False))
    for event in document["traceEvents"]:
        del event["args"]["dp_rank"]
    names = [rank.name for rank in analysed(write(tmp_path / "job.json", document), workers=1).ranks]
    assert names == ["rank 0 (PP 0)", "rank 1 (PP 0)", "rank 2 (PP 1)", "rank 3 (PP 1)"]
    folder = tmp_path / "ranks"
    folder.mkdir()
    for at in range(4):
        mine = [event for event in document["traceEvents"] if event["args"]["rank"] == at]
        write(folder / f"rank{at}.json", mine)
    assert [rank.name for rank in analysed(folder, workers=1).ranks] == names


def test_where_no_place_is_told_ranks_meet_whose_ends_agree(tmp_path: Path) -> None:
    """Only ranks are told: the reductions of two stages are not one of all, since they end 1.7 ms apart."""
    document = converted(simulate(2, 2, cost=slow(0, 0, 1.6), transfers_only=False))
    document["traceEvents"] = [
        event for event in document["traceEvents"] if "reduce" in event["name"] or event["name"][0] in "FB"
    ]
    whole = late(write(tmp_path / "whole.json", document))
    for event in document["traceEvents"]:
        del event["args"]["dp_rank"], event["args"]["stage"]
    found = late(write(tmp_path / "job.json", document))
    assert column(found, "suffered_ns") == column(whole, "suffered_ns") and found.num_matched == whole.num_matched == 6


def test_collectives_that_lack_ranks_are_told(tmp_path: Path) -> None:
    """Rank 2 of three came last into each, and recorded nothing: what the others waited for it looks like transfer."""
    for rank, start in enumerate((100, 130)):
        file = TraceFile(rank=rank, world_size=3)
        file.kernel(ALL_REDUCE, start, 200 - start, stream=20, **said(size=3)).write(tmp_path / f"rank{rank}.json")
    found = late(tmp_path)
    assert column(found, "suffered_ns") == [30 * US, 0] and column(found, "transfer_ns") == [70 * US, 70 * US]
    assert found.notes == (
        "1 of 1 collectives lack ranks of their group here: the last to come is the last of those present, "
        "and waiting for the rest counts as transfer",
    )


def test_nobody_is_late_where_two_begin_as_much(tmp_path: Path) -> None:
    """Stage 1 of three pipelines is long, so that stage 0 comes last into what it shares with it: which of the three
    does so a little more is chance, also for the one that comes last most of the time."""
    ops = simulate(3, 2, cost=slow_stage(1, 1.6), steps=(1, 2, 3, 4), transfers_only=False)
    ends = {(op.step, op.dp, op.pp): op.end for op in ops if op.name == "optimizer"}
    ops = [op for op in ops if op.name != "optimizer"]
    noise = random.Random(5)
    for (step, dp, pp), end in ends.items():
        start = end - 200 - (80 if pp else noise.uniform(0, 2))
        ops.append(Op(dp, pp, step, "embedding-all-reduce", start, end - 190))
    found = late(write(tmp_path / "job.json", converted(ops)))
    assert found.late is None


def test_sixty_four_ranks_with_drift_and_jitter() -> None:
    """A grid of tensor parallel groups of 8 and data parallel groups of 8: one rank needs 200 us longer at each of 40
    layers. Clocks up to 2 s apart, some of them 15 ppm fast; each time told wrong by up to 2 us."""
    slow, noise = 29, random.Random(3)
    ahead = {rank: noise.randint(-2 * S, 2 * S) for rank in range(1, 64)}
    job = Job(64, ahead=ahead, ppm={rank: 15 * (rank % 3 - 1) for rank in range(1, 64)}, jitter=2 * US)
    for job.step in range(20):
        for _ in range(10):
            for rank in range(64):
                job.work(rank, 400 * US + noise.randint(0, 5 * US) + (200 * US if rank == slow else 0))
            for line in range(8):
                job.meet(range(8 * line, 8 * line + 8), 30 * US, group="tp")
        for column_ in range(8):
            job.meet(range(column_, 64, 8), 500 * US, group="dp")
    found = lateness(job.frames())
    assert found is not None and found.late == slow and found.num_unmatched == 0
    origin = column(found, "origin_ns")
    assert origin[slow] > 0.9 * sum(origin)
    check_waiting(found, job, jitter=8 * US)


def test_events_that_show_the_transfer_only(tmp_path: Path) -> None:
    """Simulators write collectives from the last arrival on; a rank has come when its work before had ended.

    rank 0  [gemm 0-100]                [all_reduce 160-200]
    rank 1  [gemm 0 ─────────────── 160][all_reduce 160-200]
    """
    for rank, work in enumerate((100, 160)):
        file = TraceFile(rank=rank, world_size=2)
        for step in range(5):
            zero = 1000 * step
            args: dict[str, Any] = {
                "Collective name": "allreduce",
                "Process Group Name": "0",
                "Seq": step,
                "Group size": 2,
            }
            file.kernel(GEMM, zero, work).kernel(ALL_REDUCE, zero + 160, 40, stream=20, **args)
        file.write(tmp_path / f"rank{rank}.json")
    found = late(tmp_path)
    assert found.late == 1 and column(found, "suffered_ns") == [5 * 60 * US, 0]
    assert column(found, "transfer_ns") == [5 * 40 * US] * 2
    assert "the transfer only" in found.notes[0]
    assert found.waits[0].total_ns == 5 * 60 * US


def test_profilers_that_start_at_different_times_are_no_lateness(tmp_path: Path) -> None:
    """Rank 0 waits 5 ms in the first all-reduce, for rank 1's profiler starts then; in the others it is 30 us late."""
    for rank, begins in enumerate((0, 5010)):
        file = TraceFile(rank=rank, world_size=2).host("aten::mm", begins, 5, cat="cpu_op")
        for seq in range(4):
            start = 9000 * seq + (5020 if rank and not seq else 20 + 30 * rank)
            file.kernel(ALL_REDUCE, start, 9000 * seq + 5060 - start, stream=20, launch=start - 2, **said(seq=seq))
        file.write(tmp_path / f"rank{rank}.json")
    found = late(tmp_path)
    assert column(found, "suffered_ns") == [90 * US, 0] and found.late == 1
    assert found.num_matched == 4 and column(found, "num_matched") == [3, 3]
    assert found.notes == ("1 collective left out: ranks waited there before the recording of the last began",)


def test_who_left_before_the_last_came_waited_for_nobody(tmp_path: Path) -> None:
    """The root of a broadcast sends and goes; the receiver that comes 800 us later makes nobody wait."""
    for rank, (start, end) in enumerate(((100, 150), (950, 990))):
        args = said("broadcast")
        file = TraceFile(rank=rank, world_size=2).kernel(ALL_REDUCE, start, end - start, stream=20, **args)
        file.write(tmp_path / f"rank{rank}.json")
    found = late(tmp_path)
    assert column(found, "suffered_ns") == column(found, "caused_ns") == [0, 0] and found.late is None
    assert column(found, "transfer_ns") == [50 * US, 40 * US]


def test_groups_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Ranks 0 1 and 2 3 have each a group "tp"; neither ranks nor anything else but the ends tells them apart."""
    for rank in range(4):
        file = TraceFile(rank=rank, world_size=4)
        for seq in range(6):
            end = 1000 * seq + 500 + 130 * (rank // 2)
            args: dict[str, Any] = {
                "Collective name": "allreduce",
                "Process Group Name": "tp",
                "Seq": seq,
                "Group size": 2,
            }
            file.kernel(ALL_REDUCE, end - 100 + 50 * (rank % 2), 100 - 50 * (rank % 2), stream=20, **args)
        file.write(tmp_path / f"rank{rank}.json")
    found = late(tmp_path)
    assert (found.num_matched, found.num_unmatched) == (12, 0)
    assert found.pairs.select("waiter", "last", "waiting_ns").rows() == [(0, 1, 300 * US), (2, 3, 300 * US)]


@given(st.lists(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=4, max_size=4), max_size=12))
def test_waiting_and_transfer_are_the_duration_and_blame_is_the_waiting(spans: list[list[tuple[int, int]]]) -> None:
    frames = []
    for rank in range(4):
        rows = [
            {"group": "0", "group_size": 4, "collective": "all_reduce", "seq": seq, "what": "all_reduce/",
             "start_ns": 10**7 * seq + start, "end_ns": 10**7 * seq + start + length, "is_barrier": False,
             "recorded_since_ns": None, "idle_since_ns": 10**7 * seq + start}
            for seq, members in enumerate(spans) for start, length in (members[rank],)
        ]  # fmt: skip
        frames.append(pl.DataFrame(rows, schema=ARRIVAL_SCHEMA))
    found = lateness(frames)
    if not spans:
        assert found is None
        return
    assert found is not None
    durations = [sum(members[rank][1] for members in spans) for rank in range(4)]
    summary = np.array(column(found, "suffered_ns")) + np.array(column(found, "transfer_ns"))
    assert summary.tolist() == durations
    assert sum(column(found, "origin_ns")) == sum(column(found, "suffered_ns"))
    assert min(column(found, "origin_ns")) >= 0
    assert sum(ns for _, _, ns, _ in found.pairs.rows()) == sum(column(found, "suffered_ns"))


@given(hostile_traces(), hostile_traces(), st.booleans())
@settings(max_examples=examples(25))
def test_any_two_traces_have_a_lateness_that_adds_up(first: Trace, second: Trace, same: bool) -> None:
    """Whatever files hold: times out of this world, numbers that repeat, one rank twice."""
    frames = [arrivals(work) for trace in (first, first if same else second) for work in works_of(trace)]
    found = lateness(frames)
    if found is None:
        return
    assert sum(column(found, "origin_ns")) == sum(column(found, "suffered_ns"))
    assert min(column(found, "origin_ns")) >= 0 and min(column(found, "transfer_ns")) >= 0
    num_events = sum(frame.height for frame in frames)
    assert 2 * found.num_matched + found.num_unmatched <= num_events
    assert found.not_the_same <= found.num_unmatched


_GLOO = """
import os, sys, time, torch, torch.distributed as dist
folder, other = sys.argv[1], os.fork()  # before torch has threads, and after it was imported, once
rank = 0 if other else 1
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
x = torch.ones(1000)
dist.all_reduce(x)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    for _ in range(8):
        (x @ x).item()
        if rank == 1:
            time.sleep(0.010)
        dist.all_reduce(x)
profile.export_chrome_trace(f"{folder}/traces/rank{rank}.json")
dist.barrier()
dist.destroy_process_group()
if other:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
"""


@thorough
def test_two_processes_of_gloo_of_which_one_sleeps(warm: Path, tmp_path: Path) -> None:
    """Rank 1 sleeps 10 ms before each of 8 all-reduces: rank 0 waits for it in each. A busy machine makes times
    longer or shorter, so that half of what was planted is asked for."""
    (tmp_path / "traces").mkdir()
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    (tmp_path / "gloo.py").write_text(_GLOO)
    subprocess.run([warm / "python", tmp_path / "gloo.py", tmp_path], env=environment, check=True, timeout=120)
    found = late(tmp_path / "traces")
    assert found.late == 1
    assert found.num_matched == 8  # the first is left out where rank 1's profiler started before rank 0's
    assert column(found, "num_last")[1] > column(found, "num_last")[0]
    waited = {(waiter, last): ns for waiter, last, ns, _ in found.pairs.rows()}
    assert waited[0, 1] >= 8 * 10 * MS / 2
    assert column(found, "origin_ns")[1] > 2 * column(found, "origin_ns")[0]

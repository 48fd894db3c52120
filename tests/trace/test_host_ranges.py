"""A rank on CPUs as ranges: what its thread did from one communication to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.tracefile import TraceFile
from weftrace.errors import TraceError
from weftrace.trace import Trace
from weftrace.trace.host_ranges import of_one_job, ranges_of_host
from weftrace.trace.work import Work


class Rank(TraceFile):
    """What torch.profiler writes of a rank on CPUs. Times in µs; a backend's thread is 2."""

    def __init__(self, rank: int = 0, *, backend: str = "gloo", groups: list[list[int]] | None = None,
                 pipeline: list[int] | None = None) -> None:  # fmt: skip
        super().__init__(rank=rank, world_size=4)
        listed = [{"pg_name": str(at), "ranks": ranks} for at, ranks in enumerate(groups or [])]
        listed += [{"pg_name": "9", "pg_desc": "mesh_pp", "ranks": pipeline}] if pipeline else []
        self.facts |= {"deviceProperties": [], "host_name": "box"}
        self.facts["distributedInfo"] |= {"backend": backend, "pg_config": listed}

    def op(self, name: str, start: float, end: float, **args: Any) -> Rank:
        self.host(name, start, end - start, cat="cpu_op", **args)
        return self

    def forward(self, number: int, start: float, end: float) -> Rank:
        return self.op("aten::linear", start, end, **{"Sequence number": number, "Fwd thread id": 0})

    def backward(self, number: int, start: float, end: float) -> Rank:
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        return self.op(name, start, end, **{"Sequence number": number, "Fwd thread id": 1})

    def peer(self, way: str, other: int | None, posted: float, end: float) -> Rank:
        """A send or receive that is waited for until the end."""
        args = {} if other is None else {"Concrete Inputs": ["", "", str(other), "0"]}
        self.op("c10d::send" if way == "send" else "c10d::recv_", posted, posted + 20, **args)
        self.host(f"gloo:{way}", posted + 10, end - posted - 10)
        return self

    def reduced(self, posted: float, begin: float, end: float) -> Rank:
        self.op("c10d::allreduce_", posted, posted + 20)
        self.host("gloo:all_reduce", begin, end - begin, tid=2)
        return self


def ranges(trace: Trace) -> list[tuple[Any, ...]]:
    """name, thread, from and to in µs, group."""
    work = ranges_of_host(trace)
    assert work is not None and work.basis == "ranges"
    rows = work.events.select(
        pl.col("name", "group").cast(pl.String), "stream", pl.col("start_ns", "end_ns").floordiv(1000)
    )
    return [(r["name"], r["stream"], r["start_ns"], r["end_ns"], r["group"]) for r in rows.iter_rows(named=True)]


def test_a_step_of_data_parallelism(tmp_path: Path) -> None:
    # thread 1  |before|forward====|backward======|     waits     |optimizer|
    # thread 2                          [all_reduce==============]
    file = Rank().forward(1, 2_000, 3_000).forward(2, 7_000, 8_000)  # between the two Python sleeps
    file.op("aten::mse_loss", 8_100, 8_200).backward(2, 9_000, 12_000).reduced(11_500, 11_600, 20_000)
    file.backward(1, 12_000, 14_000).op("aten::copy_", 20_050, 20_060).host("Optimizer.step#SGD.step", 20_100, 900)
    file.host("ProfilerStep#5", 0, 21_000)
    assert ranges(file.trace(tmp_path)) == [
        ("before forward", 0, 0, 2_000, None),
        ("forward", 0, 2_000, 9_000, None),
        ("backward", 0, 9_000, 14_000, None),
        ("all_reduce", 1, 11_600, 20_000, None),
        ("optimizer", 0, 20_000, 21_000, None),
    ]


def test_a_backend_that_writes_its_end_down_late(tmp_path: Path) -> None:
    file = Rank().forward(1, 0, 1_000).backward(1, 1_000, 3_000).reduced(2_500, 2_600, 10_900)
    file.host("Optimizer.step#SGD.step", 10_000, 2_000)  # went on when it was told, 900 µs before that
    assert ranges(file.trace(tmp_path))[2:] == [
        ("all_reduce", 1, 2_600, 10_000, None), ("optimizer", 0, 10_000, 12_000, None)
    ]  # fmt: skip


def test_a_sleep_beside_a_collective_is_no_waiting(tmp_path: Path) -> None:
    # the collective ends in the midst of a sleep, long before the thread goes on
    file = Rank().forward(1, 0, 1_000).backward(1, 1_000, 3_000).reduced(2_500, 2_600, 6_000)
    file.backward(1, 20_000, 21_000)
    assert ("backward", 0, 1_000, 21_000, None) in ranges(file.trace(tmp_path))


def test_a_stage_of_a_pipeline(tmp_path: Path) -> None:
    # forward of rank 0 is received, that to rank 2 is sent, the gradient waited for
    file = Rank(1).peer("recv", 0, 0, 5_000).forward(1, 5_100, 9_000).peer("send", 2, 9_100, 20_010)
    file.peer("recv", 2, 9_150, 20_000).backward(1, 20_100, 28_000).peer("send", 0, 28_050, 28_080)
    assert ranges(file.trace(tmp_path)) == [
        ("forward_recv", 0, 0, 5_000, "pair 0>1"),
        ("forward", 0, 5_000, 9_100, None),
        ("forward_send", 0, 9_100, 9_120, "pair 1>2"),
        ("backward_recv", 0, 9_120, 20_000, "pair 2>1"),
        ("backward", 0, 20_000, 28_050, None),
        ("backward_send", 0, 28_050, 28_070, "pair 1>0"),
    ]


def test_a_busy_machine_that_stops_a_backward_does_not_cut_it_where_a_send_ends(tmp_path: Path) -> None:
    # the thread stood still from 7,000 to 9,000, and what it had sent was taken at 8,990; nothing was posted meanwhile
    file = Rank(1).forward(1, 0, 900).peer("send", 2, 1_000, 8_990).peer("recv", 2, 1_050, 3_000)
    file.backward(1, 3_100, 7_000).backward(1, 9_000, 9_500).peer("send", 0, 9_600, 9_700)
    assert [row[0] for row in ranges(file.trace(tmp_path))].count("backward") == 1


def test_partners_are_ranks_of_the_job(tmp_path: Path) -> None:
    # of its group [1, 3] the other is rank 1 of the group, rank 3 of the job
    file = Rank(1, groups=[[1, 3]]).forward(1, 0, 900).peer("send", 1, 1_000, 1_100)
    assert ("forward_send", 0, 1_000, 1_020, "pair 1>3") in ranges(file.trace(tmp_path))
    file = Rank(1, groups=[[0, 1], [0, 1, 2, 3]], pipeline=[1, 3]).forward(1, 0, 900).peer("send", 1, 1_000, 1_100)
    assert ("forward_send", 0, 1_000, 1_020, "pair 1>3") in ranges(file.trace(tmp_path))


@pytest.mark.parametrize("is_recorded", [False, True], ids=["without shapes", "two groups could be meant"])
def test_without_a_partner_nothing_tells_what_was_waited_for(tmp_path: Path, is_recorded: bool) -> None:
    file = Rank(1, groups=[[0, 1], [3, 1]]).peer("recv", 0 if is_recorded else None, 0, 900)
    trace = file.forward(1, 1_000, 2_000).trace(tmp_path)
    assert trace.events["src_rank"].null_count() == len(trace)
    with pytest.raises(TraceError, match="1 sends and receives on the CPU name no partner"):
        ranges_of_host(trace)


def test_hosts_that_launch_are_no_ranges(tmp_path: Path) -> None:
    file = Rank(backend="nccl").forward(1, 0, 1_000).op("c10d::allreduce_", 1_000, 1_020)
    assert ranges_of_host(file.trace(tmp_path)) is None


def test_places_follow_who_sends_to_whom(tmp_path: Path) -> None:
    works: list[Work] = []
    for rank, after in ((0, 2), (1, 3), (2, None), (3, None)):  # two pipelines of two stages
        file = Rank(rank).forward(1, 1_000 + 100 * rank, 2_000)
        file = file.peer("recv", rank - 2, 0, 1_050) if after is None else file.peer("send", after, 2_000, 2_100)
        (tmp_path / str(rank)).mkdir()
        work = ranges_of_host(file.backward(1, 3_000, 4_000).trace(tmp_path / str(rank)))
        assert work is not None
        works.append(work)
    placed = of_one_job(works)
    assert [work.trace.plain.workers[0].places for work in placed if work.trace.plain] == [
        (("dp", 0), ("pp", 0)), (("dp", 1), ("pp", 0)), (("dp", 0), ("pp", 1)), (("dp", 1), ("pp", 1))
    ]  # fmt: skip
    assert placed[2].events["start_ns"][0] == 1_000_000  # what it waited before any rank computed is cut off

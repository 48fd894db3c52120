"""Clocks of plain ranges: sends that are only posted, offsets shorter than the run, and clocks that cannot be told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import weftrace as wt
from weftrace.analysis import arrivals
from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
from weftrace.analysis.meetings import Meetings, meetings_of
from weftrace.trace import Trace
from weftrace.trace.work import works_of

STAGES, REPLICAS, MICRO_BATCHES, STEPS = 3, 2, 6, 3
WIRE_US = 50.0
MS = 1_000_000


def pipeline(slowest: float = 1.0) -> list[list[dict[str, Any]]]:
    """Ranges of each rank, replica by replica, of GPipe steps: a send is over once it is posted. Times in us."""
    ranges: list[list[dict[str, Any]]] = [[] for _ in range(REPLICAS * STAGES)]
    now = [0.0] * len(ranges)

    def add(rank: int, name: str, until: float, step: int, mb: int | None) -> None:
        args = {"dp_rank": rank // STAGES, "pp_rank": rank % STAGES, "step": step}
        args |= {} if mb is None else {"mb": mb}
        ranges[rank].append(
            {"ph": "X", "name": name, "pid": rank, "tid": 0, "ts": now[rank], "dur": until - now[rank], "args": args}
        )
        now[rank] = until

    for step in range(STEPS):
        for replica in range(REPLICAS):
            for way, stages in (("forward", range(STAGES)), ("backward", range(STAGES - 1, -1, -1))):
                sent: dict[int, float] = {}
                for place, stage in enumerate(stages):
                    rank = replica * STAGES + stage
                    for mb in range(MICRO_BATCHES):
                        if place:
                            add(rank, f"recv_{way}", max(sent[mb] + WIRE_US, now[rank] + 10), step, mb)
                        cost = 1000.0 * (slowest if rank == len(ranges) - 2 else 1.0) + 7 * mb
                        add(rank, way, now[rank] + cost, step, mb)
                        sent[mb] = now[rank]
                        if place < STAGES - 1:
                            add(rank, f"send_{way}", now[rank] + 15, step, mb)
        for stage in range(STAGES):
            both = [replica * STAGES + stage for replica in range(REPLICAS)]
            end = max(now[rank] for rank in both) + 800
            for rank in both:
                add(rank, "allreduce", end, step, None)
    return ranges


def moved(ranges: Sequence[Sequence[dict[str, Any]]], by_us: Sequence[float]) -> list[list[dict[str, Any]]]:
    return [[{**each, "ts": each["ts"] + 1e6 + by} for each in mine] for mine, by in zip(ranges, by_us, strict=True)]


def met(path: Path, ranges: Sequence[Sequence[dict[str, Any]]], *, one_file: bool = False) -> Meetings:
    """What ranks share that are of one file, or of a file each."""
    parts = [[each for mine in ranges for each in mine]] if one_file else ranges
    works = []
    for at, part in enumerate(parts):
        file = path / f"rank{at}.json"
        file.write_text(json.dumps({"traceEvents": list(part)}), encoding="utf-8")
        trace = wt.open(str(file))
        assert isinstance(trace, Trace)
        works += works_of(trace)
    return meetings_of([arrivals(work) for work in works], [work.trace.path for work in works])


def test_sends_that_are_over_before_the_receive_begins_are_pairs(tmp_path: Path) -> None:
    """Each receive ends after its send began, though many sends ended before their receive began."""
    meetings = met(tmp_path, pipeline(1.3), one_file=True)
    assert meetings.num_not_causal == 0 and meetings.notes == ()


def test_a_name_alone_makes_no_pair(tmp_path: Path) -> None:
    """Without stages nothing tells who receives what is sent."""
    ranges = pipeline()
    for each in [each for mine in ranges for each in mine]:
        del each["args"]["dp_rank"], each["args"]["pp_rank"]
    meetings = met(tmp_path, ranges, one_file=True)
    pairs = meetings.members.filter(pl.col("collective").cast(pl.String) == "send_recv")
    assert pairs.get_column("sends").null_count() == pairs.height and meetings.num_not_causal == 0


@pytest.mark.parametrize("unit_us", [700.0, 10_000.0])
@pytest.mark.parametrize("slowest", [1.0, 1.3])
def test_clocks_less_apart_than_the_run_is_long_are_put_right(slowest: float, unit_us: float, tmp_path: Path) -> None:
    """A file a rank, the clocks up to 1.4 or 20 ms apart. Three all-reduces alone left them uncertain by a
    millisecond."""
    by_us = [unit_us * (rank * 37 % 5 - 2) for rank in range(STAGES * REPLICAS)]
    meetings = met(tmp_path, moved(pipeline(slowest), by_us))
    assert meetings.num_not_causal == 0
    for at, by in enumerate(by_us):
        applied = meetings.clocks.offset(at) if meetings.clocks.is_needed(at) else 0
        assert applied == pytest.approx(1e3 * (by - by_us[0]), abs=60_000)


@pytest.mark.parametrize("by_us", [5e6, 700.0])
def test_ranks_of_one_file_have_clocks_of_their_own_where_one_is_contradicted(by_us: float, tmp_path: Path) -> None:
    """A timeline put together of several hosts'. One pair of a hundred that is out of order is no other clock."""
    ranges = pipeline()
    apart = met(tmp_path, moved(ranges, [by_us * (rank == 4) for rank in range(6)]), one_file=True)
    assert apart.num_not_causal == 0 and apart.num_pairs == 144
    at = 1 * REPLICAS + 1  # ranks of one file come stage by stage
    assert apart.clocks.offset(at) == pytest.approx(1e3 * by_us, abs=60_000) and apart.clocks.is_needed(at)
    for each in [each for each in ranges[3] if each["name"] == "send_forward"][:2]:
        each["ts"] += 9_000.0
        each["dur"] = 1.0
    assert set(met(tmp_path, ranges, one_file=True).clocks.first) == {0}


def reductions(group: str, shift_ms: int, *, with_steps: bool = True) -> pl.DataFrame:
    """All-reduces of a rank: four a step, of four steps of 40 ms."""
    rows = [
        {
            "group": group, "group_size": 2, "collective": "all_reduce", "seq": 4 * step + nth, "what": "all_reduce",
            "step": step if with_steps else None, "is_barrier": False,
            "start_ns": (1000 + shift_ms + 40 * step + 9 * nth) * MS,
            "end_ns": (1008 + shift_ms + 40 * step + 9 * nth) * MS,
        }
        for step in range(4)
        for nth in range(4)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides=ARRIVAL_SCHEMA).select(
        *(name if name in rows[0] else pl.lit(None, kind).alias(name) for name, kind in ARRIVAL_SCHEMA.items())
    )


@pytest.mark.parametrize(("apart_ms", "steps"), [(1300, True), (-30, True), (1300, False), (5, True), (60, False)])
def test_steps_of_ranks_on_clocks_that_nothing_links_are_laid_over_each_other(apart_ms: int, steps: bool) -> None:
    """Two groups that share nothing. Where their steps lie over each other as they are, their clocks may well agree."""
    frames = [reductions("a", 0, with_steps=steps)] * 2 + [reductions("b", apart_ms, with_steps=steps)] * 2
    meetings = meetings_of(frames)
    moved_ns = {int(meetings.clocks.to_common(at, np.array([0]))[0]) for at in (2, 3)}
    if apart_ms in (5, 60):
        assert meetings.num_unlinked == 0 and meetings.notes == () and moved_ns == {0}
    else:
        assert meetings.num_unlinked == 2 and moved_ns == {-apart_ms * MS}
        assert "nothing that 2 ranks recorded shows" in meetings.notes[0]
    assert meetings.members.get_column("ahead_ns").to_list() == [0] * 64

"""Sends and receives are paired with their own partners, or with none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import weftrace as wt
from tests.trust.jobs import random_job
from weftrace.advice import infer_job, parse_change
from weftrace.advice.bounds import tried
from weftrace.analysis import arrivals
from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
from weftrace.analysis.meetings import Meetings, meetings_of
from weftrace.analysis.stragglers import lateness_of
from weftrace.trace import Trace

MS = 1_000_000


def found_in(folder: Path) -> Meetings:
    files = [wt.open(str(folder / f"rank{rank}.json")) for rank in range(4)]
    return meetings_of([arrivals(file) for file in files if isinstance(file, Trace)])


@pytest.mark.parametrize("peers", [True, False])
def test_a_pipelines_pairs(peers: bool, tmp_path: Path) -> None:
    """72 pairs, three links of 24. Without partners in the files 59 of 96 pairs were wrong once, as each rank numbers
    its own sends and receives."""
    job = random_job("s23", kind="pipeline")
    run = job.run()
    meetings = found_in(run.write(tmp_path, range(4), peers=peers))
    tags: dict[tuple[int, int], set[object]] = {}
    for at, op in enumerate(job.ops):
        if op.meet is not None:
            tags.setdefault((op.rank, round(1e9 + 1e3 * run.start[at])), set()).add(op.meet)
    pairs = [
        [tags[at, start] for at, start in pair.select("at", "start_ns").iter_rows()]
        for _, pair in meetings.members.group_by("meeting")
    ]
    assert all(len(pair) == 2 and pair[0] & pair[1] for pair in pairs)
    assert len(pairs) == 72 if peers else 60 < len(pairs) <= 72
    assert meetings.num_pairs_alone == meetings.num_unmatched == 144 - 2 * len(pairs)
    assert any("found no partner" in note for note in meetings.notes) == (len(pairs) < 72)


def test_without_partners_in_the_files_pairs_hold_no_ranks_together(tmp_path: Path) -> None:
    job = random_job("s23", kind="pipeline")
    inferred = infer_job(wt.open(str(job.run().write(tmp_path, range(4), peers=False))), workers=1)
    assert any("have no partner that a file names, so they link no ranks" in note for note in inferred.notes)
    found = tried(inferred, [parse_change("communication=0.5")])
    assert found.low_ns < found.high_ns, "four of four ranks, and yet an interval"


def one_pair(send: tuple[int, int], receive: tuple[int, int], *, named: bool = True) -> Meetings:
    """Rank 0 sends to rank 1, times in ms; then both reduce, so that they have one clock. named: whether the files tell
    who sends."""
    ranks = []
    for sends, (start, end) in ((True, send), (False, receive)):
        rows: list[dict[str, Any]] = [
            {"collective": "send_recv", "start_ns": start * MS, "end_ns": end * MS, "sends": sends if named else None},
            *({"collective": "all_reduce", "start_ns": at * MS, "end_ns": (at + 1) * MS} for at in range(500, 510)),
        ]
        common = {"group": "pair", "group_size": 2, "what": "x", "is_barrier": False, "laid_ns": 0}
        full = [{**common, "seq": seq, "idle_since_ns": row["start_ns"], **row} for seq, row in enumerate(rows)]
        ranks.append(pl.DataFrame(full, schema=ARRIVAL_SCHEMA))
    return meetings_of(ranks)


@pytest.mark.parametrize(
    ("send", "receive", "named", "is_pair"),
    [
        ((10, 20), (0, 20), True, True),
        ((10, 20), (30, 40), True, True),  # a small one, which was buffered
        ((10, 20), (0, 5), True, False),  # received before it was sent
        ((0, 5), (10, 20), False, False),  # nothing tells who sends: at no time did both run
        ((10, 20), (0, 20), False, True),
    ],
)
def test_a_receive_does_not_end_before_its_send_begins(
    send: tuple[int, int], receive: tuple[int, int], named: bool, is_pair: bool
) -> None:
    meetings = one_pair(send, receive, named=named)
    kinds = meetings.members.get_column("collective").cast(pl.String).to_list()
    assert kinds.count("send_recv") == 2 * is_pair
    assert kinds.count("all_reduce") == 20
    assert meetings.num_not_causal == 1 - is_pair
    late = lateness_of(meetings)
    assert late is not None
    assert any("the receive would have ended before its send began" in note for note in late.notes) != is_pair

"""Offsets between the clocks of hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.tracefile import ALL_REDUCE, GEMM, NOTIFY, TraceFile, collective
from weftrace.analysis import clock_offsets, collective_ends
from weftrace.trace import Trace, events_frame
from weftrace.units import MS, US


def rank_file(shift: float, *, ends: tuple[float, ...] = (100, 300, 700), seqs: tuple[int, ...] | None = (1, 2, 3),
              elems: tuple[int, ...] = (10, 20, 30), group: str = "0", **more: Any) -> TraceFile:  # fmt: skip
    """Collectives that end at `ends` on a clock that runs `shift` ahead."""
    file = TraceFile()
    for number, end in enumerate(ends):
        args: dict[str, Any] = {
            "Collective name": "allreduce",
            "In msg nelems": elems[number],
            "Process Group Name": group,
            **more,
        }
        if seqs is not None:
            args["Seq"] = seqs[number]
        start = 10 * number + 1  # ranks enter when they like; they leave together
        file.kernel(ALL_REDUCE, start + shift, end - start, stream=20 + number, **args)
    return file


def offsets(folder: Path, *files: TraceFile) -> list[tuple[int, int | None, int]]:
    ends = {rank: collective_ends(file.trace(folder)) for rank, file in enumerate(files)}
    return [(c.rank, c.offset_ns, c.num_matched) for c in clock_offsets(ends)]


def test_by_pencil(tmp_path: Path) -> None:
    # rank 0's clock is 40 µs ahead of rank 2's, rank 1's is 500 µs ahead of it
    files = rank_file(40), rank_file(500), rank_file(0)
    assert offsets(tmp_path, *files) == [(0, 0, 3), (1, 460 * US, 3), (2, -40 * US, 3)]


def test_one_straggling_mark_does_not_move_the_median(tmp_path: Path) -> None:
    other = rank_file(500, ends=(100, 300, 790))
    assert offsets(tmp_path, rank_file(0), other)[1] == (1, 500 * US, 3)


def test_sampled_files_are_matched_by_sequence_number(tmp_path: Path) -> None:
    other = rank_file(500, ends=(300, 700), seqs=(2, 3), elems=(20, 30))
    assert offsets(tmp_path, rank_file(0), other)[1] == (1, 500 * US, 2)


def test_sizes_need_not_agree_where_numbers_do(tmp_path: Path) -> None:
    args = collective("all_to_allv")
    other = rank_file(500, elems=(11, 22, 33), **args)
    assert offsets(tmp_path, rank_file(0, **args), other)[1] == (1, 500 * US, 3)


def test_another_kind_under_the_same_number_is_no_match(tmp_path: Path) -> None:
    assert offsets(tmp_path, rank_file(0), rank_file(5, **collective("broadcast")))[1] == (1, None, 0)


def test_groups_are_told_apart(tmp_path: Path) -> None:
    assert offsets(tmp_path, rank_file(0), rank_file(5, group="1"))[1] == (1, None, 0)


def test_a_number_that_occurs_twice_is_not_used(tmp_path: Path) -> None:
    other = rank_file(500, ends=(100, 300, 700), seqs=(1, 1, 3))
    assert offsets(tmp_path, rank_file(0), other)[1] == (1, 500 * US, 1)


def test_by_order_where_no_numbers_are_recorded(tmp_path: Path) -> None:
    same = (10, 10, 10)
    assert offsets(tmp_path, rank_file(0, seqs=None, elems=same), rank_file(7, seqs=None, elems=same))[1] == (
        1,
        7 * US,
        3,
    )


def test_by_order_only_when_both_have_as_many(tmp_path: Path) -> None:
    other = rank_file(7, ends=(300, 700), seqs=None, elems=(10, 10))
    assert offsets(tmp_path, rank_file(0, seqs=None, elems=(10, 10, 10)), other)[1] == (1, None, 0)


def test_matches_that_disagree_tell_no_offset(tmp_path: Path) -> None:
    first, second = rank_file(0, ends=(100, 300, 700)), rank_file(0, ends=(5_100, 20_300, 90_700))
    ends = {rank: collective_ends(file.trace(tmp_path)) for rank, file in enumerate((first, second))}
    clock = clock_offsets(ends)[1]
    assert clock.offset_ns is None and clock.num_matched == 3
    assert clock.spread_ns is not None and clock.spread_ns > MS


def test_barriers_and_compute_are_no_marks(tmp_path: Path) -> None:
    file = TraceFile().kernel(NOTIFY, 0, 5).kernel(GEMM, 10, 5)
    assert collective_ends(file.trace(tmp_path)).is_empty()
    assert collective_ends(Trace(events=events_frame({}, 0))).is_empty()


def test_no_ranks_no_offsets(tmp_path: Path) -> None:
    assert clock_offsets({}) == ()
    assert offsets(tmp_path, rank_file(0)) == [(0, 0, 3)]


@given(st.integers(-(2**60), 2**60), st.lists(st.integers(0, 10**9), min_size=1, max_size=9))
def test_a_shifted_copy_is_found_to_the_nanosecond(shift: int, times: list[int]) -> None:
    ends = pl.DataFrame(
        {"group": "0", "collective": "all_reduce", "seq": range(len(times)), "what": "all_reduce/?",
         "order": range(len(times)), "end_ns": times},
        schema_overrides={"end_ns": pl.Int64},
    )  # fmt: skip
    found = clock_offsets({3: ends, 5: ends.with_columns(pl.col("end_ns") + shift)})[1]
    assert (found.rank, found.offset_ns, found.spread_ns, found.num_matched) == (5, shift, 0, len(times))

"""Offsets between the clocks of hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.tracefile import ALL_REDUCE, GEMM, NOTIFY, TraceFile, collective
from weftrace.analysis import arrivals, clock_offsets
from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
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
    ends = {rank: arrivals(file.trace(folder)) for rank, file in enumerate(files)}
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


def test_without_numbers_the_ends_that_agree_tell(tmp_path: Path) -> None:
    """100 300 700 against 307 707: the offset at which most ends agree is 7, not that of the first two, 207."""
    other = rank_file(7, ends=(300, 700), seqs=None, elems=(10, 10))
    assert offsets(tmp_path, rank_file(0, seqs=None, elems=(10, 10, 10)), other)[1] == (1, 7 * US, 2)


def test_without_numbers_ends_that_never_agree_tell_nothing(tmp_path: Path) -> None:
    first = rank_file(0, ends=(10_000, 30_000, 70_000, 71_500), seqs=None, elems=(10,) * 4)
    other = rank_file(0, ends=(905_000, 1_912_000, 2_918_000), seqs=None, elems=(10,) * 3)
    assert offsets(tmp_path, first, other)[1] == (1, None, 0)


def test_matches_that_disagree_tell_no_offset(tmp_path: Path) -> None:
    first, second = rank_file(0, ends=(100, 300, 700)), rank_file(0, ends=(5_100, 20_300, 90_700))
    ends = {rank: arrivals(file.trace(tmp_path)) for rank, file in enumerate((first, second))}
    clock = clock_offsets(ends)[1]
    assert clock.offset_ns is None and clock.num_matched == 3
    assert clock.spread_ns is not None and clock.spread_ns > MS


def test_barriers_are_no_marks_where_there_are_others_and_compute_never(tmp_path: Path) -> None:
    # a notification may leave before the others do: it is off by 5, which the three all-reduces are not
    late, early = rank_file(500).kernel(NOTIFY, 2_000, 5, Seq=9), rank_file(0).kernel(NOTIFY, 1_495, 5, Seq=9)
    assert offsets(tmp_path, early, late)[1] == (1, 500 * US, 3)
    assert arrivals(TraceFile().kernel(GEMM, 10, 5).trace(tmp_path)).is_empty()
    assert arrivals(Trace(events=events_frame({}, 0))).is_empty()


def test_no_ranks_no_offsets(tmp_path: Path) -> None:
    assert clock_offsets({}) == ()
    assert offsets(tmp_path, rank_file(0)) == [(0, 0, 3)]


@given(st.integers(-(2**60), 2**60), st.lists(st.integers(0, 10**9), min_size=1, max_size=9))
def test_a_shifted_copy_is_found_to_the_nanosecond(shift: int, times: list[int]) -> None:
    rows = [
        {"group": "0", "collective": "all_reduce", "seq": seq, "what": "all_reduce/", "start_ns": time, "end_ns": time,
         "idle_since_ns": time, "is_barrier": False}
        for seq, time in enumerate(times)
    ]  # fmt: skip
    ends = pl.DataFrame(rows, schema=ARRIVAL_SCHEMA)
    found = clock_offsets({3: ends, 5: ends.with_columns(pl.col("start_ns", "end_ns") + shift)})[1]
    assert (found.rank, found.offset_ns, found.spread_ns, found.num_matched) == (5, shift, 0, len(times))


def frame(ends: dict[int, int], *, group: str) -> pl.DataFrame:
    """Collectives of a group that end at these times, by sequence number."""
    rows = [
        {"group": group, "group_size": 2, "collective": "all_reduce", "seq": seq, "what": "all_reduce/",
         "start_ns": end - MS, "end_ns": end, "idle_since_ns": end - MS, "is_barrier": False}
        for seq, end in ends.items()
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=ARRIVAL_SCHEMA)


def test_ranks_that_share_no_group_are_told_along_a_chain() -> None:
    """0 and 1 share group a, 1 and 2 share b, 2 and 3 share c: clocks 0, +5 ms, +2 ms, -1 ms."""
    ahead = (0, 5 * MS, 2 * MS, -MS)
    groups = (("a", 0, 1), ("b", 1, 2), ("c", 2, 3))
    ranks = {
        rank: pl.concat(
            frame({seq: seq * 10 * MS + ahead[rank] for seq in range(6)}, group=name)
            for name, *both in groups if rank in both
        )
        for rank in range(4)
    }  # fmt: skip
    found = clock_offsets(ranks)
    assert [clock.offset_ns for clock in found] == list(ahead)
    assert [clock.applied for clock in found] == [False, True, True, True]


def test_a_clock_that_runs_faster_is_told_as_a_line() -> None:
    """20 ppm over 100 s: 2 ms apart at the ends, and 10 us of jitter are left, not 500 us."""
    true = {seq: seq * 1000 * MS for seq in range(100)}
    fast = {seq: round(time * (1 + 20e-6)) + 3 * MS + (seq % 3 - 1) * 10 * US for seq, time in true.items()}
    clock = clock_offsets({0: frame(true, group="a"), 1: frame(fast, group="a")})[1]
    assert abs(clock.drift_ppm - 20) < 1 and clock.spread_ns is not None and clock.spread_ns <= 10 * US
    assert clock.offset_ns is not None and abs(clock.offset_ns - 3 * MS - 49 * 20 * US) < 40 * US


def test_an_offset_within_what_the_matches_disagree_is_not_applied() -> None:
    a, b = {seq: seq * MS for seq in range(9)}, {seq: seq * MS + (seq % 3) * 30 * US for seq in range(9)}
    clock = clock_offsets({0: frame(a, group="a"), 1: frame(b, group="a")})[1]
    assert clock.offset_ns == 30 * US and clock.spread_ns == 30 * US and not clock.applied


def transfers(ahead: float, jitter: tuple[float, ...], starts: tuple[float, ...] = ()) -> TraceFile:
    """Collectives that show the transfer only: they start together and end when each is done."""
    file = TraceFile()
    for seq, late in enumerate(jitter):
        start = 1000 * seq + ahead + (starts[seq] if starts else 0)
        file.kernel(ALL_REDUCE, start, 1000 * seq + ahead + 500 + late - start, stream=20, Seq=seq,
                    **collective("allreduce"))  # fmt: skip
    return file


JITTER = (0.0, 90.0, 20.0, 70.0, 40.0, 100.0, 10.0)


def test_starts_that_agree_tell_of_the_clock_where_ends_do_not(tmp_path: Path) -> None:
    for ahead in (0, 5, 70_000):  # ends lie 40 us apart in the median, and 40 us from that
        files = transfers(0, (0.0,) * 7), transfers(ahead, JITTER)
        assert offsets(tmp_path, *files)[1] == (1, ahead * US, 7)


def test_who_is_always_late_by_as_much_has_no_other_clock(tmp_path: Path) -> None:
    """It starts 300 us later each time, and ends agree to some microseconds: that is no offset of 300 us."""
    jitter = tuple(late / 10 for late in JITTER)
    files = transfers(0, (0.0,) * 7), transfers(0, jitter, starts=(300.0,) * 7)
    assert offsets(tmp_path, *files)[1] == (1, 4 * US, 7)


def test_a_busy_host_that_wakes_up_late_has_no_clock_of_a_step_earlier(tmp_path: Path) -> None:
    """Steps of about 10 ms that end up to 3 ms apart on two busy processes: more agree, by chance,
    where one clock is 10 ms behind than as they are."""
    ends = (10_000, 20_000, 30_000, 40_000, 51_500, 60_000, 70_500, 80_500)
    other = (10_000, 20_000, 30_000, 42_300, 48_500, 62_100, 67_800, 82_600)
    files = [rank_file(0, ends=times, seqs=None, elems=(10,) * 8) for times in (ends, other)]
    assert offsets(tmp_path, *files)[1] == (1, 0, 3)

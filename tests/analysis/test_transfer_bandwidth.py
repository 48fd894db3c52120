"""Bandwidth of collectives, with waiting and without, on intervals that a pencil can follow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.tracefile import ALL_REDUCE, TraceFile
from weftrace.analysis import bandwidth
from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
from weftrace.report import analyze

US = 1_000
START = 1_790_000_000_000_000_000  # an epoch, whose nanoseconds a float does not hold

Row = dict[str, Any]


def ranks(*events: Sequence[tuple[float, float]], ahead: tuple[int, ...] = (), **common: Any) -> list[pl.DataFrame]:
    """Of each rank its collectives, start and end in µs, numbered alike. ahead: of each rank's clock, in µs."""
    facts = {"group": "dp [0, 1]", "group_size": len(events), "collective": "all_reduce", "is_barrier": False,
             "payload_bytes": 8_000_000, **common}  # fmt: skip
    frames = []
    for at, mine in enumerate(events):
        by = START + (ahead[at] if ahead else 0) * US
        rows = [
            {**facts, "seq": seq, "what": facts["collective"], "start_ns": by + round(start * US),
             "end_ns": by + round(end * US)}
            for seq, (start, end) in enumerate(mine)
        ]  # fmt: skip
        frames.append(pl.DataFrame(rows, schema=ARRIVAL_SCHEMA).with_columns(pl.col("start_ns").alias("idle_since_ns")))
    return frames


def only_row(frames: list[pl.DataFrame]) -> Row:
    found = bandwidth(frames)
    assert found is not None
    (row,) = found.rows.to_dicts()
    return row


# Two ranks, two all-reduces of 8 MB. In µs:
#
#     rank 0   ├── waits ──┼─ 100 ─┤ 400        ├─ 200 ──┤ 1200
#              0         300                   1000
#     rank 1               ├─ 100 ─┤ 400      ├┼─ 200 ──┤ 1200
#                        300                 900
#
# The whole: durations 400, 100, 200, 300, median 250. The transfer: 100 and 200, median 150.
PENCIL = [(0, 400), (1000, 1200)], [(300, 400), (900, 1200)]


def test_the_transfer_begins_when_the_last_rank_has_come() -> None:
    row = only_row(ranks(*PENCIL))
    assert (row["basis"], row["num_matched"], row["num_events"]) == ("all ranks", 2, 4)
    assert (row["whole_ns"], row["transfer_ns"], row["total_ns"]) == (250 * US, 150 * US, 1000 * US)
    # 8 MB in 250 µs are 32 GB/s, in 150 µs 53.3; the factor of an all-reduce over two is 2 x 1/2.
    assert row["whole_busbw_GBps"] == pytest.approx(32)
    assert row["algbw_GBps"] == row["busbw_GBps"] == pytest.approx(8_000 / 150)
    assert (row["least_busbw_GBps"], row["best_busbw_GBps"]) == pytest.approx((40, 80))


def test_a_clock_that_is_ahead_changes_nothing() -> None:
    came = [(0, 400), (1000, 1200), (2000, 2300)], [(300, 400), (900, 1200), (2200, 2300)]
    plain, ahead = (only_row(ranks(*came, ahead=by)) for by in ((0, 0), (0, 70_000)))
    assert ahead["basis"] == "all ranks"
    assert ahead == plain


@pytest.mark.parametrize(
    ("collective", "factor"),
    [("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75), ("broadcast", 1),
     ("reduce", 1), ("send_recv", 1), ("dispatch", None)],
)  # fmt: skip
def test_factors_are_those_of_nccl_tests(collective: str, factor: float | None) -> None:
    number = 2 if collective == "send_recv" else 4  # ranks that meet; of a group of four
    came = [[(10.0 * at, 100.0)] for at in range(number)]
    row = only_row(ranks(*came, collective=collective, group_size=4))
    algbw = 8_000 / (100 - 10 * (number - 1))
    assert row["algbw_GBps"] == pytest.approx(algbw)
    assert row["busbw_GBps"] == (None if factor is None else pytest.approx(factor * algbw))


def test_an_all_gather_counts_what_all_have_in_the_end(tmp_path: Path) -> None:
    """Each of 4 ranks gives 1 MB and gets 4 MB: nccl-tests' size is 4 MB. They come 10 µs after one another, the last
    100 µs before the end, by clocks that are up to 60 ms apart."""
    facts: Row = {
        "Collective name": "_allgather_base", "In msg nelems": 500_000, "Out msg nelems": 2_000_000, "Group size": 4,
        "dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3]",
    }  # fmt: skip
    for rank, ahead in enumerate((0, 5_000, -20_000, 40_000)):
        file = TraceFile(rank=rank, world_size=4)
        for seq in range(5):
            start = 50_000 + ahead + 500 * seq + 10 * rank
            file.kernel(ALL_REDUCE, start, 130 - 10 * rank, stream=20, launch=10, **facts, Seq=seq)
        file.write(tmp_path / f"rank{rank}.json")
    block = analyze(tmp_path, timelines=False, workers=1).document["bandwidth"]
    assert block is not None
    (row,) = block["rows"]
    assert (row["basis"], row["payload_bytes"], row["transfer_ns"]) == ("all ranks", 4_000_000, 100 * US)
    assert (row["algbw_GBps"], row["busbw_GBps"]) == pytest.approx((40, 30))
    assert row["whole_busbw_GBps"] == pytest.approx(30 * 100 / 115)


def test_clocks_that_disagree_tell_no_transfer_and_the_fastest_rank_bounds_it() -> None:
    """Ends of one collective lie 80 µs apart, now this rank's first, now that one's, so no offset explains it. By the
    clocks the transfer would take now 60, now 140 µs; the rank that waited least took 100, 110, 100."""
    row = only_row(ranks([(0, 400), (1000, 1190), (2000, 2400)], [(220, 320), (1160, 1270), (2220, 2320)]))
    assert row["basis"] == "fastest rank"
    assert row["transfer_ns"] == 100 * US and row["uncertainty_ns"] == 40 * US
    assert (row["least_busbw_GBps"], row["best_busbw_GBps"]) == pytest.approx((8_000 / 110, 80))


def test_collectives_that_are_not_matched_have_the_shortest_of_all() -> None:
    """Nothing numbers them, and their ends do not agree."""
    first, second = ranks([(0, 400), (1000, 1330)], [(5000, 5100), (9000, 9777)])
    unnumbered = [frame.with_columns(pl.lit(None, pl.Int64).alias("seq")) for frame in (first, second)]
    row = only_row(unnumbered)
    assert (row["basis"], row["num_matched"], row["transfer_ns"]) == ("shortest event", 0, 100 * US)
    assert row["busbw_GBps"] == pytest.approx(80)


def test_one_rank_has_only_the_whole() -> None:
    row = only_row(ranks([(0, 400), (1000, 1200)], group_size=2))
    assert (row["basis"], row["whole_ns"]) == ("whole", 300 * US)
    assert row["transfer_ns"] is row["algbw_GBps"] is row["busbw_GBps"] is None


def test_ranks_whose_files_are_absent_may_still_be_waited_for() -> None:
    row = only_row(ranks(*PENCIL, group_size=8))
    assert (row["basis"], row["transfer_ns"]) == ("ranks present", 150 * US)


def test_what_is_not_recorded_is_counted_and_not_guessed() -> None:
    unsized = bandwidth(ranks(*PENCIL, payload_bytes=None))
    assert unsized is not None and unsized.rows.is_empty() and unsized.num_unsized == 4
    no_group = bandwidth(ranks(*PENCIL, group_size=None))
    assert no_group is not None and no_group.num_without_factor == 4
    (row,) = no_group.rows.to_dicts()
    assert row["busbw_GBps"] is row["whole_busbw_GBps"] is None and row["algbw_GBps"] == pytest.approx(8_000 / 150)
    assert bandwidth([pl.DataFrame(schema=ARRIVAL_SCHEMA)]) is None


def test_a_sender_that_left_before_its_receiver_came_tells_no_transfer() -> None:
    """The first send is held until its receiver comes; the second is gone before."""
    frames = ranks([(0, 300), (1000, 1050)], [(200, 300), (2000, 2020)], collective="send_recv")
    found = bandwidth([frame.with_columns(sends=pl.lit(at == 0)) for at, frame in enumerate(frames)])
    assert found is not None
    (row,) = found.rows.to_dicts()
    assert (row["basis"], row["transfer_ns"], found.num_left_early) == ("all ranks", 100 * US, 1)


def test_of_many_sizes_the_longest_are_listed_and_the_rest_is_counted() -> None:
    sizes = [
        frame.with_columns(pl.Series("payload_bytes", [1000 * (1 + seq) for seq in range(250)]))
        for frame in ranks(*([(1000.0 * seq, 1000.0 * seq + 10 + seq) for seq in range(250)] for _ in range(2)))
    ]
    found = bandwidth(sizes)
    assert found is not None
    assert (found.rows.height, found.num_rows_left) == (200, 50)
    assert found.left_ns == 2 * sum(10 + seq for seq in range(50)) * US

"""F and B side by side become F&B where they can run at the same time."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.pipeline.passes.orders import apart, lines_of, of_lines, one_f_one_b
from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.dualpipe import dualpipe, dualpipe_v
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.passes.merging import merge_neighbours
from weftrace.pipeline.passes.middle_switch import switch_middle
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule


def test_a_backward_takes_the_forward_that_follows_it() -> None:
    merged = merge_neighbours(one_f_one_b(3, 4))
    check(merged)
    assert lines_of(merged) == [
        "0F0 0F1 0F2 0F3&0B0 0B1 0B2 0B3",
        "1F0 1F1 1F2&1B0 1F3&1B1 1B2 1B3",
        "2F0 2F1&2B0 2F2&2B1 2F3&2B2 2B3",
    ]


def test_a_forward_cannot_take_the_backward_of_its_own_chunk() -> None:
    merged = merge_neighbours(one_f_one_b(3, 4), first="F")
    check(merged)
    assert lines_of(merged)[1:] == ["1F0 1F1&1B0 1F2&1B1 1F3&1B2 1B3", "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"]


def test_a_pair_whose_backward_comes_of_its_forward_over_other_ranks_stays_apart() -> None:
    # 0B0 needs 1B0, which rank 1 runs after 1F1, which needs 0F1: so 0F1 and 0B0 cannot be one.
    schedule = of_lines("0F0 0F1 0B0 0F2 0B1 0B2\n1F0 1F1 1B0 1B1 1F2 1B2", replicas="0 1", num_micro_batches=3)
    merged = merge_neighbours(schedule, first="F")
    check(merged)
    assert lines_of(merged) == ["0F0 0F1 0B0 0F2&0B1 0B2", "1F0 1F1&1B0 1B1 1F2 1B2"]


@pytest.mark.parametrize("made", [dualpipe(4, 8), dualpipe(8, 20), dualpipe_v(4, 9)], ids=["4", "8", "V"])
def test_dualpipes_pairs_taken_apart_are_found_again(made: Schedule) -> None:
    parted = apart(made)
    check(parted)
    assert switch_middle(merge_neighbours(parted, first="F")) == made


@pytest.mark.parametrize("first", ["B", "F"])
@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved", "seq1f1b"])
def test_whatever_is_merged_can_run_and_does_all_the_work(name: str, first: Literal["B", "F"]) -> None:
    for ranks, micro_batches in ((2, 2), (3, 7), (4, 8), (5, 6)):
        schedule = generate(name, num_ranks=ranks, num_micro_batches=micro_batches)
        try:
            merged = merge_neighbours(schedule, first)
        except ScheduleError:
            assert name == "gpipe"  # all forwards stand before all backwards
            continue
        check(merged)
        assert len(merged) < len(schedule) == len(apart(merged))


def test_offloading_goes_with_the_forward() -> None:
    schedule = of_lines("0F0 0F1 0B0 0F2^ 0B1 0B2", replicas="0", num_micro_batches=3)
    assert lines_of(merge_neighbours(schedule)) == ["0F0 0F1 0F2^&0B0 0B1 0B2"]


def test_where_nothing_stands_side_by_side_the_reason_is_told() -> None:
    gpipe = of_lines("0F0 0F1 0B0 0B1", replicas="0", num_micro_batches=2)
    with pytest.raises(ScheduleError, match="nothing to merge; no B stands right before an F"):
        merge_neighbours(gpipe)
    with pytest.raises(ScheduleError, match="first = 'W'"):
        merge_neighbours(gpipe, first="W")  # type: ignore[arg-type]

"""Interleaved 1F1B with merged F and B."""

from __future__ import annotations

import pytest

from tests.pipeline.passes.orders import apart, lines_of
from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.looped import interleaved
from weftrace.pipeline.generators.overlapped import interleaved_overlapped
from weftrace.pipeline.passes.merging import merge_neighbours
from weftrace.pipeline.rules import check


def test_each_rank_runs_one_forward_more_ahead_than_interleaved_1f1b_and_then_pairs() -> None:
    schedule = interleaved_overlapped(2, 4)
    check(schedule)
    assert lines_of(schedule) == [
        "0F0 0F1 2F0 2F1 0F2 0F3&2B0 2F2&2B1 2F3&0B0 0B1 2B2 2B3 0B2 0B3",
        "1F0 1F1 3F0 3F1&3B0 1F2&3B1 1F3&1B0 3F2&1B1 3F3&3B2 3B3 1B2 1B3",
    ]


@pytest.mark.parametrize("stages_per_rank", [1, 2, 3])
def test_it_can_run_on_any_number_of_stages_a_rank(stages_per_rank: int) -> None:
    schedule = interleaved_overlapped(4, 12, stages_per_rank)
    check(schedule)
    assert len(apart(schedule)) == 4 * 12 * stages_per_rank * 2


@pytest.mark.parametrize("numbers", [(4, 8, 2), (8, 32, 2), (4, 8, 3), (4, 10, 2), (3, 7, 2), (4, 3, 2)])
def test_it_is_interleaved_1f1b_with_merged_neighbours(numbers: tuple[int, int, int]) -> None:
    assert merge_neighbours(interleaved(*numbers)) == interleaved_overlapped(*numbers)


def test_what_cannot_be_is_refused_with_the_reason() -> None:
    with pytest.raises(ScheduleError, match="interleaved F&B: num_micro_batches = 0"):
        interleaved_overlapped(4, 0)
    with pytest.raises(ScheduleError, match="interleaved F&B: stages_per_rank = 0"):
        interleaved_overlapped(4, 8, 0)

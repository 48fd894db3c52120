"""The orders of torch.distributed.pipelining, as a second opinion; its classes are private there, so torch is pinned.

Asked are the functions that make a rank's order, without stages, modules or processes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from weftrace.pipeline import Schedule
from weftrace.pipeline.generators.looped import interleaved, interleaved_zb
from weftrace.pipeline.generators.one_stage import gpipe, one_f_one_b, zb1p
from weftrace.pipeline.generators.v_shape import zbv

schedules: Any = pytest.importorskip("torch.distributed.pipelining.schedules")
SIZES = [(1, 1), (1, 3), (2, 2), (2, 5), (3, 7), (4, 3), (4, 8), (4, 9), (5, 12), (8, 32)]
#: torch refuses micro-batches that are no whole number of equal rounds; weftrace's rounds may differ by one.
EQUAL_ROUNDS = [(ranks, many) for ranks, many in SIZES if many % max(1, many // ranks) == 0]


def ours(schedule: Schedule) -> list[list[str]]:
    listed = schedule.listed()
    return [[str(action) for action in listed if action.rank == rank] for rank in range(schedule.num_ranks)]


def theirs(make: Any, num_ranks: int) -> list[list[str]]:
    """Each rank's actions, without the idle slots that torch puts between them."""
    orders = [[action for action in make(rank) if action] for rank in range(num_ranks)]
    return [
        [f"{one.stage_index}{one.computation_type.value}{one.microbatch_index}" for one in order] for order in orders
    ]


def looped(schedule: Any, num_ranks: int, num_micro_batches: int, stages_per_rank: int) -> list[list[str]]:
    num_rounds = max(1, num_micro_batches // num_ranks)
    state = SimpleNamespace(
        pp_group_size=num_ranks,
        n_local_stages=stages_per_rank,
        _n_microbatches=num_micro_batches,
        microbatches_per_round=num_micro_batches // num_rounds,
    )
    return theirs(lambda rank: schedule._calculate_single_rank_operations(state, rank), num_ranks)


@pytest.mark.parametrize(("ranks", "micro_batches"), SIZES)
def test_zbv_has_torchs_order_also_with_few_micro_batches(ranks: int, micro_batches: int) -> None:
    state = SimpleNamespace(pp_group_size=ranks, num_stages=2 * ranks, _n_microbatches=micro_batches)
    make = schedules.ScheduleZBVZeroBubble._calculate_single_rank_operations
    assert ours(zbv(ranks, micro_batches)) == theirs(lambda rank: make(state, rank), ranks)


@pytest.mark.parametrize("stages_per_rank", [2, 3])
@pytest.mark.parametrize(("ranks", "micro_batches"), EQUAL_ROUNDS)
def test_interleaved_schedules_have_torchs_order(ranks: int, micro_batches: int, stages_per_rank: int) -> None:
    size = (ranks, micro_batches, stages_per_rank)
    assert ours(interleaved(*size)) == looped(schedules.ScheduleInterleaved1F1B, *size)
    assert ours(interleaved_zb(*size)) == looped(schedules.ScheduleInterleavedZeroBubble, *size)


@pytest.mark.parametrize(("ranks", "micro_batches"), EQUAL_ROUNDS)
def test_zb1p_is_torchs_interleaved_zero_bubble_with_one_stage_a_rank(ranks: int, micro_batches: int) -> None:
    zero_bubble = looped(schedules.ScheduleInterleavedZeroBubble, ranks, micro_batches, 1)
    assert ours(zb1p(ranks, micro_batches)) == zero_bubble


@pytest.mark.parametrize(("ranks", "micro_batches"), [(2, 2), (2, 5), (3, 7), (4, 3), (4, 8), (8, 32)])
def test_1f1b_and_gpipe_have_torchs_order_but_for_an_error_of_torchs_on_the_last_rank(
    ranks: int, micro_batches: int
) -> None:
    """torch 2.13 numbers the last rank's forwards of 1F1B from 1 on: it runs F1 ... FM, of which FM is not there."""
    state = SimpleNamespace(_num_stages=ranks, _n_microbatches=micro_batches)

    def order(schedule: Any) -> list[list[str]]:
        made = schedule._get_pipeline_order(state)
        return [[cell for cell in cells if "REDUCE_GRAD" not in cell] for cells in theirs(made.get, ranks)]

    assert ours(gpipe(ranks, micro_batches)) == order(schedules.ScheduleGPipe)
    expected = ours(one_f_one_b(ranks, micro_batches))
    last = f"{ranks - 1}F"
    expected[-1] = [f"{last}{int(cell[len(last) :]) + 1}" if cell.startswith(last) else cell for cell in expected[-1]]
    assert order(schedules.Schedule1F1B) == expected

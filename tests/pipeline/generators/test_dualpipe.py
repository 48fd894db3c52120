"""DualPipe and DualPipeV: the orders against the published figure, torch's and the published step's counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.dualpipe import dualpipe, dualpipe_v
from weftrace.pipeline.schedule import Schedule

#: Half of DualPipe on 4 stages with 8 micro-batches: direction 0 runs 0-3 upwards, direction 1 runs 4-7 downwards.
TWO_OF_FOUR_RANKS = """
0F0 0F1 0F2 3F4 | 3I4 3W4 3F5 | 0F3&3B5 3F6&0B0 | 3B6 3F7&0B1 | 3B7 0I2 | 0W2 0I3 | 0W3
1F0 2F4 1F1 2F5 | 1F2 2B4 2F6&1B0 1F3&2B5 2F7&1B1 | 2B6 1B2 2I7 1I3 | 2W7 1W3
"""


def summary(schedule: Schedule, rank: int) -> str:
    return " ".join(str(action) for action in schedule.listed() if action.rank == rank)


def test_the_eight_steps_on_four_stages_are_those_of_the_published_figure() -> None:
    schedule = dualpipe(4, 8)
    for rank, line in enumerate(TWO_OF_FOUR_RANKS.strip().splitlines()):
        assert summary(schedule, rank) == line.replace(" |", "")


def test_the_other_end_does_the_same_with_the_directions_exchanged() -> None:
    schedule = dualpipe(8, 20)
    for rank in range(4):
        here, there = schedule.on_rank(rank), schedule.on_rank(7 - rank)
        for column in ("kind", "stage", "back_stage"):
            assert here[column].to_list() == there[column].to_list()
        other = [(number + 10) % 20 for number in there["micro_batch"]]
        assert here["micro_batch"].to_list() == other


def test_each_rank_of_the_published_step_runs_as_many_chunks_of_each_kind_as_the_steps_say() -> None:
    counts = dualpipe(16, 120).actions.group_by("rank", "kind").len().sort("rank")
    by_kind = {kind: counts.filter(kind=kind)["len"].to_list() for kind in ("F", "B", "I", "W", "F&B")}
    assert by_kind["F"] == [23, 22, 21, 20, 19, 18, 17, 17, 17, 17, 18, 19, 20, 21, 22, 23]
    assert by_kind["B"] == [8] * 7 + [9, 9] + [8] * 7
    assert by_kind["I"] == by_kind["W"] == [15, 14, 13, 12, 11, 10, 9, 8, 8, 9, 10, 11, 12, 13, 14, 15]
    assert by_kind["F&B"] == [97, 98, 99, 100, 101, 102, 103, 103, 103, 103, 102, 101, 100, 99, 98, 97]


@pytest.mark.parametrize("stages", [2, 4, 6, 16])
def test_no_rank_has_more_weight_gradients_waiting_than_half_the_stages(stages: int) -> None:
    schedule = dualpipe(stages, 4 * stages)
    for rank in range(stages):
        waiting, most = 0, 0
        for kind in schedule.on_rank(rank)["kind"]:
            waiting += {"I": 1, "W": -1}.get(kind, 0)
            most = max(most, waiting)
        assert waiting == 0
        assert most <= stages // 2


@pytest.mark.parametrize(
    ("ranks", "micro_batches"), [(1, 2), (1, 5), (2, 4), (2, 7), (3, 6), (4, 8), (4, 13), (5, 11), (8, 32)]
)
def test_dualpipev_has_the_order_of_torch(ranks: int, micro_batches: int) -> None:
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    size = SimpleNamespace(pp_group_size=ranks, _n_microbatches=micro_batches)
    schedule = dualpipe_v(ranks, micro_batches)
    for rank in range(ranks):
        theirs = [
            "&".join(
                f"{part.stage_index}{part.computation_type.value}{part.microbatch_index}"
                for part in action.sub_actions or (action,)
            )
            for action in schedules.ScheduleDualPipeV._calculate_single_rank_operations(size, rank)
        ]
        assert summary(schedule, rank).split() == theirs


def test_the_switch_parts_the_first_pair_of_the_middle_ranks_and_nothing_else() -> None:
    plain, switched = dualpipe(6, 12, switch=False), dualpipe(6, 12)
    for rank in range(6):
        in_middle = rank in (2, 3)
        assert (summary(plain, rank).split() == summary(switched, rank).split()) != in_middle
    assert "2F3&3B6" in summary(plain, 2)
    assert "2F3 3B6" in summary(switched, 2)


@pytest.mark.parametrize(
    ("make", "numbers", "reason"),
    [
        (dualpipe, (5, 20), "5 stages; the two directions meet in the middle, which takes an even number"),
        (dualpipe, (0, 20), "num_stages = 0"),
        (dualpipe, (4, 9), "9 micro-batches; each direction runs half of them"),
        (dualpipe, (4, 6), "6 micro-batches cannot fill 4 stages: .* takes 2 x 4 = 8 or more"),
        (dualpipe_v, (0, 4), "num_ranks = 0"),
        (dualpipe_v, (4, 7), "7 micro-batches cannot fill 4 ranks: the V is 8 stages long"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(make: object, numbers: tuple[int, int], reason: str) -> None:
    assert callable(make)
    with pytest.raises(ScheduleError, match=reason):
        make(*numbers)


def test_a_thousand_ranks_are_made_of_columns() -> None:
    schedule = dualpipe_v(256, 512)
    assert schedule.actions.filter(kind="F&B").height == sum(
        2 * (rank + 1) + 255 - rank - (rank == 255) for rank in range(256)
    )

"""Which steps count, by hand: lengths in ms of the windows of a run."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from weftrace.comparison.runs import SHARE_SCHEMA, RankRun, run_of
from weftrace.comparison.steady_steps import steady_steps
from weftrace.plan import Op, Plan, Resource, Wait, simulate
from weftrace.units import MS


def rank_of(lengths_ms: Sequence[float], *, first: int = 0, seam_ms: float | None = 0, rank: int = 0) -> RankRun:
    ends = [round(sum(lengths_ms[: at + 1]) * MS) for at in range(len(lengths_ms))]
    windows = pl.DataFrame(
        {"step": range(first, first + len(ends)), "start_ns": [0, *ends[:-1]][: len(ends)], "end_ns": ends},
        schema={"step": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64},
    )
    return RankRun(
        rank=rank, device=0, world_size=1, path="", basis="device", simulated=False, span_ns=ends[-1] if ends else 0,
        shares=pl.DataFrame(schema=SHARE_SCHEMA), windows=windows, arrivals=pl.DataFrame(),
        seam_ns=None if seam_ms is None else round(seam_ms * MS),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lengths_ms", "seam_ms", "steps", "whys"),
    [
        ([100] * 10, 0, range(10), {}),  # windows end where the work ends: so does the last
        ([100] * 10, 1.9, range(10), {}),
        ([100] * 9 + [97], 3, range(9), {9: "the last: no next step ends it"}),
        ([100] * 3, None, (0, 1), {2: "the last: no next step ends it"}),  # nothing tells how windows end
        ([100] * 2, None, (0, 1), {}),
        ([100, 96], 5, (0,), {1: "the last: no next step ends it"}),
        ([100], None, (0,), {}),
        ([], None, (), {}),
        ([0, 0, 0, 5], 0, range(4), {}),  # steps without work
        ([310, 101, 99, 100], 0, (1, 2, 3), {0: "warm-up: 3.08 times as long as the median"}),  # warm-up
        ([300, 100, 100], 0, (1, 2), {0: "warm-up: 3.00 times as long as the median"}),
        ([300, 100], 0, (0, 1), {}),  # which is the usual one?
        ([100, 102, 98, 101, 180, 99, 100, 103], 0, (0, 1, 2, 3, 5, 6, 7), {4: "1.79 times as long as the median"}),
        ([100, 40, 101, 99, 100, 102], 0, (0, 2, 3, 4, 5), {1: "0.40 times as long as the median"}),
        (
            [300, 250, 100, 101, 99],
            0,
            (2, 3, 4),
            {0: "warm-up: 2.97 times as long as the median", 1: "warm-up: 2.48 times as long as the median"},
        ),
        ([300, 280, 100, 100], 0, range(4), {}),  # half of them: which are the usual ones?
        ([100, 115, 100, 100, 100], 0, range(5), {}),  # 15 % is noise
        (
            [300] + [100, 100, 100, 100, 148] * 2,
            0,
            range(1, 11),
            {0: "warm-up: 3.00 times as long as the median"},
        ),  # each fifth step also updates weights: steps of a kind
        (
            [100] * 8 + [150] + [100] * 8 + [400],
            0,
            (*range(8), *range(9, 17)),
            {8: "1.50 times as long as the median", 17: "4.00 times as long as the median"},
        ),  # two odd steps that are not alike
        ([100, 100, 100, 150] * 2, 0, range(8), {}),  # each fourth step also updates weights: not odd, but of its kind
        ([100, 160, 90, 150, 60], 0, range(5), {}),  # all differ
    ],
)
def test_steps_that_count(
    lengths_ms: list[float], seam_ms: float | None, steps: Sequence[int], whys: dict[int, str]
) -> None:
    found = steady_steps([rank_of(lengths_ms, seam_ms=seam_ms)])
    assert found.steps == tuple(steps)
    assert dict(found.dropped) == whys


def test_only_steps_that_all_ranks_have_count_and_the_others_are_named() -> None:
    found = steady_steps([rank_of([100] * 4, first=1), rank_of([100] * 4, first=2, rank=1)])
    assert found.steps == (2, 3, 4)
    assert found.dropped == ((1, "1 rank of 2 without it"), (5, "1 rank of 2 without it"))


def test_a_rank_without_steps_leaves_none() -> None:
    assert steady_steps([rank_of([100] * 4), rank_of([], seam_ms=None, rank=1)]).steps == ()
    assert steady_steps([]).steps == ()


def test_a_step_is_odd_by_its_mean_over_ranks() -> None:
    """One rank's odd step is a late rank: the others wait for it, or it does not hold up the job."""
    ranks = [rank_of([100] * 6, rank=rank) for rank in range(7)] + [rank_of([100, 100, 200, 100, 100, 100], rank=7)]
    assert steady_steps(ranks).steps == tuple(range(6))


@pytest.mark.parametrize(("tail_ms", "num"), [(0, 4), (10, 3)])
def test_whether_the_last_step_is_whole_is_seen_in_a_trace(tail_ms: int, num: int) -> None:
    """Steps that idle before the next, as one that waits for its data does: the last shows no such idle time."""
    ops: list[Op] = []
    for step in range(4):
        after = (Wait(on=len(ops) - 1, lag_ns=tail_ms * MS),) if ops else ()
        ops += [
            Op(name="gemm", duration_ns=50 * MS, step=step, after=after),
            Op(name="send", duration_ns=50 * MS, step=step, after=(len(ops),), kind="communication",
               resource=Resource(stream=1)),
        ]  # fmt: skip
    (rank,) = run_of(simulate(Plan.of(ops, name="steps"))).ranks
    assert rank.seam_ns == tail_ms * MS
    assert len(steady_steps([rank]).steps) == num

"""Of random pairs of plans: what a comparison says adds up to the nanosecond, and is what counting by hand says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import get_args

import polars as pl
import pytest

from tests.comparison.truth.random_runs import Owned, owned, random_job
from tests.fuzz import examples, few
from weftrace.comparison import Diff, Run, diff
from weftrace.comparison.alignment.movers import Level, movers_of
from weftrace.comparison.document import diff_report
from weftrace.comparison.runs import LABELS, rank_run
from weftrace.trace import work_of

NUM_JOBS, NUM_PAIRS = 40, examples(200)
LEVELS: list[Sequence[str]] = [
    *((label,) for label in LABELS),
    ("part", "cause"),
    ("family", "kernel"),
    ("part", "phase"),
    LABELS,
]
BY = ("by_number_ns", "by_duration_ns", "by_overlap_ns", "by_kernel_ns")


@cache
def run_and_truth(seed: int) -> tuple[Run, list[Owned], list[dict[int, tuple[int, int]]]]:
    traces = random_job(seed).values()
    counted = [owned(trace) for trace in traces]
    ranks = tuple(rank_run(work_of(trace)) for trace in traces)
    return Run(source=f"job {seed}", ranks=ranks), [each[0] for each in counted], [each[1] for each in counted]


@pytest.mark.parametrize("seed", few(range(NUM_JOBS), 10))
def test_each_nanosecond_is_whose_counting_says(seed: int) -> None:
    run, truths, windows = run_and_truth(seed)
    for rank, truth, window in zip(run.ranks, truths, windows, strict=True):
        cause = pl.when(pl.col("part") == "idle").then("cause")
        keys = ("step", "part", "cause", "kind", "kernel", "phase")
        shares = rank.shares.with_columns(cause).group_by(keys).agg(pl.col("own_ns").sum())
        assert {row[:-1]: row[-1] for row in shares.iter_rows() if row[-1]} == dict(truth)
        assert {step: (start, end) for step, start, end in rank.windows.iter_rows()} == window


def test_random_pairs_add_up_at_every_level() -> None:
    chance = Random(16)
    pairs = [chance.sample(range(NUM_JOBS), 2) for _ in range(NUM_PAIRS)]
    for number, pair in enumerate(pairs):
        runs, truths, _ = zip(*(run_and_truth(seed) for seed in pair), strict=True)
        found = diff(*runs)
        _adds_up(found, LEVELS if number < 40 else [LABELS])
        if number < 8:
            _is_written_so(found)
        for side, truth, ns in zip((found.before, found.after), truths, ("before_ns", "after_ns"), strict=True):
            steps = side.steady.steps
            counted: Counter[str] = Counter()
            for rank in side.ranks:
                for (step, part, *_), own in truth[side.run.ranks.index(rank)].items():
                    counted[part] += own * (step in steps or not steps)
            summary = side.shares.group_by("part").agg(pl.col("own_ns").sum())
            assert {part: own for part, own in summary.iter_rows() if own} == {k: n for k, n in counted.items() if n}
            mean = sum(counted.values()) / side.num_cells
            assert abs(int(found.changes[ns].sum()) - mean) <= 0.5


def _adds_up(found: Diff, levels: Sequence[Sequence[str]]) -> None:
    """Rows that add up in their finest level do in any that they are summed to: few pairs are asked for all."""
    change = int(found.changes["change_ns"].sum())
    assert change + found.remainder_ns == found.change_ns
    for level in levels:
        rows = found.by(*level)
        assert int(rows["change_ns"].sum()) == change, level
        assert (rows["after_ns"] - rows["before_ns"] == rows["change_ns"]).all(), level
        assert (rows.select(pl.sum_horizontal(BY)).to_series() == rows["change_ns"]).all(), level


def _is_written_so(found: Diff) -> None:
    """The document's parts and the movers of every level add up as well."""
    document = diff_report(found)
    assert sum(part["change_ns"] for part in document.parts) + document.remainder_ns == document.change_ns
    for level in get_args(Level):
        movers = movers_of(found, level)
        assert int(movers["change_ns"].sum()) == int(found.changes["change_ns"].sum()), level
        assert (movers.select(pl.sum_horizontal(BY)).to_series() == movers["change_ns"]).all(), level

"""A report that merged its smallest rows is compared with a run that has them all: the same are merged there."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from weftrace.analysis.step_shares_document import OTHER, in_other
from weftrace.comparison.runs import LABELS, RankRun


def alike(rank: RankRun, like: RankRun) -> RankRun:
    """A rank with those rows merged that a report of `like` would have: which it does not name, and which take less
    time in a step than any that it names. So what is new and large is told as new."""
    if not like.num_merged:
        return rank
    named = _sizes(like)
    least_ns = named.filter(pl.col("kernel").ne_missing(OTHER)).get_column("raw_ns").min()
    small = _sizes(rank).filter(pl.col("raw_ns") <= least_ns)
    small = small.join(named, on=LABELS, how="anti", nulls_equal=True).select(LABELS)
    waits = None if rank.waits is None else in_other(rank.waits, small)
    return replace(rank, shares=in_other(rank.shares, small), waits=waits)


def _sizes(rank: RankRun) -> pl.DataFrame:
    """Durations of each row of labels in a step."""
    steps = max(1, rank.windows.height)
    return rank.shares.group_by(LABELS).agg(pl.col("raw_ns").sum() / steps)

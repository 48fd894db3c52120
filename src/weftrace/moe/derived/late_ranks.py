"""Which ranks do the others wait for?"""

from __future__ import annotations

import polars as pl

from weftrace.moe.profiles import Profile
from weftrace.plan.graph import hold_ns


def stragglers(profile: Profile) -> pl.DataFrame:
    """A row a rank, who is waited for most first, times in ns over all layers.

    rank; compute_ns, communication_ns: sums of durations; waiting_ns: inside meets, for the ranks that come later;
    last_in: meets that it was the last to reach (the lowest rank of several); meets: that it was in.
    """
    times = profile.times
    ops = times.ops
    waiting = pl.Series(times.end_ns - times.start_ns - hold_ns(ops, times.plan.gap_ns))
    ops = ops.select("rank", "meet", "start_ns", "duration_ns", pl.col("kind").cast(pl.String)).with_columns(
        waiting_ns=waiting
    )
    last = (
        ops.filter(pl.col("meet").is_not_null())
        .sort("start_ns", "rank", descending=[True, False])
        .group_by("meet", maintain_order=True)
        .agg(pl.col("rank").first())
        .group_by("rank")
        .agg(last_in=pl.len().cast(pl.Int64))
    )
    is_communication = pl.col("kind") == "communication"
    return (
        ops.group_by("rank")
        .agg(
            compute_ns=pl.col("duration_ns").filter(~is_communication).sum(),
            communication_ns=pl.col("duration_ns").filter(is_communication).sum(),
            waiting_ns=pl.col("waiting_ns").sum(),
            meets=pl.col("meet").count().cast(pl.Int64),
        )
        .join(last, on="rank", how="left")
        .with_columns(pl.col("last_in").fill_null(0))
        .sort("last_in", "waiting_ns", "rank", descending=[True, False, False])
        .select("rank", "compute_ns", "communication_ns", "waiting_ns", "last_in", "meets")
    )

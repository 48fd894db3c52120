"""Which ranks do the others wait for?"""

from __future__ import annotations

from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.analysis.intervals import of_events
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Count
from weftrace.moe.profiles import Profile
from weftrace.plan.graph import hold_ns


class RankRow(TypedDict):
    """One rank, over all layers."""

    rank: Count
    compute_ns: Annotated[Count, Shown("computes")]
    communication_ns: Annotated[Count, Meta(description="Without waits for other ranks."), Shown("communicates")]
    waiting_ns: Annotated[
        Count, Meta(description="Inside meets, for ranks that come later."), Shown("waits", term="wait")
    ]
    last_in: Annotated[
        Count,
        Meta(description="Meets that it was the last to reach (the lowest rank of several)."),
        Shown("last in", term="last_in"),
    ]
    meets: Annotated[Count, Shown("of")]


def stragglers(profile: Profile) -> pl.DataFrame:
    """One row per rank (`RankRow`), who is waited for most first."""
    ops = _ops(profile)
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
        .select(*frame_schema(RankRow))
    )


def idle_wait_share(profile: Profile) -> float:
    """Of the run, what the mean rank waits inside meets while it computes nothing: its share that is lost to others.

    By hand: of each rank |its waits| - |its waits & its operations that compute|; their mean, by the span.
    """
    ops = _ops(profile).with_columns(wait_end_ns=pl.col("start_ns") + pl.col("waiting_ns"))
    if not profile.span_ns or not ops.get_column("waiting_ns").sum():
        return 0.0
    lost = 0
    for own in ops.partition_by("rank"):
        waits = of_events(own.filter(pl.col("waiting_ns") > 0).select("start_ns", end_ns="wait_end_ns"))
        computes = own.filter(pl.col("kind") != "communication", pl.col("meet").is_null())
        lost += (waits - of_events(computes)).total_ns
    return lost / profile.num_ranks / profile.span_ns


def _ops(profile: Profile) -> pl.DataFrame:
    """Of each op: rank, meet, kind, start_ns, end_ns, duration_ns, and waiting_ns, inside its meet."""
    times = profile.times
    waiting = pl.Series(times.end_ns - times.start_ns - hold_ns(times.ops, times.plan.gap_ns))
    return times.ops.select(
        "rank", "meet", "start_ns", "end_ns", "duration_ns", pl.col("kind").cast(pl.String), waiting_ns=waiting
    )

"""Which rank is late, who waits for it, and how long: collectives that ranks share, split in waiting and transfer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from weftrace.analysis.busy_stretches import Stretches, stretches_of
from weftrace.analysis.intervals import union
from weftrace.analysis.meetings import meetings_of
from weftrace.notebook import InNotebook
from weftrace.units import duration

_MOST_WORST = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Lateness(InNotebook):
    """Who came late into the collectives that ranks share, and who waited.

    Of a collective on two ranks or more (a meeting), on a common clock: waiting of a rank = last start over the ranks -
    own start, within the event; transfer = the rest of it, own end - last start.

    ranks: a row a rank (`at`, its position): caused_ns, own start - second last start where it came last; origin_ns,
    waiting of all ranks that began with it; suffered_ns, its waiting; transfer_ns; num_last; num_matched.
    pairs: waiter, last, waiting_ns, count. collectives: by kind. worst: the meetings with most waiting. steps: step,
    at, caused_ns, suffered_ns. waits: of each rank when it waited.
    """

    ranks: pl.DataFrame
    pairs: pl.DataFrame
    collectives: pl.DataFrame
    worst: pl.DataFrame
    steps: pl.DataFrame
    waits: tuple[Stretches, ...]
    num_matched: int
    num_unmatched: int
    num_by_sequence: int
    not_the_same: int
    clocks_applied: bool
    uncertainty_ns: int
    notes: tuple[str, ...] = ()

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "matched", f"{self.num_matched:,} collectives, {self.num_unmatched:,} events without a partner"
        for row in self.ranks.sort("origin_ns", descending=True).head(8).iter_rows(named=True):
            yield f"rank at {row['at']}", f"others waited {duration(row['origin_ns'])} for it"


def lateness(ranks: Sequence[pl.DataFrame], *, offsets_ns: Sequence[int] | None = None) -> Lateness | None:
    """Lateness of the ranks of a job; None where no two of them share a collective.

    ranks: of each what `arrivals` gives. offsets_ns: how far each rank's clock is ahead; by default not at all.
    """
    meetings = meetings_of(ranks)
    if meetings.members.is_empty():
        return None
    ahead = pl.Series("ahead", list(offsets_ns or [0] * len(ranks)), dtype=pl.Int64)
    members = _split(meetings.members.with_columns(ahead.gather(meetings.members.get_column("at")).alias("ahead")))
    met = _met(members)
    return Lateness(
        ranks=_ranks(members, met, len(ranks)),
        pairs=_pairs(members),
        collectives=_collectives(met),
        worst=met.sort("waiting_ns", "meeting", descending=[True, False]).head(_MOST_WORST),
        steps=_steps(members),
        waits=tuple(_waits(members.filter(pl.col("at") == at)) for at in range(len(ranks))),
        num_matched=met.height,
        num_unmatched=meetings.num_unmatched,
        num_by_sequence=int(met.get_column("by_sequence").sum()),
        not_the_same=meetings.not_the_same,
        clocks_applied=any(offsets_ns or ()),
        uncertainty_ns=_uncertainty(members),
    )


def _split(members: pl.DataFrame) -> pl.DataFrame:
    """Adds `last` (position), `caused_ns` (of the meeting), `waiting_ns`, `transfer_ns`, on the common clock."""
    start, end = pl.col("start_ns") - pl.col("ahead"), pl.col("end_ns") - pl.col("ahead")
    members = members.with_columns(start.alias("start"), end.alias("end"))
    last = pl.col("start").max().over("meeting")
    waiting = pl.when(pl.col("end") >= last).then(last - pl.col("start")).otherwise(0)
    return members.with_columns(
        last.alias("last_start"),
        pl.col("at").get(pl.col("start").arg_max()).over("meeting").alias("last"),
        (pl.col("start").max() - pl.col("start").top_k(2).min()).over("meeting").alias("caused_ns"),
        waiting.alias("waiting_ns"),
        (pl.col("end") - pl.col("start") - waiting).alias("transfer_ns"),
    )


def _met(members: pl.DataFrame) -> pl.DataFrame:
    return members.group_by("meeting", maintain_order=True).agg(
        pl.col("collective", "group", "seq", "last_start", "last", "caused_ns", "by_sequence").first(),
        pl.col("step").drop_nulls().first(),
        pl.col("waiting_ns", "transfer_ns").sum(),
        pl.len().alias("num_ranks"),
    )


def _ranks(members: pl.DataFrame, met: pl.DataFrame, number: int) -> pl.DataFrame:
    late = met.filter(pl.col("caused_ns") > 0)
    caused = late.group_by("last").agg(pl.col("caused_ns").sum(), pl.len().alias("num_last")).rename({"last": "at"})
    waited = late.group_by("last").agg(pl.col("waiting_ns").sum().alias("origin_ns")).rename({"last": "at"})
    own = members.group_by("at").agg(
        pl.col("waiting_ns").sum().alias("suffered_ns"), pl.col("transfer_ns").sum(), pl.len().alias("num_matched")
    )
    every = pl.DataFrame({"at": range(number)}, schema={"at": pl.Int32})
    return (
        every.join(caused, on="at", how="left", maintain_order="left")
        .join(waited, on="at", how="left", maintain_order="left")
        .join(own, on="at", how="left", maintain_order="left")
        .select(
            "at",
            *(
                pl.col(name).fill_null(0).cast(pl.Int64)
                for name in ("caused_ns", "origin_ns", "suffered_ns", "transfer_ns", "num_last", "num_matched")
            ),
        )
    )


def _pairs(members: pl.DataFrame) -> pl.DataFrame:
    waited = members.filter(pl.col("waiting_ns") > 0)
    pairs = waited.group_by(pl.col("at").alias("waiter"), "last").agg(
        pl.col("waiting_ns").sum(), pl.len().cast(pl.Int64).alias("count")
    )
    return pairs.sort("waiting_ns", "waiter", "last", descending=[True, False, False])


def _collectives(met: pl.DataFrame) -> pl.DataFrame:
    late = met.filter(pl.col("caused_ns") > 0).group_by("collective", "last").agg(pl.len().alias("num_last"))
    late = late.sort("num_last", "last", descending=[True, False]).unique("collective", keep="first")
    return (
        met.group_by("collective")
        .agg(pl.len().alias("num"), pl.col("waiting_ns", "transfer_ns").sum(), pl.col("last").first().alias("any_last"))
        .join(late, on="collective", how="left")
        .select(
            "collective",
            pl.col("num").cast(pl.Int64),
            "waiting_ns",
            "transfer_ns",
            pl.coalesce("last", "any_last").alias("last"),
            pl.col("num_last").fill_null(0).cast(pl.Int64),
        )
        .sort("waiting_ns", pl.col("collective").cast(pl.String), descending=[True, False])
    )


def _steps(members: pl.DataFrame) -> pl.DataFrame:
    caused = pl.when(pl.col("at") == pl.col("last")).then("caused_ns").otherwise(0)
    return (
        members.filter(pl.col("step").is_not_null())
        .group_by("step", "at")
        .agg(caused.sum().alias("caused_ns"), pl.col("waiting_ns").sum().alias("suffered_ns"))
        .sort("step", "at")
    )


def _waits(mine: pl.DataFrame) -> Stretches:
    """When a rank waited, on its own clock."""
    starts = mine.get_column("start_ns").to_numpy()
    return stretches_of(union(starts, starts + mine.get_column("waiting_ns").to_numpy()))


def _uncertainty(members: pl.DataFrame) -> int:
    """How far ends of one collective lie from their middle, median over ranks and collectives."""
    apart = (pl.col("end") - pl.col("end").min().over("meeting")).alias("apart")
    return (
        int(np.median(members.select(apart).filter(pl.col("apart") > 0).get_column("apart").to_numpy()))
        if (members.select((apart > 0).any()).item())
        else 0
    )

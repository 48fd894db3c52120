"""How much of a step did a rank wait for others that were late? Taken out of its communication and idle time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.intervals import Array, covered
from weftrace.analysis.step_shares import LABELS, SHARE_SCHEMA, SUMS, WAITING, StepShares

Index = NDArray[np.intp]


def waiting_shares(ranks: Sequence[StepShares], names: Sequence[str], began: pl.DataFrame) -> list[pl.DataFrame]:
    """Of each rank the rows that split waiting from its shares: a frame of `SHARE_SCHEMA`, which adds up to nothing.

    To be added to `StepShares.shares`: what was waited stands there once with a minus, in the row of the communication
    or of the gap that it was part of, and once in a row of `WAITING` whose cause is the name of the rank with which it
    began. A wait counts with what of it lies in communication that holds the time of its class; of that own_ns counts
    what is exposed. Where two waits of a rank overlap, the earlier holds the time. Waits that began with several ranks
    are shared out by their parts, in whole nanoseconds that add up. num: waits.

    names: of the ranks, as causes. began: as in `Lateness`, of these ranks.
    """
    waits = dict(began.partition_by("at", as_dict=True, include_key=False).items())
    return [_of_rank(rank, names, waits.get((at,))) for at, rank in enumerate(ranks)]


def _of_rank(rank: StepShares, names: Sequence[str], began: pl.DataFrame | None) -> pl.DataFrame:
    if began is None:
        return pl.DataFrame(schema=SHARE_SCHEMA)
    held = _held(rank, began)
    taken = rank.shares[held.get_column("share")]
    sums = held.select(SUMS)
    less = taken.with_columns(sums.select(pl.lit(0, pl.Int64).alias("num"), *(-pl.col(name) for name in SUMS[1:])))
    causes = pl.Series("cause", names, dtype=pl.String).gather(held.get_column("origin"))
    more = taken.with_columns(pl.lit(WAITING).alias("part"), causes, *sums)
    return pl.concat((less, more)).group_by("step", *LABELS, maintain_order=True).agg(pl.col(SUMS).sum())


def _held(rank: StepShares, began: pl.DataFrame) -> pl.DataFrame:
    """A row a row of shares and rank with which waiting in it began: share, origin, then `SUMS`."""
    waits = began.unique("wait", keep="first").sort("start_ns", "wait")
    start, end = (waits.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    start = np.maximum(start, np.concatenate((start[:1], np.maximum.accumulate(end)[:-1])))  # the earlier holds it
    wait, piece, from_ns, to_ns = _overlaps(start, np.maximum(start, end), rank.pieces)
    own = np.where(rank.pieces.get_column("is_idle").to_numpy()[piece], to_ns - from_ns, 0)
    own += covered(rank.exposed, from_ns, to_ns)
    found = pl.DataFrame(
        {
            "share": rank.pieces.get_column("share").gather(piece),
            "wait": waits.get_column("wait").gather(wait),
            "own_ns": own,
            "hidden_ns": to_ns - from_ns - own,
        }
    )
    parted = found.group_by("share", "wait").agg(pl.col("own_ns", "hidden_ns").sum())
    parted = parted.join(began.select("wait", "origin", "part"), on="wait")
    summed = (
        parted.group_by("share", "origin")
        .agg(pl.len().cast(pl.Int64).alias("num"), (pl.col("own_ns", "hidden_ns") * pl.col("part")).sum())
        .sort("share", "origin")
        .with_columns(pl.col("own_ns", "hidden_ns").cum_sum().over("share").round().cast(pl.Int64))
    )
    before_ns = pl.col("own_ns", "hidden_ns").shift(1, fill_value=0).over("share")
    summed = summed.with_columns(pl.col("own_ns", "hidden_ns") - before_ns)
    whole_ns = (pl.col("own_ns") + pl.col("hidden_ns")).alias("raw_ns")
    return summed.select("share", "origin", "num", whole_ns, whole_ns.alias("union_ns"), "own_ns")


def _overlaps(start: Array, end: Array, pieces: pl.DataFrame) -> tuple[Index, Index, Array, Array]:
    """Where stretches and pieces, each apart and in order, overlap: which stretch, which piece, from and to when."""
    piece_start, piece_end = (pieces.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    first = np.searchsorted(piece_end, start, "right")
    counts = np.maximum(np.searchsorted(piece_start, end, "left") - first, 0)
    at = np.repeat(np.arange(len(start)), counts)
    piece = first[at] + np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    return at, piece, np.maximum(start[at], piece_start[piece]), np.minimum(end[at], piece_end[piece])

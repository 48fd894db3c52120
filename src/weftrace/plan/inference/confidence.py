"""How sure is a wait that no record tells? From 0 to 1; what is recorded, or follows from a launch, is 1."""

from __future__ import annotations

import polars as pl

#: Of a wait that only the times of one call tell: it returned just as the awaited had ended.
BY_TIMES = 0.75
#: Of a wait for which nothing votes: the call stands there, and no other pair of streams is left for it.
BY_ELIMINATION = 0.25


def by_votes() -> pl.Expr:
    """Of one that was voted on, over votes_for and votes_against: votes for over all and one more, so that few votes
    are less sure than many."""
    return pl.col("votes_for") / (pl.col("votes_for") + pl.col("votes_against") + 1)

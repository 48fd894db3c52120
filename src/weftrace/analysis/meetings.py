"""Which events of different ranks are one collective? Matched by what the files record, else by order, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA

#: Columns of `Meetings.members`: ARRIVAL_SCHEMA's and `meeting`, `at` (position of the rank), `by_sequence`.
_KEY = ("group", "collective", "seq")
_FEWEST = 2  # ranks that make a meeting


@dataclass(frozen=True, slots=True, kw_only=True)
class Meetings:
    """Collectives found on two ranks or more.

    members: a row a rank and collective, ordered by meeting and rank. num_unmatched: events that found no partner.
    not_the_same: events paired by order whose ends disagree.
    """

    members: pl.DataFrame
    num_unmatched: int
    not_the_same: int


def meetings_of(ranks: Sequence[pl.DataFrame]) -> Meetings:
    """Meetings of these ranks. ranks: of each a frame of `ARRIVAL_SCHEMA`."""
    events = pl.concat(
        [pl.DataFrame(schema=ARRIVAL_SCHEMA).with_columns(pl.lit(0, pl.Int32).alias("at")),
         *(frame.with_columns(pl.lit(at, pl.Int32).alias("at")) for at, frame in enumerate(ranks))]
    )  # fmt: skip
    once = pl.col("seq").is_not_null() & (pl.len().over(*_KEY, "at") == 1)
    keyed = events.filter(once)
    ordered = events.filter(~once).with_columns(
        pl.int_range(pl.len()).over("at", "group", "what").alias("order"),
        pl.len().over("at", "group", "what").alias("num"),
    )
    found = [
        _numbered(keyed, _KEY).with_columns(pl.lit(True).alias("by_sequence")),
        _numbered(ordered, ("group", "what", "num", "order")).with_columns(pl.lit(False).alias("by_sequence")),
    ]
    first = found[0].get_column("meeting").max()
    found[1] = found[1].with_columns(pl.col("meeting") + (0 if first is None else int(first) + 1))  # type: ignore[arg-type]
    members = pl.concat([frame.select("meeting", "at", *ARRIVAL_SCHEMA, "by_sequence") for frame in found])
    return Meetings(members=members.sort("meeting", "at"), num_unmatched=events.height - members.height, not_the_same=0)


def _numbered(events: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The events that share a key with another rank's, each with the number of its meeting."""
    met = events.group_by(*key).agg(pl.len().alias("num_members")).filter(pl.col("num_members") >= _FEWEST)
    met = met.select(*key).with_row_index("meeting").with_columns(pl.col("meeting").cast(pl.Int64))
    return events.join(met, on=list(key), nulls_equal=True)

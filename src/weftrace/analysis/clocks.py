"""How far apart the clocks of the ranks' hosts are, told by collectives that must end together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from weftrace.notebook import InNotebook
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work
from weftrace.units import MS

_MAX_MARKS = 5000
_MAX_SPREAD_NS = 1 * MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset(InNotebook):
    """One rank's clock against the reference rank's.

    offset_ns: median over matched collectives of (end on this rank - end on the reference): subtract it from this
    rank's times. None, unknown, when nothing matches or when the matches disagree by more than a millisecond: then they
    are not the same collectives, or those do not end together. spread_ns: median distance from that median.
    num_matched: collectives it rests on.
    """

    rank: int
    offset_ns: int | None
    spread_ns: int | None
    num_matched: int


def collective_ends(source: Trace | Work) -> pl.DataFrame:
    """What other ranks can match: collectives with a key and an end.

    Columns group, collective, seq, what, order, end_ns (absolute). `seq` numbers the collective in its process group
    where the trace records that; `order` counts the collectives of the same kind and size otherwise (`what` is both).
    At most 5,000, the first.
    """
    work = as_work(source)
    collective = pl.col("collective").cast(pl.String).fill_null("?")
    what = pl.concat_str(collective, pl.lit("/"), pl.col("payload_elems").cast(pl.String).fill_null("?"))
    return (
        work.started.filter(pl.col("kind") == "communication", pl.col("role").is_null() | (pl.col("role") != "barrier"))
        .head(_MAX_MARKS)
        .select(
            pl.col("group").cast(pl.String).fill_null("").alias("group"),
            collective.alias("collective"),
            pl.col("comm_seq").alias("seq"),
            what.alias("what"),
            pl.col("end_ns"),
        )
        .with_columns(pl.int_range(pl.len()).over("group", "what").alias("order"))
    )


def clock_offsets(ends: Mapping[int, pl.DataFrame]) -> tuple[ClockOffset, ...]:
    """Offsets of each rank's clock to that of the lowest rank. ends: rank -> frame of `collective_ends`.

    Matched by group, sequence number and kind where both ranks record them (sizes may differ: each rank has its own in
    an all-to-all); else by order among collectives of the same kind and size, and only where both ranks have equally
    many, so that a sampled trace is not matched wrongly.
    """
    if not ends:
        return ()
    reference, *others = sorted(ends)
    offsets = [ClockOffset(rank=reference, offset_ns=0, spread_ns=0, num_matched=ends[reference].height)]
    for rank in others:
        matched = _matched(ends[reference], ends[rank])
        if matched.is_empty():
            offsets.append(ClockOffset(rank=rank, offset_ns=None, spread_ns=None, num_matched=0))
            continue
        apart = matched.get_column("end_ns_right") - matched.get_column("end_ns")
        offset = _median(apart)
        spread = _median((apart - offset).abs())
        agreed = offset if spread <= _MAX_SPREAD_NS else None
        offsets.append(ClockOffset(rank=rank, offset_ns=agreed, spread_ns=spread, num_matched=matched.height))
    return tuple(offsets)


def _median(values: pl.Series) -> int:
    """The lower of the middle two; in integers, since a float does not hold the nanoseconds of distant clocks."""
    return int(values.sort()[(len(values) - 1) // 2])


def _matched(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    key = ("group", "seq", "collective")
    by_seq = a.drop_nulls("seq").unique(key, keep="none").join(b.drop_nulls("seq").unique(key, keep="none"), on=key)
    if not by_seq.is_empty():
        return by_seq
    counts = a.group_by("group", "what").len().join(b.group_by("group", "what").len(), on=("group", "what", "len"))
    a = a.join(counts, on=("group", "what"), how="semi")
    return a.join(b, on=("group", "what", "order"))

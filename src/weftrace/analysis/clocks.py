"""How far apart the clocks of the ranks' hosts are, measured by collectives that must end together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.analysis.clock_lines import (
    FEW,
    LOOSE,
    MAX_SPREAD_NS,
    NEEDED,
    RECEIVED,
    SENT,
    SMALL_NS,
    TOGETHER,
    Array,
    Edge,
    Line,
    line_between,
    median,
    merged,
)
from weftrace.files.schemas import Count, Ns
from weftrace.notebook import InNotebook

#: Collectives that a rank cannot leave before the last has come. The root of a broadcast, or who sends, can.
END_TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "dispatch", "combine", "?")
_SURE = 10  # times its uncertainty: an offset beyond that is one, however far the matches disagree


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset(InNotebook):
    """A rank's clock against the first rank's.

    offset_ns: median over matched collectives of (end on this rank - end on the reference), along a chain of ranks
    where the two share none: subtract it from this rank's times. Groups of ranks are joined by all that they share. Of
    starts, where those agree twice as closely, and with the ends or on the clocks as they are. Of sends and receives
    alone, the middle of both ways. 0 for ranks of one file. None, unknown, when nothing matches, when it cannot be told
    which match, or when it is uncertain by more than a millisecond and a tenth of itself.
    spread_ns: median distance from that median. uncertainty_ns: how far the offset may be off: the sum along the chain
    of each link's spread, or of what causality leaves open where that tells more (`clock_lines.line_between`). None,
    where it cannot be told. num_matched: collectives it rests on. applied: whether lateness subtracts it, for it is
    beyond its uncertainty, three times the spread and 10 us; or, though nothing tells its uncertainty, beyond ten times
    the spread and 10 ms besides. drift_ppm: how much faster the clock runs, where that
    explains the spread; offset_ns is then that of the middle of its collectives.
    """

    rank: int
    offset_ns: int | None
    spread_ns: Ns | None
    num_matched: Count
    applied: Annotated[
        bool, Meta(description="Whether lateness subtracts it: it is larger than the disagreement of the matches.")
    ] = False
    drift_ppm: Annotated[float, Meta(description="How much faster it runs; offset_ns is then that of the middle.")] = (
        0.0
    )
    uncertainty_ns: Annotated[Ns | None, Meta(description="Largest error of the offset.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The clocks of ranks, by position. first: of each rank the first that has its clock, for ranks of one file have
    one; lines: from such a first to its parent's; the root of a chain has none. laid_ns: by
    root, what is subtracted besides so that its steps lie over those of others, which nothing links it with."""

    first: Sequence[int]
    lines: Mapping[int, Line]
    laid_ns: Mapping[int, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return len(self.first)

    def root(self, at: int) -> int:
        at = self.first[at]
        while at in self.lines:
            at = self.first[self.lines[at].parent]
        return at

    def chain(self, at: int) -> list[Line]:
        found = []
        at = self.first[at]
        while at in self.lines:
            found.append(self.lines[at])
            at = self.first[found[-1].parent]
        return found

    def ahead(self, at: int, times_ns: Array) -> Array:
        """How far a rank's clock is ahead of the root's, at these times of its own."""
        common = times_ns
        for line in self.chain(at):
            common = common - line.ahead(common)
        return times_ns - common

    def offset(self, at: int) -> int:
        """That in the middle of its collectives."""
        chain = self.chain(at)
        return int(self.ahead(at, np.array([chain[0].middle_ns]))[0]) if chain else 0

    def drift(self, at: int) -> float:
        return sum(line.drift for line in self.chain(at))

    def spread(self, at: int) -> int:
        return max((line.spread_ns for line in self.chain(at)), default=0)

    def uncertainty(self, at: int, than: int | None = None) -> int | None:
        """How far the offset to the root, or to another rank, may be off: the sum along the chain. None: not told."""
        mine = self.chain(at)
        if than is not None:
            if self.root(at) != self.root(than):
                return None
            theirs = self.chain(than)
            while mine and theirs and mine[-1] is theirs[-1]:
                mine, theirs = mine[:-1], theirs[:-1]
            mine = [*mine, *theirs]
        each = [line.uncertainty_ns for line in mine]
        return None if None in each else sum(filter(None, each))

    def is_known(self, at: int) -> bool:
        unsure = self.uncertainty(at)
        return unsure is not None and (unsure <= MAX_SPREAD_NS or abs(self.offset(at)) > _SURE * unsure)

    def is_needed(self, at: int) -> bool:
        """Whether the offset says more than its uncertainty and the disagreement of the matches that it rests on. Where
        nothing tells the uncertainty: whether it is ten times what the matches disagree, and 10 ms besides."""
        chain = self.chain(at)
        if not chain:
            return False
        if self.uncertainty(at) is None:
            return abs(self.offset(at)) > _SURE * (self.spread(at) + MAX_SPREAD_NS)
        if not self.is_known(at):
            return False
        least = SMALL_NS if min(line.num_matched for line in chain) >= FEW else MAX_SPREAD_NS
        least = max(least, NEEDED * self.spread(at), self.uncertainty(at) or 0)
        return abs(self.offset(at)) > least or self.drift(at) != 0

    def to_common(self, at: int, times_ns: Array) -> Array:
        """Times of a rank's clock on the root's, where the difference counts."""
        common = times_ns - self.ahead(at, times_ns) if self.is_needed(at) else times_ns
        laid = self.laid_ns.get(self.root(at)) if self.laid_ns else None
        return common - laid if laid is not None else common


def clocks_along(edges: Iterable[Edge], first: Sequence[int]) -> Clocks:
    """Clocks from what pairs of ranks share. Ranks that share the most are put together first, and groups of ranks then
    by all that they share, on the clocks of their first ranks. What tells little comes last.

    first: of each rank the first that has its clock.
    """
    edges = [edge._replace(a=first[edge.a], b=first[edge.b]) for edge in edges if first[edge.a] != first[edge.b]]
    edges.sort(key=_how_little)
    lines: dict[int, Line] = {}
    clocks = Clocks(first=first, lines=lines)
    members = {at: [at] for at in range(len(first))}
    root = list(members)
    between: dict[tuple[int, int], list[Edge]] = {}
    for edge in edges:
        between.setdefault((min(edge.a, edge.b), max(edge.a, edge.b)), []).append(edge)
    for is_last in (False, True):
        tried: dict[tuple[int, int], int] = {}
        for edge in edges:
            low, high = sorted((root[edge.a], root[edge.b]))
            if low == high or tried.get((low, high)) == len(between[low, high]):
                continue
            line = _joining(clocks, between[low, high], low, root)
            if line.uncertainty_ns is None and not is_last:
                tried[low, high] = len(between[low, high])
                continue
            lines[high] = line
            moved = members.pop(high)
            members[low] += moved
            for at in moved:
                root[at] = low
            del between[low, high]
            for pair in [pair for pair in between if high in pair]:
                other = sum(pair) - high
                between.setdefault((min(low, other), max(low, other)), []).extend(between.pop(pair))
    return clocks


def _how_little(edge: Edge) -> tuple[int, ...]:
    """Collectives tell more than messages both ways; a few, which tell little of how far they may be off, less."""
    is_few = edge.num_together < FEW and {SENT, RECEIVED} <= set(edge.way.tolist())
    together = 0 if edge.num_together < FEW else edge.num_together
    return -together * edge.numbered, -together, not is_few, -edge.num_together, -edge.num, edge.a, edge.b


def _joining(clocks: Clocks, edges: Sequence[Edge], parent: int, root: Sequence[int]) -> Line:
    """The line between the first ranks of two groups, by all that their ranks share. To its uncertainty, that of these
    ranks in their groups is added, the median over pairs; messages of pairs less sure bound it by so much less.
    """
    edges = [edge if root[edge.a] == parent else edge.turned() for edge in edges]
    within = [(clocks.uncertainty(edge.a), clocks.uncertainty(edge.b)) for edge in edges]
    unsure = np.array([sum(filter(None, both)) for both in within])
    usual = median(unsure)
    more = np.maximum(unsure - usual, 0).tolist()
    line = line_between(parent, merged([_moved(edge, clocks, by) for edge, by in zip(edges, more, strict=True)]))
    if line.uncertainty_ns is None or any(None in both for both in within):
        return line._replace(uncertainty_ns=None)
    return line._replace(uncertainty_ns=line.uncertainty_ns + usual)


def _moved(edge: Edge, clocks: Clocks, more_ns: int) -> Edge:
    """On the clocks of the first ranks of both groups. more_ns: by how much earlier its messages may have begun."""
    a, b = (
        [times - clocks.ahead(at, times) for times in both]
        for at, both in ((edge.a, (edge.starts_a, edge.ends_a)), (edge.b, (edge.starts_b, edge.ends_b)))
    )
    by = np.where(np.isin(edge.way, (SENT, RECEIVED)), more_ns, 0)
    return edge._replace(starts_a=a[0] - by, ends_a=a[1], starts_b=b[0] - by, ends_b=b[1])


def edges_of(members: pl.DataFrame) -> list[Edge]:
    """What pairs of ranks share of meetings: each rank with the first of its meeting.

    members: meeting, at, collective, is_barrier, sends, start_ns, end_ns, ordered by meeting and at. Those that end
    together count, and messages whose sender is told; others only where there are none.
    """
    marks = members.with_columns(
        way_of(pl.col("sends").not_()).alias("way"),  # of the second of two: the first sends what it does not
        pl.col("at", "start_ns", "end_ns").first().over("meeting").name.prefix("first_"),
    ).filter(pl.col("at") != pl.col("first_at"))
    columns = ("first_start_ns", "first_end_ns", "start_ns", "end_ns", "way")
    return [
        Edge(a, b, True, *(pair.get_column(column).to_numpy() for column in columns)).strict()
        for (a, b), pair in marks.group_by("first_at", "at", maintain_order=True)
    ]


def way_of(is_sent: pl.Expr) -> pl.Expr:
    """What leaving tells of each event. is_sent: of messages, whether the first of two ranks sends it; null unknown."""
    kind = pl.col("collective").cast(pl.String)
    message = pl.when(is_sent).then(SENT).when(is_sent.not_()).then(RECEIVED).otherwise(LOOSE)
    together = kind.is_in(END_TOGETHER) & ~pl.col("is_barrier")
    return pl.when(kind == "send_recv").then(message).when(together).then(TOGETHER).otherwise(LOOSE).cast(pl.Int64)


def offsets_of(clocks: Clocks, ranks: Sequence[int | None], num_events: Sequence[int]) -> tuple[ClockOffset, ...]:
    """What is known of the clocks of ranks, in order of rank: of each rank's first device that communicates. Nothing
    where all have one clock."""
    first: dict[int, int] = {}
    for at, rank in enumerate(ranks):
        if rank is not None and num_events[at]:
            first.setdefault(rank, at)
    if not first or (len(first) > 1 and len({clocks.first[at] for at in first.values()}) == 1):
        return ()
    reference = first[min(first)]
    summary = [
        ClockOffset(rank=min(first), offset_ns=0, spread_ns=0, num_matched=num_events[reference], uncertainty_ns=0)
    ]
    for rank, at in sorted(first.items())[1:]:
        if clocks.root(at) != clocks.root(reference):
            summary.append(ClockOffset(rank=rank, offset_ns=None, spread_ns=None, num_matched=0))
            continue
        summary.append(
            ClockOffset(
                rank=rank,
                offset_ns=clocks.offset(at) if clocks.is_known(at) else None,
                spread_ns=clocks.spread(at),
                uncertainty_ns=clocks.uncertainty(at),
                num_matched=chain[0].num_matched if (chain := clocks.chain(at)) else num_events[at],
                applied=clocks.is_needed(at),
                drift_ppm=round(1e6 * clocks.drift(at), 3),
            )
        )
    return tuple(summary)

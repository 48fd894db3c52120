"""How far apart the clocks of the ranks' hosts are, measured by collectives that must end together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.files.schemas import Count, Ns
from weftrace.notebook import InNotebook
from weftrace.units import MS, US

Array = NDArray[np.int64]

#: Collectives that a rank cannot leave before the last has come. The root of a broadcast, or who sends, can.
END_TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "dispatch", "combine", "?")
_MAX_SPREAD_NS = 1 * MS
_SURE = 10  # times its spread: an offset beyond that is one, however far the matches disagree
_NEEDED = 3  # times its spread: beyond that an offset is subtracted
_SMALL_NS = 10 * US  # an offset below that is not: ends of one collective differ as much on one clock
_FEW = 4  # matches: of fewer, the spread says little, and an offset is subtracted from a millisecond
_MIN_FOR_DRIFT = 24
_MAX_DRIFT = 2e-4  # of time: quartz is ten times better, and a rank that falls behind more is slow, not its clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset(InNotebook):
    """A rank's clock against the first rank's.

    offset_ns: median over matched collectives of (end on this rank - end on the reference), along a chain of ranks
    where the two share none: subtract it from this rank's times. Of starts, where those agree twice as closely, and
    with the ends or on the clocks as they are. 0 for ranks of one file. None, unknown, when nothing matches or when the
    matches disagree by more than a millisecond: then they are not the same collectives, or those do not end together.
    spread_ns: median distance from that median. num_matched: collectives it rests on. applied: whether lateness
    subtracts it, for it is beyond three times the spread and 10 us. drift_ppm: how much faster the clock runs, where
    that explains the spread; offset_ns is then that of the middle of its collectives.
    """

    rank: int
    offset_ns: int | None
    spread_ns: Ns | None
    num_matched: Count
    applied: Annotated[
        bool, Meta(description="Whether lateness subtracts it: it is beyond what the matches disagree.")
    ] = False
    drift_ppm: Annotated[float, Meta(description="How much faster it runs; offset_ns is then that of the middle.")] = (
        0.0
    )


class Edge(NamedTuple):
    """Ends of collectives that two ranks share, and their starts where those were matched by number."""

    a: int
    b: int
    ends_a: Array
    ends_b: Array
    starts_a: Array | None = None
    starts_b: Array | None = None


class Line(NamedTuple):
    """How far a rank's clock is ahead of its parent's, as a line in the rank's time."""

    parent: int
    middle_ns: int
    offset_ns: int
    drift: float
    spread_ns: int
    num_matched: int

    def ahead(self, times_ns: Array) -> Array:
        if not self.drift:
            return np.full(len(times_ns), self.offset_ns, np.int64)
        drifted: Array = np.rint(self.drift * (times_ns - self.middle_ns)).astype(np.int64)
        return drifted + self.offset_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The clocks of ranks, by position. first: of each rank the first that has its clock, for ranks of one file have
    one; lines: from such a first to its parent's; the root of a chain has none."""

    first: Sequence[int]
    lines: Mapping[int, Line]

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

    def is_known(self, at: int) -> bool:
        return self.spread(at) <= _MAX_SPREAD_NS or abs(self.offset(at)) > _SURE * self.spread(at)

    def is_needed(self, at: int) -> bool:
        """Whether the offset says more than the disagreement of the matches that it rests on."""
        chain = self.chain(at)
        if not chain or not self.is_known(at):
            return False
        least = _SMALL_NS if min(line.num_matched for line in chain) >= _FEW else _MAX_SPREAD_NS
        return abs(self.offset(at)) > max(least, _NEEDED * self.spread(at)) or self.drift(at) != 0

    def to_common(self, at: int, times_ns: Array) -> Array:
        """Times of a rank's clock on the root's, where the difference counts."""
        return times_ns - self.ahead(at, times_ns) if self.is_needed(at) else times_ns


def clocks_along(edges: Iterable[Edge], first: Sequence[int]) -> Clocks:
    """Clocks from what pairs of ranks share: along the spanning tree with the most matches.

    first: of each rank the first that has its clock.
    """
    number = len(first)
    edges = [edge._replace(a=first[edge.a], b=first[edge.b]) for edge in edges]
    parent = list(range(number))

    def find(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    neighbours: dict[int, list[Edge]] = {}
    for edge in sorted(edges, key=lambda edge: (-len(edge.ends_a), edge.a, edge.b)):
        roots = find(edge.a), find(edge.b)
        if roots[0] != roots[1]:
            parent[max(roots)] = min(roots)
            for at in (edge.a, edge.b):
                neighbours.setdefault(at, []).append(edge)
    lines: dict[int, Line] = {}
    seen: set[int] = set()
    for root in range(number):
        waiting = [root]
        while waiting:
            at = waiting.pop()
            seen.add(at)
            for edge in neighbours.get(at, ()):
                if (other := edge.b if edge.a == at else edge.a) not in seen:
                    lines[other] = _line_along(edge, at)
                    waiting.append(other)
    return Clocks(first=first, lines=lines)


def _line_along(edge: Edge, parent: int) -> Line:
    """The line through differences of ends; of starts, where those agree twice as closely, and nothing says that the
    difference is lateness: it is none on the clocks as they are, or what the ends tell too, as closely as they can.

    Events that show the transfer only begin together and end when each is done.
    """
    is_forth = edge.a == parent
    by_ends = line_of(parent, *((edge.ends_a, edge.ends_b) if is_forth else (edge.ends_b, edge.ends_a)))
    if edge.starts_a is None or edge.starts_b is None or len(edge.starts_a) < _FEW:
        return by_ends
    by_starts = line_of(parent, *((edge.starts_a, edge.starts_b) if is_forth else (edge.starts_b, edge.starts_a)))
    agree_closer = 2 * by_starts.spread_ns < by_ends.spread_ns
    by_starts_then = int(by_starts.ahead(np.array([by_ends.middle_ns]))[0])
    is_alike = abs(by_starts_then - by_ends.offset_ns) <= 2 * by_ends.spread_ns
    return by_starts if agree_closer and (is_alike or abs(by_starts.offset_ns) <= _SMALL_NS) else by_ends


def line_of(parent: int, parents_ns: Array, own_ns: Array) -> Line:
    """The line through differences of times: level, unless one that drifts leaves less than half of the spread."""
    apart = own_ns - parents_ns
    level = Line(parent, _median(own_ns), _median(apart), 0.0, 0, len(apart))
    level = level._replace(spread_ns=_median(abs(apart - level.offset_ns)))
    third = len(apart) // 3
    if len(apart) < _MIN_FOR_DRIFT:
        return level
    order = np.argsort(own_ns, kind="stable")
    first, last = order[:third], order[-third:]
    length = _median(own_ns[last]) - _median(own_ns[first])
    drift = (_median(apart[last]) - _median(apart[first])) / max(1, length)
    tilted = level._replace(drift=drift)
    left = apart - tilted.ahead(own_ns)
    tilted = tilted._replace(offset_ns=level.offset_ns + _median(left))
    spread = _median(abs(apart - tilted.ahead(own_ns)))
    rests = abs(drift) <= _MAX_DRIFT and level.spread_ns > US and 2 * spread < level.spread_ns
    return tilted._replace(spread_ns=spread) if rests else level


def edges_of(members: pl.DataFrame) -> list[Edge]:
    """What pairs of ranks share of meetings: each rank with the first of its meeting.

    members: meeting, at, collective, is_barrier, start_ns, end_ns, ordered by meeting and at. Those that end together
    count; others only where there are none.
    """
    together = pl.col("collective").cast(pl.String).is_in(END_TOGETHER) & ~pl.col("is_barrier")
    marks = members.with_columns(
        pl.col("at", "start_ns", "end_ns").first().over("meeting").name.prefix("first_")
    ).filter(pl.col("at") != pl.col("first_at"))
    edges = []
    for (a, b), pair in marks.group_by("first_at", "at", maintain_order=True):
        best = pair.filter(together)
        chosen = pair if best.is_empty() else best
        columns = ("first_end_ns", "end_ns", "first_start_ns", "start_ns")
        edges.append(Edge(a, b, *(chosen.get_column(column).to_numpy() for column in columns)))
    return edges


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
    summary = [ClockOffset(rank=min(first), offset_ns=0, spread_ns=0, num_matched=num_events[reference])]
    for rank, at in sorted(first.items())[1:]:
        if clocks.root(at) != clocks.root(reference):
            summary.append(ClockOffset(rank=rank, offset_ns=None, spread_ns=None, num_matched=0))
            continue
        summary.append(
            ClockOffset(
                rank=rank,
                offset_ns=clocks.offset(at) if clocks.is_known(at) else None,
                spread_ns=clocks.spread(at),
                num_matched=chain[0].num_matched if (chain := clocks.chain(at)) else num_events[at],
                applied=clocks.is_needed(at),
                drift_ppm=round(1e6 * clocks.drift(at), 3),
            )
        )
    return tuple(summary)


def _median(values: Array) -> int:
    """The lower of the middle two; in integers, since a float does not hold the nanoseconds of distant clocks."""
    return int(np.sort(values)[(len(values) - 1) // 2])

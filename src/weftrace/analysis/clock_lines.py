"""How far is one clock ahead of another, and how surely? By collectives and messages that both recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weftrace.units import MS, US

Array = NDArray[np.int64]

#: What `Edge.way` says of a match: nobody leaves before the last has come; a sends to b, or b to a; nothing is known.
TOGETHER, SENT, RECEIVED, LOOSE = 0, 1, -1, 2

MAX_SPREAD_NS = 1 * MS
SMALL_NS = 10 * US  # an offset below that is none: ends of one collective differ as much on one clock
NEEDED = 3  # times its spread: beyond that an offset is one
FEW = 4  # matches: of fewer, the spread says little
_MIN_FOR_DRIFT = 24
_MAX_DRIFT = 2e-4  # of time: quartz is ten times better, and a rank that falls behind more is slow, not its clock
_OUTLIERS = 100  # one in so many matches may contradict causality: files hold errors
_FAR = 1 << 61


class Edge(NamedTuple):
    """Collectives and messages that two ranks share: when each came and left, and what leaving says (`way`).

    numbered: whether they were matched by number, so that starts may tell of the clocks too.
    """

    a: int
    b: int
    numbered: bool
    starts_a: Array
    ends_a: Array
    starts_b: Array
    ends_b: Array
    way: Array

    @property
    def num(self) -> int:
        return len(self.way)

    @property
    def num_together(self) -> int:
        return int((self.way == TOGETHER).sum())

    def of(self, *ways: int) -> Edge:
        chosen = np.isin(self.way, ways)
        return self._replace(**{name: getattr(self, name)[chosen] for name in _ARRAYS})

    def turned(self) -> Edge:
        """The same, of b and a."""
        way = np.where(self.way == LOOSE, LOOSE, -self.way)
        return Edge(self.b, self.a, self.numbered, self.starts_b, self.ends_b, self.starts_a, self.ends_a, way)

    def strict(self) -> Edge:
        """Without what may leave early, where there is anything else."""
        is_strict = self.way != LOOSE
        return self.of(TOGETHER, SENT, RECEIVED) if is_strict.any() else self


def merged(edges: Sequence[Edge]) -> Edge:
    """Several edges between the same two clocks as one."""
    if len(edges) == 1:
        return edges[0]
    arrays = (np.concatenate([getattr(edge, name) for edge in edges]) for name in _ARRAYS)
    return Edge(edges[0].a, edges[0].b, all(edge.numbered for edge in edges), *arrays).strict()


_ARRAYS = ("starts_a", "ends_a", "starts_b", "ends_b", "way")


class Line(NamedTuple):
    """How far a rank's clock is ahead of its parent's, as a line in the rank's time.

    uncertainty_ns: how far off that may be; None, where nothing tells.
    """

    parent: int
    middle_ns: int
    offset_ns: int
    drift: float
    spread_ns: int
    num_matched: int
    uncertainty_ns: int | None = 0

    def ahead(self, times_ns: Array) -> Array:
        if not self.drift:
            return np.full(len(times_ns), self.offset_ns, np.int64)
        drifted: Array = np.rint(self.drift * (times_ns - self.middle_ns)).astype(np.int64)
        return drifted + self.offset_ns


def line_between(parent: int, edge: Edge) -> Line:
    """The line of b's clock over a's, and its uncertainty.

    - Of collectives: the median difference of ends. It is uncertain by the spread: the median distance from it; of four
      to seven collectives, by the second largest distance.
    - Of messages both ways: the middle between the median difference of ends one way and that of the other way. It is
      uncertain by half of the distance between the two, plus the larger spread.
    - Causality bounds both: nobody leaves a collective before another has come (b's clock is ahead by b's end - a's
      start at most, and by b's start - a's end at least), and nothing is received before it was sent. An offset that
      lies outside by more than the spread and 10 us, or that of messages where the bounds are closer, becomes the
      middle between the bounds, uncertain by half of their distance. Bounds that contradict each other tell nothing.
    - Fewer than four collectives are uncertain by half of the distance between the bounds, a millisecond at most.
    - Messages one way tell nothing (None). What may leave early is uncertain by half of the distance between the bounds
      that it would have, did it wait, and a millisecond at least.
    - In these last two cases, clocks that agree as they are, to three times the spread or 10 us, do so: they are
      uncertain by what they are apart.
    """
    together, sent, received = edge.of(TOGETHER), edge.of(SENT), edge.of(RECEIVED)
    if together.num:
        line = _by_collectives(parent, together)
        own_ns = max(line.spread_ns, _of_few(together, line))
    elif sent.num and received.num:
        line, own_ns = _by_messages(parent, sent, received)
    else:
        line = line_of(parent, edge.ends_a, edge.ends_b)
        own_ns = line.spread_ns
    line = line._replace(num_matched=together.num or edge.num)
    is_bound = together.num > 0 or (sent.num > 0 and received.num > 0)
    low, high = _bounds(edge, line) if is_bound else _bounds(edge._replace(way=np.zeros_like(edge.way)), line)
    slack, half = max(line.spread_ns, SMALL_NS), (high - low) // 2
    if high < low - 2 * slack:
        return line._replace(uncertainty_ns=None)
    agrees = abs(line.offset_ns) <= max(SMALL_NS, NEEDED * line.spread_ns)
    apart_ns = max(own_ns, abs(line.offset_ns))
    if not is_bound:
        is_loose = bool((edge.way == LOOSE).all())
        coarse_ns = max(own_ns, half, MAX_SPREAD_NS) if is_loose else None
        return line._replace(uncertainty_ns=apart_ns if agrees else coarse_ns)
    is_outside = low > slack or high < -slack
    if is_outside or (not together.num and half < own_ns):
        return line._replace(offset_ns=line.offset_ns + (low + high) // 2, uncertainty_ns=max(half, line.spread_ns))
    if 0 < together.num < FEW:
        own_ns = apart_ns if agrees else max(own_ns, min(half, MAX_SPREAD_NS))
    return line._replace(uncertainty_ns=own_ns)


def _bounds(edge: Edge, line: Line) -> tuple[int, int]:
    """Between which values what b's clock is ahead of the line must lie. One match in a hundred may be wrong."""
    starts_b, ends_b = (times - line.ahead(times) for times in (edge.starts_b, edge.ends_b))
    is_high, is_low = np.isin(edge.way, (TOGETHER, SENT)), np.isin(edge.way, (TOGETHER, RECEIVED))
    highs, lows = (ends_b - edge.starts_a)[is_high], (starts_b - edge.ends_a)[is_low]
    high = int(np.sort(highs)[len(highs) // _OUTLIERS]) if len(highs) else _FAR
    low = int(np.sort(lows)[-1 - len(lows) // _OUTLIERS]) if len(lows) else -_FAR
    return low, high


def _by_collectives(parent: int, edge: Edge) -> Line:
    """The line through differences of ends; of starts, where those agree twice as closely, and nothing says that the
    difference is lateness: it is none on the clocks as they are, or what the ends tell too, as closely as they can.

    Events that show the transfer only begin together and end when each is done.
    """
    by_ends = line_of(parent, edge.ends_a, edge.ends_b)
    if not edge.numbered or edge.num < FEW:
        return by_ends
    by_starts = line_of(parent, edge.starts_a, edge.starts_b)
    agree_closer = 2 * by_starts.spread_ns < by_ends.spread_ns
    by_starts_then = int(by_starts.ahead(np.array([by_ends.middle_ns]))[0])
    is_alike = abs(by_starts_then - by_ends.offset_ns) <= 2 * by_ends.spread_ns
    return by_starts if agree_closer and (is_alike or abs(by_starts.offset_ns) <= SMALL_NS) else by_ends


def _of_few(edge: Edge, line: Line) -> int:
    """The second largest distance from the line, of few: their median says little. Of ends or of starts, the closer."""
    if not FEW <= edge.num < 2 * FEW:
        return 0
    both = ((edge.starts_a, edge.starts_b), (edge.ends_a, edge.ends_b))
    return min(int(np.sort(np.abs(own - line.ahead(own) - parents))[-2]) for parents, own in both)


def _by_messages(parent: int, sent: Edge, received: Edge) -> tuple[Line, int]:
    """The middle between both ways, and by how much that may be wrong: a send may end before its receive."""
    forth, back = (line_of(parent, way.ends_a, way.ends_b) for way in (sent, received))
    drift = (forth.drift + back.drift) / 2 if forth.drift and back.drift else 0.0
    line = line_of(parent, *(np.concatenate([getattr(sent, x), getattr(received, x)]) for x in ("ends_a", "ends_b")))
    line = line._replace(drift=drift, offset_ns=0)
    left = [way.ends_b - line.ahead(way.ends_b) - way.ends_a for way in (sent, received)]
    medians = [median(values) for values in left]
    spread = max(median(abs(values - middle)) for values, middle in zip(left, medians, strict=True))
    line = line._replace(offset_ns=sum(medians) // 2, spread_ns=spread)
    few = [int(abs(values - middle).max()) for values, middle in zip(left, medians, strict=True) if len(values) < FEW]
    return line, abs(medians[0] - medians[1]) // 2 + max(spread, *few, 0)


def line_of(parent: int, parents_ns: Array, own_ns: Array) -> Line:
    """The line through differences of times: level, unless one that drifts leaves less than half of the spread."""
    apart = own_ns - parents_ns
    level = Line(parent, median(own_ns), median(apart), 0.0, 0, len(apart))
    level = level._replace(spread_ns=median(abs(apart - level.offset_ns)))
    third = len(apart) // 3
    if len(apart) < _MIN_FOR_DRIFT:
        return level
    order = np.argsort(own_ns, kind="stable")
    first, last = order[:third], order[-third:]
    length = median(own_ns[last]) - median(own_ns[first])
    drift = (median(apart[last]) - median(apart[first])) / max(1, length)
    tilted = level._replace(drift=drift)
    left = apart - tilted.ahead(own_ns)
    tilted = tilted._replace(offset_ns=level.offset_ns + median(left))
    spread = median(abs(apart - tilted.ahead(own_ns)))
    rests = abs(drift) <= _MAX_DRIFT and level.spread_ns > US and 2 * spread < level.spread_ns
    return tilted._replace(spread_ns=spread) if rests else level


def median(values: Array) -> int:
    """The lower of the middle two; in integers, since a float does not hold the nanoseconds of distant clocks."""
    return int(np.sort(values)[(len(values) - 1) // 2])

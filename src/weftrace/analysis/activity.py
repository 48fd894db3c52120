"""When something ran, in a bounded number of stretches: what pictures fill, small enough to go between processes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weftrace.analysis.intervals import Array, Intervals

MOST = 20_000


class Stretches(NamedTuple):
    """Stretches in order and apart, absolute ns. busy_ns: what ran of each; its whole length, but where neighbours had
    to be merged."""

    starts: Array
    ends: Array
    busy_ns: Array

    @property
    def total_ns(self) -> int:
        return int(self.busy_ns.sum())


def stretches_of(intervals: Intervals) -> Stretches:
    """The intervals, in at most about `MOST` stretches."""
    return fewer(Stretches(intervals.starts, intervals.ends, intervals.ends - intervals.starts), MOST)


def fewer(stretches: Stretches, most: int) -> Stretches:
    """Where there are more than `most`, those that begin in one of `most` equal cells of time become one, but for those
    as long as a cell: 2 * most at most, and what ran stays where it ran, within a cell."""
    starts, ends, busy_ns = stretches
    if len(starts) <= most:
        return stretches
    cell_ns = -(-int(ends[-1] - starts[0]) // most)
    cell = (starts - starts[0]) // cell_ns
    alone = ends - starts >= cell_ns
    first = np.flatnonzero(np.concatenate(([True], (cell[1:] != cell[:-1]) | alone[1:] | alone[:-1])))
    last = np.concatenate((first[1:], [len(starts)])) - 1
    return Stretches(starts[first], ends[last], np.add.reduceat(busy_ns, first))

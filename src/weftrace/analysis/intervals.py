"""Interval algebra: sets of half-open intervals [start, end) as two sorted int64 arrays. All times in nanoseconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.int64]


class Intervals(NamedTuple):
    """Disjoint intervals in order, none empty, none touching the next."""

    starts: Array
    ends: Array

    @property
    def total_ns(self) -> int:
        """Sum of lengths: |X| of this set."""
        return int((self.ends - self.starts).sum())

    def __and__(self, other: Intervals) -> Intervals:
        return intersection(self, other)

    def __sub__(self, other: Intervals) -> Intervals:
        return difference(self, other)

    def __or__(self, other: Intervals) -> Intervals:
        return union(np.concatenate((self.starts, other.starts)), np.concatenate((self.ends, other.ends)))


_MAX = (1 << 63) - 1
_EXACT = 1 << 53

EMPTY = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(starts: ArrayLike, ends: ArrayLike) -> Intervals:
    """The union of any intervals, in any order; empty and touching ones merge away.

    ──── ───            starts 0 6   ends 4 9
      ────      ──      starts 2 11  ends 6 13
    ─────────   ──      union  0 11       9 13
    """
    start, end = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    if (start >= end).any():
        keep = start < end
        start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.flatnonzero(np.concatenate(([True], start[1:] > reach[:-1])))
    last = np.concatenate((first[1:], [len(start)])) - 1
    return Intervals(start[first], reach[last])


def of_events(events: pl.DataFrame) -> Intervals:
    """The union of a frame's events (columns start_ns, end_ns)."""
    return union(events.get_column("start_ns").to_numpy(), events.get_column("end_ns").to_numpy())


def covered(cover: Intervals, starts: ArrayLike, ends: ArrayLike) -> Array:
    """For each interval [start, end), how much of it `cover` covers."""
    return covered_before(cover, ends) - covered_before(cover, starts)


def covered_before(cover: Intervals, times: ArrayLike) -> Array:
    """|cover ∩ (-∞, t)| at each time t."""
    at = np.asarray(times, np.int64)
    if not len(cover.starts):
        return np.zeros(len(at), np.int64)
    before = np.concatenate(([0], np.cumsum(cover.ends - cover.starts)))
    index = np.searchsorted(cover.starts, at, "right")  # intervals that have started
    last = np.maximum(index - 1, 0)
    unfinished = np.where(index > 0, np.maximum(cover.ends[last] - at, 0), 0)
    return np.asarray(before[index] - unfinished, np.int64)


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """a ∩ b."""
    if not len(a.starts) or not len(b.starts):
        return EMPTY
    # For each interval of a, the range of b's intervals that reach into it.
    first = np.searchsorted(b.ends, a.starts, "right")
    last = np.searchsorted(b.starts, a.ends, "left")
    counts = np.maximum(last - first, 0)
    row = np.repeat(np.arange(len(a.starts)), counts)
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    col = first[row] + offset
    return Intervals(np.maximum(a.starts[row], b.starts[col]), np.minimum(a.ends[row], b.ends[col]))


def difference(a: Intervals, b: Intervals) -> Intervals:
    """a without b."""
    if not len(a.starts) or not len(b.starts):
        return a
    lo, hi = min(a.starts[0], b.starts[0]) - 1, max(a.ends[-1], b.ends[-1]) + 1
    return intersection(a, Intervals(np.concatenate(([lo], b.ends)), np.concatenate((b.starts, [hi]))))


def gaps(a: Intervals) -> Intervals:
    """What lies between the intervals of a."""
    return Intervals(a.ends[:-1], a.starts[1:])


def grouped_union(groups: ArrayLike, starts: ArrayLike, ends: ArrayLike) -> tuple[Array, Intervals]:
    """The union within each group, all groups in one pass: the group of each resulting interval, and the intervals.

    The intervals of one group are disjoint and in order; groups ascend.
    """
    group, start, end = (np.asarray(x, np.int64) for x in (groups, starts, ends))
    if not len(group):
        return group, EMPTY
    groups, number = np.unique(group, return_inverse=True)
    origin, width = int(start.min()), int(end.max()) - int(start.min()) + 1
    if width * len(groups) > _MAX:  # a broken trace: its events lie years apart; their ranks in time serve as well
        times, rank = np.unique(np.concatenate((start, end)), return_inverse=True)
        number, merged = grouped_union(number, rank[: len(start)], rank[len(start) :])
        return groups[number], Intervals(times[merged.starts], times[merged.ends])
    lane = number * width - origin  # each group on a stretch of time of its own
    merged = union(start + lane, end + lane)
    number = merged.starts // width
    shift = origin - number * width
    return groups[number], Intervals(merged.starts + shift, merged.ends + shift)


def totals_by_group(groups: ArrayLike, starts: ArrayLike, ends: ArrayLike, num_groups: int) -> Array:
    """|union| of each of the groups 0 … num_groups - 1."""
    group, merged = grouped_union(groups, starts, ends)
    return sums_by_group(group, merged.ends - merged.starts, num_groups)


def sums_by_group(groups: ArrayLike, values: ArrayLike, num_groups: int) -> Array:
    """Sum of the values of each of the groups 0 … num_groups - 1, in integers."""
    group, value = np.asarray(groups, np.int64), np.asarray(values, np.int64)
    if len(value) and np.abs(value).max() < _EXACT // len(value):  # floats hold such sums exactly, and are quicker
        return np.bincount(group, value, num_groups).astype(np.int64)
    sums = np.zeros(num_groups, np.int64)
    np.add.at(sums, group, value)
    return sums

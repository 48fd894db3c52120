"""What was a host thread doing at each moment? Annotation ⊃ operator ⊃ Python frame ⊃ call, as one path.

Ranges of one thread lie in each other; those that cross are cut at the end of the one around them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from weftrace.analysis.intervals import Array, Intervals, union

#: Kinds of a range.
ANNOTATION, OPERATOR, FRAME, RUNTIME_CALL = KINDS = ("annotation", "operator", "frame", "call")

#: Where there are so many ranges for each piece of wanted time, most lie outside.
_SPARSE = 10
_MOST_CUTS = 8  # rounds of cutting ranges that cross; files that nest need one
#: A range that begins so shortly before another ends, and outlives it, follows it: times of files are rounded.
_ROUNDED_NS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paths:
    """A tree of what was open on host threads.

    name: of each node, a place in `names`; kind: of each node, a number in KINDS; parent: of each node, -1 at a root;
    a parent comes before its children; depth: of each node, 0 at a root.
    """

    names: pl.Series
    name: Array
    kind: Array
    parent: Array
    depth: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segments:
    """Stretches of host time in which the innermost range is one and the same.

    piece: which of the asked pieces each lies in. path: node of `Paths`, -1 where the thread recorded nothing.
    """

    piece: Array
    start: Array
    end: Array
    path: Array


class PathTable:
    """The tree under construction: paths of several threads, each path once."""

    def __init__(self, spelling: dict[int, str]) -> None:
        """spelling: of the physical code of each name that ranges may have."""
        self._spelling = spelling
        self._codes: dict[str, int] = {}
        self._nodes: dict[tuple[int, int, int], int] = {}
        self._name, self._kind, self._parent = [], [], []  # type: tuple[list[int], list[int], list[int]]

    def add(self, parents: Array, codes: Array, kinds: Array) -> Array:
        """Nodes of distinct children: parents are nodes, -1 for none; codes are physical codes of names."""
        out = np.empty(len(codes), np.int64)
        for at, (parent, code, kind) in enumerate(zip(parents.tolist(), codes.tolist(), kinds.tolist(), strict=True)):
            key = (parent, self._codes.setdefault(self._spelling[code], len(self._codes)), kind)
            if (node := self._nodes.get(key)) is None:
                node = self._nodes[key] = len(self._name)
                self._name.append(key[1])
                self._kind.append(kind)
                self._parent.append(parent)
            out[at] = node
        return out

    def paths(self) -> Paths:
        parent = np.array(self._parent, np.int64)
        return Paths(
            names=pl.Series("name", list(self._codes), dtype=pl.String),
            name=np.array(self._name, np.int64),
            kind=np.array(self._kind, np.int64),
            parent=parent,
            depth=_depths(parent),
        )


def segments_of(ranges: pl.DataFrame, starts: Array, ends: Array, table: PathTable) -> Segments:
    """Cut pieces of one thread's time, disjoint and in order, where the innermost open range changes.

    ranges: of that thread, with code, kind, ts_ns and dur_ns, in any order.
    """
    tree = nested(ranges, union(starts, ends))
    times, inner = _changes(tree)
    if not len(times):  # the thread recorded nothing in any piece
        return Segments(piece=np.arange(len(starts)), start=starts, end=ends, path=np.full(len(starts), -1, np.int64))
    first = np.searchsorted(times, starts, "right") - 1  # the stretch between two changes in which a piece begins
    last = np.searchsorted(times, ends, "left") - 1
    counts = last - first + 1
    piece = np.repeat(np.arange(len(starts)), counts)
    at = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts - first, counts)
    until = np.append(times, ends[-1:])
    left = np.maximum(starts[piece], times[np.maximum(at, 0)])
    left = np.where(at < 0, starts[piece], left)
    right = np.minimum(ends[piece], until[at + 1])
    right = np.where(at + 1 < len(times), right, ends[piece])
    node = np.append(_nodes(tree, table), -1)  # the last one: of nothing
    path = node[np.append(inner, -1)[at]]
    kept = right > left
    return Segments(piece=piece[kept], start=left[kept], end=right[kept], path=path[kept])


class Nested(NamedTuple):
    """Ranges in order of start, outer ones first, none of which outlives the one around it (-1: none is)."""

    start: Array
    end: Array
    code: Array
    kind: Array
    around: Array


def nested(ranges: pl.DataFrame, wanted: Intervals) -> Nested:
    """Those ranges that reach into the wanted time, cut where they cross the end of the one around them."""
    start = ranges.get_column("ts_ns").to_numpy()
    end = start + ranges.get_column("dur_ns").to_numpy()
    kept = np.arange(len(start))
    if _SPARSE * len(wanted.starts) < len(start):  # else most of them do
        kept = np.flatnonzero(
            np.searchsorted(wanted.ends, start, "right") < np.searchsorted(wanted.starts, end, "left")
        )
        start, end = start[kept], end[kept]
    order = np.argsort(start, kind="stable")
    order = _outer_first(order, start, end, ranges.get_column("kind").to_numpy()[kept])
    kept, start, end = kept[order], start[order], end[order]
    around, recorded = _around(start, end), end
    for turn in range(_MOST_CUTS):
        limit = np.where(around >= 0, end[around], end)
        if not (end > limit).any():
            break
        end = _ended_before_the_next(start, end) if turn == 0 else np.minimum(end, limit)
        around = _around(start, end)
    else:  # ranges that cross one after another, as in no file that a profiler wrote
        end = _cut_in_turn(start, recorded)
        around = _around(start, end)
    code, kind = (ranges.get_column(name).to_numpy()[kept].astype(np.int64) for name in ("code", "kind"))
    return Nested(start, end, code, kind, around)


def _ended_before_the_next(start: Array, end: Array) -> Array:
    """The ends of ranges in order of start, each no later than the start of what follows it but for rounding."""
    out = end.copy()
    at = np.searchsorted(start, end - _ROUNDED_NS, "left")
    left = np.arange(len(start))
    while len(left):  # ranges that begin in so short a time are few
        left = left[at[left] < len(start)]
        left = left[start[at[left]] < end[left]]
        follows = (start[at[left]] > start[left]) & (end[at[left]] > end[left])
        out[left[follows]] = start[at[left[follows]]]
        left = left[~follows]
        at[left] += 1
    return out


def _outer_first(order: Array, start: Array, end: Array, kind: Array) -> Array:
    """The order with those that start together sorted: the longer first, then by kind."""
    ordered = start[order]
    tied = np.zeros(len(order), np.bool_)
    tied[1:] = ordered[1:] == ordered[:-1]
    tied[:-1] |= tied[1:]
    rows = order[tied]
    order = order.copy()
    order[tied] = rows[np.lexsort((kind[rows], -end[rows], start[rows]))]
    return order


def _changes(nested: Nested) -> tuple[Array, Array]:
    """When the innermost open range changes, in order, and to which, -1 for none. Of one time the last counts."""
    start, end, around = nested.start, nested.end, nested.around
    number = len(start)
    ending = number - 1 - np.argsort(end[::-1], kind="stable")  # of those that end together the inner first
    ends = end[ending]
    then = around[ending]
    over = np.flatnonzero((then >= 0) & (end[then] <= ends))
    while len(over):
        then[over] = around[then[over]]
        over = over[(then[over] >= 0) & (end[then[over]] <= ends[over])]
    at_start = np.arange(number) + np.searchsorted(ends, start, "right")
    at_end = np.arange(number) + np.searchsorted(start, ends, "left")
    times, inner = np.empty(2 * number, np.int64), np.empty(2 * number, np.int64)
    times[at_start], inner[at_start] = start, np.arange(number)
    times[at_end], inner[at_end] = ends, then
    return times, inner


def _around(start: Array, end: Array) -> Array:
    """The range around each, of ranges in order of start: the last one before that is open at its start; else -1."""
    around = np.arange(-1, len(start) - 1)
    left = np.flatnonzero(around >= 0)
    while len(left):  # what ended before is passed over, and all that it passed over: twice as many in each round
        left = left[end[around[left]] <= start[left]]
        around[left] = around[around[left]]
        left = left[around[left] >= 0]
    return around


def _cut_in_turn(start: Array, end: Array) -> Array:
    """The ends of ranges in order of start, each no later than that of what is open at its start."""
    open_until: list[int] = []
    ends = []
    for since, until in zip(start.tolist(), end.tolist(), strict=True):
        while open_until and open_until[-1] <= since:
            open_until.pop()
        ends.append(min(until, open_until[-1]) if open_until else until)
        open_until.append(ends[-1])
    return np.array(ends, np.int64)


def _depths(around: Array) -> Array:
    """How many ranges are around each."""
    depth, above = (around >= 0).astype(np.int64), around.copy()
    left = np.flatnonzero(above >= 0)
    while len(left):  # twice as many levels in each round
        depth[left] += depth[above[left]]
        above[left] = above[above[left]]
        left = left[above[left] >= 0]
    return depth


def _nodes(nested: Nested, table: PathTable) -> Array:
    """The node of each range's path, level by level."""
    node = np.full(len(nested.start), -1, np.int64)
    if not len(node):
        return node
    depth = _depths(nested.around).astype(np.int16)
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2))
    wide = int(nested.code.max()) + 1
    label = nested.code * len(KINDS) + nested.kind
    for low, high in zip(levels[:-1].tolist(), levels[1:].tolist(), strict=True):
        mine = order[low:high]
        above = node[nested.around[mine]] if low else np.full(high, -1, np.int64)
        distinct, which = _distinct((above + 1) * (wide * len(KINDS)) + label[mine])
        parents, rest = np.divmod(distinct, wide * len(KINDS))
        codes, kinds = np.divmod(rest, len(KINDS))
        node[mine] = table.add(parents - 1, codes, kinds)[which]
    return node


def _distinct(keys: Array) -> tuple[Array, Array]:
    """Distinct keys in order, and the index among them of each. Polars hashes: several times as fast as sorting all."""
    column = pl.DataFrame({"key": keys})
    distinct = column.unique("key", maintain_order=False).sort("key").with_row_index("at")
    which = column.join(distinct, on="key", how="left", maintain_order="left").get_column("at")
    return distinct.get_column("key").to_numpy(), which.cast(pl.Int64).to_numpy()

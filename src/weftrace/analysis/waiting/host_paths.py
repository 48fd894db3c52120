"""What was a host thread doing at each moment? Annotation ⊃ operator ⊃ Python frame ⊃ call, as one path.

Ranges of one thread lie in each other; those that cross are cut at the end of the one around them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from weftrace.analysis.intervals import Array, Intervals, covered, union
from weftrace.trace.containment import innermost

#: Kinds of a range.
ANNOTATION, OPERATOR, FRAME, RUNTIME_CALL = KINDS = ("annotation", "operator", "frame", "call")

_MOST_CUTS = 8  # rounds of cutting ranges that cross; files that nest need one


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
    begin, stop, name, kind = _nested(ranges, union(starts, ends))
    points = np.unique(np.concatenate((begin, stop, starts, ends)))
    left, right = points[:-1], points[1:]
    piece = np.searchsorted(starts, left, "right") - 1
    inside = (piece >= 0) & (left < ends[np.maximum(piece, 0)])
    piece, left, right = piece[inside], left[inside], right[inside]
    found = innermost(begin, stop, left) if len(begin) else np.full(len(left), -1, np.int64)
    node = _nodes(begin, stop, name, kind, table)
    path = np.where(found >= 0, node[np.maximum(found, 0)], -1) if len(node) else found
    return Segments(piece=piece, start=left, end=right, path=path)


def _nested(ranges: pl.DataFrame, wanted: Intervals) -> tuple[Array, Array, Array, Array]:
    """Start, end, code of the name and kind of those ranges that reach into the wanted time, outer ones first; none
    outlives the one around it."""
    start = ranges.get_column("ts_ns").to_numpy()
    end = start + ranges.get_column("dur_ns").to_numpy()
    kept = np.flatnonzero(covered(wanted, start, end) > 0)
    start, end = start[kept], end[kept]
    order = np.lexsort((ranges.get_column("kind").to_numpy()[kept], -end, start))
    kept, start, end = kept[order], start[order], end[order].copy()
    for _ in range(_MOST_CUTS):
        around = _around(start, end)
        limit = np.where(around >= 0, end[np.maximum(around, 0)], end)
        if not (end > limit).any():
            break
        end = np.minimum(end, limit)
    codes = ranges.get_column("code").to_numpy()[kept]
    return start, end, codes, ranges.get_column("kind").to_numpy()[kept].astype(np.int64)


def _around(start: Array, end: Array) -> Array:
    """The range around each, of ranges in order of start: the last one before that is open at its start; else -1."""
    around = np.arange(-1, len(start) - 1)
    left = np.flatnonzero(around >= 0)
    while len(left):  # what ended before is passed over, and all that it passed over: twice as many in each round
        left = left[end[around[left]] <= start[left]]
        around[left] = around[around[left]]
        left = left[around[left] >= 0]
    return around


def _depths(around: Array) -> Array:
    """How many ranges are around each."""
    depth, above = (around >= 0).astype(np.int64), around.copy()
    left = np.flatnonzero(above >= 0)
    while len(left):  # twice as many levels in each round
        depth[left] += depth[above[left]]
        above[left] = above[above[left]]
        left = left[above[left] >= 0]
    return depth


def _nodes(start: Array, end: Array, name: Array, kind: Array, table: PathTable) -> Array:
    """The node of each range's path, level by level."""
    number = len(start)
    node = np.full(number, -1, np.int64)
    if not number:
        return node
    around = _around(start, end)
    depth = _depths(around)
    order = np.argsort(depth, kind="stable")
    levels = np.searchsorted(depth[order], np.arange(depth.max() + 2))
    wide = int(name.max()) + 1
    for low, high in zip(levels[:-1].tolist(), levels[1:].tolist(), strict=True):
        mine = order[low:high]
        above = np.where(around[mine] >= 0, node[np.maximum(around[mine], 0)], -1)
        keys = ((above + 1) * wide + name[mine]) * len(KINDS) + kind[mine]
        distinct, which = np.unique(keys, return_inverse=True)
        rest, kinds = np.divmod(distinct, len(KINDS))
        parents, codes = np.divmod(rest, wide)
        node[mine] = table.add(parents - 1, codes, kinds)[which]
    return node

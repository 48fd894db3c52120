"""Which ends of two ranks are those of one collective, where nothing but their times can tell?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weftrace.analysis.clocks import Array
from weftrace.units import MS

#: Ends of one collective lie within this of each other, or a quarter of what parts a rank's own where that is less.
MOST_APART_NS = 1 * MS
#: Where ranks have equally many, and order can be wrong only in most of them or in none: a busy host wakes up late.
MOST_IN_ORDER_NS = 3 * MS
_QUARTER = 4
_SHARE = 0.3  # of the fewer events of two ranks must agree, else the two share none
_ALL_THERE = 1.4  # times as much counts an end that agrees in plain order: busy hosts wake up late, and steps recur
_MOST_DIFFERENCES = 160_000
_MOST_PEAKS = 4

Ends = Mapping[Any, Array]


def tolerance_of(ats: Array, ends: Array, *, most: int = MOST_APART_NS) -> int:
    """How far apart ends of one collective may lie, among these of a kind: ats, ends in order of end."""
    order = np.argsort(ats, kind="stable")
    gaps = np.diff(ends[order])[np.diff(ats[order]) == 0]
    return min(most, int(np.median(gaps)) // _QUARTER) if len(gaps) else MOST_APART_NS


def agreeing(ats: Array, ends: Array, tolerance_ns: int) -> Array:
    """A label for each event, the same for those of different ranks that end within the tolerance of the first of them.

    ends ascend. One that comes when its rank is there already begins a new one.
    """
    label = np.empty(len(ends), np.int64)
    number, began, present = -1, 0, set[int]()
    for row, (at, end) in enumerate(zip(ats.tolist(), ends.tolist(), strict=True)):
        if number < 0 or end - began > tolerance_ns or at in present:
            number, began, present = number + 1, end, set()
        present.add(at)
        label[row] = number
    return label


def vote(a: Ends, b: Ends) -> tuple[Array, Array] | None:
    """The ends of a and b that belong together, by the offset of clocks at which most do; None where too few do.

    a, b: of two ranks the ends by kind, ascending.
    """
    kinds = [kind for kind in a if kind in b]
    fewer = sum(min(len(a[kind]), len(b[kind])) for kind in kinds)
    if not fewer:
        return None
    tolerance = min(_tolerance(ends[kind]) for kind in kinds for ends in (a, b))
    best: tuple[float, int, int] | None = None
    chosen: tuple[Array, Array] | None = None
    in_order = _offset_in_order(a, b, kinds)
    for offset in dict.fromkeys([0, *([] if in_order is None else [in_order]), *_peaks(a, b, kinds, tolerance)]):
        pairs = _pairs(a, b, kinds, offset, tolerance)
        if not len(pairs[0]):
            continue
        residual = int(np.median(np.abs(pairs[1] - pairs[0] - offset)))
        votes = len(pairs[0]) * (_ALL_THERE if offset == in_order else 1.0)
        rank = (votes, -(residual // 1000), -abs(offset))
        if best is None or rank > best:
            best, chosen = rank, pairs
    if chosen is None or len(chosen[0]) < max(_SHARE * fewer, min(2, fewer)):
        return None
    one_by_chance = len(chosen[0]) == 1 and abs(int(chosen[1][0] - chosen[0][0])) > tolerance
    return None if one_by_chance else chosen


def _tolerance(ends: Array) -> int:
    return min(MOST_APART_NS, int(np.median(np.diff(ends))) // _QUARTER) if len(ends) > 1 else MOST_APART_NS


def _offset_in_order(a: Ends, b: Ends, kinds: list[Any]) -> int | None:
    """That of plain order, of the kinds of which both have as many."""
    in_order = [b[kind] - a[kind] for kind in kinds if len(a[kind]) == len(b[kind])]
    return _middle(np.concatenate(in_order)) if in_order else None


def _peaks(a: Ends, b: Ends, kinds: list[Any], tolerance: int) -> list[int]:
    """The commonest differences of ends."""
    found: list[int] = []
    differences = np.sort(np.concatenate([_differences(a[kind], b[kind]) for kind in kinds]))
    reach = np.searchsorted(differences, differences + 2 * tolerance, side="right") - np.arange(len(differences))
    for _ in range(_MOST_PEAKS):
        first = int(np.argmax(reach))
        if reach[first] <= 0:
            break
        found.append(_middle(differences[first : first + reach[first]]))
        reach[np.abs(differences - found[-1]) <= 4 * tolerance] = 0
    return found


def _differences(a: Array, b: Array) -> Array:
    """All differences of a few; of many, those of the first and of the last."""
    if len(a) * len(b) <= _MOST_DIFFERENCES:
        return np.subtract.outer(b, a).ravel()
    few = int(_MOST_DIFFERENCES**0.5)
    return np.concatenate([_differences(a[:few], b[:few]), _differences(a[-few:], b[-few:])])


def _pairs(a: Ends, b: Ends, kinds: list[Any], offset: int, tolerance: int) -> tuple[Array, Array]:
    """Ends that are each other's nearest at this offset, and within the tolerance."""
    chosen_a, chosen_b = [], []
    for kind in kinds:
        mine, theirs = a[kind], b[kind] - offset
        to_b, to_a = _nearest(theirs, mine), _nearest(mine, theirs)
        mutual = (to_a[to_b] == np.arange(len(mine))) & (np.abs(theirs[to_b] - mine) <= tolerance)
        chosen_a.append(mine[mutual])
        chosen_b.append(b[kind][to_b[mutual]])
    return np.concatenate(chosen_a), np.concatenate(chosen_b)


def _nearest(among: Array, to: Array) -> Array:
    """Index in `among`, which ascends, of what is nearest to each of `to`."""
    right = np.clip(np.searchsorted(among, to), 0, len(among) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(np.abs(among[left] - to) <= np.abs(among[right] - to), left, right)


def _middle(values: Array) -> int:
    return int(np.sort(values)[(len(values) - 1) // 2])

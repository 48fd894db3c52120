"""Which ends of two ranks are those of one collective, where nothing but their times can tell?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from weftrace.analysis.clock_lines import Array
from weftrace.units import MS

#: Ends of one collective lie within this of each other, or a quarter of what parts a rank's own where that is less.
MOST_APART_NS = 1 * MS
#: Where ranks have equally many, and order can be wrong only in most of them or in none: a busy host wakes up late.
MOST_IN_ORDER_NS = 3 * MS
_QUARTER = 4
_SHARE = 0.3  # of the fewer events of two ranks must agree, else the two share none
_ALL_THERE = 1.4  # times as much counts an end that agrees in plain order: busy hosts wake up late, and steps recur
_MOST_DIFFERENCES = 160_000
_MOST_PEAKS = 6

_AS_GOOD = 0.7  # of the closest matches: an offset at which as many are as close could be the right one as well
_CLOSE_NS = 10_000  # and three times the spread: ends of one collective differ as much
_FEWEST = 0.4  # of them
_MIN_IN_STEPS = 2


class Ends(Protocol):
    """Of a rank's events of a kind the ends, which ascend, and the steps, -1 where none is told."""

    @property
    def ends(self) -> Array: ...
    @property
    def steps(self) -> Array: ...


Kinds = Mapping[Any, Ends]
Pairs = dict[Any, tuple[Array, Array]]  # of a kind, places in the ends of a and of b


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


def vote(a: Kinds, b: Kinds, *, is_shared: bool) -> Pairs | None:
    """The events of a and b that belong together, by the offset of clocks at which most ends do; None where too few do,
    and where it cannot be told which.

    a, b: of two ranks the ends by kind. is_shared: whether both are known to meet in them. It can be told, where
    - order says so within each step that both recorded whole; or
    - both have as many of each kind, and order leaves their clocks as they are; or
    - at no other offset seven tenths of the ends that could agree do so as closely: within 10 us, or three times the
      median distance from the offset. Offsets at which less than two fifths as many agree do not count.
    Ranks that may not meet can do the same in groups of their own, a little later: all that can be told is that their
    clocks agree as they are, to 10 us or that distance.
    Of several kinds, one of which less than half agree is left out.
    """
    kinds = [kind for kind in a if kind in b]
    if is_shared and (in_steps := _in_steps(a, b, kinds)):
        return in_steps
    fewer = _fewer(a, b, kinds)
    if not fewer:
        return None
    tolerance = min(_tolerance(ends[kind].ends) for kind in kinds for ends in (a, b))
    in_order = _offset_in_order(a, b, kinds)
    best: tuple[float, int, int] | None = None
    chosen: Pairs = {}
    offset = 0
    common = _peaks(_every_difference(a, b, kinds), 2 * tolerance) if is_shared else []
    for tried in dict.fromkeys([0, *([] if in_order is None else [in_order]), *common]):
        pairs = _pairs(a, b, kinds, tried, tolerance)
        if not pairs:
            continue
        far = np.abs(_distances(a, b, pairs) - tried)
        rank = (len(far) * (_ALL_THERE if tried == in_order else 1.0), -(int(np.median(far)) // 1000), -abs(tried))
        if best is None or rank > best:
            best, chosen, offset = rank, pairs, tried
    if len(kinds) > 1:
        chosen = {kind: pair for kind, pair in chosen.items() if 2 * len(pair[0]) >= _fewer(a, b, [kind])}
    apart = _distances(a, b, chosen)
    if len(apart) < max(_SHARE * fewer, min(2, fewer)) or (len(apart) == 1 and abs(int(apart[0])) > tolerance):
        return None
    middle = _middle(apart)
    spread = _middle(np.abs(apart - middle))
    close = max(_CLOSE_NS, 3 * spread)
    is_as_is = abs(middle) <= (close if is_shared else max(_CLOSE_NS, spread))
    if is_as_is and offset == in_order:
        return chosen
    if not (is_shared or is_as_is):
        return None
    least = max(2, _FEWEST * int((np.abs(apart - middle) <= close).sum()))
    others = [other for other in _peaks(_every_difference(a, b, kinds), 2 * close) if abs(other - middle) > 4 * close]
    is_alone = not any(_is_as_good(a, b, kinds, other, close, least) for other in others)
    return chosen if is_alone else None


def _fewer(a: Kinds, b: Kinds, kinds: list[Any]) -> int:
    return sum(min(len(a[kind].ends), len(b[kind].ends)) for kind in kinds)


def _is_as_good(a: Kinds, b: Kinds, kinds: list[Any], offset: int, close_ns: int, least: float) -> bool:
    """Whether nearly all ends agree closely at this offset, of those of a kind that lie where both recorded some."""
    agree = could = 0
    for kind, (mine, _) in _pairs(a, b, kinds, offset, close_ns).items():
        ends, others = a[kind].ends, b[kind].ends - offset
        first, last = max(ends[0], others[0]) - close_ns, min(ends[-1], others[-1]) + close_ns
        agree += len(mine)
        could += min(int(((each >= first) & (each <= last)).sum()) for each in (ends, others))
    return agree >= least and agree >= _AS_GOOD * could


def _in_steps(a: Kinds, b: Kinds, kinds: list[Any]) -> Pairs:
    """By order in each step that is neither the first nor the last of a rank, of which both have as many of a kind."""
    steps = [[ends[kind].steps for kind in ends] for ends in (a, b)]
    told = [np.concatenate(each) for each in steps]
    if not kinds or any(each.min() < 0 for each in told):
        return {}
    first, last = max(each.min() for each in told), min(each.max() for each in told)
    found: Pairs = {}
    for kind in kinds:
        mine, theirs = a[kind].steps, b[kind].steps
        inner = np.arange(first + 1, last)
        counts = [
            np.searchsorted(np.sort(each), inner + 1) - np.searchsorted(np.sort(each), inner) for each in (mine, theirs)
        ]
        same = inner[(counts[0] == counts[1]) & (counts[0] > 0)]
        places = [np.argsort(each, kind="stable") for each in (mine, theirs)]
        pair = [order[np.isin(each[order], same)] for order, each in zip(places, (mine, theirs), strict=True)]
        if len(pair[0]) >= _MIN_IN_STEPS:
            found[kind] = pair[0], pair[1]
    return found


def _tolerance(ends: Array) -> int:
    return min(MOST_APART_NS, int(np.median(np.diff(ends))) // _QUARTER) if len(ends) > 1 else MOST_APART_NS


def _offset_in_order(a: Kinds, b: Kinds, kinds: list[Any]) -> int | None:
    """That of plain order, of the kinds of which both have as many."""
    in_order = [b[kind].ends - a[kind].ends for kind in kinds if len(a[kind].ends) == len(b[kind].ends)]
    return _middle(np.concatenate(in_order)) if in_order else None


def _distances(a: Kinds, b: Kinds, pairs: Pairs) -> Array:
    parts = [b[kind].ends[theirs] - a[kind].ends[mine] for kind, (mine, theirs) in pairs.items()]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _peaks(differences: Array, reach_ns: int) -> list[int]:
    """The commonest differences of ends, which ascend, to so much."""
    found: list[int] = []
    reach = np.searchsorted(differences, differences + reach_ns, side="right") - np.arange(len(differences))
    for _ in range(_MOST_PEAKS):
        first = int(np.argmax(reach))
        if reach[first] <= 0:
            break
        found.append(_middle(differences[first : first + reach[first]]))
        reach[np.abs(differences - found[-1]) < 2 * reach_ns] = 0
    return found


def _every_difference(a: Kinds, b: Kinds, kinds: list[Any]) -> Array:
    return np.sort(np.concatenate([_differences(a[kind].ends, b[kind].ends) for kind in kinds]))


def _differences(a: Array, b: Array) -> Array:
    """All differences of a few; of many, those of the first and of the last."""
    if len(a) * len(b) <= _MOST_DIFFERENCES:
        return np.subtract.outer(b, a).ravel()
    few = int(_MOST_DIFFERENCES**0.5)
    return np.concatenate([_differences(a[:few], b[:few]), _differences(a[-few:], b[-few:])])


def _pairs(a: Kinds, b: Kinds, kinds: list[Any], offset: int, tolerance: int) -> Pairs:
    """Ends that are each other's nearest at this offset, and within the tolerance."""
    found = {}
    for kind in kinds:
        mine, theirs = a[kind].ends, b[kind].ends - offset
        to_b, to_a = _nearest(theirs, mine), _nearest(mine, theirs)
        mutual = (to_a[to_b] == np.arange(len(mine))) & (np.abs(theirs[to_b] - mine) <= tolerance)
        if mutual.any():
            found[kind] = np.flatnonzero(mutual), to_b[mutual]
    return found


def _nearest(among: Array, to: Array) -> Array:
    """Index in `among`, which ascends, of what is nearest to each of `to`."""
    right = np.clip(np.searchsorted(among, to), 0, len(among) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(np.abs(among[left] - to) <= np.abs(among[right] - to), left, right)


def _middle(values: Array) -> int:
    return int(np.sort(values)[(len(values) - 1) // 2])

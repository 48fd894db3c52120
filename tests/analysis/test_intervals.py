"""Interval algebra against a bitmap: one bit a nanosecond, which nobody can get wrong."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weftrace.analysis.intervals import (
    EMPTY,
    Intervals,
    covered,
    covered_before,
    difference,
    gaps,
    grouped_union,
    intersection,
    totals_by_group,
    union,
)

SIZE = 60
interval_sets = st.lists(
    st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda p: (min(p), max(p))), max_size=12
)


def of(pairs: list[tuple[int, int]]) -> Intervals:
    return union([a for a, _ in pairs], [b for _, b in pairs])


def bitmap(pairs: list[tuple[int, int]] | Intervals) -> np.ndarray:
    bits = np.zeros(SIZE + 1, bool)
    for start, end in zip(*pairs, strict=True) if isinstance(pairs, Intervals) else pairs:
        bits[start:end] = True
    return bits


def is_canonical(x: Intervals) -> bool:
    """Disjoint, in order, none empty, none touching."""
    return bool((x.starts < x.ends).all() and (x.ends[:-1] < x.starts[1:]).all())


def test_union_by_pencil() -> None:
    #  ──── ───            0-4  6-9
    #    ────      ──      2-6  11-13
    result = union([0, 6, 2, 11], [4, 9, 6, 13])
    assert result.starts.tolist() == [0, 11]
    assert result.ends.tolist() == [9, 13]
    assert result.total_ns == 11
    assert gaps(result).starts.tolist() == [9]


def test_nothing_at_all() -> None:
    assert union([], []) == EMPTY
    assert (EMPTY & EMPTY).total_ns == (EMPTY - EMPTY).total_ns == 0
    assert covered(EMPTY, [1], [5]).tolist() == [0]
    assert grouped_union([], [], [])[1].total_ns == 0


@given(interval_sets, interval_sets)
def test_algebra_agrees_with_a_bitmap(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    x, y = of(a), of(b)
    for result, bits in (
        (x, bitmap(a)),
        (x | y, bitmap(a) | bitmap(b)),
        (intersection(x, y), bitmap(a) & bitmap(b)),
        (difference(x, y), bitmap(a) & ~bitmap(b)),
    ):
        assert is_canonical(result)
        assert (bitmap(result) == bits).all()
        assert result.total_ns == bits.sum()
    assert (x & y).total_ns + (x - y).total_ns == x.total_ns


@given(interval_sets, interval_sets)
def test_covered_agrees_with_a_bitmap(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    cover = bitmap(a)
    starts, ends = [s for s, _ in b], [e for _, e in b]
    assert covered(of(a), starts, ends).tolist() == [cover[s:e].sum() for s, e in b]
    assert covered_before(of(a), list(range(SIZE + 1))).tolist() == [cover[:t].sum() for t in range(SIZE + 1)]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, SIZE), st.integers(0, SIZE)), max_size=20))
def test_grouped_union_is_the_union_of_each_group(rows: list[tuple[int, int, int]]) -> None:
    rows = [(g, min(a, b), max(a, b)) for g, a, b in rows]
    groups, starts, ends = ([row[i] for row in rows] for i in range(3))
    group, merged = grouped_union(groups, starts, ends)
    for g in range(5):
        mine = Intervals(merged.starts[group == g], merged.ends[group == g])
        assert is_canonical(mine)
        assert (bitmap(mine) == bitmap([(a, b) for h, a, b in rows if h == g])).all()
    assert totals_by_group(groups, starts, ends, 5).tolist() == [
        bitmap([(a, b) for h, a, b in rows if h == g]).sum() for g in range(5)
    ]

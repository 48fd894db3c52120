"""Medians and spreads of the timed steps, against a pencil."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flops.small_reports import TINY, UNTIMED, B, F, O
from weftrace.errors import FlopsError
from weftrace.flops.derived.module_time import Spread, spread, times_of
from weftrace.flops.values import Timing


def test_spread_by_pencil() -> None:
    assert spread([3, 1, 2]) == Spread(typical=2, median=2, lowest=1, highest=3, samples=3)
    assert spread([4, 1, 2, 8]).median == 3
    assert spread([4, 1, 2, 8]).typical == 2  # one that was measured: the lower of the middle two
    assert spread([4, 1, 2, 8], typical=3).typical == 8
    assert spread([4, 1]).median == 2  # 2.5, rounded down
    assert spread([7]).relative is None
    assert spread([8, 10, 12]).relative == pytest.approx(0.4)


def test_times_by_pencil() -> None:
    # forward, step by step: root 10 12 11 + fc1 100 110 105 + act 20 20 20 + fc2 50 60 70 = 180 202 206
    assert times_of(TINY).inclusive_samples[0, F] == (180, 202, 206)
    assert times_of(TINY).inclusive[0, F] == Spread(typical=202, median=202, lowest=180, highest=206, samples=3)
    assert times_of(TINY).exclusive[0, F].median == 11
    assert times_of(TINY).inclusive[0, B].median == 240  # 250 230 240; the root itself was not timed there
    assert (0, O) not in times_of(TINY).inclusive
    assert times_of(TINY).by_phase[F] == Spread(
        typical=207, median=207, lowest=185, highest=214, samples=3
    )  # and 5 5 8 outside
    assert list(times_of(TINY).by_phase) == [F, B, O]
    assert times_of(TINY).step == Spread(typical=490, median=490, lowest=480, highest=500, samples=3)


@given(st.lists(st.tuples(*[st.integers(1, 10**9)] * 3), min_size=1, max_size=6))
def test_typical_times_are_those_of_one_step_and_add_up(steps: list[tuple[int, int, int]]) -> None:
    """The root, fc1 and act, each with its own steps long and short: shares of any two places are of the same step."""
    columns = list(zip(*steps, strict=True))
    times = tuple(Timing(module=m, phase=F, samples_ns=column) for m, column in enumerate(columns))
    whole = tuple(map(sum, steps))
    found = times_of(replace(TINY, times=times, clock=replace(TINY.clock, step_ns=whole)))
    assert found.step is not None
    assert found.step.typical == found.inclusive[0, F].typical == found.by_phase[F].typical
    assert found.step.typical == sum(found.exclusive[m, F].typical for m in range(3))
    assert found.step.typical in whole
    assert found.step.lowest <= found.step.typical <= found.step.median


def test_nothing_timed() -> None:
    assert not times_of(UNTIMED).exclusive
    assert not times_of(UNTIMED).inclusive
    assert not times_of(UNTIMED).by_phase
    assert times_of(UNTIMED).step is None


def test_two_entries_of_one_place_are_added() -> None:
    twice = replace(TINY, times=(*TINY.times, Timing(module=1, phase=F, samples_ns=(1, 2, 3))))
    assert times_of(twice).exclusive_samples[1, F] == (101, 112, 108)


def test_modules_with_different_numbers_of_samples_are_refused() -> None:
    broken = replace(TINY, times=(*TINY.times, Timing(module=3, phase=O, samples_ns=(1, 2))))
    with pytest.raises(FlopsError, match="fc2 has 2 samples of its optimizer time and the root 3"):
        times_of(broken)


@given(st.lists(st.tuples(st.integers(0, 4), st.tuples(*[st.integers(0, 10**12)] * 4)), max_size=12))
def test_children_and_self_make_the_parent_in_every_step(entries: list[tuple[int, tuple[int, ...]]]) -> None:
    report = replace(TINY, times=tuple(Timing(module=m, phase=F, samples_ns=samples) for m, samples in entries))
    own, whole = times_of(report).exclusive_samples, times_of(report).inclusive_samples
    nothing = (0, 0, 0, 0)
    parts = [own.get((0, F), nothing), *(whole.get((child, F), nothing) for child in (1, 2, 3))]
    assert whole.get((0, F), nothing) == tuple(map(sum, zip(*parts, strict=True)))

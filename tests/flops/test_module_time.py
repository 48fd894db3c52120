"""Medians and spreads of the timed steps, against a pencil."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flops.small_reports import TINY, UNTIMED, B, F, O
from weftrace.errors import FlopsError
from weftrace.flops.derived.module_time import (
    Spread,
    exclusive_ns,
    exclusive_samples,
    inclusive_ns,
    inclusive_samples,
    phase_ns,
    spread,
    step_spread,
)
from weftrace.flops.values import Timing


def test_spread_by_pencil() -> None:
    assert spread([3, 1, 2]) == Spread(median=2, lowest=1, highest=3, samples=3)
    assert spread([4, 1, 2, 8]).median == 3
    assert spread([4, 1]).median == 2  # 2.5, rounded down
    assert spread([7]).relative is None
    assert spread([8, 10, 12]).relative == pytest.approx(0.4)


def test_times_by_pencil() -> None:
    # forward, step by step: root 10 12 11 + fc1 100 110 105 + act 20 20 20 + fc2 50 60 70 = 180 202 206
    assert inclusive_samples(TINY)[0, F] == (180, 202, 206)
    assert inclusive_ns(TINY)[0, F] == Spread(median=202, lowest=180, highest=206, samples=3)
    assert exclusive_ns(TINY)[0, F].median == 11
    assert inclusive_ns(TINY)[0, B].median == 240  # 250 230 240; the root itself was not timed there
    assert (0, O) not in inclusive_ns(TINY)
    assert phase_ns(TINY)[F] == Spread(median=207, lowest=185, highest=214, samples=3)  # and 5 5 8 outside
    assert list(phase_ns(TINY)) == [F, B, O]
    assert step_spread(TINY) == Spread(median=490, lowest=480, highest=500, samples=3)


def test_nothing_timed() -> None:
    assert not exclusive_ns(UNTIMED)
    assert not inclusive_ns(UNTIMED)
    assert not phase_ns(UNTIMED)
    assert step_spread(UNTIMED) is None


def test_two_entries_of_one_place_are_added() -> None:
    twice = replace(TINY, times=(*TINY.times, Timing(module=1, phase=F, samples_ns=(1, 2, 3))))
    assert exclusive_samples(twice)[1, F] == (101, 112, 108)


def test_modules_with_different_numbers_of_samples_are_refused() -> None:
    broken = replace(TINY, times=(*TINY.times, Timing(module=3, phase=O, samples_ns=(1, 2))))
    with pytest.raises(FlopsError, match="fc2 has 2 samples of its optimizer time and the root 3"):
        inclusive_ns(broken)


@given(st.lists(st.tuples(st.integers(0, 4), st.tuples(*[st.integers(0, 10**12)] * 4)), max_size=12))
def test_children_and_self_make_the_parent_in_every_step(entries: list[tuple[int, tuple[int, ...]]]) -> None:
    report = replace(TINY, times=tuple(Timing(module=m, phase=F, samples_ns=samples) for m, samples in entries))
    own, whole = exclusive_samples(report), inclusive_samples(report)
    nothing = (0, 0, 0, 0)
    parts = [own.get((0, F), nothing), *(whole.get((child, F), nothing) for child in (1, 2, 3))]
    assert whole.get((0, F), nothing) == tuple(map(sum, zip(*parts, strict=True)))

"""The first pair of the middle ranks runs F, then B."""

from __future__ import annotations

import pytest

from tests.pipeline.laws.many import bubbles_of, drawn
from tests.pipeline.passes.orders import apart, one_f_one_b
from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.dualpipe import dualpipe, dualpipe_v
from weftrace.pipeline.passes.middle_switch import switch_middle
from weftrace.pipeline.simulation import simulate


def test_dualpipe_without_its_switch_becomes_dualpipe() -> None:
    assert switch_middle(dualpipe(8, 20, switch=False)) == dualpipe(8, 20)
    assert switch_middle(dualpipe_v(4, 9, switch=False)) == dualpipe_v(4, 9)


def test_the_bubble_is_never_larger_for_it() -> None:
    cases = drawn(300, 11)
    switched, plain = (bubbles_of(dualpipe(6, 14, switch=each), cases)[0] for each in (True, False))
    assert (switched <= plain).all()
    assert (switched < plain).any()


def test_but_the_step_may_be_longer_where_the_pair_gains_much() -> None:
    costs = Costs.units(97.4, 111.6, 29.8, FB=129.0)
    switched, plain = (simulate(dualpipe(8, 20, switch=each), costs) for each in (True, False))
    assert switched.makespan_ns > plain.makespan_ns
    assert switched.bubble_ns < plain.bubble_ns


def test_a_pipeline_in_which_nothing_turns_is_refused() -> None:
    with pytest.raises(ScheduleError, match="no rank holds both stages in the middle, 1 and 2 of 4"):
        switch_middle(one_f_one_b(4, 8))
    with pytest.raises(ScheduleError, match="an odd number of stages, 3, has no two in the middle"):
        switch_middle(one_f_one_b(3, 8))
    with pytest.raises(ScheduleError, match="run no F&B that could be parted"):
        switch_middle(apart(dualpipe(4, 8)))

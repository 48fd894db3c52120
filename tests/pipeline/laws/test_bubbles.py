"""The exact bubbles are those of the simulation, to the unit, on thousands of random costs.

Times are whole numbers of no unit. 500 to 1,000 costs run as one plan, so the laws of all schedules take seconds.
"""

from __future__ import annotations

from itertools import compress

import numpy as np
import pytest

from tests.fuzz import few
from tests.pipeline.laws.many import bubbles_of, drawn
from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.families import FAMILIES, generate
from weftrace.pipeline.laws import bubbles
from weftrace.pipeline.laws.bubbles import Formula, Size, Times
from weftrace.pipeline.laws.by_schedule import FORMULAS
from weftrace.pipeline.simulation import simulate


def holds(formula: Formula, size: Size, times: Times) -> bool:
    return not formula.here(size, times).unmet(size, times)


def wrong(formula: Formula, size: Size, cases: list[Times], found: np.ndarray) -> list[tuple[Times, int, int]]:
    """The cases in which a formula is not what was found, with both."""
    assert all(holds(formula, size, each) for each in cases)
    given = [formula.here(size, each).of(size, each) for each in cases]
    return [(each, a, int(b)) for each, a, b in zip(cases, given, found, strict=True) if a != b]


def test_the_bubbles_of_many_costs_at_once_are_those_of_one_by_one() -> None:
    schedule, cases = generate("dualpipe", num_ranks=4, num_micro_batches=8), drawn(20, 1)
    barrier, span = bubbles_of(schedule, cases)
    for each, of_barrier, of_span in zip(cases, barrier, span, strict=True):
        costs = Costs(forward_ns=each.F, input_ns=each.I, weight_ns=each.W, overlapped_ns=each.FB)
        assert simulate(schedule, costs).bubble_ns == of_barrier
        assert simulate(schedule, costs, "span").bubble_ns == of_span


@pytest.mark.parametrize(
    ("name", "ranks", "micro_batches"),
    [
        ("dualpipe", 2, 4), ("dualpipe", 4, 8), ("dualpipe", 4, 14), ("dualpipe", 6, 12), ("dualpipe", 8, 20),
        ("dualpipe", 12, 24), ("dualpipev", 1, 3), ("dualpipev", 2, 5), ("dualpipev", 3, 6), ("dualpipev", 5, 11),
    ],
)  # fmt: skip
def test_dualpipe(name: str, ranks: int, micro_batches: int) -> None:
    schedule, cases = generate(name, num_ranks=ranks, num_micro_batches=micro_batches), drawn(500, ranks)
    size = Size(D=ranks, PP=schedule.num_stages, M=micro_batches)
    barrier, span = bubbles_of(schedule, cases)
    assert wrong(bubbles.DUALPIPE, size, cases, barrier) == []
    summary = [holds(bubbles.DUALPIPE_SPAN, size, each) for each in cases]
    assert sum(summary) > 250
    assert wrong(bubbles.DUALPIPE_SPAN, size, list(compress(cases, summary)), span[summary]) == []


@pytest.mark.parametrize("micro_batches", few([13, 12], 1))
@pytest.mark.parametrize(
    ("name", "barrier", "span"),
    [
        ("gpipe", bubbles.ENDS, bubbles.ENDS),
        ("1f1b", bubbles.ENDS, bubbles.ENDS),
        ("seq1f1b", bubbles.ENDS, bubbles.ENDS),
        ("zb1p", bubbles.ZB1P, bubbles.ZB1P_SPAN),
        ("zb2p", bubbles.ZB2P, bubbles.ZB2P_SPAN),
        ("zbv", bubbles.ZBV, bubbles.ZBV_SPAN),
        ("interleaved", bubbles.ENDS_OF_LOOPS, bubbles.ENDS_OF_LOOPS),
        ("interleaved-zb", bubbles.ZB_OF_LOOPS, bubbles.ZB_OF_LOOPS_SPAN),
        ("interleaved-fb", bubbles.ENDS_OF_PAIRS, bubbles.SPAN_OF_PAIRS),
    ],
)
def test_all_others(name: str, barrier: Formula, span: Formula, micro_batches: int) -> None:
    overlap = "max" if span is bubbles.SPAN_OF_PAIRS else "F"
    for ranks in (1, 2, 5, 6):
        schedule = generate(name, num_ranks=ranks, num_micro_batches=micro_batches)
        cases = drawn(200, ranks, overlap=overlap)
        size = Size(D=ranks, PP=schedule.num_stages, M=micro_batches)
        found = bubbles_of(schedule, cases)
        assert wrong(barrier, size, cases, found[0]) == []
        assert wrong(span, size, cases, found[1]) == []


@pytest.mark.parametrize("name", list(FAMILIES))
def test_each_law_holds_from_the_first_micro_batch_that_it_says(name: str) -> None:
    asked = 0
    for ranks, micro_batches in [(2, each) for each in range(1, 6)] + [(4, each) for each in range(1, 10)]:
        try:
            schedule = generate(name, num_ranks=ranks, num_micro_batches=micro_batches)
        except ScheduleError:
            continue
        size, cases = Size(D=ranks, PP=schedule.num_stages, M=micro_batches), drawn(16, micro_batches)
        formulas = (FORMULAS[name].barrier, FORMULAS[name].span)
        for formula, found in zip(formulas, bubbles_of(schedule, cases), strict=True):
            if formula is not None:
                summary = [holds(formula, size, each) for each in cases]
                assert wrong(formula, size, list(compress(cases, summary)), found[summary]) == []
                asked += sum(summary)
    assert asked > 30 or name.startswith("v-")


@pytest.mark.parametrize(("name", "formula"), [("v-half", bubbles.V_HALF), ("v-min", bubbles.V_MIN)])
def test_the_building_blocks_with_equal_times(name: str, formula: Formula) -> None:
    for ranks in (1, 2, 3, 4, 5, 6, 8):
        schedule = generate(name, num_ranks=ranks, num_micro_batches=2 * ranks + 1)
        cases = [Times(unit, unit, unit, 2 * unit, 3 * unit) for unit in (1, 7)]
        size = Size(D=ranks, PP=2 * ranks, M=2 * ranks + 1)
        assert wrong(formula, size, cases, bubbles_of(schedule, cases)[0]) == []


def test_where_a_law_needs_more_it_says_so_and_there_it_is_wrong() -> None:
    times = Times(3, 4, 2, 6, 9)
    for name, formula, ranks, micro_batches in (
        ("zb1p", bubbles.ZB1P, 4, 3), ("zb2p", bubbles.ZB2P, 4, 6), ("zbv", bubbles.ZBV, 4, 4),
        ("interleaved", bubbles.ENDS_OF_LOOPS, 4, 3),
    ):  # fmt: skip
        schedule = generate(name, num_ranks=ranks, num_micro_batches=micro_batches)
        size = Size(D=ranks, PP=schedule.num_stages, M=micro_batches)
        assert formula.unmet(size, times)
        assert bubbles_of(schedule, [times])[0][0] != formula.of(size, times)


def test_the_published_bubble_of_dualpipe_is_the_exact_one_only_where_input_and_forward_take_the_same() -> None:
    size, cases = Size(D=8, PP=8, M=20), drawn(1000, 7, overlap="max")
    off = []
    for each in cases:
        exact, published = bubbles.DUALPIPE.here(size, each).of(size, each), bubbles.DUALPIPE_PUBLISHED.of(size, each)
        if each.I == each.F and each.W <= each.I:
            assert exact == published
        elif 0 < each.W <= min(each.F, each.I):
            off.append(published / exact - 1)
    assert min(off) < -0.15
    assert max(off) > 0.15

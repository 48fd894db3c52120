"""Faster orders near known schedules: as fast as they are said to be, within the cap, and with no better neighbour."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

import pytest

from tests.fuzz import is_thorough
from tests.pipeline.recommend.test_search import DEEPSEEK, random_case, same_in_an_event_loop
from weftrace.errors import ScheduleError
from weftrace.pipeline import FAMILIES, Costs, Schedule, check, from_text, simulate, to_text
from weftrace.pipeline.choices.document import recommendation_report
from weftrace.pipeline.choices.recommendation import Recommendation, of, peak_bytes, recommend
from weftrace.pipeline.choices.searched import Searched
from weftrace.pipeline.comparing.comparison import chunk_costs
from weftrace.pipeline.search.local_search import Start, searched

#: Made longer here: work of no time frees what it holds at once, which the search does not count on.
TIMES = ("forward_ns", "input_ns", "weight_ns", "backward_ns", "overlapped_ns")


def asked(costs: Costs, **size: Any) -> Recommendation:
    return recommend(costs, **{"with_flips": False, "search_seconds": 600, "search_moves": 2_000, **size})


def better(found: Recommendation) -> Searched | None:
    return next((each for each in found.ranked if isinstance(each, Searched)), None)


def test_an_order_that_waits_for_nothing_is_put_right() -> None:
    """Rank 0 runs W0 before F1, for which rank 1 waits: units of 1, messages of no time.

    0: F0    I0 W0 F1    I1 W1     0: F0 F1 I0 W0 I1 W1
    1:    F0 I0 W0    F1 I1 W1     1:    F0 I0 F1 I1 W0 W1
    """
    slow = from_text("""
    rank 0: 0F0 0I0 0W0 0F1 0I1 0W1
    rank 1: 1F0 1I0 1W0 1F1 1I1 1W1
    """)
    assert simulate(slow, Costs.units()).makespan_ns == 10_000
    found, _ = searched([Start(name="slow", schedule=slow, num_parts=1, held=Fraction(1))], Costs.units(), memory_cap=2)
    assert found is not None and found.is_settled
    assert found.step_ns == simulate(found.schedule, Costs.units()).makespan_ns == 7_000
    alone, _ = searched([Start(name="slow", schedule=slow, num_parts=1, held=Fraction(1))], Costs.units())
    assert alone is None  # each rank holds one chunk: there is no other order


def test_deepseeks_costs_on_sixty_one_layers_are_searched_within_the_cap() -> None:
    size: dict[str, Any] = {"num_devices": 4, "num_micro_batches": 16, "num_layers": 13, "memory_cap": 6.0}
    size |= {"families": ["interleaved-fb:1", "interleaved-fb:2", "interleaved-fb:3", "1f1b"]}
    found = asked(DEEPSEEK, **size)
    order, listed = better(found), asked(DEEPSEEK, search_seconds=0, **size).fastest
    assert order is not None and found.search is not None and found.search.is_settled and listed is not None
    assert (
        of(order).step_ns < of(listed).step_ns and order.peak_activations <= 6 and found.bound_ns <= of(order).step_ns
    )
    again = better(asked(DEEPSEEK, **size))
    assert again is not None and again.schedule == order.schedule and again.layers == order.layers
    same_in_an_event_loop(order)
    assert order.schedule is not None and order.layers
    written = from_text(to_text(order.schedule))
    assert written == order.schedule and written.notes == (f"layers by stage: {', '.join(map(str, order.layers))}",)


def test_what_is_found_runs_so_elsewhere_and_has_no_better_neighbour() -> None:
    """Near some families each: of all swaps of two actions of a rank and moves of a layer within the cap, a sample."""
    chance = random.Random(35)
    num = 0
    while num < (500 if is_thorough() else 3):
        costs, size = random_case(chance)
        costs = replace(
            costs, **{name: 1_000 * (value + 1) for name in TIMES if (value := getattr(costs, name)) is not None}
        )
        size |= {"boundary": "barrier", "num_micro_batches": chance.choice([2, 4, 6])}
        cap = chance.choice([None, 2.0, 4.5, 9.0])
        found = asked(costs, memory_cap=cap, families=chance.sample(sorted(set(FAMILIES) - {"seq1f1b"}), 3), **size)
        order = better(found)
        if order is None:
            continue
        num += 1
        assert found.fits(order), (costs, size, cap)
        same_in_an_event_loop(order)
        assert found.search is not None and found.search.is_settled
        begun = next(each for each in found.ranked if each.title == order.found_from)
        room = begun.peak_activations if cap is None else cap
        for schedule, layers in _neighbours(found, order, chance):
            took = _step_ns(found, schedule, layers, room)
            assert took is None or took >= 0.999 * of(order).step_ns - 1, (costs, size, cap)


def _neighbours(
    found: Recommendation, order: Searched, chance: random.Random
) -> Iterator[tuple[Schedule, tuple[int, ...]]]:
    """Some swaps of two actions of a rank, and some moves of a layer; all where they are few."""
    schedule = order.schedule
    assert schedule is not None
    layers = order.layers or ((found.num_layers or 0) // schedule.num_stages,) * schedule.num_stages
    ranks = schedule.rank_N.tolist()
    swaps = [pair for pair in combinations(range(len(schedule)), 2) if ranks[pair[0]] == ranks[pair[1]]]
    for one, other in chance.sample(swaps, min(12, len(swaps))):
        rows = list(range(len(schedule)))
        rows[one], rows[other] = other, one
        yield schedule.with_actions(schedule.actions[rows]), layers
    moves = [pair for pair in permutations(range(len(layers)), 2) if layers[pair[0]] > 1]
    for giver, taker in chance.sample(moves, min(8, len(moves))):
        changed = list(layers)
        changed[giver] -= 1
        changed[taker] += 1
        yield schedule, tuple(changed)


def _step_ns(found: Recommendation, schedule: Schedule, layers: tuple[int, ...], room: float | Fraction) -> int | None:
    """None where it cannot run, or holds more."""
    try:
        check(schedule)
    except ScheduleError:
        return None
    parts = schedule.num_stages // schedule.num_ranks
    costs = chunk_costs(found.costs, schedule, layers if any(layers) else (), parts)
    share = Fraction(sum(layers), schedule.num_ranks) if any(layers) else Fraction(parts)
    pending = 0 if found.costs.pending_bytes == 0 else None
    counted = replace(
        costs, activation_bytes=layers if any(layers) else 1, weight_bytes=0, pending_bytes=pending, overlapped_ns=None
    )
    held = max(simulate(schedule, counted).ranks["peak_bytes"])
    return simulate(schedule, costs).step_ns if held <= room * share else None


def test_a_cap_in_bytes_counts_the_parameters_of_both_copies() -> None:
    """15 GiB: 5 activations beside one copy of the parameters, 3 beside two."""
    sized = replace(DEEPSEEK, activation_bytes=2 << 30, weight_bytes=4 << 30)
    found = asked(sized, num_devices=4, num_micro_batches=12, cap_bytes=15 << 30, families=["1f1b", "dualpipe"])
    order = better(found)
    assert order is not None and peak_bytes(order) <= 15 << 30 and order.parameters == 1
    same_in_an_event_loop(order)


def test_a_known_order_within_one_percent_is_named_first_and_the_report_says_what_was_tried() -> None:
    found = asked(Costs.units(), num_devices=2, num_micro_batches=80, families=["1f1b"])
    order = better(found)
    assert order is not None and found.fastest is order and found.choice is not None and found.choice.name == "1f1b"
    sentences = recommendation_report(found).sentences
    assert "would take" in sentences[0] and sentences[0].endswith("1F1B is simpler: I and W in one, a known order.")
    assert any("changes of order were tried; near it, no swap" in text for text in sentences)


@pytest.mark.parametrize("change", [{"boundary": "span"}, {"costs": Costs.units(blocking=True, latency=1)}])
def test_what_the_search_cannot_count_is_not_searched_and_the_report_says_so(change: dict[str, Any]) -> None:
    found = asked(**{"costs": Costs.units(), "num_devices": 2, "num_micro_batches": 4, **change})
    assert found.search is None and better(found) is None
    assert any("No order was searched for" in text for text in recommendation_report(found).sentences)


def test_slices_and_one_micro_batch_on_one_device_are_no_trouble() -> None:
    assert better(asked(Costs.units(), num_devices=1, num_micro_batches=1)) is None
    found = asked(Costs.units(), num_devices=4, num_micro_batches=8, families=["seq1f1b"])
    assert found.search is not None and better(found) is None

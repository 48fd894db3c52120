"""What holds for every size: any ranks, micro-batches and options, also fewer micro-batches than stages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.pipeline import Costs, Schedule, check, simulate
from weftrace.pipeline.costs import UNIT_NS
from weftrace.pipeline.generators.families import FAMILIES, Family, generate
from weftrace.pipeline.generators.looped import interleaved, interleaved_zb
from weftrace.pipeline.generators.one_stage import gpipe, one_f_one_b, zb1p, zb2p
from weftrace.pipeline.generators.sliced import seq1f1b
from weftrace.pipeline.generators.v_shape import v_half, v_min, zbv

RANKS, MICRO_BATCHES = st.integers(1, 13), st.integers(1, 40)
#: Those whose own tests are about other numbers: pairs of directions, even counts.
ANY_SIZE = [family for family in FAMILIES.values() if family.replicas == 1 and not family.overlaps]


@pytest.mark.parametrize("family", ANY_SIZE, ids=lambda family: family.name)
@settings(max_examples=examples(12), deadline=None)
@given(ranks=RANKS, micro_batches=MICRO_BATCHES, option=st.integers(2, 4))
def test_every_schedule_can_run_and_does_all_the_work_once(
    family: Family, ranks: int, micro_batches: int, option: int
) -> None:
    options = dict.fromkeys(family.options, option)
    options |= {"group_size": ranks + option} if "group_size" in options else {}
    schedule = family.make(ranks, micro_batches, **options)
    check(schedule)
    stages = schedule.num_stages
    assert stages == ranks * (option if "stages_per_rank" in family.options else family.stages_per_rank)
    assert len(schedule) == stages * schedule.num_micro_batches * (3 if family.splits else 2)
    assert schedule.num_ranks == ranks
    assert (schedule.actions["kind"] == "I").any() == family.splits


@pytest.mark.parametrize("make", [gpipe, one_f_one_b, zb1p, interleaved, seq1f1b])
@settings(max_examples=examples(12), deadline=None)
@given(ranks=st.integers(1, 9), more=st.integers(0, 20), costs=st.tuples(*[st.integers(1, 30)] * 3))
def test_bubbles_are_the_laws_for_any_costs_from_as_many_micro_batches_as_ranks_on(
    make: Callable[[int, int], Schedule], ranks: int, more: int, costs: tuple[int, int, int]
) -> None:
    forward, back, weight = costs
    filled = min(costs) if make is zb1p else -weight  # ZB1P: F + I - min(W, F, I); others: F + B
    found = simulate(make(ranks, ranks + more), Costs.units(*costs))
    assert found.bubble_ns == (ranks - 1) * (forward + back - filled) * UNIT_NS


@settings(max_examples=examples(8), deadline=None)
@given(ranks=st.integers(3, 20), more=st.integers(0, 20), option=st.integers(2, 4))
def test_bubbles_at_equal_times_do_not_depend_on_the_number_of_micro_batches(
    ranks: int, more: int, option: int
) -> None:
    many = ranks + more
    fills = 2 * ranks + more  # ZB2P and ZBV run that many ahead
    half, third = (7, 4)[ranks % 2], (7, 5, 5)[ranks % 3]
    for schedule, bubble in (
        (v_half(ranks, many), 3 * ranks - half),
        (v_min(ranks, many), 4 * ranks - third),
        (interleaved_zb(ranks, many, option), ranks - 1),
        (seq1f1b(ranks, many, option), 3 * (ranks - 1)),
        (zb2p(ranks, fills), ranks - 1),
        (zbv(ranks, fills), ranks - 1),
    ):
        assert set(simulate(schedule, Costs.units()).ranks["idle_ns"]) == {bubble * UNIT_NS}
    for make in (zb2p, zbv):
        assert simulate(make(ranks, fills), Costs.units(), "span").bubble_ns == 0


def held(schedule: Schedule) -> list[int]:
    return simulate(schedule, Costs.units()).ranks["peak_activations"].to_list()


@settings(max_examples=examples(8), deadline=None)
@given(ranks=st.integers(1, 16), micro_batches=MICRO_BATCHES, option=st.integers(2, 4))
def test_no_rank_holds_more_than_is_said(ranks: int, micro_batches: int, option: int) -> None:
    rank = range(ranks)
    assert held(gpipe(ranks, micro_batches)) == [micro_batches] * ranks
    assert held(one_f_one_b(ranks, micro_batches)) == [min(ranks - r, micro_batches) for r in rank]
    assert held(zb1p(ranks, micro_batches)) == [min(ranks, micro_batches)] * ranks
    assert held(zb2p(ranks, micro_batches)) == [min(2 * ranks, micro_batches)] * ranks
    slices = option * micro_batches
    assert held(seq1f1b(ranks, micro_batches, option)) == [min(ranks - r + option - 1, slices) for r in rank]
    longest = -(-micro_batches // max(1, micro_batches // ranks))
    early = [(option - 1) * longest + 2 * (ranks - 1 - r) + 1 for r in rank]
    chunks = option * micro_batches
    assert held(interleaved(ranks, micro_batches, option)) == [min(many, chunks) for many in early]
    assert held(interleaved_zb(ranks, micro_batches, option)) == [min((option - 1) * longest + ranks, chunks)] * ranks
    for make, cap in ((zbv, 2 * ranks), (v_half, 2 * (ranks // 2 + 1)), (v_min, 2 * ((ranks + 1) // 3 + 1))):
        peaks = held(make(ranks, micro_batches))
        assert max(peaks) <= cap
        assert max(peaks) == cap or micro_batches < ranks


def test_a_thousand_ranks_take_seconds() -> None:
    """No object an action: 12.6 million actions are columns. Their number is checked here, the time in `make bench`."""
    schedule = generate("zb1p", num_stages=1024, num_micro_batches=512)
    assert len(schedule) == 3 * 1024 * 512
    assert schedule.on_rank(0).row(0) == (0, "F", 0, 0, None, None, False)

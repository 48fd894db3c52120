"""The laws of a schedule, published and exact side by side, each with its verdict."""

from __future__ import annotations

from itertools import product

import pytest

from tests.fuzz import few
from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.dualpipe import dualpipe
from weftrace.pipeline.generators.families import FAMILIES, generate
from weftrace.pipeline.laws.by_schedule import laws_of
from weftrace.pipeline.passes.weight_placement import most_held
from weftrace.pipeline.simulation import Boundary, simulate

#: F = I = W = 1: exact bubble and peak on 4, 8 and 16 devices, 2 D micro-batches, in chunks of the schedule. Published
#: numbers, where there are some.
GOLDEN = {
    "1f1b": ((9, 21, 45), (4, 8, 16)),
    "interleaved": ((9, 21, 45), (11, 23, 47)),
    "zb1p": ((3, 7, 15), (4, 8, 16)),
    "zb2p": ((3, 7, 15), (8, 16, 32)),
    "zbv": ((3, 7, 15), (8, 16, 32)),
    "v-half": ((5, 17, 41), (6, 10, 18)),
    "v-min": ((11, 27, 59), (4, 8, 12)),
    "interleaved-zb": ((3, 7, 15), (8, 16, 32)),
    "dualpipe": ((2, 6, 14), (5, 9, 17)),
    "dualpipev": ((6, 14, 30), (9, 17, 33)),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_with_equal_times_the_laws_are_the_golden_numbers(name: str) -> None:
    for devices, bubble, peak in zip((4, 8, 16), *GOLDEN[name], strict=True):
        law = laws_of(name, num_ranks=devices, num_micro_batches=2 * devices, costs=Costs.units())
        assert law.exact is not None
        assert (law.exact.value, law.exact.holds) == (bubble * 1000, True)
        assert law.peak_activations.value == peak
        assert law.devices == devices


@pytest.mark.parametrize(("name", "boundary"), few(product(FAMILIES, ("barrier", "span")), 14))
def test_where_a_law_says_that_it_holds_the_simulation_agrees(name: str, boundary: Boundary) -> None:
    for costs in (Costs.units(), Costs.units(2, 3, 1, FB=5), Costs.units(1, 1, 3), Costs.units(3, 2, 2, latency=0.5)):
        for devices, micro_batches in ((2, 4), (4, 6), (4, 12), (6, 14)):
            try:
                schedule = generate(name, num_ranks=devices, num_micro_batches=micro_batches)
            except ScheduleError:
                continue
            law = laws_of(name, num_ranks=devices, num_micro_batches=micro_batches, costs=costs, boundary=boundary)
            run = simulate(schedule, costs, boundary)
            for claim in (law.exact, law.published):
                if claim is not None and claim.holds:
                    assert claim.value == run.bubble_ns
                assert claim is None or claim.holds != bool(claim.because)
            if law.published is not None and law.exact is not None and law.exact.holds:
                assert law.published.holds == (law.published.value == run.bubble_ns)
            assert law.peak_activations.value == most_held(schedule)
            assert law.stages_per_device == schedule.num_stages * schedule.num_replicas // schedule.num_ranks


def test_the_published_table_and_what_its_rows_need() -> None:
    costs = Costs.units(F=1, I=2, W=1)
    published = {name: laws_of(name, num_stages=8, num_micro_batches=20, costs=costs) for name in GOLDEN}
    one, zero, dual, along_v = (published[name] for name in ("1f1b", "zb1p", "dualpipe", "dualpipev"))
    table = [(law.published.formula, law.published.value) for law in (one, zero, dual, along_v) if law.published]
    assert table == [
        ("(PP - 1)(F + B)", 28_000), ("(PP - 1)(F + B - 2W)", 14_000), ("(PP/2 - 1)(F&B + B - 3W)", 12_000),
        ("(PP/2 - 1)(F&B + B - 3W)", 12_000),
    ]  # fmt: skip
    assert [(law.stages_per_device, law.devices) for law in (one, zero, dual, along_v)] == [
        (1, 8),
        (1, 8),
        (2, 8),
        (2, 4),
    ]
    assert dual.published is not None
    assert dual.exact is not None
    assert dual.published.because == "it needs I = F and W ≤ I, and here I = 2, F = 1, W = 1"
    assert (dual.exact.value, dual.exact.holds) == (11_000, True)


def test_deepseeks_costs_whose_f_and_b_is_shorter_than_b_alone() -> None:
    costs = Costs.units(97.4, 111.6, 29.8, FB=129.0)
    law = laws_of("dualpipe", num_stages=8, num_micro_batches=32, costs=costs)
    run = simulate(generate("dualpipe", num_stages=8, num_micro_batches=32), costs)
    assert law.exact is not None
    assert law.published is not None
    assert (law.exact.value, law.exact.holds) == (574_800, True)
    assert run.bubble_ns == 574_800
    assert law.published.value == 543_000


def test_dualpipe_without_its_switch_has_no_law() -> None:
    law = laws_of("dualpipe", num_stages=4, num_micro_batches=8, costs=Costs.units(1, 3), switch=False)
    assert law.exact is not None
    assert law.exact.because.startswith("it is for middle ranks that run their first pair one after the other")
    assert simulate(dualpipe(4, 8, switch=False), Costs.units(1, 3)).bubble_ns > (law.exact.value or 0)


def test_zero_is_meant_without_a_barrier() -> None:
    costs = Costs.units()
    with_barrier = laws_of("zbv", num_ranks=4, num_micro_batches=12, costs=costs).published
    span = laws_of("zbv", num_ranks=4, num_micro_batches=12, costs=costs, boundary="span").published
    assert with_barrier is not None
    assert span is not None
    assert with_barrier.because.startswith("it is meant with each rank's own span")
    assert (span.value, span.holds) == (0, True)


@pytest.mark.parametrize(
    ("costs", "value", "because"),
    [
        (Costs(forward_ns=(1, 2, 3, 4), input_ns=1, weight_ns=1), None, "it is for stages that cost the same on every"),
        (
            Costs(forward_ns=1, input_ns=1, weight_ns=1, rank_factor=(1, 1, 2, 1)),
            None,
            "it is for stages that cost the",
        ),
        (Costs(forward_ns=1, input_ns=1, weight_ns=1, latency_ns=1), 9, "it is for messages that cost nothing"),
        (Costs(forward_ns=(3, 3, 3, 3), input_ns=2, weight_ns=1, rank_factor=2.0), 36, ""),
        (Costs(forward_ns=3, input_ns=2, weight_ns=1, backward_ns=4), 21, ""),
    ],
)
def test_costs_that_the_laws_leave_out_are_told(costs: Costs, value: int | None, because: str) -> None:
    law = laws_of("1f1b", num_stages=4, num_micro_batches=8, costs=costs)
    assert law.exact is not None
    assert (law.exact.value, law.exact.holds) == (value, not because)
    assert law.exact.because.startswith(because)


def test_what_is_no_schedule_or_boundary_is_refused() -> None:
    with pytest.raises(ScheduleError, match="there is no schedule 'dual'"):
        laws_of("dual", num_stages=4, num_micro_batches=8, costs=Costs.units())
    with pytest.raises(ScheduleError, match="boundary = 'step'"):
        laws_of("1f1b", num_stages=4, num_micro_batches=8, costs=Costs.units(), boundary="step")  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="say on how many ranks"):
        laws_of("1f1b", num_micro_batches=8, costs=Costs.units())

"""Several stages per device, layers that stages have of a model, the simpler of two as good, and a bound for all."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.fuzz import is_thorough
from tests.pipeline.event_loop import EventLoop, held
from weftrace.errors import ScheduleError
from weftrace.pipeline import Costs
from weftrace.pipeline.choices.document import recommendation_report
from weftrace.pipeline.choices.recommendation import of, recommend
from weftrace.pipeline.comparing.comparison import Candidate, candidates, compare
from weftrace.pipeline.comparing.document import comparison_document, comparison_of
from weftrace.pipeline.comparing.lower_bound import lower_bound_ns

DEEPSEEK = Costs(
    forward_ns=97_400_000, input_ns=111_600_000, weight_ns=29_800_000, overlapped_ns=129_000_000, activation_bytes=1
)
LARGE: dict[str, Any] = {"num_devices": 16, "num_micro_batches": 64}


def test_four_stages_a_device_are_the_choice_where_sixteen_devices_have_room_for_twenty_chunks() -> None:
    found = recommend(DEEPSEEK, **LARGE, num_layers=64, memory_cap=20, with_flips=False)
    assert found.choice is not None and found.choice.name == "interleaved-fb:4"
    assert round(of(found.choice).step_ns / 1e6) == 10_543 and found.choice.peak_activations == 20
    second = found.runner_up
    assert second is not None and second.name == "dualpipe+w" and round(of(second).step_ns / 1e6) == 11_250
    own = next(each for each in found.ranked if each.name == "dualpipe")
    assert round(of(own).step_ns / 1e6) == 11_466 and second.peak_activations <= own.peak_activations
    report = recommendation_report(found)
    assert report.sentences[0] == (
        "No schedule of stages of 64 layers can take less than 9.91 s here; the choice takes 6.4 % more."
    )
    row = next(row for row in report.rows if row.name == report.choice)
    assert (row.num_stages, row.layers, report.num_layers) == (64, "", 64)
    assert max(each.num_stages for each in report.rows) == 64


def test_a_simpler_schedule_within_one_percent_is_named_first() -> None:
    """Six stages per device take 0.9 % longer than eight."""
    found = recommend(DEEPSEEK, **LARGE, memory_cap=20, with_flips=False)
    assert found.choice is not None and found.fastest is not None
    assert (found.choice.name, found.fastest.name) == ("interleaved-fb:6", "interleaved-fb:8")
    assert recommendation_report(found).sentences[0] == (
        "Interleaved F&B with 8 stages per device would take 10.3 s, 0.9 % less, at 18 chunk activations; interleaved "
        "F&B with 6 stages per device is simpler: 6 stages per device instead of 8."
    )
    for each in found.ranked:
        near = found.fits(each) and found.may_be_chosen(each) and of(each).step_ns <= of(found.fastest).step_ns * 1.01
        assert not (near and each.is_simpler(found.choice))


def test_layers_that_are_no_multiple_of_the_stages_make_some_stages_larger() -> None:
    """61 layers on 4 devices. One stage per device: 15, 15, 15, 16 or 16, 15, 15, 15; the slowest decides."""
    units = Costs.units(F=4, I=4, W=4)  # of 15.25 layers
    whole = candidates(units, num_devices=4, num_micro_batches=8, num_layers=61)
    found = {each.name: each for each in whole}
    one = found["1f1b"]
    assert sorted(one.layers) == [15, 15, 15, 16] and one.split in ("3 of 15, 1 of 16", "1 of 16, 3 of 15")
    layer = 4_000 / 15.25
    assert one.simulation is not None and one.simulation.makespan_ns > 8 * 3 * 16 * layer
    seven = found["interleaved:7"]
    assert sorted(seven.layers) == [2] * 23 + [3] * 5 and seven.split == "20 of 2, 5 of 3, 3 of 2"
    held = {each.name: float(each.peak_activations) for each in whole if each.simulation}
    equal = {each.name: float(each.peak_activations) for each in candidates(units, num_devices=4, num_micro_batches=8)}
    assert all(held[name] == pytest.approx(equal[name], rel=0.2) for name in held if not name.endswith("fit"))


def test_stages_are_no_more_than_layers() -> None:
    found = candidates(Costs.units(), num_devices=4, num_micro_batches=8, num_layers=7)
    reasons = {each.name: each.reason for each in found if each.simulation is None}
    assert reasons["zbv"] == "ZBV: 8 stages are more than the 7 layers."
    assert not any(":" in each.name for each in found if each.variant.stages_per_rank not in (None, 1))
    with pytest.raises(ScheduleError, match="num_layers = 2,000"):
        candidates(Costs.units(), num_devices=4, num_micro_batches=8, num_layers=2_000)


def test_a_number_of_stages_can_be_named_and_is_saved() -> None:
    names = ["interleaved-fb:3", "interleaved:2", "1f1b"]
    compared = compare(Costs.units(FB=2), num_devices=4, num_micro_batches=8, num_layers=13, families=names)
    document = comparison_document(compared)
    assert {row["name"] for row in document["rows"]} == {"interleaved-fb:3", "interleaved", "1f1b"}
    assert comparison_document(comparison_of(document)) == document
    (one,) = candidates(Costs.units(), num_devices=4, num_micro_batches=8, families=["interleaved:1"])
    assert "twice or more" in one.reason
    for wrong in ("zbv:3", "interleaved:x"):
        with pytest.raises(ScheduleError, match="a number of stages on a device"):
            candidates(Costs.units(), num_devices=4, num_micro_batches=8, families=[wrong])


def test_on_equal_stages_each_family_has_its_own_number_on_a_device() -> None:
    found = compare(Costs.units(), num_stages=8, num_micro_batches=16)
    assert not any(":" in each.name for each in found.candidates if not each.needs)


def test_nothing_is_faster_than_the_bound() -> None:
    """Each schedule, with what it holds itself as the cap."""
    chance = random.Random(33)
    closest, num = 0.0, 0
    while num < (6_000 if is_thorough() else 150):
        costs, size = random_case(chance)
        for each in candidates(costs, **size):
            if each.simulation is None or each.needs:
                continue
            num += 1
            step_ns = each.simulation.step_ns
            in_chunks = lower_bound_ns(costs, **size, memory_cap=float(each.peak_activations))
            in_bytes = lower_bound_ns(costs, **size, cap_bytes=max(each.simulation.ranks["peak_bytes"]))
            assert max(in_chunks, in_bytes) <= step_ns, (costs, size, each.name)
            closest = max(closest, in_chunks / step_ns if step_ns else 0)
    assert closest > 0.9


def test_recommended_schedules_run_so_in_a_simulator_of_another_make() -> None:
    chance = random.Random(34)
    num = 0
    while num < (500 if is_thorough() else 6):
        costs, size = random_case(chance)
        size["num_micro_batches"] = chance.choice([1, 2, 4, 6])
        cap = chance.choice([None, 2.0, 4.5, 9.0])
        found = recommend(costs, **size, memory_cap=cap, with_flips=False)
        if found.choice is not None:
            num += 1
            same_in_an_event_loop(found.choice)


def same_in_an_event_loop(choice: Candidate) -> None:
    """Makespan, what each rank idles and holds."""
    run = of(choice)
    ran = EventLoop(run.schedule, run.costs).run()
    assert run.makespan_ns == max(end for _, end in ran.times)
    ranks = run.schedule.rank_N.tolist()
    idle, peaks = [], []
    for rank in range(run.schedule.num_ranks):
        own = [times for times, at in zip(ran.times, ranks, strict=True) if at == rank]
        began, ended = (0, run.makespan_ns) if run.boundary == "barrier" else (own[0][0], own[-1][1])
        idle.append(ended - began - sum(end - start for start, end in own))
        peaks.append(held(run.schedule, run.costs, ran, rank)[1])
    assert run.bubble_ns == max(idle) and run.ranks["peak_activations"].to_list() == peaks


def random_case(chance: random.Random) -> tuple[Costs, dict[str, Any]]:
    """Costs of a share, and devices, micro-batches, layers and the boundary."""
    devices = chance.choice([1, 2, 3, 4, 6])
    forward, gradient, weight = (chance.choice([0, 1, chance.randint(1, 3_000)]) for _ in range(3))
    forward += not forward + gradient + weight
    whole = forward + gradient + weight
    costs = Costs(
        forward_ns=forward,
        input_ns=gradient,
        weight_ns=weight,
        overlapped_ns=chance.choice([None, whole, max(forward, gradient + weight), chance.randint(0, whole)]),
        latency_ns=chance.choice([0, 0, 50, 900]),
        backward_ns=chance.choice([None, None, chance.randint(0, gradient + weight)]),
        activation_bytes=chance.choice([1, 1_000]),
        weight_bytes=chance.choice([0, 500]),
        pending_bytes=chance.choice([None, 0]),
    )
    if chance.random() < 0.3:
        slower: list[Any] = [1.5, tuple(chance.choice([1.0, 2.0]) for _ in range(devices))]
        costs = replace(costs, rank_factor=chance.choice(slower))
    size: dict[str, Any] = {
        "num_devices": devices,
        "num_micro_batches": chance.choice([1, 2, 3, 5, 8, 16]),
        "num_layers": chance.choice([None, devices, 2 * devices, 3 * devices + 1, 5 * devices + 2, 61]),
        "boundary": chance.choice(["barrier", "barrier", "span"]),
    }
    return costs, size

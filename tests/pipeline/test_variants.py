"""Forms of families: stages, groups, slices and orders that passes make, each by its name; none that is no better."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest

from weftrace.errors import ScheduleError
from weftrace.pipeline import Candidate, Costs, candidates, check, compare, simulate
from weftrace.pipeline.comparing.document import comparison_document, comparison_of
from weftrace.pipeline.comparing.splits import chunk_costs, quickest_split
from weftrace.pipeline.comparing.variants import variant_of
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.generators.looped import interleaved, round_lengths

DEEPSEEK = Costs(
    forward_ns=97_400, input_ns=111_600, weight_ns=29_800, overlapped_ns=129_000, activation_bytes=1, latency_ns=2_000
)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("zbv", "ZBV"),
        ("zbv+fit", "fitted ZBV"),
        ("dualpipe+w", "DualPipe with placed W"),
        ("interleaved-fb:4:g24", "interleaved F&B with 4 stages per device in groups of 24"),
        ("interleaved:g9", "interleaved 1F1B in groups of 9"),
        ("seq1f1b:8", "Seq1F1B with 8 slices"),
    ],
)
def test_each_form_is_known_by_its_name(name: str, title: str) -> None:
    assert (variant_of(name).name, variant_of(name).title) == (name, title)


@pytest.mark.parametrize("wrong", ["zbv:3", "interleaved:x", "1f1b:g4", "zbv+fast", "interleaved-fb:4:4", "zbv+", ""])
def test_what_is_no_form_is_refused(wrong: str) -> None:
    with pytest.raises(ScheduleError, match=r"a number of stages on a device|there is no schedule"):
        candidates(Costs.units(), num_devices=4, num_micro_batches=8, families=[wrong])


def plain(name: str) -> str:
    """The form with the usual group and slices, and its own order."""
    return re.sub(r"(?<=seq1f1b):.*|:g\d+|\+.*", "", name)


def takes(each: Candidate) -> tuple[float, ...]:
    assert each.outcome is not None
    return each.outcome.step_ns, float(each.peak_activations), float(each.parameters)


def test_groups_slices_and_orders_are_there_where_they_are_better_and_only_there() -> None:
    found = [each for each in candidates(DEEPSEEK, num_devices=4, num_micro_batches=24) if each.simulation]
    extra = [each for each in found if each.variant.is_extra or each.variant.change]
    assert {"dualpipe+w", "seq1f1b:16"} <= {each.name for each in extra}
    assert any(each.variant.change == "fit" for each in extra)
    for one, other in combinations(extra, 2):
        better = all(mine <= theirs for mine, theirs in zip(takes(one), takes(other), strict=True))
        assert not better or one.needs, (one.name, other.name)
    for each in extra:
        assert each.schedule is not None and (each.law is None or each.needs)
        check(each.schedule)
        own = next(other for other in found if other.name == variant_of(plain(each.name)).name)
        assert takes(each)[0] < takes(own)[0] or each.peak_activations < own.peak_activations


def test_a_comparison_with_all_forms_is_saved_and_read() -> None:
    size: dict[str, Any] = {"num_devices": 3, "num_micro_batches": 9, "num_layers": 14, "memory_cap": 5}
    document = comparison_document(compare(DEEPSEEK, **size))
    assert any("+" in row["name"] for row in document["rows"])
    able = {row["name"]: row["step_ns"] for row in document["rows"] if row["fits"] and not row["needs"]}
    assert document["choice"] in able and 0 < document["bound_ns"] <= min(able.values())
    assert comparison_document(comparison_of(document)) == document


def test_a_longer_group_gives_messages_time() -> None:
    """4 ranks, 2 stages each: a micro-batch is round after 4 F and 4 messages, when a group of 4 is done before."""
    costs = Costs.units(latency=0.25)
    assert (round_lengths(4, 24), round_lengths(4, 24, 6)) == ([4] * 6, [6] * 4)
    plain, grouped = interleaved(4, 24), interleaved(4, 24, group_size=6)
    assert simulate(grouped, costs).makespan_ns < simulate(plain, costs).makespan_ns
    assert simulate(grouped, Costs.units()).makespan_ns == simulate(plain, Costs.units()).makespan_ns
    assert max(simulate(grouped, costs).ranks["peak_activations"]) == 11 + 2  # (V - 1)(g - D) more
    check(interleaved(4, 25, 3, group_size=7))


def test_what_is_too_large_to_be_tried_is_told() -> None:
    found = candidates(Costs.units(), num_devices=256, num_micro_batches=1_024, families=["interleaved-fb"])
    (left_out,) = (each for each in found if each.simulation is None)
    assert left_out.reason == (
        "interleaved F&B with 4 stages per device and others are not tried: with them, interleaved F&B has over "
        "2,000,000 chunks. Name the one you want: interleaved-fb:4."
    )


def test_whole_turns_of_larger_stages_overlap_with_each_other() -> None:
    """64 layers on 48 stages of 16 devices: with two layers on stages 16 to 31, each device has 4 layers."""
    schedule = generate("interleaved-fb", num_ranks=16, num_micro_batches=32, stages_per_rank=3)
    layers = quickest_split(schedule, DEEPSEEK, 64, 3, "barrier")
    assert layers == (1,) * 16 + (2,) * 16 + (1,) * 16
    at_first = (2,) * 16 + (1,) * 32
    steps = [simulate(schedule, chunk_costs(DEEPSEEK, schedule, each, 3)).step_ns for each in (layers, at_first)]
    assert steps[0] < 0.98 * steps[1]

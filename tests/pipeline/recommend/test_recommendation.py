"""Which schedule to use at equal devices, and which change of cost flips that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weftrace.errors import ScheduleError
from weftrace.pipeline import Costs
from weftrace.pipeline.choices.document import RecommendationReport, recommendation_report
from weftrace.pipeline.choices.recommendation import Recommendation, of, recommend
from weftrace.pipeline.measured.sourced_costs import SourcedCosts, costs_of_trace
from weftrace.trace import read

#: DeepSeek's, as its profile gives them, rounded to 0.1 ms.
DEEPSEEK = Costs(
    forward_ns=97_400_000, input_ns=111_600_000, weight_ns=29_800_000, overlapped_ns=129_000_000, activation_bytes=1
)


def asked(**change: object) -> Recommendation:
    """Of a model of two layers a device, so that no schedule has more than two stages on one."""
    given: dict[str, Any] = {"costs": DEEPSEEK, "num_devices": 8, "num_micro_batches": 32, **change}
    layers = 2 * max(1, given["num_devices"])
    return recommend(**{"num_layers": layers, **given})


def document(found: Recommendation) -> RecommendationReport:
    return recommendation_report(found, SourcedCosts(costs=found.costs, basis="given"))


@pytest.fixture(scope="module")
def deepseek() -> Recommendation:
    return asked()


def test_deepseeks_costs_on_eight_devices_give_the_published_order(deepseek: Recommendation) -> None:
    summary = {each.name: (of(each).step_ns / 1e6, each.peak_activations) for each in deepseek.ranked}
    published = {"interleaved-fb": (5502, 12), "dualpipe": (5692, 9), "dualpipev": (5734, 8.5), "zbv": (8216, 8),
                 "1f1b": (9315, 8)}  # fmt: skip
    for name, (step_ms, held) in published.items():
        assert summary[name][0] == pytest.approx(step_ms, rel=3e-4)  # its costs were not rounded as ours are
        assert summary[name][1] == held
    assert deepseek.choice is not None and deepseek.choice.family.name == "interleaved-fb"
    assert list(summary)[:5] == ["interleaved-fb", "dualpipe+w", "dualpipev+w", "dualpipe", "dualpipev"]
    parameters = {each.name: each.parameters for each in deepseek.ranked}
    assert {name: held for name, held in parameters.items() if held != 1} == {"dualpipe": 2, "dualpipe+w": 2}


def test_the_front_holds_less_than_every_faster_one(deepseek: Recommendation) -> None:
    front = [(of(each).step_ns, each.peak_activations) for each in deepseek.front]
    assert front == sorted(front) and [held for _, held in front] == sorted((h for _, h in front), reverse=True)
    for each in deepseek.ranked:
        beaten = any(time < of(each).step_ns and held <= each.peak_activations for time, held in front)
        assert beaten != any(each is other for other in deepseek.front) or not deepseek.may_be_chosen(each)


@pytest.mark.parametrize(
    ("cap", "choice"),
    [(12, "interleaved-fb"), (11.9, "dualpipe+w"), (9, "dualpipe+w"), (8.5, "dualpipev+w"), (8, "zbv")],
)
def test_a_cap_takes_the_fastest_that_fits_or_a_simpler_one_as_good(cap: float, choice: str) -> None:
    """Placing W saves 3.0 % of DualPipe, which has two copies of the parameters, and 1.9 % of DualPipeV."""
    found = asked(memory_cap=cap, with_flips=False)
    assert found.choice is not None and found.choice.name == choice
    assert {each.name for each in document(found).rows if not each.fits} == {
        each.name for each in found.ranked if each.peak_activations > cap
    }


def test_a_cap_that_nothing_fits_says_what_the_least_would_be() -> None:
    found = asked(memory_cap=0.5, with_flips=False)
    assert found.choice is None and found.flips is None
    assert document(found).headline == (
        "With a barrier at the step's end, no schedule is within the cap of 0.5 chunk activations: the least is "
        "fitted V-Min's, 4 chunk activations."
    )


def winner(costs: Costs) -> str:
    found = asked(costs=costs, with_flips=False, families=["interleaved-fb", "dualpipe", "dualpipev", "zbv"])
    assert found.choice is not None
    return found.choice.name


def test_flips_are_exact_to_the_hundredth_that_is_printed(deepseek: Recommendation) -> None:
    whole, backward = 238_800_000, 141_400_000
    changes = {
        "overlapped": lambda at: replace(DEEPSEEK, overlapped_ns=round(whole * at / 100)),
        "weight": lambda at: replace(
            DEEPSEEK, weight_ns=(w := round(backward * at / 100)), input_ns=backward - w, backward_ns=None
        ),
        "latency": lambda at: replace(DEEPSEEK, latency_ns=round(97_400_000 * at / 100)),
    }
    assert {flip.factor for flip in deepseek.flips or ()} == set(changes)
    for flip in deepseek.flips or ():
        before = flip.at - 1 if flip.at > flip.now else flip.at + 1
        found = winner(changes[flip.factor](flip.at))  # among which are orders that are no better today
        assert found.partition("+")[0] == flip.winner.partition("+")[0] != "interleaved-fb"
        assert winner(changes[flip.factor](before)) == "interleaved-fb"


def test_the_headline_names_the_choice_by_how_much_against_what_and_the_boundary(deepseek: Recommendation) -> None:
    summary = document(deepseek)
    assert summary.headline == (
        "With a barrier at the step's end, interleaved F&B takes 5.50 s a step, 0.3 % less than DualPipe with placed W "
        "(the next best, 5.52 s), and 40.9 % less than 1F1B (9.31 s); a device holds 12 chunk activations."
    )
    assert summary.sentences[:3] == (
        "If a message between ranks needed more than 0.02 F (1.95 ms; 0.00 now) on its way, DualPipe with placed W "
        "would be the choice.",
        "If W were more than 0.32 of B (0.21 now), DualPipe with placed W would be the choice.",
        "If F&B took more than 0.95 of F + B (0.54 now), ZBV would be the choice.",
    )


def test_a_span_is_named_and_counts_each_ranks_own_step() -> None:
    found = asked(costs=Costs.units(), boundary="span", with_flips=False)
    assert document(found).headline.startswith("With each rank's own span as its step, ")
    assert all(of(each).step_ns <= of(each).makespan_ns for each in found.ranked)


def test_numbers_that_a_schedule_is_impossible_with_are_explained() -> None:
    found = asked(num_devices=5, num_micro_batches=7, with_flips=False)
    reasons = {each.family.name: each.reason for each in found.impossible}
    assert "dualpipe" in reasons and "even" in reasons["dualpipe"]
    assert "7 micro-batches cannot fill 5 ranks" in reasons["dualpipev"]
    assert document(found).impossible and found.choice is not None
    none = document(asked(num_devices=4, num_micro_batches=4, num_layers=3, with_flips=False)).headline
    assert none == "No schedule can be made for these numbers. GPipe: 4 stages are more than the 3 layers."


def test_slices_are_ranked_but_chosen_only_where_they_are_asked_for() -> None:
    units = Costs.units()
    found = asked(costs=units, with_flips=False, memory_cap=3)
    assert found.choice is None and any(found.fits(each) for each in found.ranked)
    by_name = asked(costs=units, with_flips=False, families=["seq1f1b", "1f1b"])
    assert by_name.choice is not None and by_name.choice.family.name == "seq1f1b"
    (row,) = (row for row in document(found).rows if row.name == "seq1f1b")
    assert "keys and values" in row.needs


def test_a_cap_in_bytes_counts_parameters_and_needs_sizes() -> None:
    sized = replace(DEEPSEEK, activation_bytes=100, weight_bytes=1_000)
    found = asked(costs=sized, cap_bytes=1_900, with_flips=False)
    assert found.choice is not None and found.choice.family.name == "dualpipev"  # DualPipe holds 2,000 of parameters
    assert document(found).rows[1].peak_bytes == 2_900
    with pytest.raises(ScheduleError, match="activation_bytes"):
        asked(cap_bytes=1_000)


@pytest.mark.parametrize(
    ("change", "summary"),
    [
        ({"num_devices": 0}, "0 devices"),
        ({"num_micro_batches": -1}, "-1 micro-batches"),
        ({"memory_cap": 0}, "memory cap of 0"),
        ({"memory_cap": float("nan")}, "memory cap of nan"),
        ({"families": ["dualpip"]}, "no schedule 'dualpip'"),
    ],
)
def test_wrong_numbers_are_refused(change: dict[str, object], summary: str) -> None:
    with pytest.raises(ScheduleError, match=summary):
        asked(**change)


def test_from_the_profile_itself(shared_data: Path) -> None:
    summary = costs_of_trace(read(shared_data / "deepseek-v3-train.json.gz"))
    assert summary.basis == "phases" and summary.is_upper_bound
    found = asked(costs=summary.costs, with_flips=False)
    assert [round(of(each).step_ns / 1e6) for each in found.ranked[:5]] == [5502, 5520, 5625, 5691, 5733]


def test_schedules_that_take_the_same_are_said_to() -> None:
    summary = document(asked(num_devices=1, num_micro_batches=1, with_flips=False))
    assert "GPipe takes 239 ms a step, as long as 1F1B (the next best); a device holds 1 chunk activation." in (
        summary.headline
    )


def test_how_far_below_their_bounds_costs_would_flip_the_choice_is_told(deepseek: Recommendation) -> None:
    summary = recommendation_report(deepseek, SourcedCosts(costs=DEEPSEEK, basis="phases", is_upper_bound=True))
    assert summary.sentences[-1].endswith("ZBV would be the choice were they below 0.57 of these bounds.")

    def scaled(part: float) -> Costs:
        names = ("forward_ns", "input_ns", "weight_ns")
        return replace(DEEPSEEK, **{name: round(part * getattr(DEEPSEEK, name)) for name in names})

    assert winner(scaled(0.575)) == "interleaved-fb" and winner(scaled(0.56)) == "zbv"


def test_where_no_change_of_cost_was_looked_at_none_is_said_to_change_nothing() -> None:
    summary = document(asked(with_flips=False))
    assert summary.flips is None and not any("Not changed" in text for text in summary.sentences)


def test_a_single_schedule_that_was_asked_for_is_not_told_to_be_the_only_one_that_fits() -> None:
    summary = document(asked(families=["dualpipe+w"]))
    assert "takes 5.52 s a step; a device holds 9 chunk activations" in summary.headline
    capped = document(asked(families=["dualpipe+w", "interleaved-fb"], memory_cap=9))
    assert "takes 5.52 s a step, the only one that fits; " in capped.headline


def test_where_sizes_are_told_the_front_the_cap_and_the_sentences_are_in_bytes() -> None:
    """Stages of 8 GiB, 1 GiB an activation: interleaved F&B 8 + 12, DualPipe 16 + 9, DualPipeV 8 + 8.5, V-Min 8 + 4."""
    sized = replace(DEEPSEEK, activation_bytes=1 << 30, weight_bytes=8 << 30)
    summary = document(asked(costs=sized, with_flips=False))
    front = {row.name for row in summary.rows if row.on_front}
    assert summary.memory_in == "bytes" and "dualpipe+w" not in front and {"interleaved-fb", "dualpipev+w"} <= front
    assert summary.headline.endswith("a device holds 20.0 GiB of activations and parameters.")
    assert (
        "With less memory, DualPipeV with placed W: 5.62 s at 16.5 GiB of activations and parameters."
        in summary.sentences
    )
    capped = document(asked(costs=sized, cap_bytes=18 << 30, with_flips=False))
    assert capped.choice == "dualpipev+w"
    over = [text for text in capped.sentences if "With room" in text]
    assert over == ["With room for 20.0 GiB of activations and parameters, interleaved F&B: 5.50 s, 2.2 % less."]
    assert document(asked(costs=sized, memory_cap=9, with_flips=False)).memory_in == "chunks"
    assert (
        "within the cap of 8.0 GiB: the least is fitted V-Min's, 12.0 GiB of"
        in document(asked(costs=sized, cap_bytes=8 << 30, with_flips=False)).headline
    )


def test_costs_of_nothing_are_refused() -> None:
    with pytest.raises(ScheduleError, match="F, I and W take no time"):
        asked(costs=Costs(forward_ns=0, input_ns=0, weight_ns=0))


def test_a_message_that_flips_the_choice_at_once_is_not_told_as_more_than_nothing() -> None:
    found = asked(num_devices=2, families=["interleaved-fb:2", "interleaved-fb:1"])
    flip = next(flip for flip in found.flips or () if flip.factor == "latency")
    assert (flip.now, flip.at) == (0, 1)
    assert document(found).sentences[0] == (
        "If a message between ranks needed 0.01 F (974 µs; nothing now) on its way, interleaved F&B "
        "with 1 stage per device would be the choice."
    )

"""The step of a run as a report: what it says, and what it assumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from weftrace.errors import DocumentError, WeftraceError
from weftrace.pipeline import Costs
from weftrace.pipeline.measured.sourced_costs import SourcedCosts, costs_of_trace
from weftrace.pipeline.outputs import STEP
from weftrace.pipeline.steps.document import StepReport
from weftrace.pipeline.steps.predicted import Run, predicted_step
from weftrace.trace import read
from weftrace.units import signed

UNITS = SourcedCosts(costs=Costs.units(FB=2.5), basis="given")


def summary(costs: SourcedCosts = UNITS, **run: object) -> StepReport:
    given = {"schedule": "dualpipe", "num_stages": 16, "num_micro_batches": 120, "num_ranks": 2048, **run}
    return predicted_step(costs, Run(**given))  # type: ignore[arg-type]


def test_the_published_shape_brings_its_model_its_parts_and_its_bubble_and_says_so() -> None:
    document = summary(optimizer_ns=290_000_000)
    assert (document.model, document.num_pipelines, document.tokens) == ("deepseek-v3", 128, 62_914_560)
    assert any("the model is deepseek-v3, as of the published step" in text for text in document.assumptions)
    counted = {row.name: (row.counted, row.published) for row in document.rates}
    assert {name: pytest.approx(pair[1], rel=1.2e-3) for name, pair in counted.items()} == {
        name: pair[0] for name, pair in counted.items()
    }
    assert [(row.name, row.fewest, row.most) for row in document.parts][4] == ("1F1B", 97, 103)
    assert sum(row.time_ns for row in document.parts) == document.step_ns
    assert document.bubble is not None and document.bubble.text.startswith(
        "Of the published bubble of 2.06 s the schedule itself makes 803 ms with the published parts' own costs (920 "
        "ms on the rank that idles most): that much is the law's. The other 1.26 s are slip"
    )


def test_another_shape_brings_nothing_that_was_not_told() -> None:
    document = summary(num_stages=8, num_micro_batches=32, num_ranks=8, schedule="zbv")
    assert document.num_stages == 8 and document.num_pipelines == 2  # two stages a rank: pipelines of 4 ranks
    assert (document.model, document.published, document.bubble) == (None, None, None)
    assert [row.predicted for row in document.rates][1:] == [None] * 4
    assert "1F1B" not in [row.name for row in document.parts]
    with_model = summary(
        num_stages=8, num_micro_batches=32, num_ranks=8, schedule="zbv", model="llama-3-8b", hardware="H100"
    )
    assert all(row.predicted for row in with_model.rates) and with_model.hardware == "H100 SXM, bf16"


def test_slices_count_their_sequences_once() -> None:
    document = summary(num_stages=4, num_micro_batches=8, num_ranks=4, schedule="seq1f1b", sequence=1024)
    assert document.num_micro_batches == 8 and document.tokens == 8 * 1024


def test_wrong_names_are_refused() -> None:
    for run, reason in (
        ({"schedule": "dualpip"}, "dualpip"), ({"model": "gpt-9"}, "gpt-9"), ({"hardware": "H9"}, "H9"),
        ({"dtype": "fp3"}, "fp3"), ({"num_ranks": 100}, "100 ranks"),
    ):  # fmt: skip
        with pytest.raises(WeftraceError, match=reason):
            summary(**run)


def test_deepseeks_headline(shared_data: Path) -> None:
    document = summary(costs_of_trace(read(shared_data / "deepseek-v3-train.json.gz")), optimizer_ns=290_000_000)
    assert document.headline == (
        "A step of DualPipe on 2,048 ranks takes 19.0 s: ranks idle for 1.06 s of it on average (5.6 %), with a "
        "barrier at its end: 3.31 Mtokens/s. DeepSeek-V3 on 2,048 H800 was published with 19.9 s (−4.7 %); its F&B "
        "with 13.9 s, here 12.9 s (−7.2 %)."
    )
    assert {row.name: row.basis for row in document.parts} == {
        "1F": "serial upper bound", "bubble": "simulated", "1B": "serial upper bound", "1W": "serial upper bound",
        "1F1B": "overlapped", "optimizer": "given",
    }  # fmt: skip


def test_costs_that_cannot_be_those_of_the_model_are_flagged() -> None:
    fast = SourcedCosts(costs=Costs.units(FB=3), basis="phases", num_layers=4)
    flags = summary(fast, num_stages=8, num_micro_batches=16, num_ranks=8).flags
    assert flags == ()  # the model was not told
    flags = summary(fast, num_stages=8, num_micro_batches=16, num_ranks=8, model="deepseek-v3", hardware="H800").flags
    assert "above the peak" in flags[0] and "32 in 8 stages; the model has 61" in flags[1]


def test_a_step_without_an_optimizer_is_held_against_the_published_one_without_it() -> None:
    """Published: 19.926 s, of which 0.29 the optimizer."""
    document = summary()
    less = document.step_ns / (19.926e9 - 0.29e9) - 1
    assert f"was published with 19.6 s without its optimizer ({signed(less)})" in document.headline
    assert document.parts[-1].basis == "not given"
    assert "the optimizer takes no time (--optimizer-ms)" in document.assumptions


@pytest.mark.parametrize("other", [{"model": "llama-3-8b"}, {"hardware": "H100"}, {"tokens_per_micro_batch": 8192}])
def test_what_was_published_of_another_model_hardware_or_batch_is_not_set_beside(other: dict[str, object]) -> None:
    assert summary(UNITS, **other).published is None
    assert summary(model="deepseek-v3", hardware="h800", tokens_per_micro_batch=4096).published is not None


def test_costs_of_nothing_are_refused() -> None:
    with pytest.raises(WeftraceError, match="takes no time"):
        summary(SourcedCosts(costs=Costs(forward_ns=0, input_ns=0, weight_ns=0), basis="given"))


def test_a_saved_step_that_names_a_published_one_without_its_time_is_refused() -> None:
    document = STEP.document(summary())  # type: ignore[misc]
    with pytest.raises(DocumentError, match="a published step has a name, a source and a time"):
        STEP.load({**document, "published_step_ns": None}, what="step.json")  # type: ignore[misc]

"""A whole step as JSON values, versioned (`weftrace.pipeline.step/1`): parts, rates, a published one beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

from weftrace.files.schemas import Amount, Count, Positive
from weftrace.files.values import filled
from weftrace.notebook import InNotebook
from weftrace.pipeline.measured.sourced_costs import CostsSummary, SourcedCosts, costs_summary
from weftrace.pipeline.simulation import Simulation
from weftrace.pipeline.steps.bubble_slip import BubbleSlip
from weftrace.pipeline.steps.in_sentences import flags_of, headline
from weftrace.pipeline.steps.published import PublishedStep
from weftrace.pipeline.steps.whole_step import DAY_S, Attention, PartName, StepPart, WholeStep, rate_of
from weftrace.units import S

SCHEMA: Final = "weftrace.pipeline.step/1"

PartBasis = Literal["serial upper bound", "overlapped", "costs", "simulated", "given", "not given"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow(StepPart):
    """One part of the step, the mean over ranks."""

    basis: Annotated[
        PartBasis,
        Meta(
            description="What its time rests on: sums of phases that ran beside others; measured side by side; costs "
            "as they are; the simulation; what was given; nothing."
        ),
    ]
    published_ns: Annotated[int | None, Meta(description="Of the published step of this shape; null without one.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """One rate, as predicted and as published."""

    name: str
    predicted: Annotated[float | None, Meta(description="From the predicted step; null if the model is unknown.")]
    counted: Annotated[
        float | None, Meta(description="From the published step's time with our count; null without one.")
    ]
    published: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport(InNotebook):
    """What is shown and saved of a predicted step: parts, rates, and a published step of its shape beside it."""

    schedule: str
    num_stages: Positive
    num_micro_batches: Annotated[Positive, Meta(description="Of one pipeline.")]
    num_ranks: Positive
    num_pipelines: Annotated[Positive, Meta(description="Side by side.")]
    step_ns: Count
    bubble_ns: Annotated[Count, Meta(description="Idle time of the rank that idles most, with a barrier at the end.")]
    parts: Annotated[tuple[PartRow, ...], Meta(description="They add up to step_ns.")]
    tokens: Annotated[Count, Meta(description="Of the step, over all pipelines.")]
    tokens_per_micro_batch: Positive
    tokens_per_s: Amount
    tokens_per_day: Amount
    model: Annotated[str | None, Meta(description="The model that FLOPs are counted of; null if unknown.")]
    hardware: str | None
    rates: tuple[RateRow, ...]
    costs: CostsSummary
    published: Annotated[str | None, Meta(description="The published step of this shape; null without one.")]
    published_source: str | None
    published_step_ns: int | None
    bubble: Annotated[BubbleSlip | None, Meta(description="Of the published step; null without one.")]
    headline: str
    flags: Annotated[tuple[str, ...], Meta(description="What does not fit together, in sentences.")]
    assumptions: tuple[str, ...]

    def __post_init__(self) -> None:
        if len({each is None for each in (self.published, self.published_source, self.published_step_ns)}) > 1:
            raise ValueError("a published step has a name, a source and a time")


_ASSUMPTIONS = (
    "a part's time is the mean over the pipeline's ranks, each counting alike: an assumption",
    "all stages cost what the chunk costs, unless costs are given per stage; embedding and head are in no chunk of "
    "a trace that leaves them out",
    "pipelines run side by side and alike; messages need what the costs say, nothing where they say nothing",
)
_COUNT = (
    "FLOPs of a token: three times the forward's products of matrices and attention; causal: a token attends to "
    "itself and those before it, (sequence + 1) / 2 on average; full: to the whole sequence; without the router"
)


def step_report(
    step: WholeStep,
    simulation: Simulation,
    costs: SourcedCosts,
    *,
    tokens_per_micro_batch: int,
    hardware: str | None = None,
    published: PublishedStep | None = None,
    bubble: BubbleSlip | None = None,
    assumptions: tuple[str, ...] = (),
    num_layers: int | None = None,
) -> StepReport:
    """A predicted step, what it rests on, and a published one of its shape beside it, as a value to show and save.

    num_layers: of the model, where it was given.
    """
    optimizer = () if step.part("optimizer").time_ns else ("the optimizer takes no time (--optimizer-ms)",)
    counted = () if step.flops is None else (_COUNT,)
    return filled(
        StepReport,
        step,
        bubble_ns=simulation.bubble_ns,
        parts=tuple(_parts(step, costs, published)),
        tokens_per_micro_batch=tokens_per_micro_batch,
        tokens_per_day=step.tokens_per_s * DAY_S,
        model=None if step.flops is None else step.flops.model,
        hardware=hardware,
        rates=tuple(_rates(step, published)),
        costs=costs_summary(costs),
        published=None if published is None else published.name,
        published_source=None if published is None else published.source,
        published_step_ns=None if published is None else published.step_ns,
        bubble=bubble,
        headline=headline(step, published),
        flags=tuple(flags_of(step, costs, num_layers)),
        assumptions=(*assumptions, *_ASSUMPTIONS, *optimizer, *counted),
    )


def _parts(step: WholeStep, costs: SourcedCosts, published: PublishedStep | None) -> Iterator[PartRow]:
    alone: PartBasis = "serial upper bound" if costs.is_upper_bound else "costs"
    bases: dict[PartName, PartBasis] = {
        "1F": alone, "1B": alone, "1W": alone, "bubble": "simulated", "optimizer": "given",
        "1F1B": "overlapped" if costs.basis in ("phases", "actions") else "costs",
    }  # fmt: skip
    past = {} if published is None else published.parts_ns
    for part in step.parts:
        yield filled(PartRow, part, basis=bases[part.name], published_ns=past.get(part.name))
    if published is not None and step.part("optimizer").time_ns == 0:
        yield PartRow(name="optimizer", time_ns=0, basis="not given", published_ns=past.get("optimizer"))


def _rates(step: WholeStep, published: PublishedStep | None) -> Iterator[RateRow]:
    """Tokens a day, TFLOPS of a GPU, MFU: predicted, counted on the published step's time, published."""
    past_ns = None if published is None else published.step_ns

    def rate(step_ns: int | None, attention: Attention, peak: float | None) -> float | None:
        if step.flops is None or step_ns is None or peak is None:
            return None
        return rate_of(step, step_ns, attention) / peak

    yield RateRow(
        name="tokens a day",
        predicted=step.tokens_per_s * DAY_S,
        counted=None if past_ns is None else step.tokens / (past_ns / S) * DAY_S,
        published=None if published is None else published.tokens_per_day,
    )
    attentions: tuple[Attention, ...] = get_args(Attention)
    for name, field, peak in (("FLOP/s of a GPU", "flops_per_s", 1.0), ("MFU", "mfu", step.peak_flops_per_s)):
        for attention in attentions:
            yield RateRow(
                name=f"{name}, {attention}",
                predicted=rate(step.step_ns, attention, peak),
                counted=rate(past_ns, attention, peak),
                published=None if published is None else getattr(published, field)[attention],
            )

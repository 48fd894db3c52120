"""A whole step as JSON values, versioned (`weftrace.pipeline.step/1`): parts, rates, a published one beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict, get_args

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Amount, Count, DocumentSchema, Positive
from weftrace.notebook import InNotebook
from weftrace.pipeline.measured.told_costs import CostsTold, ToldCosts, costs_told
from weftrace.pipeline.simulation import Simulation
from weftrace.pipeline.steps.bubble_slip import BubbleSlip
from weftrace.pipeline.steps.in_sentences import bubble_text, flags_of, headline
from weftrace.pipeline.steps.published import PublishedStep
from weftrace.pipeline.steps.whole_step import DAY_S, Attention, PartName, WholeStep, rate_of
from weftrace.units import S
from weftrace.version import __version__

SCHEMA: Final = "weftrace.pipeline.step/1"

PartBasis = Literal["serial upper bound", "overlapped", "costs", "simulated", "given", "not given"]


class PartRow(TypedDict):
    """One part of the step, the mean over ranks."""

    name: PartName
    time_ns: Count
    fewest: Annotated[int | None, Meta(description="Actions of this part on a rank, at least; null where it has none.")]
    most: Annotated[int | None, Meta(description="At most.")]
    basis: Annotated[
        PartBasis,
        Meta(
            description="What its time rests on: sums of phases that ran beside others; measured side by side; costs "
            "as they are; the simulation; what was given; nothing."
        ),
    ]
    published_ns: Annotated[int | None, Meta(description="Of the published step of this shape; null without one.")]


class RateTold(TypedDict):
    """One rate, as predicted and as published."""

    name: str
    predicted: Annotated[float | None, Meta(description="From the predicted step; null where the model is not told.")]
    counted: Annotated[
        float | None, Meta(description="From the published step's time with our count; null without one.")
    ]
    published: float | None


class BubbleTold(TypedDict):
    """The published bubble, of which the schedule makes a part; the rest is slip. Means over ranks."""

    published_ns: Count
    law_ns: Annotated[Count, Meta(description="The schedule's own, with the costs of the published parts.")]
    law_most_ns: Annotated[Count, Meta(description="On the rank that idles most.")]
    slip_ns: int
    alone_latency_ns: Annotated[Count, Meta(description="A message's time that alone would make the slip.")]
    alone_slower: Annotated[float | None, Meta(description="Part by which one slower rank alone would make it.")]
    text: str


class StepDocument(TypedDict):
    schema: Literal["weftrace.pipeline.step/1"]
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    schedule: str
    num_stages: Positive
    num_micro_batches: Annotated[Positive, Meta(description="Of one pipeline.")]
    num_ranks: Positive
    num_pipelines: Annotated[Positive, Meta(description="Side by side.")]
    step_ns: Count
    bubble_ns: Annotated[Count, Meta(description="Idle time of the rank that idles most, with a barrier at the end.")]
    parts: Annotated[list[PartRow], Meta(description="They add up to step_ns.")]
    tokens: Annotated[Count, Meta(description="Of the step, over all pipelines.")]
    tokens_per_micro_batch: Positive
    tokens_per_s: Amount
    tokens_per_day: Amount
    model: Annotated[str | None, Meta(description="Whose FLOPs are counted; null where it is not told.")]
    hardware: str | None
    rates: list[RateTold]
    costs: CostsTold
    published: Annotated[str | None, Meta(description="The published step of this shape; null where there is none.")]
    published_source: str | None
    published_step_ns: int | None
    bubble: BubbleTold | None
    headline: str
    flags: Annotated[list[str], Meta(description="What does not fit together, in sentences.")]
    assumptions: list[str]


STEP_SCHEMA = DocumentSchema(
    document=StepDocument,
    schema=SCHEMA,
    title="A whole step from the costs of one chunk",
)

_ASSUMPTIONS = (
    "a part's time is the mean over the pipeline's ranks, each counting alike: an assumption",
    "all stages cost what the chunk costs, but where costs are told by stage; embedding and head are in no chunk of "
    "a trace that leaves them out",
    "pipelines run side by side and alike; messages need what the costs say, nothing where they say nothing",
)
_COUNT = (
    "FLOPs of a token: three times the forward's products of matrices and attention; causal: a token attends to "
    "itself and those before it, (sequence + 1) / 2 on average; full: to the whole sequence; without the router"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport(InNotebook):
    """A whole step as its document: what is shown and saved."""

    document: StepDocument

    def _told(self) -> list[tuple[str, str]]:
        return [("headline", self.document["headline"])]


def step_report(
    step: WholeStep,
    simulation: Simulation,
    told: ToldCosts,
    *,
    tokens_per_micro_batch: int,
    hardware: str | None = None,
    published: PublishedStep | None = None,
    bubble: BubbleSlip | None = None,
    assumptions: tuple[str, ...] = (),
    num_layers: int | None = None,
) -> StepReport:
    """A predicted step, what it rests on, and a published one of its shape beside it, as a value to show and save.

    num_layers: of the model, where it was told.
    """
    counted = () if step.flops is None else (_COUNT,)
    document: StepDocument = {
        "schema": SCHEMA,
        "weftrace": __version__,
        "schedule": step.schedule,
        "num_stages": step.num_stages,
        "num_micro_batches": step.num_micro_batches,
        "num_ranks": step.num_ranks,
        "num_pipelines": step.num_pipelines,
        "step_ns": step.step_ns,
        "bubble_ns": simulation.bubble_ns,
        "parts": _parts(step, told, published),
        "tokens": step.tokens,
        "tokens_per_micro_batch": tokens_per_micro_batch,
        "tokens_per_s": step.tokens_per_s,
        "tokens_per_day": step.tokens_per_s * DAY_S,
        "model": None if step.flops is None else step.flops.model,
        "hardware": hardware,
        "rates": _rates(step, published),
        "costs": costs_told(told),
        "published": None if published is None else published.name,
        "published_source": None if published is None else published.source,
        "published_step_ns": None if published is None else published.step_ns,
        "bubble": None if bubble is None else _bubble(bubble),
        "headline": headline(step, published),
        "flags": flags_of(step, told, num_layers),
        "assumptions": [*assumptions, *_ASSUMPTIONS, *_optimizer(step), *counted],
    }
    return StepReport(document=document)


def _optimizer(step: WholeStep) -> tuple[str, ...]:
    return () if step.part("optimizer").time_ns else ("the optimizer takes no time (--optimizer-ms)",)


def step_table(document: StepDocument) -> pl.DataFrame:
    """The parts as a table, a row each."""
    return pl.DataFrame(document["parts"], infer_schema_length=None)


def _parts(step: WholeStep, told: ToldCosts, published: PublishedStep | None) -> list[PartRow]:
    alone: PartBasis = "serial upper bound" if told.is_upper_bound else "costs"
    bases: dict[PartName, PartBasis] = {
        "1F": alone, "1B": alone, "1W": alone, "bubble": "simulated", "optimizer": "given",
        "1F1B": "overlapped" if told.basis in ("phases", "actions") else "costs",
    }  # fmt: skip
    rows: list[PartRow] = [
        {
            "name": part.name, "time_ns": part.time_ns, "fewest": part.fewest, "most": part.most,
            "basis": bases[part.name],
            "published_ns": None if published is None else published.parts_ns.get(part.name),
        }
        for part in step.parts
    ]  # fmt: skip
    if published is not None and step.part("optimizer").time_ns == 0:
        rows.append({"name": "optimizer", "time_ns": 0, "fewest": None, "most": None, "basis": "not given",
                     "published_ns": published.parts_ns.get("optimizer")})  # fmt: skip
    return rows


def _rates(step: WholeStep, published: PublishedStep | None) -> list[RateTold]:
    """Tokens a day, TFLOPS of a GPU, MFU: predicted, counted on the published step's time, published."""
    past = None if published is None else published.step_ns
    rows: list[RateTold] = [
        {
            "name": "tokens a day", "predicted": step.tokens_per_s * DAY_S,
            "counted": None if past is None else step.tokens / (past / S) * DAY_S,
            "published": None if published is None else published.tokens_per_day,
        }
    ]  # fmt: skip
    attentions: tuple[Attention, ...] = get_args(Attention)
    for attention in attentions:
        counted = None if past is None or step.flops is None else rate_of(step, past, attention)
        rows.append(
            {
                "name": f"FLOP/s of a GPU, {attention}", "predicted": step.flops_per_s(attention), "counted": counted,
                "published": None if published is None else published.flops_per_s[attention],
            }
        )  # fmt: skip
    for attention in attentions:
        peak = step.peak_flops_per_s
        counted = None if past is None or step.flops is None else rate_of(step, past, attention)
        rows.append(
            {
                "name": f"MFU, {attention}", "predicted": step.mfu(attention),
                "counted": None if counted is None or peak is None else counted / peak,
                "published": None if published is None else published.mfu[attention],
            }
        )  # fmt: skip
    return rows


def _bubble(bubble: BubbleSlip) -> BubbleTold:
    return {
        "published_ns": bubble.published_ns,
        "law_ns": bubble.law_ns,
        "law_most_ns": bubble.law_most_ns,
        "slip_ns": bubble.slip_ns,
        "alone_latency_ns": bubble.alone_latency_ns,
        "alone_slower": bubble.alone_slower,
        "text": bubble_text(bubble),
    }

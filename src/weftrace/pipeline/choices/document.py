"""A recommendation as JSON values, versioned (`weftrace.pipeline.recommendation/1`), and what it says in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Amount, Count, DocumentSchema, Fraction, Positive
from weftrace.notebook import InNotebook
from weftrace.pipeline.choices.flips import Factor
from weftrace.pipeline.choices.in_sentences import flip_text, headline, sentences_of
from weftrace.pipeline.choices.recommendation import Recommendation, of, peak_bytes
from weftrace.pipeline.comparing.comparison import Candidate
from weftrace.pipeline.measured.told_costs import CostsTold, ToldCosts, costs_told
from weftrace.pipeline.simulation import Boundary
from weftrace.version import __version__

SCHEMA: Final = "weftrace.pipeline.recommendation/1"


class CandidateRow(TypedDict):
    """One schedule on these devices."""

    name: str
    title: str
    step_ns: Annotated[Count, Meta(description="Of one step, as `boundary` ends it.")]
    bubble_ns: Annotated[Count, Meta(description="Idle time of the rank that idles most.")]
    bubble_fraction: Annotated[Fraction, Meta(description="bubble_ns / step_ns.")]
    peak_chunks: Annotated[
        Amount, Meta(description="Most activations that a device holds, in those of its share of the model on one "
                                 "micro-batch.")
    ]  # fmt: skip
    peak_bytes: Annotated[Count | None, Meta(description="The same in bytes, with parameters; null without sizes.")]
    parameters: Annotated[Amount, Meta(description="That a device holds, in those of its share of the model.")]
    fits: Annotated[bool, Meta(description="Within the memory cap.")]
    on_front: Annotated[bool, Meta(description="Holds less than every faster one, as `memory_in` counts.")]
    needs: Annotated[str, Meta(description="What it asks of the model beside an order of chunks, or empty.")]


class ImpossibleRow(TypedDict):
    """A schedule that there is not for these numbers."""

    name: str
    title: str
    reason: str


class FlipTold(TypedDict):
    """The nearest value of one cost at which another schedule is the choice."""

    factor: Annotated[
        Factor,
        Meta(description="overlapped: F&B in parts of F + B; weight: W in parts of B; latency: a message's time in "
                         "parts of F."),
    ]  # fmt: skip
    now: Amount
    at: Annotated[Amount, Meta(description="Exact to 0.01: 0.01 nearer to now, the choice is today's.")]
    winner: Annotated[str, Meta(description="Name of the schedule that is the choice there.")]
    text: str


class RecommendationDocument(TypedDict):
    schema: Literal["weftrace.pipeline.recommendation/1"]
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    num_devices: Positive
    num_micro_batches: Positive
    boundary: Annotated[Boundary, Meta(description="How a step ends: a barrier of all ranks, or each rank's own span.")]
    memory_cap: Annotated[float | None, Meta(description="In chunk activations of a device.")]
    cap_bytes: Count | None
    memory_in: Annotated[
        Literal["chunks", "bytes"],
        Meta(description="What memory is compared in: bytes where the costs tell sizes and the cap is none in chunks."),
    ]
    costs: Annotated[CostsTold, Meta(description="Of one device's share of the model on one micro-batch.")]
    choice: Annotated[str | None, Meta(description="Name of the schedule to use; null where none fits.")]
    headline: str
    sentences: Annotated[list[str], Meta(description="What else should be known, flips first.")]
    rows: Annotated[list[CandidateRow], Meta(description="Fastest first.")]
    impossible: list[ImpossibleRow]
    flips: Annotated[list[FlipTold] | None, Meta(description="Null where none were looked for.")]


RECOMMENDATION_SCHEMA = DocumentSchema(
    document=RecommendationDocument,
    schema=SCHEMA,
    title="Which pipeline schedule to use, and what would change that",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationReport(InNotebook):
    """A recommendation as its document: what is shown and saved. found: what it was made of, which a page draws; None
    for one that was read from a file."""

    document: RecommendationDocument
    found: Recommendation | None = None

    def _told(self) -> list[tuple[str, str]]:
        return [("headline", self.document["headline"]), *(("", text) for text in self.document["sentences"])]


def recommendation_report(recommendation: Recommendation, told: ToldCosts | None = None) -> RecommendationReport:
    """A recommendation as a value to show and save. told: how its costs were come by, where that is known."""
    costs = recommendation.costs
    known = told or ToldCosts(costs=costs, basis="given", source=costs.source)
    return RecommendationReport(document=recommendation_document(recommendation, known), found=recommendation)


def recommendation_document(found: Recommendation, told: ToldCosts) -> RecommendationDocument:
    """As JSON-able values."""
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "num_devices": found.num_devices,
        "num_micro_batches": found.num_micro_batches,
        "boundary": found.boundary,
        "memory_cap": found.memory_cap,
        "cap_bytes": found.cap_bytes,
        "memory_in": "bytes" if found.in_bytes else "chunks",
        "costs": costs_told(told),
        "choice": None if found.choice is None else found.choice.family.name,
        "headline": headline(found),
        "sentences": sentences_of(found, told),
        "rows": [_row(found, each) for each in found.ranked],
        "impossible": [
            {"name": each.family.name, "title": each.family.title, "reason": each.reason} for each in found.impossible
        ],
        "flips": None if found.flips is None else [
            {"factor": flip.factor, "now": flip.now / 100, "at": flip.at / 100, "winner": flip.winner,
             "text": flip_text(found, flip)}
            for flip in found.flips
        ],
    }  # fmt: skip


def recommendation_table(document: RecommendationDocument) -> pl.DataFrame:
    """The schedules as a table, a row each."""
    return pl.DataFrame(document["rows"], infer_schema_length=None)


def _row(found: Recommendation, each: Candidate) -> CandidateRow:
    simulation = of(each)
    return {
        "name": each.family.name,
        "title": each.family.title,
        "step_ns": simulation.step_ns,
        "bubble_ns": simulation.bubble_ns,
        "bubble_fraction": simulation.bubble_ns / simulation.step_ns if simulation.step_ns else 0.0,
        "peak_chunks": float(each.peak_activations),
        "peak_bytes": peak_bytes(each) if found.tells_sizes else None,
        "parameters": float(each.parameters),
        "fits": found.fits(each),
        "on_front": any(each is other for other in found.front),
        "needs": "" if found.may_be_chosen(each) else each.needs,
    }

"""A recommendation as JSON values, versioned (`weftrace.pipeline.recommendation/1`), and what it says in sentences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from msgspec import Meta

from weftrace.errors import OutputError
from weftrace.files.schemas import Amount, Count, Fraction, Positive
from weftrace.files.values import OPTIONAL, UNSAVED, filled
from weftrace.notebook import InNotebook
from weftrace.pipeline.choices.flips import Factor, Flip
from weftrace.pipeline.choices.in_sentences import flip_text, headline, sentences_of
from weftrace.pipeline.choices.recommendation import Recommendation, of, peak_bytes
from weftrace.pipeline.choices.searched import Search
from weftrace.pipeline.comparing.comparison import Candidate
from weftrace.pipeline.comparing.document import ImpossibleRow, impossible_rows
from weftrace.pipeline.measured.sourced_costs import CostsSummary, SourcedCosts, costs_summary
from weftrace.pipeline.schedule import NOTE_OF_LAYERS, Schedule
from weftrace.pipeline.simulation import Boundary

SCHEMA: Final = "weftrace.pipeline.recommendation/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow:
    """One schedule on these devices."""

    name: Annotated[str, Meta(description="The family's, and where it is not its usual one, the stages on a device.")]
    title: str
    num_stages: Annotated[Positive, OPTIONAL, Meta(description="Of one replica of the model.")] = 1
    layers: Annotated[
        str, OPTIONAL, Meta(description="Of stages in a row: 13 of 2, 35 of 1. Empty where all have as many.")
    ] = ""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRow:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationReport(InNotebook):
    """What is shown and saved of a recommendation. found: what it was made of, which a page draws; None for one that
    was read from a file."""

    num_devices: Positive
    num_micro_batches: Positive
    boundary: Annotated[Boundary, Meta(description="How a step ends: a barrier of all ranks, or each rank's own span.")]
    memory_cap: Annotated[float | None, Meta(description="In chunk activations of a device.")]
    cap_bytes: Count | None
    memory_in: Annotated[
        Literal["chunks", "bytes"],
        Meta(description="What memory is compared in: bytes where the costs tell sizes and the cap is none in chunks."),
    ]
    costs: Annotated[CostsSummary, Meta(description="Of one device's share of the model on one micro-batch.")]
    num_layers: Annotated[Positive | None, OPTIONAL, Meta(description="Of the model; null where not known.")] = None
    bound_ns: Annotated[
        Count, OPTIONAL, Meta(description="No schedule of whole micro-batches within the cap takes less; 0: not known.")
    ] = 0
    choice: Annotated[str | None, Meta(description="Name of the schedule to use; null if none fits.")]
    headline: str
    sentences: Annotated[tuple[str, ...], Meta(description="What else should be known, flips first.")]
    rows: Annotated[tuple[CandidateRow, ...], Meta(description="Fastest first.")]
    impossible: tuple[ImpossibleRow, ...]
    flips: Annotated[tuple[FlipRow, ...] | None, Meta(description="Null if not searched for.")]
    search: Annotated[Search | None, OPTIONAL, Meta(description="For an order of no family; null: none was made.")] = (
        None
    )
    found: Annotated[Recommendation | None, UNSAVED] = None

    def _describe(self) -> list[tuple[str, str]]:
        return [("headline", self.headline), *(("", text) for text in self.sentences)]


def recommendation_report(recommendation: Recommendation, costs: SourcedCosts | None = None) -> RecommendationReport:
    """A recommendation as a value to show and save. costs: its costs with their source, where that is known."""
    given = recommendation.costs
    sourced = costs or SourcedCosts(costs=given, basis="given", source=given.source)
    flips = recommendation.flips
    return filled(
        RecommendationReport,
        recommendation,
        memory_in="bytes" if recommendation.in_bytes else "chunks",
        costs=costs_summary(sourced),
        choice=None if recommendation.choice is None else recommendation.choice.name,
        headline=headline(recommendation),
        sentences=tuple(sentences_of(recommendation, sourced)),
        rows=tuple(_row(recommendation, each) for each in recommendation.ranked),
        impossible=impossible_rows(recommendation.impossible),
        flips=None if flips is None else tuple(_flip(recommendation, flip) for flip in flips),
        found=recommendation,
    )


def chosen_schedule(report: RecommendationReport) -> Schedule:
    """The schedule of the choice, with a note of its layers where their number is known. Raises `OutputError` where
    there is none, or the report was read from a file."""
    if report.found is None:
        raise OutputError("a saved recommendation holds no schedule: name the .txt file when it is made.")
    if (choice := report.found.choice) is None:
        raise OutputError("no schedule is within the cap, so there is none to write.")
    schedule, layers = of(choice).schedule, choice.split or str(report.num_layers or "")
    return replace(schedule, notes=(*schedule.notes, NOTE_OF_LAYERS + layers)) if layers else schedule


def _flip(found: Recommendation, flip: Flip) -> FlipRow:
    return filled(FlipRow, flip, now=flip.now / 100, at=flip.at / 100, text=flip_text(found, flip))


def _row(found: Recommendation, each: Candidate) -> CandidateRow:
    simulation = of(each)
    return filled(
        CandidateRow,
        each,
        simulation,
        simulation.schedule,
        layers=each.split,
        bubble_fraction=simulation.bubble_ns / simulation.step_ns if simulation.step_ns else 0.0,
        peak_chunks=float(each.peak_activations),
        peak_bytes=peak_bytes(each) if found.tells_sizes else None,
        parameters=float(each.parameters),
        fits=found.fits(each),
        on_front=any(each is other for other in found.front),
        needs="" if found.may_be_chosen(each) else each.needs,
    )

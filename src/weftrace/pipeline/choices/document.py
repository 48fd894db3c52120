"""A recommendation as JSON values, versioned (`weftrace.pipeline.recommendation/1`), and what it says in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Amount, Count, DocumentSchema, Fraction, Positive
from weftrace.notebook import InNotebook
from weftrace.pipeline.choices.flips import Factor, Flip
from weftrace.pipeline.choices.recommendation import Recommendation, of, peak_bytes
from weftrace.pipeline.comparing.comparison import Candidate
from weftrace.pipeline.measured.told_costs import CostsTold, ToldCosts, costs_told
from weftrace.pipeline.simulation import Boundary
from weftrace.units import short_time
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
    on_front: Annotated[bool, Meta(description="Holds less than every faster one.")]
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
    costs: Annotated[CostsTold, Meta(description="Of one device's share of the model on one micro-batch.")]
    choice: Annotated[str | None, Meta(description="Name of the schedule to use; null where none fits.")]
    headline: str
    sentences: Annotated[list[str], Meta(description="What else should be known, flips first.")]
    rows: Annotated[list[CandidateRow], Meta(description="Fastest first.")]
    impossible: list[ImpossibleRow]
    flips: list[FlipTold]


RECOMMENDATION_SCHEMA = DocumentSchema(
    document=RecommendationDocument,
    schema=SCHEMA,
    title="Which pipeline schedule to use, and what would change that",
    file=Path(__file__).with_name("recommendation.schema.json"),
)

_NEEDS_SLICES = "attention that hands keys and values from slice to slice; a slice is taken to cost its part of a chunk"


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
    flips_told = [_flip_told(found, flip) for flip in found.flips]
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "num_devices": found.num_devices,
        "num_micro_batches": found.num_micro_batches,
        "boundary": found.boundary,
        "memory_cap": found.memory_cap,
        "cap_bytes": found.cap_bytes,
        "costs": costs_told(told),
        "choice": None if found.choice is None else found.choice.family.name,
        "headline": headline(found),
        "sentences": [*(flip["text"] for flip in flips_told), *_more(found, told)],
        "rows": [_row(found, each) for each in found.ranked],
        "impossible": [
            {"name": each.family.name, "title": each.family.title, "reason": each.reason} for each in found.impossible
        ],
        "flips": flips_told,
    }


def recommendation_table(document: RecommendationDocument) -> pl.DataFrame:
    """The schedules as a table, a row each."""
    return pl.DataFrame(document["rows"], infer_schema_length=None)


def headline(found: Recommendation) -> str:
    """The choice, by how much it is faster, than what, and how a step ends."""
    how = "With a barrier at the step's end" if found.boundary == "barrier" else "With each rank's own span as its step"
    if found.choice is None:
        return f"{how}, no schedule is within the cap of {_cap(found)}: {_least(found)}."
    step_ns = of(found.choice).step_ns
    others = {id(each): each for each in (found.runner_up, found.baseline) if each is not None}
    others.pop(id(found.choice), None)
    less = [_against(each, step_ns, found) for each in others.values()]
    than = f", {', and '.join(less)}" if less else ", the only one that fits"
    return (
        f"{how}, {found.choice.family.title} takes {short_time(step_ns)} a step{than}; a device holds "
        f"{_chunks(found.choice)}."
    )


def _against(other: Candidate, step_ns: int, found: Recommendation) -> str:
    theirs = of(other).step_ns
    part = 100 * (theirs - step_ns) / max(theirs, 1)
    role = "the next best, " if other is found.runner_up else "" if found.fits(other) else "over the cap, "
    if theirs == step_ns:
        return f"as long as {other.family.title} ({role.removesuffix(', ') or short_time(theirs)})"
    more = f"{-part:.1f} % more" if part < 0 else f"{part:.1f} % less"
    return f"{more} than {other.family.title} ({role}{short_time(theirs)})"


def _chunks(candidate: Candidate) -> str:
    held = float(candidate.peak_activations)
    copies = "" if candidate.parameters == 1 else f", and {float(candidate.parameters):g} times the parameters"
    return f"{held:g} chunk activation{'' if held == 1 else 's'}{copies}"


def _cap(found: Recommendation) -> str:
    caps = [] if found.memory_cap is None else [f"{found.memory_cap:g} chunk activations"]
    return " and ".join([*caps, *([] if found.cap_bytes is None else [f"{found.cap_bytes:,} bytes"])]) or "no memory"


def _least(found: Recommendation) -> str:
    able = [each for each in found.ranked if found.may_be_chosen(each)]
    if not able:
        return "none has a schedule for these numbers"
    least = min(able, key=lambda each: each.peak_activations)
    return f"the least is {least.family.title}'s, {_chunks(least)}"


def _flip_told(found: Recommendation, flip: Flip) -> FlipTold:
    title = {each.family.name: each.family.title for each in found.ranked}[flip.winner]
    up = flip.at > flip.now
    last, now = (flip.at - 1 if up else flip.at + 1) / 100, flip.now / 100
    than = "more" if up else "less"
    forward = costs_of_forward(found)
    texts = {
        "overlapped": f"If F&B took {than} than {last:.2f} of F + B ({now:.2f} now), {title} would be the choice.",
        "weight": f"If W were {than} than {last:.2f} of B ({now:.2f} now), {title} would be the choice.",
        "latency": f"If a message between ranks needed {than} than {last:.2f} F ({short_time(last * forward)}; "
        f"{now:.2f} now) on its way, {title} would be the choice.",
    }
    return {"factor": flip.factor, "now": now, "at": flip.at / 100, "winner": flip.winner, "text": texts[flip.factor]}


def costs_of_forward(found: Recommendation) -> float:
    """F of a chunk in ns, the mean over stages."""
    value = found.costs.forward_ns
    return float(value) if isinstance(value, int) else sum(value) / len(value)


def _more(found: Recommendation, told: ToldCosts) -> list[str]:
    """What a smaller cap would cost; which factors change nothing; what the numbers rest on."""
    sentences = []
    if found.choice is not None:
        sentences += _by_memory(found, found.choice)
        steady = [name for name in ("overlapped", "weight", "latency") if name not in {f.factor for f in found.flips}]
        if steady and found.runner_up is not None:
            ranges = {"overlapped": "F&B up to F + B", "weight": "W up to 0.66 of B", "latency": "messages up to F"}
            sentences.append(f"Not changed by {', or '.join(ranges[name] for name in steady)}, as far as looked at.")
    if told.costs.overlapped_ns is None:
        sentences.append("What F&B takes is not known: it is taken as F + B, so overlapping gains nothing here.")
    elif told.is_upper_bound:
        sentences.append(_of_upper_bounds(found))
    return sentences


def _of_upper_bounds(found: Recommendation) -> str:
    """What it means that F, I and W are upper bounds, and how far below them they would have to be to matter: with F&B
    as it is, they at x times theirs are F&B at 1 / x times its part of F + B."""
    text = (
        "F, I and W are serial upper bounds, F&B is measured overlapped: schedules without F&B may be faster than told"
    )
    up = [flip for flip in found.flips if flip.factor == "overlapped" and flip.at > flip.now]
    if not up or found.costs.latency_ns:
        return f"{text}."
    title = {each.family.name: each.family.title for each in found.ranked}[up[0].winner]
    return f"{text}; {title} would be the choice were they below {up[0].now / (up[0].at - 1):.2f} of these bounds."


def _by_memory(found: Recommendation, choice: Candidate) -> list[str]:
    """What other caps would give: the front above the cap, and the next on the front below the choice."""
    step_ns = of(choice).step_ns
    over = sorted(
        (each for each in found.ranked if found.may_be_chosen(each) and not found.fits(each)),
        key=lambda each: (each.peak_activations, of(each).step_ns),
    )
    sentences, best_ns = [], step_ns
    for each in over:
        if (takes := of(each).step_ns) < best_ns:
            best_ns = takes
            sentences.append(
                f"With room for {float(each.peak_activations):g} chunk activations, {each.family.title}: "
                f"{short_time(takes)}, {100 * (1 - takes / step_ns):.1f} % less."
            )
    smaller = [each for each in found.front if each.peak_activations < choice.peak_activations]
    return sentences + [
        f"With less memory, {each.family.title}: {short_time(of(each).step_ns)} at {_chunks(each)}."
        for each in smaller[:1]
    ]


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
        "needs": "" if found.may_be_chosen(each) else _NEEDS_SLICES,
    }

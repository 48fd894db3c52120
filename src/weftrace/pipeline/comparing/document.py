"""The document of a comparison, versioned (`weftrace.pipeline.comparison/1`): its type, and how it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import polars as pl
from msgspec import Meta

from weftrace.errors import ScheduleError
from weftrace.files.columns import Shown, frame_of
from weftrace.files.documents import broken
from weftrace.files.schemas import Amount, Count, Fraction, Positive
from weftrace.files.values import OPTIONAL, filled, from_document, to_document
from weftrace.pipeline.comparing.comparison import Candidate, Comparison, compare
from weftrace.pipeline.comparing.variants import variant_of
from weftrace.pipeline.costs_document import SavedCosts
from weftrace.pipeline.laws.by_schedule import Claim
from weftrace.pipeline.simulation import Boundary
from weftrace.version import __version__

SCHEMA: Final = "weftrace.pipeline.comparison/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LawResult:
    """A formula for the bubble, and whether the simulation is as it says."""

    formula: Annotated[str, Meta(description="With F, I, W, B, F&B of a chunk; PP stages, D devices.")]
    bubble_ns: Annotated[
        int | None, Meta(description="What it gives here, which may be below 0; null where stages differ.")
    ]
    difference_ns: Annotated[int | None, Meta(description="bubble_ns - the simulated bubble.")]
    holds: bool
    why_not: Annotated[str, Meta(description="Empty where it holds.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule that is possible here."""

    name: str
    title: Annotated[str, Shown("schedule")]
    num_devices: Positive
    num_stages: Positive
    layers: Annotated[
        str, OPTIONAL, Meta(description="Of stages in a row: 13 of 2, 35 of 1. Empty where all have as many.")
    ] = ""
    makespan_ns: Count
    step_ns: Annotated[
        Count,
        Meta(description="By the boundary: what decides how soon a step can follow another."),
        Shown("step", term="step"),
    ]
    bubble_ns: Annotated[
        Count,
        Meta(description="Idle time of the device that idles most, simulated."),
        Shown("bubble", term="simulated"),
    ]
    bubble_share: Annotated[Fraction, Meta(description="bubble_ns / step_ns."), Shown("idle", term="idle_part")]
    peak_activations: Annotated[
        Amount,
        Meta(description="Most that a device holds, in shares of a micro-batch."),
        Shown("activations", term="activations"),
    ]
    peak_bytes: Annotated[Count, Meta(description="Most that a device holds, by the costs' sizes; 0 without any.")]
    parameters: Annotated[
        Amount, Meta(description="That a device holds, in shares of the model."), Shown(term="parameters")
    ]
    fits: Annotated[bool, Meta(description="Whether peak_activations is within the cap, if there is one.")]
    needs: Annotated[str, Meta(description="What it asks of the model beside an order of chunks, or empty.")]
    published: Annotated[
        LawResult | None,
        Meta(description="The law as published; null without one."),
        Shown("published", style="time", term="published"),
    ]
    exact: Annotated[
        LawResult | None,
        Meta(description="The law that holds; null if unknown."),
        Shown("exact law", style="time", term="law"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpossibleRow:
    """One schedule that is impossible here."""

    name: str
    title: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSummary:
    """Schedules on one model, the best first."""

    equal: Annotated[Literal["stages", "devices"], Meta(description="What all have as many of.")]
    num_equal: Positive
    num_micro_batches: Positive
    boundary: Annotated[Boundary, Meta(description="Where the step of a rank ends.")]
    num_layers: Annotated[
        Positive | None, OPTIONAL, Meta(description="Of the model, which limit its stages; null where not known.")
    ] = None
    memory_cap: Annotated[Amount | None, Meta(description="Peak activations that a device has room for.")]
    unit_ns: Annotated[Count, Meta(description="Times are shown in multiples of it; 0: as times.")]
    costs: Annotated[SavedCosts, Meta(description="Of one stage, or of one device's share, on one micro-batch.")]
    rows: tuple[ScheduleRow, ...]
    impossible: tuple[ImpossibleRow, ...]
    choice: Annotated[
        str | None,
        OPTIONAL,
        Meta(
            description="Name of the one that takes least time of those that fit and only need an order, or of "
            "a simpler one within 1 %; null if none fits, or not known."
        ),
    ] = None
    bound_ns: Annotated[
        Count, OPTIONAL, Meta(description="No schedule on these devices takes less, within the cap; 0: not known.")
    ] = 0
    left_out: Annotated[str, OPTIONAL, Meta(description="What is not kept of large schedules; else empty.")] = ""


def comparison_summary(comparison: Comparison) -> ComparisonSummary:
    """What is shown and saved of a comparison, the schedules ranked."""
    by_devices = comparison.num_devices is not None
    return filled(
        ComparisonSummary,
        comparison,
        equal="devices" if by_devices else "stages",
        num_equal=comparison.num_devices if by_devices else comparison.num_stages,
        unit_ns=comparison.costs.unit_ns,
        choice=None if comparison.choice is None else comparison.choice.name,
        rows=tuple(_row(comparison, each) for each in comparison.ranked),
        impossible=impossible_rows(comparison.candidates),
    )


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Its summary as JSON-able values."""
    return {"schema": SCHEMA, "weftrace": __version__, **to_document(comparison_summary(comparison))}


def comparison_of(document: Mapping[str, Any], *, what: str = "comparison") -> Comparison:
    """The comparison of a document, simulated once more from its costs. what: names it in errors.

    Raises `DocumentError` where it is no such document.
    """
    saved = from_document(ComparisonSummary, document, schema=SCHEMA, what=what)
    try:
        found = compare(
            saved.costs,
            num_micro_batches=saved.num_micro_batches,
            num_stages=saved.num_equal if saved.equal == "stages" else None,
            num_devices=saved.num_equal if saved.equal == "devices" else None,
            num_layers=saved.num_layers,
            families=[variant_of(row.name) for row in saved.rows],
            boundary=saved.boundary,
            memory_cap=saved.memory_cap,
            keep="all",  # a file may ask for no more than that
        )
        impossible = tuple(Candidate(variant=variant_of(row.name), reason=row.reason) for row in saved.impossible)
    except ScheduleError as error:
        raise broken(what, SCHEMA, str(error), "$.num_equal, $.num_micro_batches or $.costs") from error
    return replace(found, candidates=(*found.candidates, *impossible))


def comparison_table(comparison: Comparison) -> pl.DataFrame:
    """The rows as a table, for CSV: a law is its value, its formula and whether it holds."""
    laws = ("published", "exact")
    rows = frame_of(ScheduleRow, comparison_summary(comparison).rows)
    return rows.with_columns(pl.col(law).name.prefix_fields(f"{law}_") for law in laws).unnest(laws)


def impossible_rows(candidates: tuple[Candidate, ...]) -> tuple[ImpossibleRow, ...]:
    """Those of the candidates that have no schedule, with the reason."""
    return tuple(
        ImpossibleRow(name=each.name, title=each.title, reason=each.reason)
        for each in candidates
        if each.outcome is None
    )


def _row(comparison: Comparison, candidate: Candidate) -> ScheduleRow:
    run = candidate.outcome
    assert run is not None, candidate.reason
    law = candidate.law
    return filled(
        ScheduleRow,
        run,
        candidate,
        name=candidate.name,
        title=candidate.title,
        layers=candidate.split,
        num_devices=run.num_ranks,
        bubble_share=run.bubble_ns / run.step_ns if run.step_ns else 0.0,
        peak_activations=float(candidate.peak_activations),
        peak_bytes=max(run.ranks["peak_bytes"]),
        parameters=float(candidate.parameters),
        fits=comparison.fits(candidate),
        published=_law(law.published, run.bubble_ns) if law else None,
        exact=_law(law.exact, run.bubble_ns) if law else None,
    )


def _law(claim: Claim | None, bubble_ns: int) -> LawResult | None:
    if claim is None:
        return None
    return LawResult(
        formula=claim.formula,
        bubble_ns=claim.value,
        difference_ns=None if claim.value is None else claim.value - bubble_ns,
        holds=claim.holds,
        why_not=claim.because,
    )

"""The document of a comparison, versioned (`weftrace.pipeline.comparison/1`): its type, and how it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.errors import DocumentError, ScheduleError
from weftrace.files.documents import document_as
from weftrace.files.schemas import Amount, Count, DocumentSchema, Fraction, Positive
from weftrace.pipeline.comparing.comparison import Candidate, Comparison, compare
from weftrace.pipeline.costs_document import CostsDocument, costs_document, costs_of
from weftrace.pipeline.generators.families import FAMILIES
from weftrace.pipeline.laws.by_schedule import Claim
from weftrace.pipeline.simulation import Boundary
from weftrace.version import __version__

SCHEMA: Final = "weftrace.pipeline.comparison/1"


class LawTold(TypedDict):
    """A formula for the bubble, and whether the simulation is as it says."""

    formula: Annotated[str, Meta(description="With F, I, W, B, F&B of a chunk; PP stages, D devices.")]
    bubble_ns: Annotated[
        int | None, Meta(description="What it gives here, which may be below 0; null where stages differ.")
    ]
    difference_ns: Annotated[int | None, Meta(description="bubble_ns - the simulated bubble.")]
    holds: bool
    why_not: Annotated[str, Meta(description="Empty where it holds.")]


class ScheduleRow(TypedDict):
    """One schedule that is possible here."""

    name: str
    title: str
    num_devices: Positive
    num_stages: Positive
    makespan_ns: Count
    step_ns: Annotated[Count, Meta(description="By the boundary: what decides how soon a step can follow another.")]
    bubble_ns: Annotated[Count, Meta(description="Idle time of the device that idles most, simulated.")]
    bubble_share: Annotated[Fraction, Meta(description="bubble_ns / step_ns.")]
    peak_activations: Annotated[Amount, Meta(description="Most that a device holds, in shares of a micro-batch.")]
    peak_bytes: Annotated[Count, Meta(description="Most that a device holds, by the costs' sizes; 0 without any.")]
    parameters: Annotated[Amount, Meta(description="That a device holds, in shares of the model.")]
    fits: Annotated[bool, Meta(description="Whether peak_activations is within the cap, if there is one.")]
    needs: Annotated[str, Meta(description="What it asks of the model beside an order of chunks, or empty.")]
    published: Annotated[LawTold | None, Meta(description="The law as published; null where none was.")]
    exact: Annotated[LawTold | None, Meta(description="The law that holds; null where none is known.")]


class ImpossibleRow(TypedDict):
    """One schedule that is impossible here."""

    name: str
    title: str
    reason: str


class ComparisonDocument(TypedDict):
    """Schedules on one model, the best first."""

    schema: str
    weftrace: str
    equal: Annotated[Literal["stages", "devices"], Meta(description="What all have as many of.")]
    num_equal: Positive
    num_micro_batches: Positive
    boundary: Annotated[Boundary, Meta(description="Where the step of a rank ends.")]
    memory_cap: Annotated[Amount | None, Meta(description="Peak activations that a device has room for.")]
    unit_ns: Annotated[Count, Meta(description="Times are shown in multiples of it; 0: as times.")]
    costs: Annotated[CostsDocument, Meta(description="Of one stage, or of one device's share, on one micro-batch.")]
    rows: list[ScheduleRow]
    impossible: list[ImpossibleRow]


COMPARISON_SCHEMA = DocumentSchema(
    document=ComparisonDocument,
    schema=SCHEMA,
    title="A comparison of pipeline schedules",
)


def comparison_document(comparison: Comparison) -> ComparisonDocument:
    """The comparison as JSON-able values, the schedules ranked."""
    by_devices = comparison.num_devices is not None
    size = comparison.num_devices if by_devices else comparison.num_stages
    assert size is not None
    return ComparisonDocument(
        schema=SCHEMA,
        weftrace=__version__,
        equal="devices" if by_devices else "stages",
        num_equal=size,
        num_micro_batches=comparison.num_micro_batches,
        boundary=comparison.boundary,
        memory_cap=comparison.memory_cap,
        unit_ns=comparison.costs.unit_ns,
        costs=costs_document(comparison.costs),
        rows=[_row(comparison, each) for each in comparison.ranked],
        impossible=[
            ImpossibleRow(name=each.family.name, title=each.family.title, reason=each.reason)
            for each in comparison.candidates
            if each.simulation is None
        ],
    )


def comparison_of(document: Mapping[str, Any], *, what: str = "comparison") -> Comparison:
    """The comparison of a document, simulated once more from its costs. what: names it in errors.

    Raises `DocumentError` where it is no such document.
    """
    told = document_as(document, ComparisonDocument, schema=SCHEMA, what=what)
    by_devices = told["equal"] == "devices"
    named = {row["name"] for row in (*told["rows"], *told["impossible"])}
    try:
        return compare(
            costs_of(told["costs"], what=what),
            num_micro_batches=told["num_micro_batches"],
            num_stages=None if by_devices else told["num_equal"],
            num_devices=told["num_equal"] if by_devices else None,
            families=[name for name in FAMILIES if name in named],
            boundary=told["boundary"],
            memory_cap=told["memory_cap"],
        )
    except ScheduleError as error:
        raise DocumentError(f"{what}: {error}") from error


def comparison_table(comparison: Comparison) -> pl.DataFrame:
    """The rows as a table, for CSV: a law is its value, its formula and whether it holds."""
    rows = []
    for row in comparison_document(comparison)["rows"]:
        flat = {key: value for key, value in row.items() if key not in ("published", "exact")}
        for which, law in (("published", row["published"]), ("exact", row["exact"])):
            for key in LawTold.__annotations__:
                flat[f"{which}_{key}"] = None if law is None else law[key]  # type: ignore[literal-required]
        rows.append(flat)
    return pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame({name: [] for name in _columns()})


def _columns() -> list[str]:
    """Of the table."""
    plain = [key for key in ScheduleRow.__annotations__ if key not in ("published", "exact")]
    return plain + [f"{which}_{key}" for which in ("published", "exact") for key in LawTold.__annotations__]


def _row(comparison: Comparison, candidate: Candidate) -> ScheduleRow:
    run = candidate.simulation
    assert run is not None and candidate.law is not None
    return ScheduleRow(
        name=candidate.family.name,
        title=candidate.family.title,
        num_devices=run.schedule.num_ranks,
        num_stages=run.schedule.num_stages,
        makespan_ns=run.makespan_ns,
        step_ns=run.step_ns,
        bubble_ns=run.bubble_ns,
        bubble_share=run.bubble_ns / run.step_ns if run.step_ns else 0.0,
        peak_activations=float(candidate.peak_activations),
        peak_bytes=max(run.ranks["peak_bytes"]),
        parameters=float(candidate.parameters),
        fits=comparison.fits(candidate),
        needs=candidate.needs,
        published=_law(candidate.law.published, run.bubble_ns),
        exact=_law(candidate.law.exact, run.bubble_ns),
    )


def _law(claim: Claim | None, bubble_ns: int) -> LawTold | None:
    if claim is None:
        return None
    return LawTold(
        formula=claim.formula,
        bubble_ns=claim.value,
        difference_ns=None if claim.value is None else claim.value - bubble_ns,
        holds=claim.holds,
        why_not=claim.because,
    )

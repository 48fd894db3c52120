"""A validation as JSON values, versioned (`weftrace.profile.validation/1`), and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal, TypedDict

import msgspec
import polars as pl
from msgspec import Meta

from weftrace.files.documents import document_as
from weftrace.files.schemas import Count, DocumentSchema
from weftrace.moe.validation.comparison import Validation
from weftrace.units import percent
from weftrace.version import __version__

SCHEMA: Final = "weftrace.profile.validation/1"


class SideRow(TypedDict):
    """One of the two runs."""

    source: str
    simulated: Annotated[bool, Meta(description="Whether weftrace made the traces.")]
    num_ranks: Count
    num_steps: Count
    num_layers: Annotated[Count, Meta(description="Of a step: how often its commonest phase ran.")]
    basis: Annotated[str, Meta(description="What stands for work: device, host, ranges.")]
    info: Annotated[list[tuple[str, str]], Meta(description="How it was made, as its first trace tells.")]


class TimesRow(TypedDict):
    """Of ranks, each rank's median over steps of the mean of a step's layers."""

    median_ns: Annotated[Count, Meta(description="The median of the ranks.")]
    low_ns: Annotated[Count, Meta(description="The lowest rank; of a single rank, the shortest sample.")]
    high_ns: Annotated[Count, Meta(description="The highest rank; of a single rank, the longest sample.")]
    num_samples: Annotated[Count, Meta(description="Layers, steps and ranks together.")]


class ComparedRow(TypedDict):
    """A phase on both sides."""

    phase: str
    direction: Annotated[str, Meta(description="F, B or W; empty where the name tells none.")]
    micro_batch: Annotated[int | None, Meta(description="Null where not both sides tell one.")]
    lane: Annotated[str, Meta(description="compute or communication, as measured.")]
    by: Annotated[
        Literal["busy", "data"],
        Meta(description="busy: the union of its kernels; data: of those that move data to other ranks."),
    ]
    predicted: TimesRow
    measured: TimesRow
    ratio: Annotated[float | None, Meta(description="Predicted / measured; null where nothing was measured.")]


class WholeTold(TypedDict):
    """What the run took as a whole."""

    what: Literal["span", "computation", "communication", "exposed communication"]
    predicted: TimesRow
    measured: TimesRow
    ratio: float | None


class OrderRow(TypedDict):
    """The order in which a lane's phases start, one turn."""

    lane: str
    predicted: list[str]
    measured: list[str]
    is_same: bool


class AloneRow(TypedDict):
    """A phase of one side."""

    side: Literal["predicted", "measured"]
    name: str
    median_ns: Count
    num_samples: Count


class WorstTold(TypedDict):
    """What is furthest off, of the phases and the span."""

    name: str
    error: Annotated[float, Meta(description="Predicted / measured - 1.")]


class ValidationDocument(TypedDict):
    """A predicted run beside a measured one, phase by phase."""

    schema: Literal["weftrace.profile.validation/1"]
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    headline: str
    predicted: SideRow
    measured: SideRow
    worst: WorstTold | None
    phases: Annotated[list[ComparedRow], Meta(description="In order of first start, as measured.")]
    whole: list[WholeTold]
    per_layer: Annotated[bool, Meta(description="Whether `whole` is of one layer: the runs differ in layers.")]
    orders: list[OrderRow]
    alone: list[AloneRow]
    notes: list[str]


VALIDATION_SCHEMA = DocumentSchema(
    document=ValidationDocument,
    schema=SCHEMA,
    title="A predicted profile beside a measured one",
)


def validation_document(found: Validation) -> ValidationDocument:
    """As JSON-able values."""
    plain: Any = asdict(found)
    plain["phases"] = [{**row, "ratio": own.ratio} for row, own in zip(plain["phases"], found.phases, strict=True)]
    plain["whole"] = [{**row, "ratio": own.ratio} for row, own in zip(plain["whole"], found.whole, strict=True)]
    plain["orders"] = [{**row, "is_same": own.is_same} for row, own in zip(plain["orders"], found.orders, strict=True)]
    worst = found.worst
    told: Any = {
        "schema": SCHEMA,
        "weftrace": __version__,
        "headline": headline(found),
        "worst": None if worst is None else {"name": worst[0], "error": worst[1]},
        **plain,
    }
    document: ValidationDocument = msgspec.to_builtins(
        {name: told[name] for name in ValidationDocument.__annotations__}
    )
    return document


def validation_of(document: Mapping[str, Any], *, what: str = "validation") -> Validation:
    """The value of a document. Raises `DocumentError` where it is none, or a field is broken."""
    checked = document_as(document, ValidationDocument, schema=SCHEMA, what=what)
    return msgspec.convert(checked, Validation)


def validation_table(found: Validation) -> pl.DataFrame:
    """A row a phase, then those of the whole run."""
    rows = [
        {
            "what": row.phase, "direction": row.direction, "micro_batch": row.micro_batch, "lane": row.lane,
            "by": row.by, **_times(row), "ratio": row.ratio,
        }
        for row in found.phases
    ] + [
        {"what": row.what, "direction": "", "micro_batch": None, "lane": "", "by": "", **_times(row),
         "ratio": row.ratio}
        for row in found.whole
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def _times(row: Any) -> dict[str, int]:
    return {
        f"{side}_{name}": getattr(getattr(row, side), name)
        for side in ("predicted", "measured")
        for name in ("median_ns", "low_ns", "high_ns", "num_samples")
    }


_ALIKE = 5e-4  # an error that is printed as 0.0 %


def headline(found: Validation) -> str:
    """How far off the phases are at most, and the span; or that there is nothing to compare."""
    span = next((row for row in found.whole if row.what == "span"), None)
    of_span = "" if span is None or span.ratio is None else f"the span {_off(span.ratio - 1)}"
    errors = [(row.name, row.ratio - 1) for row in found.phases if row.ratio is not None]
    if not errors:
        return "The two have no phase in common, so nothing is compared but the run as a whole."
    name, error = max(errors, key=lambda each: abs(each[1]))
    if len(errors) > 1 and abs(error) < _ALIKE:
        return f"All {len(errors)} phases are predicted as measured{'; ' * bool(of_span)}{of_span}."
    of = f"of {len(errors)} phases" if len(errors) > 1 else "the only phase in common"
    return f"{name} is furthest off {of}: predicted {_off(error)}{'; ' * bool(of_span)}{of_span}."


def _off(error: float) -> str:
    if abs(error) < _ALIKE:
        return "as measured"
    return f"{percent(abs(error))} too {'long' if error > 0 else 'short'}"

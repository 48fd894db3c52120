"""A sweep as JSON values, versioned (`weftrace.flops.sweep/1`), and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, Final, Literal, TypedDict, cast

from msgspec import Meta

from weftrace.errors import FlopsError
from weftrace.files.schemas import DocumentSchema
from weftrace.flops.document.types import BoundName, Count
from weftrace.flops.several.sweep import Sweep, SweepPoint

SCHEMA: Final = "weftrace.flops.sweep/1"


class SweepPointTold(TypedDict):
    """One run, of one step."""

    at: Annotated[dict[Literal["batch", "seq", "context"], Count], Meta(description="Axis -> its value here.")]
    flops: Count
    full_flops: Count
    executed_flops: Count
    vector_flops: Count
    moved_bytes: Count
    intensity: Annotated[float | None, Meta(description="Executed matrix and vector FLOPs a byte.")]
    param_bytes: Annotated[Count, Meta(description="Of this rank's parameters.")]
    tokens: Count | None
    step_ns: Annotated[Count | None, Meta(description="Measured, the median; null where nothing was timed.")]
    bound_ns: Annotated[float | None, Meta(description="This and the next two: null without an accelerator.")]
    predicted_ns: float | None
    bound: Annotated[BoundName | None, Meta(description="Whichever is more of bound_ns.")]
    tokens_per_s: Annotated[float | None, Meta(description="Over the measured time, else over the predicted one.")]


class SweepDocument(TypedDict):
    schema: Literal["weftrace.flops.sweep/1"]
    model: str
    hardware: Annotated[str, Meta(description='"" without an accelerator.')]
    axes: dict[Literal["batch", "seq", "context"], list[Count]]
    points: Annotated[list[SweepPointTold], Meta(description="The last axis turns fastest.")]
    assumptions: Annotated[list[str], Meta(description="Of the predicted times.")]
    notes: Annotated[list[str], Meta(description="Of the runs, each once.")]


SWEEP_SCHEMA = DocumentSchema(
    document=SweepDocument,
    schema=SCHEMA,
    title="What a model costs at each batch, sequence length and context",
)


def sweep_document(result: Sweep) -> SweepDocument:
    """The sweep as JSON-able values."""
    return {
        "schema": SCHEMA,
        "model": result.model,
        "hardware": result.hardware,
        "axes": cast(Any, {name: list(values) for name, values in result.axes.items()}),
        "points": [cast(SweepPointTold, asdict(point)) for point in result.points],
        "assumptions": list(result.assumptions),
        "notes": list(result.notes),
    }


def sweep_of(document: Mapping[str, Any], what: str = "sweep") -> Sweep:
    """The sweep that a document holds. Raises `FlopsError`, naming it as `what`, where a field is broken."""
    try:
        return Sweep(
            model=document["model"],
            axes={name: tuple(values) for name, values in document["axes"].items()},
            hardware=document["hardware"],
            points=tuple(
                SweepPoint(**{field.name: row[field.name] for field in fields(SweepPoint)})
                for row in document["points"]
            ),
            assumptions=tuple(document["assumptions"]),
            notes=tuple(document["notes"]),
        )
    except KeyError as error:
        raise FlopsError(f"{what}: a {SCHEMA} document without the field {error}") from error
    except (TypeError, AttributeError) as error:
        raise FlopsError(f"{what}: a {SCHEMA} document with a broken field: {error}") from error

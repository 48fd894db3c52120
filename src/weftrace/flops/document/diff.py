"""A comparison of two reports as JSON values, versioned (`weftrace.flops.diff/1`), and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, TypedDict

from msgspec import Meta

from weftrace.errors import FlopsError
from weftrace.files.schemas import DocumentSchema
from weftrace.flops.cost import Phase
from weftrace.flops.document.types import PhaseName, Version
from weftrace.flops.several.diff import Change, FlopsDiff
from weftrace.version import __version__

SCHEMA: Final = "weftrace.flops.diff/1"


class ChangeTold(TypedDict):
    """One number of a place in two reports."""

    path: Annotated[str | None, Meta(description="Of a module, children included; null: the whole model.")]
    phase: Annotated[PhaseName | None, Meta(description="null: parameters, and the whole step.")]
    quantity: str
    before: Annotated[int | None, Meta(description="null: not in the first report.")]
    after: Annotated[int | None, Meta(description="null: not in the second report.")]
    relative: Annotated[
        float | None, Meta(description="(after - before) / before; null where before is 0 and after is not.")
    ]
    is_within_spread: Annotated[bool, Meta(description="A time that differs by no more than its spread.")]


class DiffDocument(TypedDict):
    schema: Literal["weftrace.flops.diff/1"]
    weftrace: Version
    names: Annotated[list[str], Meta(min_length=2, max_length=2, description="Of the two reports.")]
    is_same: Annotated[bool, Meta(description="Every count, parameter and module agrees.")]
    model: Annotated[list[ChangeTold], Meta(description="Numbers of the whole model, changed or not.")]
    modules: Annotated[list[ChangeTold], Meta(description="Numbers of single modules that changed.")]
    added: Annotated[list[str], Meta(description="Paths in the second report alone.")]
    removed: Annotated[list[str], Meta(description="Paths in the first report alone.")]
    notes: Annotated[list[str], Meta(description="Why some numbers cannot be compared.")]


DIFF_SCHEMA = DocumentSchema(
    document=DiffDocument,
    schema=SCHEMA,
    title="What changed between two reports of what a model costs",
)


def diff_document(found: FlopsDiff) -> DiffDocument:
    """A comparison as JSON-able values."""
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "names": list(found.names),
        "is_same": found.is_same,
        "model": [_told(change) for change in found.model],
        "modules": [_told(change) for change in found.modules],
        "added": list(found.added),
        "removed": list(found.removed),
        "notes": list(found.notes),
    }


def diff_of(document: Mapping[str, Any], what: str = "comparison") -> FlopsDiff:
    """The comparison that a document holds. Raises `FlopsError`, naming it as `what`, where a field is broken."""
    try:
        one, other = document["names"]
        return FlopsDiff(
            names=(one, other),
            model=tuple(_change(row) for row in document["model"]),
            modules=tuple(_change(row) for row in document["modules"]),
            added=tuple(document["added"]),
            removed=tuple(document["removed"]),
            notes=tuple(document["notes"]),
        )
    except KeyError as error:
        raise FlopsError(f"{what}: a {SCHEMA} document without the field {error}") from error
    except (TypeError, ValueError) as error:
        raise FlopsError(f"{what}: a {SCHEMA} document with a broken field: {error}") from error


def _told(change: Change) -> ChangeTold:
    return {
        "path": change.path,
        "phase": None if change.phase is None else change.phase.value,
        "quantity": change.quantity,
        "before": change.before,
        "after": change.after,
        "relative": change.relative if math.isfinite(change.relative) else None,
        "is_within_spread": change.is_within_spread,
    }


def _change(row: Mapping[str, Any]) -> Change:
    values = {field.name: row[field.name] for field in fields(Change)}
    return Change(**values | {"phase": None if row["phase"] is None else Phase(row["phase"])})

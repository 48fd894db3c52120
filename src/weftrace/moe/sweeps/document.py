"""Documents of a sweep (`weftrace.profile.sweep/1`) and of what pays (`weftrace.profile.pays/1`), and their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

import msgspec
import polars as pl
from msgspec import Meta

from weftrace.files.documents import document_as
from weftrace.files.schemas import DocumentSchema, Positive
from weftrace.moe.requests import Request
from weftrace.moe.sweeps.crossings import Curve, Pays
from weftrace.moe.sweeps.many_settings import Row, Sweep, told_base
from weftrace.version import __version__

SWEEP: Final = "weftrace.profile.sweep/1"
PAYS: Final = "weftrace.profile.pays/1"


class SweepDocument(TypedDict):
    """Every combination of some settings."""

    schema: str
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    headline: str
    base: Request
    shared: Annotated[dict[str, str], Meta(description="What all have alike, as text.")]
    axes: Annotated[dict[str, list[str | int | float]], Meta(description="Option -> its values.")]
    rows: Annotated[list[Row], Meta(description="In the order of the axes, the last one fastest.")]


class PaysDocument(TypedDict):
    """Operation lists against no overlap, by batch."""

    schema: str
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    headline: str
    request: Request
    shared: Annotated[dict[str, str], Meta(description="What all have alike, as text.")]
    unit: Annotated[str, Meta(description="What batches count.")]
    batches: Annotated[list[Positive], Meta(description="Of one GPU, ascending.")]
    curves: Annotated[list[Curve], Meta(description="No overlap first.")]


SWEEP_SCHEMA = DocumentSchema(
    document=SweepDocument, schema=SWEEP, title="A sweep over settings of a profile",
)  # fmt: skip
PAYS_SCHEMA = DocumentSchema(
    document=PaysDocument, schema=PAYS, title="From which batch on overlapping pays",
)  # fmt: skip


def sweep_document(sweep: Sweep) -> SweepDocument:
    """The sweep as JSON-able values."""
    return SweepDocument(
        schema=SWEEP, weftrace=__version__, headline=sweep.headline(), base=msgspec.to_builtins(sweep.base),
        shared=told_base(sweep.base, sweep.axes), axes={name: list(values) for name, values in sweep.axes.items()},
        rows=msgspec.to_builtins(sweep.rows),
    )  # fmt: skip


def sweep_from(document: Mapping[str, Any], *, what: str = "sweep") -> Sweep:
    """The sweep of a document. Raises `DocumentError` where it is no such document."""
    told = document_as(document, SweepDocument, schema=SWEEP, what=what)
    return Sweep(
        base=msgspec.convert(told["base"], Request),
        axes={name: tuple(values) for name, values in told["axes"].items()},
        rows=tuple(msgspec.convert(told["rows"], list[Row])),
    )


def pays_document(pays: Pays) -> PaysDocument:
    """What pays, as JSON-able values."""
    return PaysDocument(
        schema=PAYS, weftrace=__version__, headline=pays.headline(), request=msgspec.to_builtins(pays.request),
        shared=told_base(pays.request, {"overlap": ()}), unit=pays.unit, batches=list(pays.batches),
        curves=msgspec.to_builtins(pays.curves),
    )  # fmt: skip


def pays_from(document: Mapping[str, Any], *, what: str = "pays") -> Pays:
    """What pays, of a document. Raises `DocumentError` where it is no such document."""
    told = document_as(document, PaysDocument, schema=PAYS, what=what)
    return Pays(
        request=msgspec.convert(told["request"], Request), unit=told["unit"], batches=tuple(told["batches"]),
        curves=tuple(msgspec.convert(told["curves"], list[Curve])),
    )  # fmt: skip


def sweep_table(sweep: Sweep) -> pl.DataFrame:
    """A row a combination: its values, its numbers, why it is impossible."""
    rows = [
        {**row["values"], **_flat(row["summary"] or {}), "reason": row["reason"]}
        for row in msgspec.to_builtins(sweep.rows)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _flat(summary: dict[str, Any]) -> dict[str, Any]:
    """Lists as one text, for CSV."""
    return {key: "; ".join(value) if isinstance(value, list | tuple) else value for key, value in summary.items()}


def pays_table(pays: Pays) -> pl.DataFrame:
    """A row a batch: tokens a second of one GPU by list."""
    return pl.DataFrame({"batch": pays.batches, **{curve.overlap: curve.tokens_per_gpu for curve in pays.curves}})

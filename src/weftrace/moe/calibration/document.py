"""A calibration as JSON values, versioned (`weftrace.profile.calibration/1`), and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal, TypedDict

import msgspec
from msgspec import Meta

from weftrace.files.documents import document_as, read_document
from weftrace.files.schemas import Amount, Count, DocumentSchema, Positive
from weftrace.moe.calibration.values import Calibration, Follows, Group, Knowing
from weftrace.version import __version__

SCHEMA: Final = "weftrace.profile.calibration/1"


class PartRow(TypedDict):
    """The kernels of a phase that are of one group and follow one size, of one layer."""

    group: Annotated[
        Group,
        Meta(description="matrix work, bytes of device memory, data sent to other ranks, waits for other ranks."),
    ]
    follows: Annotated[
        Follows, Meta(description="What its time is proportional to: routed rows, tokens, or rows + tokens.")
    ]
    name: Annotated[str, Meta(description="Of the kernel that takes longest.")]
    num_kernels: Positive
    num_sms: Annotated[int | None, Meta(description="Blocks of that kernel where it is persistent.")]
    alone_ns: Annotated[Amount, Meta(description="With the phase's mean rows, and nothing that moves data beside it.")]
    least_ns: Annotated[Amount, Meta(description="The shortest of those of which that is the mean.")]


class PhaseTold(TypedDict):
    """One phase of a layer."""

    phase: str
    rows: Annotated[float | None, Meta(description="Mean routed rows as launched; null where the trace tells none.")]
    busy_ns: Annotated[Amount, Meta(description="Mean of its kernels' union over streams.")]
    union: Annotated[float, Meta(gt=0, description="The union of its kernels, by their sum.")]
    num_layers: Positive
    parts: list[PartRow]


class SlowedRow(TypedDict):
    """What communication that moves data costs the kernels beside it."""

    group: Group
    families: Annotated[list[str], Meta(description="Kernel families; none: all that no other row names.")]
    factor: Annotated[float, Meta(ge=1, description="By how much longer they take.")]


class SplitRow(TypedDict):
    """A fit on some layers, tested on the others."""

    layers: list[Count]
    factors: Annotated[list[tuple[Group, float]], Meta(description="What communication costs the kernels beside it.")]
    worst: Annotated[
        list[tuple[Knowing, float]],
        Meta(description="What was known of a tested layer; the error of that phase that computes and is most off."),
    ]
    span: Annotated[float | None, Meta(description="Error of the tested layers' time, waits as measured; null: none.")]


class TestedRow(TypedDict):
    """How far off predictions of layers were that the fit had not seen."""

    what: str
    by: Annotated[
        Literal["busy", "data", "span", "span_waits"],
        Meta(
            description="busy: the union of a phase's kernels; data: of those that move data; span: the time of layers "
            "one after another, with waits for other ranks as in the fitted layers; span_waits: with waits as measured."
        ),
    ]
    measured_ns: Annotated[float | None, Meta(description="Mean of the tested layers; null of a span.")]
    errors: Annotated[
        list[tuple[Knowing, float, float]],
        Meta(description="What was known of a tested layer; the lowest and highest of predicted / measured - 1."),
    ]


class CalibrationDocument(TypedDict):
    """What the phases of a measured trace cost, and how well that predicts layers it was not fitted on."""

    schema: Literal["weftrace.profile.calibration/1"]
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    source: str
    layers: Annotated[list[Count], Meta(description="Layers of the trace that it was fitted on.")]
    num_layers: Positive
    tokens: Annotated[int | None, Meta(description="Of a micro-batch on a GPU; null where nothing tells.")]
    gap_ns: Annotated[Count, Meta(description="Idle time between two kernels back to back.")]
    phases: list[PhaseTold]
    slowed: list[SlowedRow]
    info: Annotated[list[tuple[str, str]], Meta(description="How the run was made, as its trace tells.")]
    splits: Annotated[
        list[SplitRow], Meta(description="Fits that the errors are of, and what each was off by at most.")
    ]
    tested: Annotated[list[TestedRow], Meta(description="Errors over all splits; empty where nothing was left out.")]
    notes: list[str]


CALIBRATION_SCHEMA = DocumentSchema(
    document=CalibrationDocument,
    schema=SCHEMA,
    title="Costs of a mixture-of-experts layer, calibrated from a trace",
)


def calibration_document(found: Calibration) -> CalibrationDocument:
    """As JSON-able values."""
    told: Any = {"schema": SCHEMA, "weftrace": __version__, **asdict(found)}
    fields = CalibrationDocument.__annotations__
    document: CalibrationDocument = msgspec.to_builtins({name: told[name] for name in fields})
    return document


def calibration_of(document: Mapping[str, Any], *, what: str = "calibration") -> Calibration:
    """The value of a document. Raises `DocumentError` where it is none, or a field is broken."""
    return msgspec.convert(document_as(document, CalibrationDocument, schema=SCHEMA, what=what), Calibration)


def read_calibration(path: str | os.PathLike[str]) -> Calibration:
    """A calibration from a JSON file, plain or compressed. Raises `DocumentError`."""
    return calibration_of(read_document(path), what=os.fspath(path))

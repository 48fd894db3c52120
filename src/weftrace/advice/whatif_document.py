"""What-ifs as JSON values, versioned: one set of changes (`weftrace.what_if/1`), and where speed is worth most
(`weftrace.sensitivity/1`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypedDict, cast

import polars as pl
from msgspec import Meta

from weftrace.advice.document import PartRow, WeakestTold, part_rows, source_of, weakest_told
from weftrace.advice.sensitivities import Curve, Sensitivity, curve, sensitivity
from weftrace.advice.told import KeptTold, ReplayTold, WaitsRow, headline_of, kept_told, replay_told, waits_told
from weftrace.advice.whatifs import WhatIf
from weftrace.files.schemas import Count, DocumentSchema
from weftrace.notebook import InNotebook
from weftrace.plan import Inferred
from weftrace.version import __version__

WHAT_IF: Final = "weftrace.what_if/1"
SENSITIVITY: Final = "weftrace.sensitivity/1"


class WhatIfDocument(TypedDict):
    """Changes tried on the plan of a measured run. Spans go from the first start on a device to the last end."""

    schema: str
    weftrace: Annotated[str, Meta(description="The version that wrote it.")]
    source: Annotated[str, Meta(description="The trace, or the job.")]
    device_name: str
    ranks: list[int]
    changes: Annotated[list[str], Meta(description="What was tried, all at once.")]
    headline: str
    replay: ReplayTold
    kept: KeptTold
    waits: list[WaitsRow]
    replayed_ns: Annotated[Count, Meta(description="Of the plan as inferred.")]
    after_ns: Annotated[Count, Meta(description="Of the changed plan.")]
    saved_ns: Annotated[int, Meta(description="replayed_ns - after_ns; below 0 where the change makes it longer.")]
    change: Annotated[float, Meta(description="after_ns / replayed_ns - 1.")]
    is_within_error: Annotated[bool, Meta(description="Whether the replay is off by more than what is saved.")]
    bottleneck: Annotated[str, Meta(description="The largest class on the critical path after the change.")]
    before: Annotated[list[PartRow], Meta(description="The critical path by class; adds up to replayed_ns.")]
    after: Annotated[list[PartRow], Meta(description="The same after the change; adds up to after_ns.")]
    before_phases: list[PartRow]
    after_phases: list[PartRow]
    weakest: Annotated[WeakestTold | None, Meta(description="On the path after the change.")]
    limits: Annotated[list[str], Meta(description="Why the answer may not be valid.")]
    notes: list[str]


class SensitivityRow(TypedDict):
    """One selection, made faster alone."""

    kind: Annotated[str, Meta(description="class, family, phase or rank.")]
    selector: Annotated[str, Meta(description="As --scale takes it.")]
    time_ns: Annotated[int, Meta(description="Of all its ops together.")]
    critical_ns: Annotated[int, Meta(description="Of that, what lies on the critical path.")]
    saved_ns: Annotated[int, Meta(description="By which the span is shorter.")]
    share: Annotated[float, Meta(description="saved_ns of the replayed span.")]


class PointRow(TypedDict):
    """A point of a curve."""

    factor: Annotated[float, Meta(description="Durations are multiplied by it.")]
    span_ns: Count
    change: Annotated[float, Meta(description="span_ns over the replayed span, less 1.")]


class CurveTold(TypedDict):
    """The span over the speed of one selection."""

    selector: str
    sentence: Annotated[str, Meta(description="Where it is flat, where its knee is, how steep it is.")]
    knee: Annotated[float, Meta(description="The factor up to which it is flat.")]
    points: list[PointRow]


class SensitivityDocument(TypedDict):
    """What it saves to make each class, family and phase a little faster, each alone."""

    schema: str
    weftrace: Annotated[str, Meta(description="The version that wrote it.")]
    source: Annotated[str, Meta(description="The trace, or the job.")]
    device_name: str
    ranks: list[int]
    headline: str
    by: Annotated[float, Meta(description="How much faster: 0.01 is 1 %.")]
    replay: ReplayTold
    kept: KeptTold
    waits: list[WaitsRow]
    replayed_ns: Count
    rows: Annotated[list[SensitivityRow], Meta(description="What saves most first, within each kind.")]
    curves: list[CurveTold]
    notes: list[str]


WHAT_IF_SCHEMA = DocumentSchema(
    document=WhatIfDocument,
    schema=WHAT_IF,
    title="What a change would do to a measured run",
)
SENSITIVITY_SCHEMA = DocumentSchema(
    document=SensitivityDocument,
    schema=SENSITIVITY,
    title="Where a little speed is worth most",
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WhatIfReport(InNotebook):
    """A what-if as its document: what is shown and saved. found: what it was made of; None of one read from a file."""

    document: WhatIfDocument
    found: WhatIf | None = None

    def _told(self) -> list[tuple[str, str]]:
        return [("headline", self.document["headline"])]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SensitivityReport(InNotebook):
    """A sensitivity and its curves as their document: what is shown and saved."""

    document: SensitivityDocument

    def _told(self) -> list[tuple[str, str]]:
        return [("headline", self.document["headline"])]


def what_if_report(found: WhatIf, inferred: Inferred) -> WhatIfReport:
    """A what-if as a value that can be shown and saved. inferred: what it was tried on."""
    document: WhatIfDocument = {
        "schema": WHAT_IF,
        "weftrace": __version__,
        "source": source_of(inferred),
        "device_name": inferred.plan.device_name,
        "ranks": [int(rank) for rank in inferred.plan.ranks],
        "changes": [str(change) for change in found.changes],
        "headline": headline_of(found.sentence, found.replay),
        "replay": replay_told(found.replay),
        "kept": kept_told(inferred),
        "waits": waits_told(inferred),
        "replayed_ns": found.replayed_ns,
        "after_ns": found.after_ns,
        "saved_ns": found.saved_ns,
        "change": found.change,
        "is_within_error": found.is_within_error,
        "bottleneck": found.bottleneck,
        "before": part_rows(found.before.by_class),
        "after": part_rows(found.after.by_class),
        "before_phases": part_rows(found.before.by_phase),
        "after_phases": part_rows(found.after.by_phase),
        "weakest": weakest_told(found.after),
        "limits": list(found.limits),
        "notes": [*inferred.notes, *found.notes],
    }
    return WhatIfReport(document=document, found=found)


def sensitivity_report(found: Sensitivity, curves: tuple[Curve, ...], inferred: Inferred) -> SensitivityReport:
    """A sensitivity as a value that can be shown and saved. inferred: what it was tried on."""
    document: SensitivityDocument = {
        "schema": SENSITIVITY,
        "weftrace": __version__,
        "source": source_of(inferred),
        "device_name": inferred.plan.device_name,
        "ranks": [int(rank) for rank in inferred.plan.ranks],
        "headline": headline_of(found.sentence, inferred.replay),
        "by": found.by,
        "replay": replay_told(inferred.replay),
        "kept": kept_told(inferred),
        "waits": waits_told(inferred),
        "replayed_ns": found.replayed_ns,
        "rows": cast(list[SensitivityRow], found.table.with_columns(pl.col("kind").cast(pl.String)).to_dicts()),
        "curves": [
            {"selector": curve.selector, "sentence": curve.sentence, "knee": curve.flat_until,
             "points": cast(list[PointRow], curve.points.to_dicts())}
            for curve in curves
        ],
        "notes": list(inferred.notes),
    }  # fmt: skip
    return SensitivityReport(document=document)


def worth_of(inferred: Inferred) -> SensitivityReport:
    """What 1 % of speed is worth, and the curve of communication, or of all computation where there is none."""
    told = inferred.measured.get_column("what")
    curves = tuple(curve(inferred, name) for name in ("communication", "compute") if (told == name).any())
    return sensitivity_report(sensitivity(inferred), curves[:1], inferred)


def what_if_table(document: WhatIfDocument) -> pl.DataFrame:
    """Both paths by class and by phase: by, name, before_ns, after_ns."""
    tables = []
    for by, before, after in (
        ("class", document["before"], document["after"]),
        ("phase", document["before_phases"], document["after_phases"]),
    ):
        both = before_and_after(before, after)
        tables += [{"by": by, "name": name, "before_ns": old, "after_ns": new} for name, (old, new) in both.items()]
    return pl.DataFrame(tables, infer_schema_length=None)


def before_and_after(before: Sequence[PartRow], after: Sequence[PartRow]) -> dict[str, tuple[int, int]]:
    """Name -> its ns on the path before and after; 0 where it is not on it."""
    was, becomes = ({row["name"]: row["time_ns"] for row in rows} for rows in (before, after))
    return {name: (was.get(name, 0), becomes.get(name, 0)) for name in {**was, **becomes}}


def sensitivity_table(document: SensitivityDocument) -> pl.DataFrame:
    """A row a selection."""
    return pl.DataFrame(document["rows"], infer_schema_length=None)

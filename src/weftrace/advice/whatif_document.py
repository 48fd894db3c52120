"""What-ifs as values that are shown and saved: one set of changes (`weftrace.what_if/1`), and where speed is worth most
(`weftrace.sensitivity/1`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import polars as pl
from msgspec import Meta

from weftrace.advice.critical_paths import WeakestEdge
from weftrace.advice.document import Advice, PartRow, basis_of, rows_of
from weftrace.advice.sensitivities import Curve, GainRow, PointRow, Sensitivity, curve, sensitivity
from weftrace.advice.whatifs import Spans, WhatIf
from weftrace.files.schemas import Count
from weftrace.files.values import UNSAVED, filled
from weftrace.plan import Inferred


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WhatIfReport(Spans, Advice):
    """Changes tried on the plan of a measured run. Spans go from the first start on a device to the last end.

    found: what it was made of; None of one read from a file.
    """

    changes: Annotated[list[str], Meta(description="What was tried, all at once.")]
    after_ns: Annotated[
        Count, Meta(description="Of the changed plan; in communication with absent ranks its longest transfer changes.")
    ]
    low_ns: Annotated[Count, Meta(description="At least that, whatever absent ranks do; after_ns if none is absent.")]
    high_ns: Annotated[Count, Meta(description="At most that, whatever absent ranks do; after_ns if none is absent.")]
    bottleneck: Annotated[str, Meta(description="The largest class on the critical path after the change.")]
    before: Annotated[list[PartRow], Meta(description="The critical path by class; adds up to replayed_ns.")]
    after: Annotated[list[PartRow], Meta(description="The same after the change; adds up to after_ns.")]
    before_phases: list[PartRow]
    after_phases: list[PartRow]
    weakest: Annotated[WeakestEdge | None, Meta(description="On the path after the change.")]
    limits: Annotated[list[str], Meta(description="Why the answer may not be valid.")]
    found: Annotated[WhatIf | None, UNSAVED] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSummary:
    """The span over the speed of one selection."""

    selector: str
    sentence: Annotated[str, Meta(description="Where it is flat, where its knee is, how steep it is.")]
    knee: Annotated[float, Meta(description="The factor up to which it is flat.")]
    points: list[PointRow]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SensitivityReport(Advice):
    """What it saves to make each class, family and phase a little faster, each alone."""

    by: Annotated[float, Meta(description="How much faster: 0.01 is 1 %.")]
    replayed_ns: Count
    rows: Annotated[list[GainRow], Meta(description="What saves most first, within each kind.")]
    curves: list[CurveSummary]


def what_if_report(found: WhatIf, inferred: Inferred) -> WhatIfReport:
    """A what-if as a value that can be shown and saved. inferred: what it was tried on."""
    basis = basis_of(inferred, found.sentence)
    return filled(
        WhatIfReport,
        found,
        **{**basis, "notes": [*basis["notes"], *found.notes]},
        changes=[str(change) for change in found.changes],
        before=rows_of(found.before.by_class),
        after=rows_of(found.after.by_class),
        before_phases=rows_of(found.before.by_phase),
        after_phases=rows_of(found.after.by_phase),
        weakest=found.after.weakest,
        limits=list(found.limits),
        found=found,
    )


def sensitivity_report(found: Sensitivity, curves: Sequence[Curve], inferred: Inferred) -> SensitivityReport:
    """A sensitivity as a value that can be shown and saved. inferred: what it was tried on."""
    return filled(
        SensitivityReport,
        found,
        **basis_of(inferred, found.sentence),
        rows=rows_of(found.table),
        curves=[filled(CurveSummary, each, knee=each.flat_until, points=rows_of(each.points)) for each in curves],
    )


def worth_of(inferred: Inferred) -> SensitivityReport:
    """What 1 % of speed is worth, and the curve of communication, or of all computation where there is none."""
    what = inferred.measured.get_column("what")
    curves = [curve(inferred, name) for name in ("communication", "compute") if (what == name).any()]
    return sensitivity_report(sensitivity(inferred), curves[:1], inferred)


def what_if_table(report: WhatIfReport) -> pl.DataFrame:
    """Both paths by class and by phase: by, name, before_ns, after_ns."""
    rows = []
    for by, before, after in (
        ("class", report.before, report.after),
        ("phase", report.before_phases, report.after_phases),
    ):
        both = before_and_after(before, after)
        rows += [{"by": by, "name": name, "before_ns": old, "after_ns": new} for name, (old, new) in both.items()]
    return pl.DataFrame(rows, infer_schema_length=None)


def before_and_after(before: Sequence[PartRow], after: Sequence[PartRow]) -> dict[str, tuple[int, int]]:
    """Name -> its ns on the path before and after; 0 where it is not on it."""
    was, becomes = ({row["name"]: row["time_ns"] for row in rows} for rows in (before, after))
    return {name: (was.get(name, 0), becomes.get(name, 0)) for name in {**was, **becomes}}

"""Where is a little speed worth most? Each class, kernel family and phase a little faster, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from weftrace.advice.changes import Scale, changed, selected, selectors
from weftrace.advice.critical_paths import critical_path_of
from weftrace.errors import AdviceError
from weftrace.notebook import InNotebook
from weftrace.plan.inference.values import Inferred
from weftrace.plan.times import timetable
from weftrace.units import duration

#: Columns of `Sensitivity.table`, a row a selector.
SENSITIVITY_SCHEMA: dict[str, pl.DataType] = {
    "kind": pl.Enum(("class", "family", "phase", "rank")),
    "selector": pl.String(),  # as `Scale` takes it
    "time_ns": pl.Int64(),  # of all its ops together
    "critical_ns": pl.Int64(),  # of that, what lies on the critical path
    "saved_ns": pl.Int64(),  # by which the span is shorter with all of it faster by the share asked for
    "share": pl.Float64(),  # saved_ns over the replayed span
}
CURVE_SCHEMA: dict[str, pl.DataType] = {
    "factor": pl.Float64(),
    "span_ns": pl.Int64(),
    "change": pl.Float64(),  # span_ns over the replayed span, less 1
}
FACTORS = (0.0, 0.25, 0.5, 0.75, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sensitivity(InNotebook):
    """What it saves to make each class, family and phase faster by `by` (0.01: 1 %), alone.

    table: frame of `SENSITIVITY_SCHEMA`, what saves most first within each kind. error: of the replay.
    """

    by: float
    replayed_ns: int
    error: float
    table: pl.DataFrame

    @property
    def sentence(self) -> str:
        """What is worth most."""
        best = self.table.sort("saved_ns", descending=True, maintain_order=True).row(0, named=True)
        return (
            f"{100 * self.by:g} % faster {best['selector']} saves most: "
            f"{duration(best['saved_ns'])}, {100 * best['share']:.2f} % of the span."
        )

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "sensitivity", self.sentence


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve(InNotebook):
    """The span over the speed of one selection. points: frame of `CURVE_SCHEMA`, ascending factors."""

    selector: str
    replayed_ns: int
    error: float
    points: pl.DataFrame

    @property
    def sentence(self) -> str:
        """Where it is flat, and how steep it is elsewhere."""
        return ""

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "curve", self.sentence


def sensitivity(inferred: Inferred, *, by: float = 0.01) -> Sensitivity:
    """by: how much faster, a fraction: durations become (1 - by) of what they were.

    Raises `AdviceError` where by is not above 0 and at most 1, or nothing ran on a device.
    """
    if not 0 < by <= 1:
        raise AdviceError(f"by = {by}: durations can be shortened by a fraction above 0 and up to 1.")
    path = critical_path_of(inferred)
    on_path = np.zeros(len(inferred.plan), np.int64)
    np.add.at(
        on_path,
        path.parts.get_column("op").to_numpy(),
        path.parts.select(pl.col("until_ns") - pl.col("from_ns")).to_series().to_numpy(),
    )
    times = inferred.plan.ops.get_column("duration_ns").to_numpy()
    rows = []
    for selector in selectors(inferred):
        mask = selected(inferred, selector)
        saved = path.span_ns - _span_ns(inferred, Scale(selector=selector, factor=1 - by))
        rows.append(
            (
                _kind(selector),
                selector,
                int(times[mask].sum()),
                int(on_path[mask].sum()),
                saved,
                saved / max(path.span_ns, 1),
            )
        )
    table = pl.DataFrame(rows, schema=SENSITIVITY_SCHEMA, orient="row")
    table = table.sort("kind", "saved_ns", descending=[False, True], maintain_order=True)
    return Sensitivity(by=by, replayed_ns=path.span_ns, error=inferred.replay.error, table=table)


def curve(inferred: Inferred, selector: str, factors: Iterable[float] = FACTORS) -> Curve:
    """The span with one selection scaled by each factor. Raises `AdviceError` as `changed` does."""
    replayed = inferred.replay.replayed_ns
    rows = [
        (factor, span := _span_ns(inferred, Scale(selector=selector, factor=factor)), span / max(replayed, 1) - 1)
        for factor in sorted({float(factor) for factor in factors})
    ]
    points = pl.DataFrame(rows, schema=CURVE_SCHEMA, orient="row")
    return Curve(selector=selector, replayed_ns=replayed, error=inferred.replay.error, points=points)


def _kind(selector: str) -> str:
    form = selector.partition(":")[0]
    from weftrace.advice.changes import SCALABLE

    return form if form in ("phase", "rank") else "class" if selector in SCALABLE else "family"


def _span_ns(inferred: Inferred, change: Scale) -> int:
    times = timetable(changed(inferred, [change]).plan)
    on_device = inferred.measured.get_column("event").is_not_null().to_numpy()
    return int(times.end_ns[on_device].max()) - int(times.start_ns[on_device].min())

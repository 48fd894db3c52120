"""Where is a little speed worth most? Each class, kernel family and phase faster, one after the other; and one at many
speeds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.advice.bounds import tried
from weftrace.advice.changes import SCALABLE, Scale
from weftrace.advice.critical_paths import ON_DEVICE, CriticalPath, critical_path_of
from weftrace.advice.selecting import selected, selectors
from weftrace.errors import AdviceError
from weftrace.files.columns import frame_schema
from weftrace.files.schemas import Count
from weftrace.notebook import InNotebook
from weftrace.plan.inference.values import Inferred
from weftrace.render.console_text import shorten_middle
from weftrace.units import duration, percent, signed


class GainRow(TypedDict):
    """One selection, made faster alone."""

    kind: Annotated[Literal["class", "family", "phase", "rank"], Meta(description="What the selector names.")]
    selector: Annotated[str, Meta(description="As --scale takes it.")]
    time_ns: Annotated[int, Meta(description="Of all its ops together.")]
    critical_ns: Annotated[int, Meta(description="Of that, what lies on the critical path.")]
    saved_ns: Annotated[int, Meta(description="By which the span is shorter.")]
    share: Annotated[float, Meta(description="saved_ns of the replayed span.")]
    least_ns: Annotated[int, Meta(description="Saved at least, whatever absent ranks do; saved_ns if none is absent.")]
    most_ns: Annotated[int, Meta(description="Saved at most, whatever absent ranks do; saved_ns if none is absent.")]


class PointRow(TypedDict):
    """A point of a curve."""

    factor: Annotated[float, Meta(description="Durations are multiplied by it.")]
    span_ns: Count
    change: Annotated[float, Meta(description="span_ns over the replayed span, less 1.")]
    low_ns: Annotated[Count, Meta(description="At least that, whatever absent ranks do; span_ns if none is absent.")]
    high_ns: Annotated[Count, Meta(description="At most that, whatever absent ranks do; span_ns if none is absent.")]


FACTORS = (0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0)
#: Families, phases and ranks in a table, each: those that take longest.
MOST_LISTED = 20
#: A phase that holds so much of the device's time spans everything: all of it faster is no choice among parts.
WHOLE = 0.99
_NAME_COLUMNS = 48  # of a selector in a sentence
#: A curve is straight where its slopes differ by less than this share, and flat while the span grows by less than that
#: (and by a slope that is less than this share of the last).
STRAIGHT, STILL = 0.1, 0.001


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sensitivity(InNotebook):
    """What it saves to make each class, family, phase and rank faster by `by` (0.01: 1 %), alone.

    table: frame of `GainRow`s, within each kind what saves most first, without a phase that spans everything (`WHOLE`
    of the device's time). num_left_out: families, phases and ranks beyond the `MOST_LISTED` that take longest.
    error: of the replay.
    """

    by: float
    replayed_ns: int
    error: float
    num_left_out: int
    table: pl.DataFrame

    @property
    def sentence(self) -> str:
        """What is worth most, with the replay's error."""
        return sentence_of(self)

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "sensitivity", self.sentence


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Curve(InNotebook):
    """The replayed span over the speed of one selection. points: frame of `PointRow`s, ascending factors.

    A span is the longest of many paths, and each is a straight line over the factor: the curve bends upwards only.
    error: of the replay.
    """

    selector: str
    replayed_ns: int
    error: float
    points: pl.DataFrame

    @property
    def slopes_ns(self) -> tuple[float, float]:
        """Between the first two points and the last two: by how much the span grows with each percent, ns."""
        factor, span = (self.points.get_column(name).to_numpy() for name in ("factor", "span_ns"))
        if len(factor) < 2:
            return 0.0, 0.0
        slopes = np.diff(span) / np.diff(factor) / 100
        return float(slopes[0]), float(slopes[-1])

    @property
    def flat_until(self) -> float:
        """The largest factor up to which the span grows by less than `STILL` of the replayed one and, if it grows by
        more later, by less than `STRAIGHT` of the last slope: a small slope that stays is none."""
        factor, span = pl.col("factor"), pl.col("span_ns")
        still = span - span.first() <= STILL * self.replayed_ns
        steep = (span - span.first()) / (100 * (factor - factor.first())).clip(1e-9) > STRAIGHT * self.slopes_ns[1]
        flat = self.points.filter(still & (~steep | still.last()))
        return float(flat.item(-1, "factor"))

    @property
    def sentence(self) -> str:
        """Where it is flat, where it bends and how steep it is, with the replay's error."""
        return sentence_of_curve(self)

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "curve", self.sentence


def sensitivity(inferred: Inferred, *, by: float = 0.01) -> Sensitivity:
    """by: how much faster, a fraction: durations become (1 - by) of what they were.

    Raises `AdviceError` where by is not above 0 and at most 1, or nothing ran on a device.
    """
    if not 0 < by <= 1:
        raise AdviceError(f"by = {by}: durations can be shortened by a fraction above 0 and up to 1.")
    path = critical_path_of(inferred)
    listed, num_left_out = _listed(inferred)
    rows = [_row(inferred, path, selector, by) for selector in listed]
    table = pl.DataFrame(rows, schema=frame_schema(GainRow), orient="row")
    return Sensitivity(
        by=by,
        replayed_ns=path.span_ns,
        error=inferred.replay.error,
        num_left_out=num_left_out,
        table=table.sort("kind", "saved_ns", descending=[False, True], maintain_order=True),
    )


def curve(inferred: Inferred, selector: str, factors: Iterable[float] = FACTORS) -> Curve:
    """The span with one selection scaled by each factor.

    Raises `AdviceError` where the selector selects nothing, or a factor is none.
    """
    each = sorted({float(factor) for factor in factors})
    if not each or not all(math.isfinite(factor) and factor >= 0 for factor in each):
        raise AdviceError(f"factors = {each}: durations are multiplied by numbers of 0 or more.")
    replayed = inferred.replay.replayed_ns
    changes = [Scale(selector=selector, factor=factor) for factor in each]
    rows = []
    for factor, change in zip(each, changes, strict=True):
        found = tried(inferred, [change])
        rows.append((factor, found.span_ns, found.span_ns / max(replayed, 1) - 1, found.low_ns, found.high_ns))
    points = pl.DataFrame(rows, schema=frame_schema(PointRow), orient="row")
    return Curve(selector=selector, replayed_ns=replayed, error=inferred.replay.error, points=points)


def sentence_of(found: Sensitivity) -> str:
    """Of the classes and of the phases or families, what saves most."""
    faster = f"{100 * found.by:g} % faster"
    if found.table.is_empty():
        return "Nothing takes time."
    kinds = found.table.sort("saved_ns", descending=True, maintain_order=True).unique("kind", maintain_order=True)
    same = ("critical_ns", "saved_ns")  # a family that is all of its class, say: told once
    kinds = kinds.unique(same, keep="first", maintain_order=True)
    best = [row for row in kinds.iter_rows(named=True) if row["kind"] != "rank" and row["saved_ns"] > 0]
    if not best:
        return f"Nothing that is {faster} alone makes the span shorter."
    names = [shorten_middle(row["selector"], _NAME_COLUMNS) for row in best]
    shares = [f" ({percent(row['share'], 2)})" for row in best]
    if any(row["least_ns"] < row["most_ns"] for row in best):
        shares = [""] * len(best)
    summary = [f"{name} saves {_saved(row)}{share}" for name, row, share in zip(names, best, shares, strict=True)]
    off = f"the replay is {signed(found.error)} off"
    return f"{faster}, each alone, of {duration(found.replayed_ns, 4)}: {', '.join(summary)}; {off}."


def _saved(row: Mapping[str, Any]) -> str:
    """What a selection saves; where absent ranks decide, at least and at most."""
    if row["least_ns"] == row["most_ns"]:
        return duration(row["saved_ns"])
    return f"between {duration(row['least_ns'])} and {duration(row['most_ns'])}"


def sentence_of_curve(found: Curve) -> str:
    """Flat throughout, flat up to a knee, straight, or bent."""
    factors, spans = found.points.get_column("factor").to_list(), found.points.get_column("span_ns").to_list()
    (low, high), flat = found.slopes_ns, found.flat_until
    if flat == factors[-1]:
        summary = f"flat from ×{factors[0]:g} to ×{flat:g}"
    elif flat > factors[0]:
        summary = f"flat up to ×{flat:g} at {duration(spans[0], 4)}, then up to {duration(high)} per percent"
    elif low >= (1 - STRAIGHT) * high:
        summary = f"{duration(high)} per percent from ×{factors[0]:g} to ×{factors[-1]:g}"
    else:
        summary = f"{duration(low)} per percent at ×{factors[0]:g}, {duration(high)} at ×{factors[-1]:g}"
    if any(low < high for low, high in found.points.select("low_ns", "high_ns").iter_rows()):
        summary = f"{_interval(found)}; with the longest transfer that fits, {summary}"
    return f"{shorten_middle(found.selector, _NAME_COLUMNS)}: {summary}; the replay is {signed(found.error)} off."


def _interval(found: Curve) -> str:
    """What the smallest factor does, as absent ranks decide."""
    factor, low, high = found.points.select("factor", "low_ns", "high_ns").row(0)
    return f"between {duration(low, 4)} and {duration(high, 4)} at ×{factor:g}, as absent ranks decide"


def _listed(inferred: Inferred) -> tuple[list[str], int]:
    """Selectors of the table, those that take longest of each kind, and how many are left out."""
    seen: Counter[str] = Counter()
    listed = []
    times = inferred.plan.ops.get_column("duration_ns").to_numpy()
    whole_ns = WHOLE * times[inferred.measured.get_column("event").is_not_null().to_numpy()].sum()
    for selector in selectors(inferred):
        kind = _kind(selector)
        if kind == "phase" and not seen[kind] and times[selected(inferred, selector)].sum() >= whole_ns:
            continue  # the longest comes first: no other can be as long
        seen[kind] += 1
        if kind == "class" or (seen[kind] <= MOST_LISTED and not (kind == "rank" and len(inferred.plan.ranks) == 1)):
            listed.append(selector)
    return listed, sum(max(0, num - MOST_LISTED) for kind, num in seen.items() if kind != "class")


def _row(inferred: Inferred, path: CriticalPath, selector: str, by: float) -> tuple[object, ...]:
    mask = selected(inferred, selector)
    times = inferred.plan.ops.get_column("duration_ns").to_numpy()
    found = tried(inferred, [Scale(selector=selector, factor=1 - by)])
    saved, least, most = (path.span_ns - ns for ns in (found.span_ns, found.high_ns, found.low_ns))
    critical = _critical_ns(path, mask, selector)
    took = int(times[mask].sum())
    return _kind(selector), selector, took, critical, saved, saved / max(path.span_ns, 1), least, most


def _critical_ns(path: CriticalPath, mask: np.ndarray, selector: str) -> int:
    """Time on the path: of a class as `by_class` has it; of others all that their ops last there, SM wait included,
    without what lies between ops."""
    name, _, role = selector.partition(".")
    own = pl.col("class_").is_in((*ON_DEVICE, "SM wait"))
    parts = path.parts.filter(pl.col("class_") == name if selector in SCALABLE else own)
    if role or selector not in SCALABLE:
        parts = parts.filter(pl.Series(mask[parts.get_column("op").to_numpy()]))
    return int(parts.select((pl.col("until_ns") - pl.col("from_ns")).sum()).item())


def _kind(selector: str) -> str:
    form, colon, _ = selector.partition(":")
    if selector in SCALABLE:
        return "class"
    return form if colon and form in ("phase", "rank") else "family"

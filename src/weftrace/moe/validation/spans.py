"""How long would all layers take? A calibration's operation list simulated with the rows of each layer of the trace.

Overlap, and what it costs, are simulated too: nothing is taken from the trace but rows and, where it is asked for, how
long each layer waited for other ranks, which one rank's trace cannot tell from within.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError, ProfileError
from weftrace.moe.as_plan import plan_of
from weftrace.moe.calibration.fit import Layers
from weftrace.moe.calibration.pricing import pieces_of, slowdowns_of
from weftrace.moe.calibration.values import Calibration, Knowing
from weftrace.moe.operations import Operation, Overlap
from weftrace.moe.overlap_files import known_overlaps, load_overlap
from weftrace.moe.pieces import Piece
from weftrace.moe.profiles import PUBLISHED_OVERLAP
from weftrace.moe.routing.load import Load, balanced
from weftrace.moe.setting import Setting
from weftrace.notebook import InNotebook
from weftrace.plan import with_contention


def overlap_of_layers(layers: Layers) -> Overlap | None:
    """The operation list that the trace names, else the published one with its phases; None where neither is there, and
    where host operators stand in for kernels."""
    if not layers.on_device:
        return None
    phases = set(layers.kernels.get_column("phase").unique().to_list())
    named = [layers.info["profile.overlap"]] if layers.info.get("profile.overlap") in known_overlaps() else []
    for name in (*named, *PUBLISHED_OVERLAP.values()):
        overlap = load_overlap(name)
        whole = all(each.part == "whole" for each in overlap.operations)
        if whole and {each.phase for each in overlap.operations} <= phases:
            return overlap
    return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Span(InNotebook):
    """How long the layers took, one after another: each from the start of its first phase that computes to that of the
    next layer; the last to the end.

    head_ns: before the first of these starts. windows_ns: by layer.
    """

    head_ns: int
    windows_ns: NDArray[np.int64]

    @property
    def whole_ns(self) -> int:
        """From the first start to the last end."""
        return self.head_ns + int(self.windows_ns.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanErrors(InNotebook):
    """Predicted / measured - 1: of the tested layers, and of all, fitted ones too."""

    tested: float
    whole: float


def measured_span(layers: Layers, overlap: Overlap) -> Span:
    """Of the trace: the median of its steps."""
    anchor = _anchor(overlap)
    spans = layers.busy.group_by("step", maintain_order=True).agg(
        first=pl.col("start_ns").min(), end=pl.col("end_ns").max()
    )
    starts = layers.busy.filter(_is(anchor)).group_by("step", "layer").agg(pl.col("start_ns").min())
    found = [
        _span(starts.filter(pl.col("step").eq_missing(step)).sort("layer").get_column("start_ns"), first, end)
        for step, first, end in spans.iter_rows()
    ]
    usual = [each for each in found if len(each.windows_ns) == len(layers.layers)]
    return sorted(usual or found, key=lambda each: each.whole_ns)[len(usual or found) // 2]


def predicted_span(
    layers: Layers, calibration: Calibration, overlap: Overlap, *, knowing: Knowing = "beside", waits_as_measured: bool
) -> Span:
    """Of a simulation of all layers.

    knowing: with "means" every layer has the mean rows of the fitted ones; else its own. A calibration without factors
    of slowing leaves what ran beside kernels in their times. Raises `ProfileError` or `PlanError` where the list cannot
    be simulated.
    """
    # Prices are of the trace itself: whichever model it is of, its times are told.
    calibration = replace(calibration, info=())
    number = len(layers.layers)
    setting = Setting.of(overlap.kinds[0], num_layers=number, tokens=calibration.tokens)
    even = balanced(setting)
    prices = {
        operation.name: _pieces(layers, calibration, operation, setting, even, knowing, waits_as_measured)
        for operation in overlap.operations
    }
    plan = plan_of(overlap, prices, setting, gap_ns=calibration.gap_ns, share_sms=False)
    times = with_contention(plan, slowdowns_of(calibration)).times
    anchor = _anchor(overlap)
    own = times.ops.filter(_is(anchor, summary=True)).group_by("layer").agg(pl.col("start_ns").min())
    return _span(own.sort("layer").get_column("start_ns"), 0, times.makespan_ns)


def span_errors(
    layers: Layers,
    calibration: Calibration,
    overlap: Overlap,
    measured: Span,
    *,
    knowing: Knowing = "beside",
    waits_as_measured: bool,
) -> SpanErrors | None:
    """How far off the span is; None where it cannot be simulated. measured: of `measured_span`."""
    try:
        predicted = predicted_span(layers, calibration, overlap, knowing=knowing, waits_as_measured=waits_as_measured)
    except (ProfileError, PlanError):
        return None
    tested = np.array([layer not in calibration.layers for layer in layers.layers])
    if len(measured.windows_ns) != len(predicted.windows_ns) or not tested.any():
        return None
    times = [each.windows_ns[tested].sum() for each in (predicted, measured)]
    return SpanErrors(tested=float(times[0] / times[1] - 1), whole=predicted.whole_ns / measured.whole_ns - 1)


def _anchor(overlap: Overlap) -> Operation:
    """The operation whose starts part the layers: the first that computes."""
    return next(each for each in overlap.operations if each.lane == "compute")


def _is(anchor: Operation, *, summary: bool = False) -> pl.Expr:
    """The phase of the anchor, of its micro-batch where that is told."""
    micro_batch = pl.col("micro_batch").eq_missing(anchor.micro_batch)
    return (pl.col("phase") == anchor.phase) & (
        micro_batch if summary else micro_batch | pl.col("micro_batch").is_null()
    )


def _span(starts: pl.Series, first_ns: int, end_ns: int) -> Span:
    edges = np.append(starts.to_numpy(), end_ns)
    return Span(head_ns=int(edges[0] - first_ns), windows_ns=np.diff(edges))


def _pieces(
    layers: Layers,
    calibration: Calibration,
    operation: Operation,
    setting: Setting,
    even: Load,
    knowing: Knowing,
    waits_as_measured: bool,
) -> tuple[Piece, ...]:
    """One piece a part of the phase, with the rows of each layer, and its waits where they are asked for."""
    usual = calibration[operation.phase].rows
    if usual is not None:
        rows = _by_layer(layers.rows.table, layers, operation.phase, "rows")
        even = replace(even, rows_LR=(rows if knowing != "means" else np.full_like(rows, usual))[:, None])
    pieces = pieces_of(calibration, operation, setting, even)
    if not waits_as_measured:
        return pieces
    waits = _by_layer(layers.busy, layers, operation.phase, "wait_ns")
    parts = calibration[operation.phase].parts
    return tuple(
        replace(piece, duration_ns=waits[:, None]) if part.group == "wait" else piece
        for piece, part in zip(pieces, parts, strict=True)
    )


def _by_layer(table: pl.DataFrame, layers: Layers, phase: str, column: str) -> NDArray[np.float64]:
    """The mean over steps and micro-batches of each layer; of a layer without that phase, of the others."""
    means = dict(table.filter(pl.col("phase") == phase).group_by("layer").agg(pl.mean(column)).iter_rows())
    usual = float(np.mean(list(means.values()))) if means else 0.0
    return np.array([float(means.get(layer, usual)) for layer in layers.layers])

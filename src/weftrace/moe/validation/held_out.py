"""How well does a calibration predict layers that it has not seen? Fitted on some layers, tested on the others.

What a tested layer tells its prediction: nothing (means); its routed rows; and for each part of a phase the share of
time in which communication moved data beside it. Its durations are compared, never used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product
from math import comb
from typing import Literal

import polars as pl

from weftrace.errors import TraceError
from weftrace.moe.calibration.fit import Layers, calibrate, layers_of
from weftrace.moe.calibration.kernels import SAMPLE_KEY
from weftrace.moe.calibration.parts import sizes_of
from weftrace.moe.calibration.values import Calibration, Knowing, Tested, TestedFit
from weftrace.moe.operations import Overlap
from weftrace.moe.validation.spans import Span, SpanErrors, measured_span, overlap_of_layers, span_errors
from weftrace.notebook import InNotebook
from weftrace.trace.job import Job
from weftrace.trace.model import Trace
from weftrace.trace.work import Work
from weftrace.units import counted

KNOWING: tuple[Knowing, ...] = ("means", "rows", "beside")
_SPANS: tuple[Literal["span", "span_waits"], ...] = ("span", "span_waits")
_OF_SPAN = {"tested layers": "tested", "all layers": "whole"}
#: A split for each way to choose the layers, up to so many; of more, so many spread evenly among them.
MAX_SPLITS = 20
_MAX_COUNTED = 100_000  # of more ways, none is counted one by one

#: One row a split, phase and tested layer; times are means over its steps.
PREDICTED_SCHEMA: dict[str, pl.DataType] = {
    "split": pl.Int32(),
    "phase": pl.String(),
    "by": pl.String(),  # busy; of communication data, the kernels that move it
    "micro_batch": pl.Int32(),
    "layer": pl.Int32(),
    "measured_ns": pl.Float64(),
    **{knowing: pl.Float64() for knowing in KNOWING},
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split(InNotebook):
    """A calibration, and the layers on which it is tested.

    span, span_waits: by what was known, how far off the time of the layers is, with waits for other ranks as in the
    fitted layers, and as measured; empty where no operation list fits the trace.
    """

    calibration: Calibration
    tested: tuple[int, ...]
    span: Mapping[Knowing, SpanErrors]
    span_waits: Mapping[Knowing, SpanErrors]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldOut(InNotebook):
    """Predictions of layers that were left out of the fit.

    splits: each way to choose the layers. predicted: frame of `PREDICTED_SCHEMA`, all of them. num_possible: splits
    that there are.
    """

    splits: tuple[Split, ...]
    predicted: pl.DataFrame
    num_possible: int


def held_out(layers: Layers, *, fit_on: int = 2) -> HeldOut:
    """Fit on each choice of `fit_on` layers and predict the others.

    Raises `TraceError` where no layer is left to be tested.
    """
    if fit_on < 1 or len(layers.layers) <= fit_on:
        raise TraceError(
            f"{layers.source}: it has {counted(len(layers.layers), 'layer')}; a test needs one more than the {fit_on} "
            "to fit on"
        )
    choices, num_possible = _choices(layers.layers, fit_on)
    overlap = overlap_of_layers(layers)
    measured = None if overlap is None else measured_span(layers, overlap)
    splits, tables = [], []
    for number, choice in enumerate(choices):
        unslowed = calibrate(layers, choice, slowing=False)
        splits.append(_split(layers, choice, unslowed, overlap, measured))
        tables.append(_predicted(layers, splits[-1], unslowed).with_columns(split=pl.lit(number, pl.Int32())))
    table = pl.concat(tables).select(pl.col(name).cast(dtype) for name, dtype in PREDICTED_SCHEMA.items())
    return HeldOut(splits=tuple(splits), predicted=table, num_possible=num_possible)


def calibrate_and_test(
    source: Trace | Job | Work | Layers,
    layers: Iterable[int] | None = None,
    *,
    fit_on: int = 2,
    tokens: int | None = None,
) -> Calibration:
    """The calibration of all layers, or of those given, with its errors on layers that a fit had not seen.

    The errors are of fits on each choice of `fit_on` layers of the trace, tested on all others. A trace with too few
    layers for a test is calibrated without errors, which the notes say.
    Raises as `calibrate` does.
    """
    known = source if isinstance(source, Layers) else layers_of(source, tokens=tokens)
    found = calibrate(known, layers)
    if len(known.layers) <= fit_on:
        few = f"{counted(len(known.layers), 'layer')}, and a test needs one more than the {fit_on} to fit on"
        return replace(found, notes=(*found.notes, f"no error is known: {few}"))
    tests = held_out(known, fit_on=fit_on)
    notes = found.notes
    if tests.num_possible > len(tests.splits):
        notes += (f"errors are of {len(tests.splits)} of the {tests.num_possible:,} ways to choose {fit_on} layers",)
    return replace(found, splits=_splits(tests), tested=_tested(tests), notes=notes)


def _splits(tests: HeldOut) -> tuple[TestedFit, ...]:
    found = []
    for number, split in enumerate(tests.splits):
        own = tests.predicted.filter(pl.col("split") == number, pl.col("by") == "busy")
        found.append(
            TestedFit(
                layers=split.calibration.layers,
                factors=tuple((each.group, each.factor) for each in split.calibration.slowed),
                worst=tuple((knowing, _furthest(own, knowing)) for knowing in KNOWING) if own.height else (),
                span=split.span_waits["beside"].tested if "beside" in split.span_waits else None,
            )
        )
    return tuple(found)


def _furthest(table: pl.DataFrame, knowing: Knowing) -> float:
    errors = (table.get_column(knowing) / table.get_column("measured_ns") - 1).to_list()
    return float(max(errors, key=abs))


def _tested(tests: HeldOut) -> tuple[Tested, ...]:
    """Phases in order of the trace, then the span."""
    found = []
    order = {each.phase: number for number, each in enumerate(tests.splits[0].calibration.phases)}
    ordered = tests.predicted.sort(pl.col("phase").replace_strict(order, return_dtype=pl.Int32()), maintain_order=True)
    for (phase, by), part in ordered.group_by("phase", "by", maintain_order=True):
        errors = [part.get_column(knowing) / part.get_column("measured_ns") - 1 for knowing in KNOWING]
        lowest, highest = ([float(getattr(each, end)()) for each in errors] for end in ("min", "max"))
        mean_ns = part.unique(["micro_batch", "layer"]).get_column("measured_ns").mean()
        found.append(
            Tested(
                what=str(phase), by="data" if by == "data" else "busy", measured_ns=float(mean_ns or 0),  # type: ignore[arg-type]
                errors=tuple(zip(KNOWING, lowest, highest, strict=True)),
            )
        )  # fmt: skip
    return (*found, *_tested_spans(tests))


def _tested_spans(tests: HeldOut) -> Iterator[Tested]:
    for by, (what, part) in product(_SPANS, _OF_SPAN.items()):
        errors = []
        for knowing in KNOWING:
            own = [getattr(split, by)[knowing] for split in tests.splits if knowing in getattr(split, by)]
            if own:
                parts = [getattr(each, part) for each in own]
                errors.append((knowing, min(parts), max(parts)))
        if errors:
            yield Tested(what=what, by=by, measured_ns=None, errors=tuple(errors))


def _choices(layers: Sequence[int], fit_on: int) -> tuple[list[tuple[int, ...]], int]:
    """Ways to choose the layers of a fit, all or `MAX_SPLITS` spread evenly, and how many there are."""
    number, length = comb(len(layers), fit_on), len(layers)
    if number <= _MAX_COUNTED:
        step = max(1, -(-number // MAX_SPLITS))
        return list(islice(combinations(layers, fit_on), 0, None, step)), number
    firsts = [each * length // fit_on // MAX_SPLITS for each in range(MAX_SPLITS)]
    spread = [tuple(layers[first + part * length // fit_on] for part in range(fit_on)) for first in firsts]
    return list(dict.fromkeys(spread)), number


def _split(
    layers: Layers, choice: Sequence[int], unslowed: Calibration, overlap: Overlap | None, measured: Span | None
) -> Split:
    """The fit on these layers, and how far off the time of the others is by simulation."""
    fitted = calibrate(layers, choice)
    spans: list[dict[Knowing, SpanErrors]] = [{}, {}]
    if overlap is not None and measured is not None:
        for as_measured, knowing in product((False, True), KNOWING):
            used = fitted if knowing == "beside" else unslowed
            error = span_errors(layers, used, overlap, measured, knowing=knowing, waits_as_measured=as_measured)
            if error is not None:
                spans[as_measured][knowing] = error
    tested = tuple(layer for layer in layers.layers if layer not in choice)
    return Split(calibration=fitted, tested=tested, span=spans[0], span_waits=spans[1])


def _predicted(layers: Layers, split: Split, unslowed: Calibration) -> pl.DataFrame:
    """A row a phase and tested layer: of a phase that computes the union of its kernels; of one that communicates the
    kernels that move data, for how long it waits for other ranks is not known from one."""
    tested = pl.col("layer").is_in(split.tested)
    parts = (
        layers.kernels.filter(tested, pl.col("group") != "wait")
        .group_by(*SAMPLE_KEY, "group", "follows", maintain_order=True)
        .agg(pl.col("rows").first(), beside=(pl.col("beside") * pl.col("dur_ns")).sum() / pl.col("dur_ns").sum())
        .join(_costs(split.calibration), on=("phase", "group", "follows"), how="inner")
        .join(_costs(unslowed).select(
            "phase", "group", "follows", unslowed_ns="alone_ns"), on=("phase", "group", "follows"))
    )  # fmt: skip
    follows, own_rows, base_rows = (parts.get_column(name) for name in ("follows", "rows", "base"))
    size = sizes_of(follows, own_rows, base_rows, layers.rows.tokens)
    parts = parts.with_columns(
        rows_ns=pl.col("unslowed_ns") * size,
        beside_ns=pl.col("alone_ns") * size / (1 - pl.col("beside") * (1 - 1 / pl.col("factor"))),
    )
    samples = layers.busy.filter(tested).join(_costs_of_phases(split.calibration), on="phase")
    samples = samples.with_columns(
        communicates=(pl.col("data_ns") + pl.col("wait_ns")).sum().over("phase")
        > pl.col("busy_ns").sum().over("phase") / 2
    )
    parts = parts.join(samples.select(*SAMPLE_KEY, "communicates", "union"), on=SAMPLE_KEY, nulls_equal=True)
    sums = (
        parts.filter((pl.col("group") == "data") | ~pl.col("communicates"))
        .group_by(SAMPLE_KEY)
        .agg(
            rows=(pl.col("rows_ns") * pl.col("union")).sum(),
            beside=(pl.col("beside_ns") * pl.col("union")).sum(),
        )
    )
    data = pl.col("communicates")
    summary = samples.join(sums, on=SAMPLE_KEY, nulls_equal=True).with_columns(
        by=pl.when(data).then(pl.lit("data")).otherwise(pl.lit("busy")),
        measured_ns=pl.when(data).then("data_ns").otherwise("busy_ns"),
        means=pl.when(data).then("mean_data_ns").otherwise("mean_ns"),
    )
    return summary.group_by("phase", "by", "micro_batch", "layer", maintain_order=True).agg(
        pl.mean("measured_ns", *KNOWING)
    )


def _costs(calibration: Calibration) -> pl.DataFrame:
    """phase, group, follows, alone_ns, base, factor of each part."""
    return pl.DataFrame(
        [
            (phase.phase, part.group, part.follows, part.alone_ns, phase.rows, calibration.factor(part.group))
            for phase in calibration.phases
            for part in phase.parts
        ],
        schema={"phase": pl.String, "group": pl.String, "follows": pl.String, "alone_ns": pl.Float64,
                "base": pl.Float64, "factor": pl.Float64},
        orient="row",
    )  # fmt: skip


def _costs_of_phases(calibration: Calibration) -> pl.DataFrame:
    """phase, union, mean_ns, mean_data_ns of each phase."""
    rows = [
        (each.phase, each.union, each.busy_ns, sum(part.alone_ns for part in each.parts if part.group == "data"))
        for each in calibration.phases
    ]
    schema = {"phase": pl.String, "union": pl.Float64, "mean_ns": pl.Float64, "mean_data_ns": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")

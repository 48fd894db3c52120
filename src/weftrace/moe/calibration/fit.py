"""Costs of phases from a measured trace: the mean of each part, by its size, freed of what ran beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from weftrace.errors import ProfileError, TraceError
from weftrace.moe.calibration.kernels import SAMPLE_KEY, busy_of, kernels_of
from weftrace.moe.calibration.parts import follows, sizes_of
from weftrace.moe.calibration.routed_rows import Rows, rows_in_shapes, rows_of
from weftrace.moe.calibration.slowing import MAX_FACTOR, alone, fitted_slowing
from weftrace.moe.calibration.values import CalibratedPart, CalibratedPhase, Calibration
from weftrace.trace.job import Job
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work

_PART = ("phase", "group", "follows")
_BACK_TO_BACK_NS = 20_000  # kernels that follow each other within this were waiting in the queue


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layers:
    """What a trace tells of its layers, for fits on some of them.

    kernels: of `parts.follows`. busy: of `kernels.busy_of`. rows: of `routed_rows.rows_of`. layers: their numbers.
    gap_ns: median idle time between two kernels back to back. info: how the trace was made, as it tells. on_device:
    whether kernels are a device's.
    """

    source: str
    kernels: pl.DataFrame
    busy: pl.DataFrame
    rows: Rows
    layers: tuple[int, ...]
    gap_ns: int
    info: Mapping[str, str]
    on_device: bool
    notes: tuple[str, ...]


def layers_of(source: Trace | Job | Work, *, tokens: int | None = None) -> Layers:
    """The layers of a trace whose ranges carry phases.

    tokens: of a micro-batch on a GPU; else as the trace tells, or its commonest launch grid, said in the notes. Raises
    `TraceError` where it has no phases, and for the traces of several ranks.
    """
    if isinstance(source, Job):
        raise TraceError(
            f"{source.source}: {len(source)} traces; costs are calibrated from the trace of one rank: give one of them"
        )
    work = as_work(source)
    kernels = kernels_of(work)
    rows = rows_of(kernels, shaped=rows_in_shapes(work), tokens=tokens or _told_tokens(work.trace))
    notes = list(rows.notes)
    if work.basis == "host":
        notes.append(
            "nothing ran on a device: host operators are used instead of kernels. Time between them is in no phase, "
            "so the time of layers is not predicted"
        )
    return Layers(
        source=os.path.basename(work.trace.path) or "a trace in memory",
        kernels=follows(kernels, rows),
        busy=busy_of(kernels),
        rows=rows,
        layers=tuple(kernels.get_column("layer").unique().sort().to_list()),
        gap_ns=_gap_ns(kernels),
        info=work.trace.info,
        on_device=work.basis == "device",
        notes=tuple(notes),
    )


def calibrate(
    source: Trace | Job | Work | Layers,
    layers: Iterable[int] | None = None,
    *,
    tokens: int | None = None,
    slowing: bool = True,
) -> Calibration:
    """The costs of a trace's phases, fitted on some of its layers.

    layers: numbers as in the trace; all by default. tokens: as in `layers_of`. Launch grids of all layers are looked at
    to find out what follows the rows; durations of the given ones only. slowing: whether what communication costs the
    kernels beside it is fitted too; else it stays in their times. Raises `TraceError` where the trace has no
    phases, `ProfileError` where it has not these layers.
    """
    known = source if isinstance(source, Layers) else layers_of(source, tokens=tokens)
    chosen = known.layers if layers is None else tuple(sorted(set(layers)))
    if missing := sorted(set(chosen) - set(known.layers)):
        raise ProfileError(f"{known.source}: it has no layer {missing[0]}; its layers are {_ranges(known.layers)}")
    if not chosen:
        raise ProfileError(f"{known.source}: a calibration is fitted on one layer at least")
    kernels = known.kernels.filter(pl.col("layer").is_in(chosen))
    busy = known.busy.filter(pl.col("layer").is_in(chosen))
    sized = with_size(kernels, base_rows(kernels), known.rows.tokens)
    slowed = fitted_slowing(sized) if slowing else ()
    notes = tuple(
        f"the factor of {each.group} kernels is the largest that is tried: something else than data beside them differs"
        for each in slowed
        if each.factor >= MAX_FACTOR
    )
    factors = {each.group: each.factor for each in slowed}
    group = sized.get_column("group")
    factor = group.replace_strict(factors or {"": 1.0}, default=1.0, return_dtype=pl.Float64()).to_numpy()
    duration, beside, size = (sized.get_column(name).to_numpy() for name in ("dur_ns", "beside", "size"))
    freed = sized.with_columns(alone_ns=pl.Series(alone(duration / size, beside, factor)))
    return Calibration(
        source=known.source,
        layers=chosen,
        num_layers=len(known.layers),
        tokens=known.rows.tokens,
        gap_ns=known.gap_ns,
        phases=_phases(freed, busy),
        slowed=slowed,
        info=tuple((key, text) for key, text in known.info.items() if key.startswith("profile.")),
        notes=known.notes + notes,
    )


def base_rows(kernels: pl.DataFrame) -> pl.DataFrame:
    """phase, base: the mean rows of its samples, null where they are not known."""
    samples = kernels.select(*SAMPLE_KEY, "rows").unique(SAMPLE_KEY, maintain_order=True)
    return samples.group_by("phase", maintain_order=True).agg(base=pl.col("rows").mean())


def with_size(kernels: pl.DataFrame, base: pl.DataFrame, tokens: int | None) -> pl.DataFrame:
    """The kernels with `size`: what each has to do, by what it has with the phase's base rows."""
    joined = kernels.join(base, on="phase", how="left", maintain_order="left")
    follows, rows, base_rows = (joined.get_column(name) for name in ("follows", "rows", "base"))
    return joined.with_columns(sizes_of(follows, rows, base_rows, tokens).alias("size"))


def _phases(freed: pl.DataFrame, busy: pl.DataFrame) -> tuple[CalibratedPhase, ...]:
    """In order of first start, parts likewise."""
    samples = busy.group_by("phase", maintain_order=True).agg(
        pl.mean("busy_ns"), pl.len().alias("samples"), pl.sum("serial_ns"), pl.sum("busy_ns").alias("whole_ns")
    )
    base = dict(base_rows(freed).iter_rows())
    longest = pl.col("dur_ns").arg_max()
    in_sample = freed.group_by(*SAMPLE_KEY, "group", "follows", maintain_order=True).agg(
        pl.sum("alone_ns"), pl.len().alias("kernels"), pl.col("name").get(longest), pl.col("dur_ns").max(),
        num_sms=pl.when("persistent").then("num_blocks").otherwise(None).get(longest),
    )  # fmt: skip
    parts = in_sample.group_by(_PART, maintain_order=True).agg(
        pl.sum("alone_ns", "kernels"), pl.col("name", "num_sms").get(longest), least_ns=pl.col("alone_ns").min()
    )
    found = []
    for phase, busy_ns, number, serial_ns, whole_ns in samples.iter_rows():
        own = parts.filter(pl.col("phase") == phase).iter_rows(named=True)
        made = tuple(
            CalibratedPart(
                group=row["group"],
                follows=row["follows"],
                name=row["name"],
                num_kernels=max(1, round(row["kernels"] / number)),
                num_sms=row["num_sms"],
                alone_ns=row["alone_ns"] / number,
                least_ns=row["least_ns"],
            )
            for row in own
        )
        union = whole_ns / serial_ns
        found.append(
            CalibratedPhase(phase=phase, rows=base[phase], busy_ns=busy_ns, union=union, num_layers=number, parts=made)
        )
    return tuple(found)


def _gap_ns(kernels: pl.DataFrame) -> int:
    """The median time between two kernels of a stream that follow each other at once."""
    ordered = kernels.filter(~pl.col("group").is_in(("data", "wait"))).sort("stream", "start_ns")
    gap = pl.col("start_ns") - (pl.col("start_ns") + pl.col("dur_ns")).shift(1).over("stream")
    gaps = ordered.select(gap=gap).filter(pl.col("gap").is_between(0, _BACK_TO_BACK_NS)).get_column("gap")
    return int(gaps.median() or 0)  # type: ignore[arg-type]


def _told_tokens(trace: Trace) -> int | None:
    """Tokens of a micro-batch as the trace's configuration tells them: "4,096 of a micro-batch on a GPU"."""
    first = trace.info.get("profile.tokens", "").replace(",", "").split(" ")[0]
    return int(first) if first.isdigit() and int(first) else None


def _ranges(numbers: Sequence[int]) -> str:
    """0-3, 7 of sorted numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

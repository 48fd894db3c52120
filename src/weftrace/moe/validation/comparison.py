"""Predicted against measured, phase by phase: two runs side by side, as ratios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.alphabet import direction_of
from weftrace.files.columns import Shown
from weftrace.files.schemas import Count
from weftrace.files.values import to_document
from weftrace.moe.validation.common_names import layers_in_common, with_common_names
from weftrace.moe.validation.one_side import OneSide, side_of
from weftrace.notebook import InNotebook
from weftrace.trace.job import Job
from weftrace.trace.model import Trace
from weftrace.units import counted, percent

#: What a whole run is compared in.
Whole = Literal["span", "computation", "communication", "exposed communication"]
_WHOLE: dict[Whole, str] = {
    "span": "span_ns", "computation": "compute_ns", "communication": "communication_ns",
    "exposed communication": "exposed_ns",
}  # fmt: skip
Ratio = Annotated[float | None, Meta(description="Predicted / measured; null if not measured.")]
_ALIKE = 5e-4  # an error that is printed as 0.0 %
#: What two runs must share for their ratios to be errors of a prediction.
_SETTING = tuple(f"profile.{key}" for key in ("kind", "model", "hardware", "ep", "tokens", "sequence", "overlap"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianTimes(InNotebook):
    """How long something took, over ranks: of each rank the median over steps of the mean of a step's layers."""

    median_ns: Annotated[Count, Meta(description="The median of the ranks.")]
    low_ns: Annotated[Count, Meta(description="The lowest rank; of a single rank, the shortest sample.")]
    high_ns: Annotated[Count, Meta(description="The highest rank; of a single rank, the longest sample.")]
    num_samples: Annotated[Count, Meta(description="Layers, steps and ranks together.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPhase(InNotebook):
    """A phase on both sides."""

    phase: Annotated[str, Shown(wide=True)]
    direction: Annotated[str, Meta(description="F, B or W; empty where the name tells none.")]
    micro_batch: Annotated[int | None, Meta(description="Null where not both sides tell one."), Shown("micro-batch")]
    lane: Annotated[str, Meta(description="compute or communication, as measured.")]
    by: Annotated[
        Literal["busy", "data"],
        Meta(
            description="busy: the union of its kernels; data: of communication, the kernels that move data, if "
            "both sides separate them from kernels that wait for other ranks."
        ),
        Shown("compared by", term="compared"),
    ]
    predicted: MedianTimes
    measured: MedianTimes

    @property
    def ratio(self) -> Ratio:
        return _ratio(self)

    @property
    def name(self) -> str:
        """`ATTN, micro-batch 1`."""
        return self.phase if self.micro_batch is None else f"{self.phase}, micro-batch {self.micro_batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun(InNotebook):
    """What a run took as a whole: of one layer where the two have different numbers of layers, else of all."""

    what: Whole
    predicted: MedianTimes
    measured: MedianTimes

    @property
    def ratio(self) -> Ratio:
        return _ratio(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOrder(InNotebook):
    """In which order a lane's phases start, from one occurrence of its first phase to the next: the commonest such turn
    of the first rank. Only phases that both sides have."""

    lane: str
    predicted: tuple[str, ...]
    measured: tuple[str, ...]

    @property
    def is_same(self) -> Annotated[bool, Meta(description="Whether both are in one order.")]:
        return self.predicted == self.measured


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOfOneSide(InNotebook):
    """A phase that one side has and the other has not."""

    side: Annotated[Literal["predicted", "measured"], Shown("only")]
    name: Annotated[str, Shown("phase", wide=True)]
    median_ns: Annotated[Count, Shown("median")]
    num_samples: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary(InNotebook):
    """One of the two runs: where from, how much of it, and how it was made."""

    source: str
    simulated: Annotated[bool, Meta(description="Whether weftrace made the traces.")]
    num_ranks: Count
    num_steps: Count
    num_layers: Annotated[Count, Meta(description="Of a step: how often its commonest phase ran.")]
    basis: Annotated[str, Meta(description="What stands for work: device, host, ranges.")]
    info: Annotated[tuple[tuple[str, str], ...], Meta(description="How it was made, as its first trace tells.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst(InNotebook):
    """What is furthest off, of the phases and the span."""

    name: str
    error: Annotated[float, Meta(description="Predicted / measured - 1.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation(InNotebook):
    """A predicted run beside a measured one, phase by phase."""

    predicted: RunSummary
    measured: RunSummary
    phases: Annotated[tuple[ComparedPhase, ...], Meta(description="In order of first start, as measured.")]
    whole: tuple[ComparedRun, ...]
    per_layer: Annotated[bool, Meta(description="Whether `whole` is of one layer: the runs differ in layers.")]
    orders: tuple[PhaseOrder, ...]
    alone: tuple[PhaseOfOneSide, ...]
    notes: Annotated[tuple[str, ...], Meta(description="What to know before trusting it.")]

    @property
    def worst(self) -> Annotated[Worst | None, Meta(description="Null if no phase and no span is compared.")]:
        errors = [Worst(name=row.name, error=row.ratio - 1) for row in self.phases if row.ratio is not None]
        errors += [Worst(name="span", error=self._span - 1)] if self._span is not None else []
        return max(errors, key=lambda each: abs(each.error), default=None)

    @property
    def headline(self) -> Annotated[str, Meta(description="How far off the phases are at most, and the span.")]:
        of_span = "" if self._span is None else f"the span {_off(self._span - 1)}"
        errors = [(row.name, row.ratio - 1) for row in self.phases if row.ratio is not None]
        if not errors:
            return "The two have no phase in common, so nothing is compared but the run as a whole."
        name, error = max(errors, key=lambda each: abs(each[1]))
        if len(errors) > 1 and abs(error) < _ALIKE:
            return f"All {len(errors)} phases are predicted as measured{'; ' * bool(of_span)}{of_span}."
        of = f"of {len(errors)} phases" if len(errors) > 1 else "the only phase in common"
        return f"{name} is furthest off {of}: predicted {_off(error)}{'; ' * bool(of_span)}{of_span}."

    @property
    def _span(self) -> float | None:
        return next((row.ratio for row in self.whole if row.what == "span"), None)

    def within(self, max_error: float) -> bool:
        """Whether every phase and the span are predicted within that part of the measurement: 0.05 is 5 %."""
        return bool(self.phases) and self.worst is not None and abs(self.worst.error) <= max_error

    def __repr__(self) -> str:
        return f"Validation({self.predicted.source!r} against {self.measured.source!r}, {len(self.phases)} phases)"

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "predicted", self.predicted.source
        yield "measured", self.measured.source
        ratios = [(str(row.what), row.ratio) for row in self.whole[:1]] + [(row.name, row.ratio) for row in self.phases]
        yield from ((name, f"{percent(ratio)} of the measured time") for name, ratio in ratios)
        yield from (("only on one side", f"{each.name} ({each.side})") for each in self.alone)


def validation_table(found: Validation) -> pl.DataFrame:
    """One row per phase, then those of the whole run."""
    whole = {"direction": "", "micro_batch": None, "lane": "", "by": ""}
    rows = [{"what": row.phase, **to_document(row)} for row in found.phases]
    rows += [{"what": row.what, **whole, **to_document(row)} for row in found.whole]
    table = pl.json_normalize(rows, separator="_", infer_schema_length=None)
    return table.select(pl.exclude("phase", "ratio"), "ratio")


def validate(predicted: Trace | Job, measured: Trace | Job, *, workers: int | None = None) -> Validation:
    """A simulated run beside a measured one; either may be a folder of ranks.

    workers: processes that read ranks. Raises `TraceError` where a side holds no work.
    """
    return compared(side_of(predicted, workers=workers), side_of(measured, workers=workers))


def compared(predicted: OneSide, measured: OneSide) -> Validation:
    """The two sides, row by row."""
    samples = with_common_names(predicted.samples, measured.samples)
    tables = [each.partition_by("phase", "micro_batch", as_dict=True, maintain_order=True) for each in samples]
    first = {key: int(part.get_column("start_ns").min() or 0) for key, part in tables[1].items()}  # type: ignore[arg-type]
    both = sorted((key for key in tables[1] if key in tables[0]), key=lambda key: first[key])
    rows = tuple(_phase_row(key, tables[0][key], tables[1][key]) for key in both)
    layers = layers_in_common(*samples, max(predicted.num_micro_batches, measured.num_micro_batches))
    per_layer = layers is not None and layers[0] != layers[1]
    return Validation(
        predicted=_summary_of(predicted),
        measured=_summary_of(measured),
        phases=rows,
        whole=_whole(predicted, measured, layers if layers is not None and per_layer else (1, 1)),
        per_layer=per_layer,
        orders=_orders(samples, set(both)),
        alone=tuple(_alone(tables[0], tables[1])),
        notes=tuple(_notes(predicted, measured, rows, layers if per_layer else None)),
    )


_Key = tuple[object, ...]


def _phase_row(key: _Key, predicted: pl.DataFrame, measured: pl.DataFrame) -> ComparedPhase:
    phase, micro_batch = str(key[0]), key[1]
    lane = str(measured.get_column("lane").mode().sort().first())
    has_data = all(part.get_column("data_ns").sum() > 0 for part in (predicted, measured))
    by: Literal["busy", "data"] = "data" if lane == "communication" and has_data else "busy"
    return ComparedPhase(
        phase=phase,
        direction=direction_of(phase) or "",
        micro_batch=micro_batch if isinstance(micro_batch, int) else None,
        lane=lane,
        by=by,
        predicted=_times(predicted, f"{by}_ns"),
        measured=_times(measured, f"{by}_ns"),
    )


def _times(samples: pl.DataFrame, column: str, divisor: int = 1) -> MedianTimes:
    by_step = samples.group_by("rank", "step").agg(pl.mean(column))
    by_rank = by_step.group_by("rank").agg(pl.median(column)).get_column(column).to_numpy() / divisor
    spread = by_rank if len(by_rank) > 1 else samples.get_column(column).to_numpy() / divisor
    low, middle, high = (round(float(each)) for each in (spread.min(), np.median(by_rank), spread.max()))
    return MedianTimes(median_ns=middle, low_ns=low, high_ns=high, num_samples=samples.height)


def _whole(predicted: OneSide, measured: OneSide, layers: tuple[int, int]) -> tuple[ComparedRun, ...]:
    return tuple(
        ComparedRun(
            what=what,
            predicted=_times(predicted.totals, column, layers[0]),
            measured=_times(measured.totals, column, layers[1]),
        )
        for what, column in _WHOLE.items()
    )


def _orders(samples: Sequence[pl.DataFrame], both: set[_Key]) -> tuple[PhaseOrder, ...]:
    kept = pl.DataFrame(
        [(key[0], key[1]) for key in both], schema={"phase": pl.String, "micro_batch": pl.Int32}, orient="row"
    )
    lanes = samples[1].group_by("phase", "micro_batch").agg(lane=pl.col("lane").mode().sort().first())
    found = []
    for lane in ("compute", "communication"):
        own = kept.join(lanes.filter(pl.col("lane") == lane), on=["phase", "micro_batch"], how="semi", nulls_equal=True)
        turns = [
            _sequence(each.join(own, on=["phase", "micro_batch"], how="semi", nulls_equal=True)) for each in samples
        ]
        if not all(turns):
            continue
        anchor = turns[1][0]
        found.append(PhaseOrder(lane=lane, predicted=_turn(turns[0], anchor), measured=_turn(turns[1], anchor)))
    return tuple(found)


def _sequence(samples: pl.DataFrame) -> list[str]:
    """Names of the first rank's phases, in order of start."""
    first = samples.filter(pl.col("rank") == pl.col("rank").min()).sort("start_ns", maintain_order=True)
    return [
        name if micro_batch is None else f"{name} {micro_batch}"
        for name, micro_batch in first.select("phase", "micro_batch").iter_rows()
    ]


def _turn(names: Sequence[str], anchor: str) -> tuple[str, ...]:
    """The commonest stretch from one anchor to before the next; a sequence with one anchor is one turn."""
    at = [number for number, name in enumerate(names) if name == anchor]
    turns = [tuple(names[first:last]) for first, last in pairwise(at)]
    return Counter(turns).most_common(1)[0][0] if turns else tuple(names)


def _alone(predicted: dict[_Key, pl.DataFrame], measured: dict[_Key, pl.DataFrame]) -> Iterator[PhaseOfOneSide]:
    sides: tuple[tuple[Literal["predicted", "measured"], dict[_Key, pl.DataFrame], dict[_Key, pl.DataFrame]], ...] = (
        ("predicted", predicted, measured), ("measured", measured, predicted),
    )  # fmt: skip
    for side, own, other in sides:
        for key, part in own.items():
            if key not in other:
                name = str(key[0]) if key[1] is None else f"{key[0]}, micro-batch {key[1]}"
                median_ns = _times(part, "busy_ns").median_ns
                yield PhaseOfOneSide(side=side, name=name, median_ns=median_ns, num_samples=part.height)


def _notes(
    predicted: OneSide, measured: OneSide, rows: Sequence[ComparedPhase], layers: tuple[int, int] | None
) -> Iterator[str]:
    for side, name in ((predicted, "predicted"), (measured, "measured")):
        if side.samples.is_empty():
            yield f"{name}: no named ranges, so there are no phases to compare; the run as a whole is"
        if "host" in side.bases:
            yield f"{name}: nothing ran on a device: host operators are used instead of kernels"
        yield from (f"{name}: left out: {error}" for error in side.failures)
    shared = [key for key in _SETTING if key in predicted.info and key in measured.info]
    if differ := [key.removeprefix("profile.") for key in shared if predicted.info[key] != measured.info[key]]:
        yield f"different {', '.join(differ)}: what differs is more than a prediction's error"
    if measured.simulated:
        yield "the measured side is a simulation too"
    if not predicted.simulated:
        yield "the predicted side was not simulated by weftrace"
    if layers is not None:
        summary = " against ".join(counted(number, "layer") for number in layers)
        yield f"{summary}: the run as a whole is compared per layer, including the time before and after the layers"
    if predicted.num_ranks != measured.num_ranks:
        ranks = (counted(side.num_ranks, "rank") for side in (predicted, measured))
        yield f"{' against '.join(ranks)}"
    if any(row.by == "data" for row in rows):
        yield "communication is compared by the kernels that move data: waits for other ranks are in its span alone"


def _summary_of(side: OneSide) -> RunSummary:
    return RunSummary(
        source=side.source,
        simulated=side.simulated,
        num_ranks=side.num_ranks,
        num_steps=side.num_steps,
        num_layers=side.num_layers,
        basis=", ".join(side.bases),
        info=tuple(side.info.items()),
    )


def _ratio(row: ComparedPhase | ComparedRun) -> float | None:
    return row.predicted.median_ns / row.measured.median_ns if row.measured.median_ns else None


def _off(error: float) -> str:
    if abs(error) < _ALIKE:
        return "as measured"
    return f"{percent(abs(error))} too {'long' if error > 0 else 'short'}"

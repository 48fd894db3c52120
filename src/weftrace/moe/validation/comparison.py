"""Predicted against measured, phase by phase: two runs side by side, as ratios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl

from weftrace.alphabet import direction_of
from weftrace.moe.validation.common_names import layers_in_common, with_common_names
from weftrace.moe.validation.one_side import Side, side_of
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
#: What two runs must share for their ratios to be errors of a prediction.
_SETTING = tuple(f"profile.{key}" for key in ("kind", "model", "hardware", "ep", "tokens", "sequence", "overlap"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Times(InNotebook):
    """How long something took: median_ns, over ranks, of each rank's median over steps of the mean of a step's layers.

    low_ns, high_ns: of the ranks' medians, where there are several ranks; else of the samples of the only rank.
    num_samples: layers, steps and ranks together.
    """

    median_ns: int
    low_ns: int
    high_ns: int
    num_samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow(InNotebook):
    """A phase on both sides.

    direction: F, B, W, empty where its name tells none. micro_batch: None where not both sides tell one. lane: compute
    or communication, as measured.
    by: what of it is compared: "busy", the union of its kernels; of communication "data", the kernels that move data,
    where both sides tell them from those that wait for other ranks.
    """

    phase: str
    direction: str
    micro_batch: int | None
    lane: str
    by: Literal["busy", "data"]
    predicted: Times
    measured: Times

    @property
    def ratio(self) -> float | None:
        """Predicted / measured."""
        return _ratio(self.predicted.median_ns, self.measured.median_ns)

    @property
    def name(self) -> str:
        """As it is told: `ATTN, micro-batch 1`."""
        return self.phase if self.micro_batch is None else f"{self.phase}, micro-batch {self.micro_batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRow(InNotebook):
    """What a run took as a whole: of one layer where the two have different numbers of layers, else of all."""

    what: Whole
    predicted: Times
    measured: Times

    @property
    def ratio(self) -> float | None:
        """Predicted / measured."""
        return _ratio(self.predicted.median_ns, self.measured.median_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(InNotebook):
    """In which order a lane's phases start, from one occurrence of its first phase to the next; the commonest such turn
    of the first rank. Only phases that both sides have."""

    lane: str
    predicted: tuple[str, ...]
    measured: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        return self.predicted == self.measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone(InNotebook):
    """A phase that one side has and the other has not. side: predicted or measured."""

    side: Literal["predicted", "measured"]
    name: str
    median_ns: int
    num_samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTold(InNotebook):
    """What is to know of a side: where from, how much of it, and how it was made."""

    source: str
    simulated: bool
    num_ranks: int
    num_steps: int
    num_layers: int
    basis: str
    info: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation(InNotebook):
    """A prediction held against a measurement.

    phases: in order of their first start as measured. whole: the run. per_layer: whether `whole` is of one layer.
    orders: by lane. alone: what stands on one side only. notes: what to know before trusting it.
    """

    predicted: SideTold
    measured: SideTold
    phases: tuple[PhaseRow, ...]
    whole: tuple[WholeRow, ...]
    per_layer: bool
    orders: tuple[Order, ...]
    alone: tuple[Alone, ...]
    notes: tuple[str, ...]

    @property
    def worst(self) -> tuple[str, float] | None:
        """The phase, or the span, that is furthest off: its name, and predicted / measured - 1; None without any."""
        errors = [(row.name, row.ratio - 1) for row in self.phases if row.ratio is not None]
        errors += [("span", row.ratio - 1) for row in self.whole if row.what == "span" and row.ratio is not None]
        return max(errors, key=lambda each: abs(each[1]), default=None)

    def within(self, max_error: float) -> bool:
        """Whether every phase and the span are predicted within that part of the measurement: 0.05 is 5 %."""
        return bool(self.phases) and self.worst is not None and abs(self.worst[1]) <= max_error

    def __repr__(self) -> str:
        return f"Validation({self.predicted.source!r} against {self.measured.source!r}, {len(self.phases)} phases)"

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "predicted", self.predicted.source
        yield "measured", self.measured.source
        told = [(str(row.what), row.ratio) for row in self.whole[:1]] + [(row.name, row.ratio) for row in self.phases]
        yield from ((name, f"{percent(ratio)} of the measured time") for name, ratio in told)
        yield from (("only on one side", f"{each.name} ({each.side})") for each in self.alone)


def validate(predicted: Trace | Job, measured: Trace | Job, *, workers: int | None = None) -> Validation:
    """A simulated run beside a measured one; either may be a folder of ranks.

    workers: processes that read ranks. Raises `TraceError` where a side holds no work.
    """
    return compared(side_of(predicted, workers=workers), side_of(measured, workers=workers))


def compared(predicted: Side, measured: Side) -> Validation:
    """The two sides, row by row."""
    samples = with_common_names(predicted.samples, measured.samples)
    tables = [each.partition_by("phase", "micro_batch", as_dict=True, maintain_order=True) for each in samples]
    first = {key: int(part.get_column("start_ns").min() or 0) for key, part in tables[1].items()}  # type: ignore[arg-type]
    both = sorted((key for key in tables[1] if key in tables[0]), key=lambda key: first[key])
    rows = tuple(_phase_row(key, tables[0][key], tables[1][key]) for key in both)
    layers = layers_in_common(*samples, max(predicted.num_micro_batches, measured.num_micro_batches))
    per_layer = layers is not None and layers[0] != layers[1]
    return Validation(
        predicted=_told_of(predicted),
        measured=_told_of(measured),
        phases=rows,
        whole=_whole(predicted, measured, layers if layers is not None and per_layer else (1, 1)),
        per_layer=per_layer,
        orders=_orders(samples, set(both)),
        alone=tuple(_alone(tables[0], tables[1])),
        notes=tuple(_notes(predicted, measured, rows, layers if per_layer else None)),
    )


_Key = tuple[object, ...]


def _phase_row(key: _Key, predicted: pl.DataFrame, measured: pl.DataFrame) -> PhaseRow:
    phase, micro_batch = str(key[0]), key[1]
    lane = str(measured.get_column("lane").mode().sort().first())
    has_data = all(part.get_column("data_ns").sum() > 0 for part in (predicted, measured))
    by: Literal["busy", "data"] = "data" if lane == "communication" and has_data else "busy"
    return PhaseRow(
        phase=phase,
        direction=direction_of(phase) or "",
        micro_batch=micro_batch if isinstance(micro_batch, int) else None,
        lane=lane,
        by=by,
        predicted=_times(predicted, f"{by}_ns"),
        measured=_times(measured, f"{by}_ns"),
    )


def _times(samples: pl.DataFrame, column: str, divisor: int = 1) -> Times:
    by_step = samples.group_by("rank", "step").agg(pl.mean(column))
    by_rank = by_step.group_by("rank").agg(pl.median(column)).get_column(column).to_numpy() / divisor
    spread = by_rank if len(by_rank) > 1 else samples.get_column(column).to_numpy() / divisor
    low, middle, high = (round(float(each)) for each in (spread.min(), np.median(by_rank), spread.max()))
    return Times(median_ns=middle, low_ns=low, high_ns=high, num_samples=samples.height)


def _whole(predicted: Side, measured: Side, layers: tuple[int, int]) -> tuple[WholeRow, ...]:
    return tuple(
        WholeRow(
            what=what,
            predicted=_times(predicted.totals, column, layers[0]),
            measured=_times(measured.totals, column, layers[1]),
        )
        for what, column in _WHOLE.items()
    )


def _orders(samples: Sequence[pl.DataFrame], both: set[_Key]) -> tuple[Order, ...]:
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
        found.append(Order(lane=lane, predicted=_turn(turns[0], anchor), measured=_turn(turns[1], anchor)))
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


def _alone(predicted: dict[_Key, pl.DataFrame], measured: dict[_Key, pl.DataFrame]) -> Iterator[Alone]:
    sides: tuple[tuple[Literal["predicted", "measured"], dict[_Key, pl.DataFrame], dict[_Key, pl.DataFrame]], ...] = (
        ("predicted", predicted, measured), ("measured", measured, predicted),
    )  # fmt: skip
    for side, own, other in sides:
        for key, part in own.items():
            if key not in other:
                name = str(key[0]) if key[1] is None else f"{key[0]}, micro-batch {key[1]}"
                median_ns = _times(part, "busy_ns").median_ns
                yield Alone(side=side, name=name, median_ns=median_ns, num_samples=part.height)


def _notes(predicted: Side, measured: Side, rows: Sequence[PhaseRow], layers: tuple[int, int] | None) -> Iterator[str]:
    for side, name in ((predicted, "predicted"), (measured, "measured")):
        if side.samples.is_empty():
            yield f"{name}: no named ranges, so there are no phases to compare; the run as a whole is"
        if "host" in side.bases:
            yield f"{name}: nothing ran on a device: host operators stand in for kernels"
        yield from (f"{name}: left out: {error}" for error in side.failures)
    shared = [key for key in _SETTING if key in predicted.info and key in measured.info]
    if differ := [key.removeprefix("profile.") for key in shared if predicted.info[key] != measured.info[key]]:
        yield f"different {', '.join(differ)}: what differs is more than a prediction's error"
    if measured.simulated:
        yield "the measured side is a simulation too"
    if not predicted.simulated:
        yield "the predicted side was not simulated by weftrace"
    if layers is not None:
        told = " against ".join(counted(number, "layer") for number in layers)
        yield f"{told}: the run as a whole is compared by layer, with what lies before and after"
    if predicted.num_ranks != measured.num_ranks:
        ranks = (counted(side.num_ranks, "rank") for side in (predicted, measured))
        yield f"{' against '.join(ranks)}"
    if any(row.by == "data" for row in rows):
        yield "communication is compared by the kernels that move data: waits for other ranks are in its span alone"


def _told_of(side: Side) -> SideTold:
    return SideTold(
        source=side.source,
        simulated=side.simulated,
        num_ranks=side.num_ranks,
        num_steps=side.num_steps,
        num_layers=side.num_layers,
        basis=", ".join(side.bases),
        info=tuple(side.info.items()),
    )


def _ratio(predicted: float, measured: float) -> float | None:
    return predicted / measured if measured else None

"""How much communication was hidden behind computation, and which behind which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.analysis.intervals import Array, Intervals, covered, grouped_union, of_events, sums_by_group
from weftrace.analysis.time_account import Source, account_of
from weftrace.files.columns import Shown, frame_of
from weftrace.files.schemas import Count, Ns
from weftrace.notebook import InNotebook
from weftrace.trace.kernels import bus_factor
from weftrace.trace.work import Work, in_lane
from weftrace.units import duration, percent

NO_PHASE = "(no phase)"
OTHER = "(other)"
_MAX_LABELS = 40  # rows or columns of the matrix; the rest is gathered under OTHER

#: Bytes of an element, by the names that c10::toString prints.
DTYPE_BYTES = {
    "Double": 8, "Long": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2, "Byte": 1, "Char": 1, "Bool": 1,
    "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Float8_e4m3fnuz": 1, "Float8_e5m2fnuz": 1,
}  # fmt: skip


class CollectiveRow(TypedDict):
    """Communication of one kind."""

    collective: str
    num_events: Count
    busy_ns: Annotated[Ns, Shown(term="busy")]
    hidden_ns: Annotated[Ns, Shown(term="hidden")]
    exposed_ns: Annotated[Ns, Shown(term="exposed")]
    data_ns: Annotated[Ns, Shown("moves data", term="data_barrier")]
    barrier_ns: Annotated[Ns, Shown("waits", term="data_barrier")]
    payload_bytes: Annotated[Count | None, Meta(description="Null where the trace does not record sizes.")]
    algbw_GBps: Annotated[
        float | None,
        Meta(description="payload_bytes / duration, decimal GB."),
        Shown("algbw GB/s", term="algbw"),
    ]
    busbw_GBps: Annotated[float | None, Meta(description="The same times NCCL's factor."), Shown("busbw GB/s")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OverlapMatrix(InNotebook):
    """Time in ns that both a communication phase (row) and a compute phase (column) were running.

    Two compute phases can run at once, so a row's sum can exceed its hidden_ns, which is a union.
    Labels are phase names; without phases, collectives and kernel families.
    """

    communication: tuple[str, ...]
    compute: tuple[str, ...]
    ns: Annotated[
        tuple[tuple[Ns, ...], ...], Meta(description="[i][j]: time in which communication[i] and compute[j] both ran.")
    ]
    hidden_ns: tuple[Ns, ...]
    exposed_ns: tuple[Ns, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Overlap(InNotebook):
    """Communication against computation on one device, ns; |X| as in `Breakdown`.

    communication_ns: |communication|. hidden_ns: |communication & compute|. exposed_ns: |communication - compute|.
    data_ns: |kernels that move data|; barrier_ns: |kernels that only notify or wait|.
    collectives: frame of `CollectiveRow`s; of a window of time, sizes and bandwidths are of events that start in it.
    exposed: where communication ran and no compute did, absolute ns, in order of time.
    """

    communication_ns: int
    hidden_ns: int
    data_ns: int
    barrier_ns: int
    collectives: pl.DataFrame
    matrix: OverlapMatrix
    exposed: Intervals

    @property
    def exposed_ns(self) -> int:
        return self.communication_ns - self.hidden_ns

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "communication", duration(self.communication_ns)
        yield "hidden", f"{duration(self.hidden_ns)}, {percent(self.hidden_fraction)}"
        yield "exposed", f"{duration(self.exposed_ns)} in {len(self.exposed.starts):,} stretches"
        yield "moves data", duration(self.data_ns)
        yield "notifies or waits", duration(self.barrier_ns)
        for name, busy_ns, hidden_ns in self.collectives.select("collective", "busy_ns", "hidden_ns").iter_rows():
            yield name, f"{duration(busy_ns)}, {percent(hidden_ns / busy_ns if busy_ns else None)} hidden"

    @property
    def hidden_fraction(self) -> float | None:
        """None, undefined, when there is no communication."""
        return self.hidden_ns / self.communication_ns if self.communication_ns else None


def overlap(source: Source) -> Overlap:
    """Communication hidden behind computation: in total, by collective, and phase by phase."""
    account = account_of(source)
    work = account.work
    communication = work.events.filter(pl.col("kind") == "communication")
    return Overlap(
        communication_ns=account.communication.total_ns,
        hidden_ns=account.hidden.total_ns,
        data_ns=of_events(communication.filter(pl.col("role") == "data")).total_ns,
        barrier_ns=of_events(communication.filter(pl.col("role") == "barrier")).total_ns,
        collectives=_collectives(communication, work.started, account.compute),
        matrix=_matrix(work, account.compute),
        exposed=account.exposed,
    )


def _collectives(communication: pl.DataFrame, started: pl.DataFrame, compute: Intervals) -> pl.DataFrame:
    label = pl.col("collective").cast(pl.String).fill_null("other")
    named, sized = communication.with_columns(label), started.with_columns(label)
    sized = sized.filter(pl.col("kind") == "communication")
    rows = []
    for (name,), part in named.group_by("collective"):
        whole = of_events(part)
        hidden_ns = (whole & compute).total_ns
        rows.append(
            {
                "collective": name,
                "num_events": part.height,
                "busy_ns": whole.total_ns,
                "hidden_ns": hidden_ns,
                "exposed_ns": whole.total_ns - hidden_ns,
                "data_ns": of_events(part.filter(pl.col("role") == "data")).total_ns,
                "barrier_ns": of_events(part.filter(pl.col("role") == "barrier")).total_ns,
                **_bandwidth(str(name), sized.filter(pl.col("collective") == name)),
            }
        )
    return frame_of(CollectiveRow, rows).sort("busy_ns", "collective", descending=[True, False])


def _bandwidth(collective: str, part: pl.DataFrame) -> dict[str, float | int | None]:
    """Payload and bandwidth over the events whose size is recorded; nothing where none is."""
    sized = part.select(
        (pl.col("payload_elems") * pl.col("dtype").cast(pl.String).replace_strict(DTYPE_BYTES, default=None)).alias(
            "bytes"
        ),
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"),
        "group_size",
    ).filter(pl.col("bytes") > 0, pl.col("dur_ns") > 0)
    if sized.is_empty():
        return {"payload_bytes": None, "algbw_GBps": None, "busbw_GBps": None}
    payload, dur_ns = int(sized.get_column("bytes").sum()), int(sized.get_column("dur_ns").sum())
    by_size = (
        sized.filter(pl.col("group_size") > 1)
        .group_by("group_size")
        .agg(pl.col("bytes", "dur_ns").sum())
        .sort("group_size")
    )
    moved = sum(bus_factor(collective, size) * num_bytes for size, num_bytes, _ in by_size.iter_rows())
    with_size_ns = int(by_size.get_column("dur_ns").sum())
    return {
        "payload_bytes": payload,
        "algbw_GBps": payload / dur_ns,  # bytes a nanosecond are GB a second
        "busbw_GBps": moved / with_size_ns if with_size_ns else None,
    }


def _matrix(work: Work, compute: Intervals) -> OverlapMatrix:
    has_phases = work.events.get_column("phase").null_count() < work.events.height
    if has_phases:
        names = work.phases.select("phase", pl.col("name").alias("label"))
        events = work.events.join(names, on="phase", how="left", maintain_order="left")
        events = events.with_columns(pl.col("label").fill_null(NO_PHASE))
    else:
        label = pl.coalesce(pl.col("collective").cast(pl.String), pl.col("family").cast(pl.String), pl.lit(OTHER))
        events = work.events.with_columns(label.alias("label"))
    rows, row_labels = _by_label(events.filter(pl.col("kind") == "communication"))
    columns, column_labels = _by_label(events.filter(in_lane("compute")))
    num_rows = len(row_labels)
    group, spans = rows

    def sums(cover: Intervals) -> list[int]:
        return [int(ns) for ns in sums_by_group(group, covered(cover, spans.starts, spans.ends), num_rows)]

    column_group, column_spans = columns
    by_column = []
    for number in range(len(column_labels)):
        mine = column_group == number
        by_column.append(sums(Intervals(column_spans.starts[mine], column_spans.ends[mine])))
    busy = sums_by_group(group, spans.ends - spans.starts, num_rows).tolist()
    hidden = sums(compute)
    return OverlapMatrix(
        communication=tuple(row_labels),
        compute=tuple(column_labels),
        ns=tuple(tuple(column[row] for column in by_column) for row in range(num_rows)),
        hidden_ns=tuple(hidden),
        exposed_ns=tuple(b - h for b, h in zip(busy, hidden, strict=True)),
    )


def _by_label(events: pl.DataFrame) -> tuple[tuple[Array, Intervals], list[str]]:
    """Unions by label, numbered in order of first appearance, small ones gathered under OTHER beyond a limit."""
    totals = events.group_by("label", maintain_order=True).agg(
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns")
    )
    if totals.height > _MAX_LABELS:
        kept = totals.sort("ns", "label", descending=[True, False]).head(_MAX_LABELS - 1).get_column("label").implode()
        events = events.with_columns(
            pl.when(pl.col("label").is_in(kept)).then("label").otherwise(pl.lit(OTHER)).alias("label")
        )
    labels = events.get_column("label").unique(maintain_order=True).to_list()
    number = events.get_column("label").replace_strict(labels, list(range(len(labels))), return_dtype=pl.Int64)
    spans = (events.get_column(column).to_numpy() for column in ("start_ns", "end_ns"))
    return grouped_union(number.to_numpy(), *spans), labels

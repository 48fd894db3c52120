"""What each phase did on the device: a row a phase occurrence, and the means by name."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.analysis.intervals import covered, grouped_union, sums_by_group, totals_by_group
from weftrace.analysis.time_account import Source, account_of
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Count, Ns
from weftrace.trace.work import LANES, in_lane


class PhaseRow(TypedDict):
    """One occurrence of a phase, in device order. |X| as in `Breakdown`, over its own events only."""

    name: str
    index: Annotated[Count, Meta(description="Which occurrence of the name in its step it is, from 0.")]
    step: int | None
    layer: Annotated[int | None, Meta(description="From the plan of a simulated phase; null if unknown.")]
    micro_batch: Annotated[int | None, Meta(description="As layer.")]
    lane: Annotated[
        Literal["compute", "communication"],
        Meta(description="communication, when that is most of its busy time, and no less than its compute."),
    ]
    start_ns: int
    end_ns: int
    busy_ns: Ns
    compute_ns: Ns
    communication_ns: Ns
    data_ns: Annotated[Ns, Meta(description="|communication kernels that move data rather than wait|")]
    hidden_ns: Annotated[Ns, Meta(description="|its communication & all compute of the device|")]
    exposed_ns: Annotated[Ns, Meta(description="|its communication - all compute of the device|")]
    sms: Annotated[
        Count | None, Meta(description="Of its persistent kernels of that lane, the value that held longest.")
    ]
    stream: Annotated[int | None, Meta(description="The one that it used most.")]
    num_events: Count


class PhaseMeanRow(TypedDict):
    """All occurrences of a phase together."""

    name: Annotated[str, Shown("phase")]
    lane: Annotated[
        Literal["compute", "communication"], Meta(description="In which most of its busy time is."), Shown(term="lane")
    ]
    count: Annotated[Count, Shown("times")]
    mean_busy_ns: Annotated[Ns, Shown(term="busy")]
    mean_data_ns: Annotated[Ns, Shown("moves data", term="data_barrier")]
    mean_hidden_ns: Annotated[Ns, Shown("hidden", term="hidden")]
    mean_exposed_ns: Annotated[Ns, Shown("exposed", term="exposed")]


#: Columns of `phases`: phase, its row in `Work.phases`, and those of `PhaseRow`; starts and ends are absolute.
PHASE_COLUMNS: dict[str, pl.DataType] = {"phase": pl.Int32(), **frame_schema(PhaseRow)}


def phases(source: Source) -> pl.DataFrame:
    """Every phase that has device events, in device order: a frame of `PHASE_COLUMNS`."""
    account = account_of(source)
    work = account.work
    events = work.events.filter(pl.col("phase").is_not_null()).with_columns(pl.col("phase").cast(pl.Int64))
    if events.is_empty():
        return pl.DataFrame(schema=PHASE_COLUMNS)
    number = work.phases.height

    def total(part: pl.DataFrame) -> pl.Series:
        return pl.Series(totals_by_group(*_spans(part), number))

    communication = events.filter(pl.col("kind") == "communication")
    group, spans = grouped_union(*_spans(communication))
    hidden = sums_by_group(group, covered(account.compute, spans.starts, spans.ends), number)
    totals = pl.DataFrame(
        {
            "phase": pl.Series(range(number), dtype=pl.Int64),
            "busy_ns": total(events),
            "compute_ns": total(events.filter(in_lane("compute"))),
            "communication_ns": total(communication),
            "data_ns": total(communication.filter(pl.col("role") == "data")),
            "hidden_ns": pl.Series(hidden),
        }
    )
    extent = events.group_by("phase").agg(
        pl.col("start_ns").min(), pl.col("end_ns").max(), pl.len().cast(pl.Int64).alias("num_events")
    )
    named = work.phases.select(pl.col("phase").cast(pl.Int64), "name", "index", "step", "layer", "micro_batch")
    return (
        extent.join(totals, on="phase")
        .join(held_longest(events, "phase", "stream"), on="phase", how="left")
        .join(named, on="phase")
        .with_columns(
            pl.when(
                pl.col("communication_ns") > 0,
                2 * pl.col("communication_ns") >= pl.col("busy_ns"),
                pl.col("communication_ns") >= pl.col("compute_ns"),
            )
            .then(pl.lit("communication"))
            .otherwise(pl.lit("compute"))
            .alias("lane"),
            (pl.col("communication_ns") - pl.col("hidden_ns")).alias("exposed_ns"),
        )
        .join(_sms_by_lane(with_sms(events, work.num_sms)), on=("phase", "lane"), how="left")
        .sort("start_ns", "phase")
        .select(pl.col(name).cast(dtype) for name, dtype in PHASE_COLUMNS.items())
    )


def phase_means(table: pl.DataFrame) -> pl.DataFrame:
    """Means by phase name, in order of first appearance: a frame of `PhaseMeanRow`s.

    A transfer may have three ranges of one name: one that issues it and one
    that receives, which compute, around the one in which it travels.
    """
    moving_ns = pl.col("busy_ns").filter(pl.col("lane") == "communication").sum()
    return table.group_by("name", maintain_order=True).agg(
        pl.when(moving_ns > 0, 2 * moving_ns >= pl.col("busy_ns").sum())
        .then(pl.lit("communication"))
        .otherwise(pl.lit("compute"))
        .alias("lane"),
        pl.len().alias("count"),
        *(pl.col(f"{part}_ns").mean().round().cast(pl.Int64).alias(f"mean_{part}_ns")
          for part in ("busy", "data", "hidden", "exposed")),
    )  # fmt: skip


def _sms_by_lane(events: pl.DataFrame) -> pl.DataFrame:
    """phase, lane, sms: a collective's SMs are not those of the phase that computes beside it, nor the reverse."""
    persistent = events.filter("persistent")
    return pl.concat(
        held_longest(persistent.filter(in_lane(lane)), "phase", "sms").with_columns(pl.lit(lane).alias("lane"))
        for lane in LANES
    )


def with_sms(events: pl.DataFrame, num_sms: int | None) -> pl.DataFrame:
    """Adds `sms`: min(blocks, SMs of the device). What a persistent kernel holds; an upper bound for any other.

    Null where the trace tells no grid or, but for persistent kernels, not how many SMs the device has.
    """
    blocks = pl.col("num_blocks")
    if num_sms is None:
        return events.with_columns(pl.when("persistent").then(blocks).alias("sms"))
    return events.with_columns(pl.when(blocks.is_not_null()).then(pl.min_horizontal(blocks, num_sms)).alias("sms"))


def held_longest(events: pl.DataFrame, by: str, column: str) -> pl.DataFrame:
    """For each value of `by`, the value of `column` that accounts for most time. Nulls of `column` do not count."""
    return (
        events.filter(pl.col(column).is_not_null())
        .group_by(by, column)
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("held_ns"))
        .sort("held_ns", column, descending=[True, False])
        .group_by(by, maintain_order=True)
        .agg(pl.col(column).first())
    )


def _spans(events: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return tuple(events.get_column(column).to_numpy() for column in ("phase", "start_ns", "end_ns"))  # type: ignore[return-value]

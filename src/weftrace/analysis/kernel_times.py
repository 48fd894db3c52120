"""Which kernels took the time, of which class; and what no rule names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.analysis.intervals import of_events, totals_by_group
from weftrace.analysis.phase_times import held_longest, with_sms
from weftrace.files.columns import Shown, frame_of
from weftrace.files.schemas import Count, Ns, Share
from weftrace.files.values import As
from weftrace.notebook import InNotebook
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work

Class = Annotated[
    str, Meta(description="Class of device work: compute, communication, memory or fused."), Shown("class")
]


class KernelRow(TypedDict):
    """All calls of one kernel."""

    name: Annotated[str, Shown("kernel", wide=True)]
    kind: Class
    family: str
    num_events: Annotated[Count, Shown("count")]
    total_ns: Ns
    mean_ns: float
    p50_ns: Annotated[float, Shown(term="p99")]
    p99_ns: float
    min_ns: Ns
    max_ns: Ns
    share: Annotated[Share, Meta(description="Of the sum of all durations."), Shown(term="share")]
    sms: Annotated[Count | None, Meta(description="min(blocks, SMs), the value that held longest."), Shown(term="sms")]
    sms_exact: Annotated[bool, Meta(description="Whether it holds one block per SM; else sms is an upper bound.")]


class FamilyRow(TypedDict):
    """Device events of one kernel family."""

    kind: Class
    family: str
    num_events: Count
    total_ns: Annotated[Ns, Meta(description="Sum.")]
    busy_ns: Annotated[Ns, Meta(description="Union."), Shown(term="busy")]


class StreamRow(TypedDict):
    """One stream."""

    stream: int
    busy_ns: Annotated[Ns, Meta(description="Union.")]
    num_events: Count
    kind: Annotated[str, Meta(description="The class that it spent most time on.")]


class UnnamedRow(TypedDict):
    """A kernel that no rule names, counted as other compute."""

    name: Annotated[str, Shown("kernel", wide=True)]
    num_events: Annotated[Count, Shown("count")]
    total_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelTable(InNotebook):
    """Device events by name, by family, by stream."""

    kernels: Annotated[pl.DataFrame, As(list[KernelRow]), Meta(description="Longest total first.")]
    families: Annotated[pl.DataFrame, As(list[FamilyRow])]
    streams: Annotated[pl.DataFrame, As(list[StreamRow])]
    unnamed: Annotated[pl.DataFrame, As(list[UnnamedRow])]
    unnamed_share: Annotated[Share, Meta(description="Of the sum of compute durations.")]


def kernel_table(source: Trace | Work) -> KernelTable:
    """Tabulate the device events of a trace."""
    work = as_work(source)
    events = with_sms(work.events, work.num_sms).with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"))
    dur = pl.col("dur_ns")
    kernels = (
        events.group_by("name", "kind", "family")
        .agg(
            pl.len().cast(pl.Int64).alias("num_events"),
            dur.sum().alias("total_ns"),
            dur.mean().alias("mean_ns"),
            dur.quantile(0.5, "nearest").cast(pl.Int64).alias("p50_ns"),
            dur.quantile(0.99, "nearest").cast(pl.Int64).alias("p99_ns"),
            dur.min().alias("min_ns"),
            dur.max().alias("max_ns"),
            pl.col("persistent").any().alias("sms_exact"),
            pl.col("rule").is_null().any().alias("unnamed"),
        )
        .join(held_longest(events, "name", "sms"), on="name", how="left")
        .with_columns((pl.col("total_ns") / max(1, events.get_column("dur_ns").sum())).alias("share"))
        .with_columns(pl.col("name", "kind", "family").cast(pl.String))
        .sort("total_ns", "name", "kind", "family", descending=[True, False, False, False])
    )
    unnamed = kernels.filter("unnamed", pl.col("kind") == "compute").select("name", "num_events", "total_ns")
    unnamed_ns = int(unnamed.get_column("total_ns").sum())
    compute_ns = int(kernels.filter(pl.col("kind") == "compute").get_column("total_ns").sum())
    return KernelTable(
        kernels=kernels.drop("unnamed").with_columns(pl.col("mean_ns").round().cast(pl.Int64)),
        families=_families(events),
        streams=_streams(events),
        unnamed=unnamed,
        unnamed_share=unnamed_ns / compute_ns if compute_ns else 0.0,
    )


def _families(events: pl.DataFrame) -> pl.DataFrame:
    named = events.with_columns(pl.col("kind", "family").cast(pl.String))
    rows = [
        {"kind": kind, "family": family, "num_events": part.height, "total_ns": int(part.get_column("dur_ns").sum()),
         "busy_ns": of_events(part).total_ns}
        for (kind, family), part in named.group_by("kind", "family")
    ]  # fmt: skip
    return frame_of(FamilyRow, rows).sort("total_ns", "kind", "family", descending=[True, False, False])


def _streams(events: pl.DataFrame) -> pl.DataFrame:
    kinds = held_longest(events, "stream", "kind").with_columns(pl.col("kind").cast(pl.String))
    own = events.group_by("stream").agg(num_events=pl.len().cast(pl.Int64)).with_row_index("at")
    of = events.select("stream", "start_ns", "end_ns").join(own, on="stream", nulls_equal=True)
    at, start, end = (of.get_column(name).to_numpy() for name in ("at", "start_ns", "end_ns"))
    busy = totals_by_group(at, start, end, own.height)
    rows = own.select("stream", pl.Series("busy_ns", busy, dtype=pl.Int64), "num_events")
    return rows.join(kinds, on="stream", how="left", nulls_equal=True).sort("stream")

"""Why the device was idle: waiting for the host, for a dependency, or just between back-to-back kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.analysis.waiting.idle_pieces import ACTIVITIES, idle_pieces
from weftrace.analysis.waiting.idle_pieces import CAUSES as ALL_CAUSES
from weftrace.files.schemas import Ns
from weftrace.files.values import As
from weftrace.notebook import InNotebook
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work
from weftrace.units import US

DEFAULT_THRESHOLD_NS = 30 * US  # HolisticTraceAnalysis uses the same

#: Why a device may be idle, see `IdleCauses`.
CAUSES = ("host_wait", "dependency_wait", "kernel_gap", "unknown")
#: Causes of the account of idle time that a gap is told by, in place of these four: what is known of the host's part.
TOLD_APART = (
    *ACTIVITIES, "blocking_sync", "blocking_copy", "graph_launch", "first_use", "unrecorded", "file_cut",
)  # fmt: skip


class StreamGapsRow(TypedDict):
    """Gaps of one stream."""

    stream: int
    idle_ns: Ns
    host_wait_ns: Ns
    dependency_wait_ns: Ns
    kernel_gap_ns: Ns
    unknown_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdleCauses(InNotebook):
    """Idle time of the device by cause: that of the event that ends a gap; the four add up to `Breakdown.idle_ns`.

    Of a window of time, a gap counts with what of it lies in the window; its cause and its length are those of the
    whole gap.
    """

    threshold_ns: Annotated[Ns, Meta(description="A shorter gap before a kernel launched in time is a kernel gap.")]
    host_wait_ns: Annotated[Ns, Meta(description="Its event was launched after the start of the gap.")]
    dependency_wait_ns: Annotated[Ns, Meta(description="Launched in time, but an event or another stream held it.")]
    kernel_gap_ns: Annotated[Ns, Meta(description="Launched in time, and the gap is short: back-to-back kernels.")]
    unknown_ns: Annotated[Ns, Meta(description="The launch is not in the trace.")]
    by_stream: Annotated[
        pl.DataFrame, As(list[StreamGapsRow]), Meta(description="The same for each stream's own gaps.")
    ]

    @property
    def idle_ns(self) -> int:
        return self.host_wait_ns + self.dependency_wait_ns + self.kernel_gap_ns + self.unknown_ns


def idle(source: Trace | Work, *, threshold_ns: int = DEFAULT_THRESHOLD_NS) -> IdleCauses:
    """Idle time of a device by cause. threshold_ns: gaps below it, launched in time, count as kernel gaps."""
    work = as_work(source)
    device = _totals(_gaps(_by_start(work), None, threshold_ns, work.window_ns))
    by_stream = _gaps(_by_start(work), "stream", threshold_ns, work.window_ns)
    table = (
        by_stream.group_by("stream", "cause")
        .agg(pl.col("gap_ns").sum())
        .pivot("cause", index="stream", values="gap_ns")
        .with_columns(pl.lit(0, dtype=pl.Int64).alias(c) for c in CAUSES if c not in by_stream.get_column("cause"))
    )
    streams = work.events.select(pl.col("stream").unique())
    table = streams.join(table, on="stream", how="left", nulls_equal=True).select(
        "stream",
        pl.sum_horizontal(pl.col(c).fill_null(0) for c in CAUSES).alias("idle_ns"),
        *(pl.col(c).fill_null(0).alias(f"{c}_ns") for c in CAUSES),
    )
    return IdleCauses(
        threshold_ns=threshold_ns, **{f"{c}_ns": device.get(c, 0) for c in CAUSES}, by_stream=table.sort("stream")
    )


def idle_gaps(work: Work, *, threshold_ns: int = DEFAULT_THRESHOLD_NS) -> pl.DataFrame:
    """Each gap of the whole device, or what of it is in the window: row (of the event that ends it), from_ns
    (absolute), gap_ns, cause: one of TOLD_APART where the account of idle time charges half of the gap to it, else one
    of `CAUSES`."""
    gaps = _gaps(_by_start(work), None, threshold_ns, work.window_ns)
    pieces = idle_pieces(work)
    apart = np.isin(pieces.cause, [ALL_CAUSES.index(cause) for cause in TOLD_APART])
    told = pl.DataFrame(
        {
            "row": pieces.gaps.events.get_column("row")[pieces.gap[apart]],
            "apart": pl.Series(ALL_CAUSES)[pieces.cause[apart]],
            "ns": pieces.length[apart],
        }
    )
    told = told.group_by("row", "apart").agg(pl.col("ns").sum()).sort("ns", "apart").unique("row", keep="last")
    gaps = gaps.join(told, on="row", how="left", maintain_order="left")
    half = 2 * pl.col("ns") >= pl.col("gap_ns")
    return gaps.with_columns(pl.when(half).then("apart").otherwise("cause").alias("cause")).drop("apart", "ns")


def _by_start(work: Work) -> pl.DataFrame:
    every = work.around.events  # the event that ends a gap may lie past a window
    return every.select("row", "stream", "start_ns", "end_ns", "launch_ts_ns").sort("start_ns", maintain_order=True)


def _gaps(events: pl.DataFrame, by: str | None, threshold_ns: int, window_ns: tuple[int, int] | None) -> pl.DataFrame:
    """The idle stretch before each event that ends one: cause, and gap_ns, what of it lies in the window."""
    ended = pl.col("end_ns").cum_max().shift(1)
    ended = ended.over(by) if by else ended
    gaps = events.with_columns(ended.alias("idle_from_ns")).filter(pl.col("start_ns") > pl.col("idle_from_ns"))
    gap = pl.col("start_ns") - pl.col("idle_from_ns")
    cause = (
        pl.when(pl.col("launch_ts_ns").is_null())
        .then(pl.lit("unknown"))
        .when(pl.col("launch_ts_ns") > pl.col("idle_from_ns"))
        .then(pl.lit("host_wait"))
        .when(gap < threshold_ns)
        .then(pl.lit("kernel_gap"))
        .otherwise(pl.lit("dependency_wait"))
    )
    gaps = gaps.with_columns(cause.alias("cause"))
    if window_ns is not None:
        inside = pl.col("start_ns").clip(*window_ns), pl.col("idle_from_ns").clip(*window_ns)
        gaps = gaps.with_columns(inside).filter(gap > 0)
    return gaps.select("row", "stream", pl.col("idle_from_ns").alias("from_ns"), gap.alias("gap_ns"), "cause")


def _totals(gaps: pl.DataFrame) -> dict[str, int]:
    return dict(gaps.group_by("cause").agg(pl.col("gap_ns").sum()).iter_rows())

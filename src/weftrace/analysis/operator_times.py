"""Which operators the device's time belongs to: kernels joined to the PyTorch operator that launched them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.files.columns import Shown
from weftrace.files.schemas import Count, Ns, Share
from weftrace.notebook import InNotebook
from weftrace.trace.containment import open_at_launch
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work


class OperatorRow(TypedDict):
    """All calls of one operator."""

    name: Annotated[str, Shown("operator", wide=True)]
    num_calls: Annotated[Count, Meta(description="Calls that launched something.")]
    num_events: Annotated[Count, Meta(description="Device events."), Shown("device events")]
    total_ns: Annotated[Ns, Meta(description="Sum of their durations.")]
    share: Annotated[Share, Meta(description="Of the sum over all device events."), Shown(term="share")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operators(InNotebook):
    """Device time by the innermost operator that launched it.

    operators: frame of `OperatorRow`s, longest total first.
    num_without: device events that no operator claims, because their launch is unknown or lies outside every operator;
    without_ns: the sum of their durations.
    """

    operators: pl.DataFrame
    num_without: int
    without_ns: int


def operators(source: Trace | Work, launched_by: pl.Series | None = None) -> Operators:
    """Device time by operator. All of it is without operator where the trace records none.

    launched_by: `operator_rows` of the work, where they are known already.
    """
    work = as_work(source)
    events = work.events.select((pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"))
    if launched_by is not None:
        called = launched_by
    elif work.basis == "device":
        called = operator_rows(work.trace.events, work.events)
    else:
        called = pl.Series("operator", [None] * events.height, dtype=pl.Int64)
    total_ns = max(1, int(events.get_column("dur_ns").sum()))
    claimed = events.with_columns(called).filter(pl.col("operator").is_not_null())
    claimed = claimed.with_columns(work.trace.events.get_column("name").gather(claimed.get_column("operator")))
    table = (
        claimed.group_by("name")
        .agg(
            pl.col("operator").n_unique().cast(pl.Int64).alias("num_calls"),
            pl.len().cast(pl.Int64).alias("num_events"),
            pl.col("dur_ns").sum().alias("total_ns"),
        )
        .with_columns(pl.col("name").cast(pl.String), (pl.col("total_ns") / total_ns).alias("share"))
        .sort("total_ns", "name", descending=[True, False])
    )
    return Operators(
        operators=table,
        num_without=events.height - claimed.height,
        without_ns=int(events.get_column("dur_ns").sum()) - int(claimed.get_column("dur_ns").sum()),
    )


def operator_rows(events: pl.DataFrame, linked: pl.DataFrame) -> pl.Series:
    """The operator that launched each device event, as its row in `events`: the innermost `cpu_op` of the launching
    thread that was open at the call; null where the launch is unknown or lies in none.

    events: a trace's events. linked: device events with launch_ts_ns, launch_pid, launch_tid. Containment in time is
    used rather than External ids, which profilers of different ages put on different events.
    """
    ranges = events.select("pid", "tid", "ts_ns", "dur_ns", "cat")
    return open_at_launch(ranges, linked, pl.col("cat") == "cpu_op").alias("operator")

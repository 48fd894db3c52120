"""The device's events as ops of a plan: which stream, after which launch, with what between two of them."""

from __future__ import annotations

import polars as pl

from weftrace.plan.inference.medians import median_ns
from weftrace.trace.work import Work
from weftrace.units import US, counted, duration

#: A gap above this is no pause between two kernels back to back.
MOST_GAP_NS = 30 * US
#: Stamps of one stream agree to this.
CLOCK_NS = 1 * US


def device_ops(work: Work) -> pl.DataFrame:
    """A row a device event, in order of start: event, stream (numbers from 0 up for streams that fit none), start_ns,
    end_ns (absolute; cut where the next on the stream starts), name, kind, family, role, num_blocks, phase, and of its
    launch: launch_pid, launch_tid, launch_ts_ns; graph_id, null outside graphs."""
    events = work.events.with_row_index("event")
    graph = work.trace.events.get_column("graph_id").gather(work.events.get_column("row"))
    events = events.with_columns(graph, pl.col("stream").fill_null(-1))
    streams = events.get_column("stream").unique().sort()
    small = streams.is_between(0, 999_999).all()
    numbered = pl.col("stream") if small else pl.col("stream").rank("dense") - 1
    following = pl.max_horizontal(
        "start_ns", pl.col("start_ns").shift(-1).over("stream").fill_null(pl.col("end_ns").max())
    )
    return events.select(
        "event", "row", numbered.cast(pl.Int32).alias("stream"), "start_ns",
        pl.min_horizontal("end_ns", following).alias("end_ns"),
        "name", "kind", "family", "role", "num_blocks", "persistent", "phase", "step",
        "launch_pid", "launch_tid", "launch_ts_ns", "link", "graph_id",
    )  # fmt: skip


def told_overlaps(work: Work, ops: pl.DataFrame) -> list[str]:
    """Ops of which the next on their stream begins before they end, as programmatic dependent launches do. ops: of
    `device_ops`."""
    cut_ns = work.events.get_column("end_ns").gather(ops.get_column("event")) - ops.get_column("end_ns")
    cut_ns = cut_ns.filter(cut_ns > CLOCK_NS)
    if cut_ns.is_empty():
        return []
    return [
        f"{counted(len(cut_ns), 'op')} on a device overlapped the next on the same stream, by "
        f"{duration(int(cut_ns.sum()))} together: each counts until the next begins, and however long it takes, the "
        "next begins at its end."
    ]


def median_gap_ns(ops: pl.DataFrame) -> int:
    """Between two ops back to back on one stream, the later launched so long before the earlier ended that its launch
    held nothing up, and no op of another stream ending between them, which the later may have waited for: the median;
    0 where there are none. Of a host that is hardly ahead, as long before as takes the quickest launches twice over.

    ops: of `device_ops`.
    """
    ends = ops.select(pl.col("end_ns").sort().alias("any_end_ns"))
    gaps = ops.select(
        "start_ns", "launch_ts_ns", free_ns=pl.col("end_ns").shift(1).over("stream")
    ).join_asof(ends, left_on="start_ns", right_on="any_end_ns")  # fmt: skip
    gap, ahead = pl.col("start_ns") - pl.col("free_ns"), pl.col("free_ns") - pl.col("launch_ts_ns")
    together = gaps.filter(gap.is_between(0, MOST_GAP_NS), free_ns=pl.col("any_end_ns")).select(gap=gap, ahead=ahead)
    queued = together.filter(pl.col("ahead") > MOST_GAP_NS)
    if queued.is_empty():
        quickest = ops.select((pl.col("start_ns") - pl.col("launch_ts_ns")).quantile(0.1)).item()
        queued = together.filter(pl.col("ahead") > 2 * (quickest or 0))
    return median_ns(queued.get_column("gap"))

"""The device's events as ops of a plan: which stream, after which launch, with what between two of them."""

from __future__ import annotations

import polars as pl

from weftrace.trace.work import Work

#: A gap above this is no pause between two kernels back to back.
MOST_GAP_NS = 30_000


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


def median_gap_ns(ops: pl.DataFrame) -> int:
    """Between two ops back to back on one stream, the later launched before the earlier ended; 0 where none are.

    ops: of `device_ops`.
    """
    gaps = ops.select(
        gap=pl.col("start_ns") - pl.col("end_ns").shift(1).over("stream"),
        queued=pl.col("launch_ts_ns") < pl.col("end_ns").shift(1).over("stream"),
    ).filter(pl.col("queued"), pl.col("gap").is_between(0, MOST_GAP_NS))
    return int(gaps.get_column("gap").median() or 0)  # type: ignore[arg-type]

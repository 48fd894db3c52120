"""Which device events can have happened as they were recorded: those far outside the recording, or longer than it."""

from __future__ import annotations

import polars as pl

from weftrace.trace.model import Trace, is_annotation, is_launch
from weftrace.units import MS, S

#: No time lies farther from 0 (the year 2116), so that differences fit 64 bits.
FARTHEST_NS = (1 << 62) - 1
_ABSURD_EXCESS_NS = 10 * MS  # how far an event must outlast its successors before its duration is doubted
_OUT_OF_WINDOW_NS = 1 * S  # how far outside the recording a device event may lie: clocks of host and device differ


def extent() -> tuple[pl.Expr, pl.Expr]:
    """start_ns and end_ns of events that start within `FARTHEST_NS`."""
    length = pl.min_horizontal("dur_ns", FARTHEST_NS - pl.col("ts_ns"))
    return pl.col("ts_ns").alias("start_ns"), (pl.col("ts_ns") + length).alias("end_ns")


_AT_ONCE = 1 << 18  # rows


def inside_window(rows: pl.DataFrame, trace: Trace) -> tuple[pl.DataFrame, int]:
    """Device events that start within the recording, give or take a second; how many do not.

    Where the file does not state the recording, what it holds of the host tells it, and the device may run behind by as
    long again.
    """
    kept = rows.filter(pl.col("ts_ns").is_between(-FARTHEST_NS, FARTHEST_NS))
    if (recorded := _recording(trace)) is not None:
        start, end = recorded
        behind = 0 if trace.window_ns is not None else end - start
        earliest, latest = start - _OUT_OF_WINDOW_NS, end + max(behind, _OUT_OF_WINDOW_NS)
        inside = kept.filter(pl.col("ts_ns").is_between(max(earliest, -FARTHEST_NS), min(latest, FARTHEST_NS)))
        if 2 * inside.height > kept.height:  # else it is the window, or the device's clock, that must be wrong
            kept = inside
    return kept, rows.height - kept.height


def clipped(rows: pl.DataFrame, trace: Trace) -> tuple[pl.DataFrame, int]:
    """Cut durations that the recording contradicts; how many were cut.

    A stream finishes its events in order, even where one starts before its predecessor has ended (programmatic
    dependent launch). So an event that outlasts a successor did not last that long, unless both are nodes of a graph.
    That alone is enough where it outlasts it by half of everything else; not on ROCm, where streams share queues. Where
    the event also ends after the recording, it is enough on any device. It is cut to the start of the event that
    follows. An event without successors is cut to the end of the recording, when it ends long after it.
    """
    if rows.is_empty() or trace.simulated:
        return rows, 0
    first, last = rows.select(pl.col("start_ns").min().alias("first"), pl.col("start_ns").max().alias("last")).row(0)
    shared = (pl.col("correlation") > 0).fill_null(False) & pl.col("correlation").is_duplicated()
    successors_end = pl.col("end_ns").cum_min(reverse=True).shift(-1).over("stream")
    excess = pl.when(pl.col("graph_id").is_null() & ~shared).then(pl.col("end_ns") - successors_end)
    rows = rows.with_columns(
        excess.fill_null(0).alias("excess_ns"), pl.col("start_ns").shift(-1).over("stream").alias("following_ns")
    )
    contradicted = pl.col("excess_ns") > _ABSURD_EXCESS_NS
    end = pl.col("end_ns")
    cut = end
    if (recorded := _recording(trace)) is not None:
        recording_end = max(min(recorded[1], FARTHEST_NS), last)
        stated = (
            trace.window_ns is not None
        )  # else the host's last event tells it, and the device may well outlast that
        length = recording_end - recorded[0]
        slack = min(max(length, _ABSURD_EXCESS_NS), _OUT_OF_WINDOW_NS) if stated else _OUT_OF_WINDOW_NS
        cut = pl.when(end > recording_end + slack).then(pl.lit(recording_end)).otherwise(cut)
        cut = (
            pl.when(contradicted & (end > recording_end + (0 if stated else slack))).then("following_ns").otherwise(cut)
        )
    if rows.select(contradicted.any()).item() and not trace.on_rocm:
        cut = pl.when(contradicted & (pl.col("excess_ns") > (last - first) // 2)).then("following_ns").otherwise(cut)
    rows = rows.with_columns(cut.alias("end_ns"), end.alias("recorded_end_ns"))
    return rows, int(rows.select((pl.col("end_ns") != pl.col("recorded_end_ns")).sum()).item())


def _recording(trace: Trace) -> tuple[int, int] | None:
    """Start and end of the recording: as the file states it, else of what it holds of the host; None without both."""
    if trace.window_ns is not None:
        return trace.window_ns
    extents: list[tuple[int, int]] = []
    for part in trace.events.select("cat", "ts_ns", "dur_ns").iter_slices(_AT_ONCE):  # few copies at a time
        host = part.filter(is_launch() | is_annotation() | (pl.col("cat") == "cpu_op"))
        if host.height:
            extents.append(
                host.select(pl.col("ts_ns").min(), (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("end")).row(0)
            )
    return (min(start for start, _ in extents), max(end for _, end in extents)) if extents else None

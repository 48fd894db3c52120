"""When does a range compute, in whose midst its own thread communicates? Before and after, but not then."""

from __future__ import annotations

import numpy as np
import polars as pl


def cut_around(rows: pl.DataFrame) -> pl.DataFrame:
    """Compute in the pieces that communication on the same thread leaves of it; the other rows as they are.

    rows: stream, kind, start_ns, end_ns, and any more columns, which each piece has of its range.
    """
    is_compute = pl.col("kind") == "compute"
    pieces: list[tuple[int, int, int]] = []  # row, start, end
    numbered = rows.with_row_index("at")
    both = numbered.filter(is_compute.any().over("stream") & (~is_compute).any().over("stream"))
    moved = both.filter(~is_compute).sort("stream", "start_ns", maintain_order=True)
    moved = moved.with_columns(pl.col("end_ns").cum_max().over("stream"))
    of_stream, starts, ends = (moved.get_column(name).to_numpy() for name in ("stream", "start_ns", "end_ns"))
    whole = both.filter(is_compute).select("at", "start_ns", "end_ns", "stream")
    lows, highs = (
        np.searchsorted(of_stream, whole.get_column("stream").to_numpy(), side) for side in ("left", "right")
    )
    for (at, start, end, _), low, high in zip(whole.iter_rows(), lows.tolist(), highs.tolist(), strict=True):
        first = low + np.searchsorted(ends[low:high], start, "right")
        last = low + np.searchsorted(starts[low:high], end, "left")
        if first >= last:
            continue
        reached = start
        for begin, stop in zip(starts[first:last].tolist(), ends[first:last].tolist(), strict=True):
            if begin > reached:
                pieces.append((at, reached, begin))
            reached = max(reached, stop)
        pieces.append((at, min(reached, end), end))
    if not pieces:
        return rows
    cut = pl.DataFrame(pieces, schema={"at": pl.UInt32(), "from_ns": pl.Int64(), "to_ns": pl.Int64()}, orient="row")
    found = numbered.join(cut, on="at", how="left", maintain_order="left")
    found = found.with_columns(
        pl.coalesce("from_ns", "start_ns").alias("start_ns"), pl.coalesce("to_ns", "end_ns").alias("end_ns")
    )
    is_left = pl.col("from_ns").is_null() | (pl.col("end_ns") > pl.col("start_ns"))
    return found.filter(is_left).select(rows.columns)

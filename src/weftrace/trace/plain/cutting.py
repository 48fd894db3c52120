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
    for _, mine in numbered.group_by("stream", maintain_order=True):
        moved = mine.filter(~is_compute).sort("start_ns")
        if moved.is_empty() or moved.height == mine.height:
            continue
        starts, ends = moved.get_column("start_ns").to_numpy(), moved.get_column("end_ns").cum_max().to_numpy()
        for at, start, end in mine.filter(is_compute).select("at", "start_ns", "end_ns").iter_rows():
            first, last = np.searchsorted(ends, start, "right"), np.searchsorted(starts, end, "left")
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

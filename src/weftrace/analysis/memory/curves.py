"""Memory over time in a bounded number of points that keep each extreme, and the blocks that are alive at a moment."""

from __future__ import annotations

from typing import Annotated, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.files.columns import Shown
from weftrace.files.schemas import Count

#: Stretches of time of which a curve keeps the first, least, most and last value.
_STRETCHES = 240

#: What a curve is made of, in order of time: bytes are above 0 where a block was taken and below where it was given
#: back, the sums those after it.
CHANGE_SCHEMA: dict[str, pl.DataType] = {
    "time_ns": pl.Int64(),
    "address": pl.Int64(),
    "bytes": pl.Int64(),
    "allocated_bytes": pl.Int64(),
    "reserved_bytes": pl.Int64(),
}


class CurveRow(TypedDict):
    """What is allocated and reserved from a moment on."""

    time_ns: Annotated[int, Shown("from")]
    allocated_bytes: Annotated[int, Meta(description="In blocks that are in use."), Shown("allocated")]
    reserved_bytes: Annotated[
        Count | None, Meta(description="That the allocator took from the device; null on a CPU."), Shown("reserved")
    ]


def bounded_curve(changes: pl.DataFrame, most: int = 6 * _STRETCHES) -> pl.DataFrame:
    """So many points of the curve at most, with its highest and lowest of each stretch of time: a frame of `CurveRow`.

    The highest of all is among them, so what is drawn reaches the real peak.
    """
    kept = changes.select("time_ns", "allocated_bytes", "reserved_bytes").with_row_index("row")
    if kept.height > most:
        first, last = (int(kept.item(at, "time_ns")) for at in (0, -1))
        stretch = (pl.col("time_ns") - first) // max(1, -((first - last) // max(1, most // 6 - 1)))
        ends = [getattr(pl.col("row"), how)() for how in ("first", "last")]
        extremes = [
            pl.col("row").get(getattr(pl.col(f"{of}_bytes"), how)()).alias(f"{of}_{how}")
            for of in ("allocated", "reserved")
            for how in ("arg_max", "arg_min")
        ]
        chosen = kept.group_by(stretch.alias("stretch")).agg(
            ends[0].alias("first"), ends[1].alias("last"), *extremes
        ).drop("stretch")  # fmt: skip
        rows = np.unique(np.concatenate([each.drop_nulls().to_numpy() for each in chosen.iter_columns()]))
        kept = kept[rows]
    return kept.drop("row")


def alive_at(changes: pl.DataFrame, row: int) -> tuple[pl.DataFrame, int]:
    """The blocks that were taken by a row and not given back until then, as rows of `changes` with `row`; and the bytes
    that were given back until then by who had them before the first row.

    Blocks are known by their address: one that is taken again without having been given back counts once, the later.
    """
    until = changes.with_row_index("row").head(row + 1)
    taken = pl.col("bytes") > 0
    last = until.filter(pl.int_range(pl.len()).over("address") == pl.len().over("address") - 1)
    given = until.filter(pl.int_range(pl.len()).over("address") == 0).filter(~taken)
    return last.filter(taken), -int(given.get_column("bytes").sum())

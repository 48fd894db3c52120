"""What changed, in whole nanoseconds of a step: kernels, and whatever they are summed to, add up to the span."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.comparison.runs import LABELS, SUMS
from weftrace.comparison.sides import Side

#: Columns that `changes_of` and `summed` add to their keys. Per step, mean over the steps that count and over ranks.
CHANGE_COLUMNS = (
    "before_ns", "after_ns", "change_ns",  # own time, whole ns
    "before_num", "after_num",  # launches, or gaps; not whole numbers where steps differ
    "before_raw_ns", "after_raw_ns",  # durations
    "by_number_ns", "by_duration_ns", "by_overlap_ns", "by_kernel_ns",  # of change_ns, whole ns; they add up to it
)  # fmt: skip


def changes_of(before: Side, after: Side) -> pl.DataFrame:
    """A row a kernel of one part, cause, operator and phase: `LABELS`, then `CHANGE_COLUMNS`.

    own time of a step = number x mean duration x share of the duration that is its own. The change is that of the
    number, (n1 - n0) x the mean of duration x share; that of the duration, mean n x (d1 - d0) x mean share; that of
    the share, mean n x (s1 - s0) x mean d: how much was hidden, or ran beside its like. Of a row that one side alone
    has, all is by_kernel_ns. before_ns and after_ns are means rounded so that they add up to the mean step, rounded.
    """
    one, other = _means(before, "before"), _means(after, "after")
    rows = one.join(other, on=LABELS, how="full", coalesce=True, nulls_equal=True).with_columns(
        pl.col(r"^(before|after)_.*$").fill_null(0)
    )
    return effects_of(rows.sort(LABELS, nulls_last=True)).select(*LABELS, *CHANGE_COLUMNS)


def summed(changes: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Changes summed over all but the keys `by`, the largest change first."""
    total = changes.group_by(by, maintain_order=True).agg(pl.col(CHANGE_COLUMNS).sum())
    return total.sort(pl.col("change_ns").abs(), descending=True, maintain_order=True)


def changes_by_rank(before: Side, after: Side) -> pl.DataFrame:
    """A row a rank (`at`, its position), part and cause: before_ns, after_ns, change_ns of a step of this rank, each
    rounded by itself."""
    key = ("at", "part", "cause")
    one, other = (
        side.shares.group_by(key).agg((pl.col("own_ns").sum() / side.num_steps).round().cast(pl.Int64).alias(name))
        for side, name in ((before, "before_ns"), (after, "after_ns"))
    )
    rows = one.join(other, on=key, how="full", coalesce=True, nulls_equal=True)
    rows = rows.with_columns(pl.col("before_ns", "after_ns").fill_null(0))
    return rows.with_columns((pl.col("after_ns") - pl.col("before_ns")).alias("change_ns"))


def _means(side: Side, name: str) -> pl.DataFrame:
    total = side.shares.group_by(LABELS, maintain_order=True).agg(pl.col(SUMS).sum())
    cells = max(1, side.num_cells)
    return total.select(
        *LABELS,
        pl.Series(f"{name}_ns", _apportioned(total.get_column("own_ns").to_numpy(), cells)),
        pl.col("num").truediv(cells).alias(f"{name}_num"),
        pl.col("raw_ns").truediv(cells).alias(f"{name}_raw_ns"),
    )


def _apportioned(totals: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Totals / cells in whole numbers that add up to their sum / cells, rounded: the largest remainders are raised."""
    whole, left = np.divmod(totals, cells)
    missing = int((2 * int(totals.sum()) + cells) // (2 * cells)) - int(whole.sum())
    whole[np.argsort(-left, kind="stable")[:missing]] += 1
    return np.asarray(whole, np.int64)


def effects_of(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with change_ns and its effects, from number, duration and own time of both sides; see `changes_of`."""
    change = pl.col("after_ns") - pl.col("before_ns")
    is_both = (pl.col("before_num") > 0) & (pl.col("after_num") > 0)
    n0, n1, r0, r1 = (pl.col(c) for c in ("before_num", "after_num", "before_raw_ns", "after_raw_ns"))
    own0, own1 = pl.col("before_ns") / n0, pl.col("after_ns") / n1  # of a launch
    share0 = pl.when(r0 > 0).then(pl.col("before_ns") / r0).otherwise(0.0)
    share1 = pl.when(r1 > 0).then(pl.col("after_ns") / r1).otherwise(0.0)
    number = ((n1 - n0) * (own0 + own1) / 2).round()
    duration = ((n0 + n1) / 2 * (r1 / n1 - r0 / n0) * (share0 + share1) / 2).round()
    return rows.with_columns(
        change.alias("change_ns"),
        pl.when(is_both).then(number).otherwise(0).cast(pl.Int64).alias("by_number_ns"),
        pl.when(is_both).then(duration).otherwise(0).cast(pl.Int64).alias("by_duration_ns"),
        pl.when(is_both).then(0).otherwise(change).alias("by_kernel_ns"),
    ).with_columns(
        (pl.col("change_ns") - pl.sum_horizontal("by_number_ns", "by_duration_ns", "by_kernel_ns")).alias(
            "by_overlap_ns"
        )
    )

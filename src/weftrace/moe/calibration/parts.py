"""What are the parts of a phase? Its kernels, put together by what explains their time.

A part is the kernels of one group (matrix, memory, data, wait) that follow one size: the routed rows; the tokens of the
micro-batch; or both, where one kind of kernel serves the routed and the shared expert.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.moe.calibration.kernels import SAMPLE_KEY
from weftrace.moe.calibration.routed_rows import Rows

#: Families that only routed rows pass through.
_ROUTED = ("gemm_grouped",)


def follows(kernels: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    """The kernels with `follows`, and `rows`, those of their sample, null where they are not known.

    rows: a kernel whose grid follows them, and grouped GEMMs of such a phase. both: of a phase whose grids follow the
    rows and which has no grouped GEMM, the GEMMs, for nothing tells those of the routed experts from those of the
    shared one. tokens: all others.
    """
    grid = rows.grids.with_columns(by_grid=pl.lit(True))
    keyed = kernels.join(grid, on=["phase", "name", "slot"], how="left").join(
        rows.table, on=SAMPLE_KEY, how="left", nulls_equal=True
    )
    grouped = pl.col("family").is_in(_ROUTED)
    has_grouped = keyed.filter(grouped).get_column("phase").unique().implode()
    routed = pl.col("rows").is_not_null()
    mixed = routed & (pl.col("group") == "matrix") & ~pl.col("phase").is_in(has_grouped)
    return keyed.with_columns(
        pl.when(routed & (pl.col("by_grid").fill_null(False) | grouped))
        .then(pl.lit("rows"))
        .when(mixed)
        .then(pl.lit("both"))
        .otherwise(pl.lit("tokens"))
        .alias("follows")
    ).drop("by_grid")  # fmt: skip


def size_of_part(
    follows: str, rows: NDArray[np.float64], base_rows: float, tokens: float = 1.0, base_tokens: int = 0
) -> NDArray[np.float64]:
    """By how much more there is to do than in the trace: 1 with `base_rows` and as many tokens.

    tokens: by those of the trace, base_tokens. both: (rows + tokens) / (base rows + base tokens), for the shared expert
    is as wide as a routed one.
    """
    if follows == "rows":
        return rows / base_rows
    if follows == "both":
        return (rows + tokens * base_tokens) / (base_rows + base_tokens)
    return np.full_like(rows, tokens)


def sizes_of(follows: pl.Series, rows: pl.Series, base_rows: pl.Series, base_tokens: int | None) -> pl.Series:
    """`size_of_part` of each of a frame's rows; nulls of rows are of what does not follow them."""
    which = follows.to_numpy()
    rows_at, base_at = (each.fill_null(1.0).to_numpy().astype(np.float64) for each in (rows, base_rows))
    size = np.ones(len(which))
    for each in ("rows", "both"):
        own = which == each
        extra = (base_tokens or 0) if each == "both" else 0
        size[own] = (rows_at[own] + extra) / (base_at[own] + extra)
    return pl.Series("size", size)

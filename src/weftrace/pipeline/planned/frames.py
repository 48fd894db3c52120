"""Frames of ops and waits, a column at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.plan.ops import OP_DEFAULTS, WAIT_DEFAULTS

Rows = NDArray[Any]  # row numbers, of any integers


def named(names: tuple[str, ...], code: NDArray[Any]) -> pl.Series:
    """A column of a few names, by their positions."""
    return pl.Series(names, dtype=pl.Categorical()).gather(pl.Series(code.astype(np.uint32)))


def all_of(name: str, length: int) -> pl.Series:
    return named((name,), np.zeros(length, np.uint32))


def wait_frame(op: Rows, on: Rows, lag_ns: NDArray[np.int64] | int = 0, since: str = "end") -> pl.DataFrame:
    frame = pl.DataFrame({"op": op.astype(np.uint32), "on": on.astype(np.uint32), "since": all_of(since, len(op))})
    return frame.with_columns(lag_ns=pl.lit(lag_ns, pl.Int64) if isinstance(lag_ns, int) else pl.Series(lag_ns))


def stacked(*frames: pl.DataFrame) -> pl.DataFrame:
    """Frames below each other; a column that one lacks holds its default there."""
    defaults = OP_DEFAULTS | WAIT_DEFAULTS
    names = {name: dtype for frame in frames for name, dtype in frame.schema.items()}
    filled = [
        frame.with_columns(
            pl.lit(defaults.get(name), dtype).alias(name) for name, dtype in names.items() if name not in frame.columns
        ).select(*names)
        for frame in frames
    ]
    return pl.concat(filled)

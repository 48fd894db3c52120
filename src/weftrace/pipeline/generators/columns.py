"""Actions as integers, by which generators make a rank at a time, and as the frame that a schedule takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.alphabet import Direction
from weftrace.pipeline.schedule import ACTION_SCHEMA, KINDS

#: int32 [6, actions]: rank, kind (see `code_of`), stage, micro_batch, back_stage and back_micro_batch, -1 for none.
Columns = NDArray[np.int32]
_NAMES = ("rank", "kind", "stage", "micro_batch", "back_stage", "back_micro_batch")


def frame_of(ranks: Sequence[Columns]) -> pl.DataFrame:
    """The actions of all ranks, ascending, for a `Schedule`."""
    frame = pl.DataFrame(dict(zip(_NAMES, np.concatenate(ranks, axis=1), strict=True)))
    has_backward = pl.col("back_stage") >= 0
    return frame.with_columns(
        kinds_of(frame["kind"], KINDS).alias("kind"),
        pl.when(has_backward).then("back_stage"),
        pl.when(has_backward).then("back_micro_batch"),
    )


def kinds_of(numbers: NDArray[np.uint32] | pl.Series, kinds: Sequence[Direction]) -> pl.Series:
    """The column `kind` of actions whose kinds are told by their number in a list."""
    return pl.Series(kinds, dtype=ACTION_SCHEMA["kind"]).gather(numbers)

"""Which action needs what which other action makes? Asked by the check, the simulation and the runtime alike."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.schedule import Schedule

#: Kinds of action that do a part of the work; an F&B does all three.
_KINDS = {"F": ("F", "F&B"), "I": ("I", "B", "F&B"), "W": ("W", "B", "F&B")}


def chunk_rows(schedule: Schedule, part: Literal["F", "I", "W"]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each chunk is: (row, count), both int64 [stages, micro-batches].

    row: of `schedule.actions`, the action that does this part of the chunk: F, I (the input gradient: I, B or the
    backward of an F&B) or W; -1 where none does. count: how many do, which is 1 in a schedule that `check` accepts.
    """
    actions = schedule.actions
    shape = (schedule.num_stages, schedule.num_micro_batches)
    rows = np.flatnonzero(actions.get_column("kind").is_in(_KINDS[part]).to_numpy())
    found = actions.select("kind", "stage", "micro_batch", "back_stage", "back_micro_batch")[rows]
    if part == "F":
        columns = found.select("stage", "micro_batch")
    else:
        columns = found.select(
            pl.coalesce("back_stage", "stage").alias("stage"),
            pl.coalesce("back_micro_batch", "micro_batch").alias("micro_batch"),
        )
    chunk = columns["stage"].to_numpy().astype(np.int64) * shape[1] + columns["micro_batch"].to_numpy()
    row = np.full(shape[0] * shape[1], -1, np.int64)
    row[chunk] = rows
    return row.reshape(shape), np.bincount(chunk, minlength=len(row)).reshape(shape)


def messages(schedule: Schedule) -> pl.DataFrame:
    """What passes from stage to stage, a row a message: `op` needs what `on` makes, both rows of `schedule.actions`.

    Columns: op, on UInt32; is_gradient: whether it goes back, the gradient of an activation, which the I, B or F&B
    `op` needs of the next stage; else it is an activation, which the F or F&B `op` needs of the stage before. Stages
    on one rank pass them on without a network: compare the ranks of both rows. What one stage needs of its own
    earlier actions is on its rank, where `check` sees to their order. Rows: activations by stage, then micro-batch,
    then gradients.
    """
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], bool]] = []
    forward, _ = chunk_rows(schedule, "F")
    parts.append((forward[1:], forward[:-1], False))
    backward, _ = chunk_rows(schedule, "I")
    parts.append((backward[:-1], backward[1:], True))
    frames = []
    for op, on, is_gradient in parts:
        both = (op >= 0) & (on >= 0)
        columns = {"op": op[both].astype(np.uint32), "on": on[both].astype(np.uint32)}
        frames.append(pl.DataFrame(columns).with_columns(is_gradient=pl.lit(is_gradient)))
    return pl.concat(frames)

"""Which action needs what which other action makes? Asked by the check, the simulation and the runtime alike."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import ScheduleError
from weftrace.pipeline.schedule import KINDS, Schedule, code_of

#: Which kinds of action do a part of the work, by their code in the frame; an F&B does all three.
_PARTS = {"F": ("F", "F&B"), "I": ("I", "B", "F&B"), "W": ("W", "B", "F&B")}
_DOES = {part: np.array([kind in kinds for kind in KINDS]) for part, kinds in _PARTS.items()}
_FB = code_of("F&B")
#: Chunks of a schedule that has fewer actions than chunks, at most: a table of more would be made for nothing.
_MOST_MISSING = 2**22


def chunk_rows(schedule: Schedule, part: Literal["F", "I", "W"]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each chunk is: (row, count), both int64 [stages, micro-batches].

    row: of `schedule.actions`, the action that does this part of the chunk: F, I (the input gradient: I, B or the
    backward of an F&B) or W; -1 where none does. count: how many do, which is 1 in a schedule that `check` accepts.

    Raises `ScheduleError` where millions of chunks have no action, as after a mistake in the number of micro-batches.
    """
    actions = schedule.actions
    shape = (schedule.num_stages, schedule.num_micro_batches)
    if shape[0] * shape[1] > max(len(actions), _MOST_MISSING):
        raise ScheduleError(
            f"schedule {schedule.name!r}: {shape[0]:,} stages x {shape[1]:,} micro-batches need as many forwards, "
            f"and there are {len(actions):,} actions in all."
        )
    code = schedule.kind_N
    rows = np.flatnonzero(_DOES[part][code])
    stage, micro_batch = (actions.get_column(name).to_numpy()[rows] for name in ("stage", "micro_batch"))
    if part != "F" and len(pairs := np.flatnonzero(code[rows] == _FB)):
        for column, own in (("back_stage", stage), ("back_micro_batch", micro_batch)):
            own[pairs] = actions.get_column(column).gather(rows[pairs]).to_numpy()
    chunk = stage.astype(np.int64) * shape[1] + micro_batch
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
    forward, backward = chunk_rows(schedule, "F")[0], chunk_rows(schedule, "I")[0]
    op = np.concatenate([forward[1:].reshape(-1), backward[:-1].reshape(-1)]).astype(np.int32)
    on = np.concatenate([forward[:-1].reshape(-1), backward[1:].reshape(-1)]).astype(np.int32)
    is_gradient = np.arange(len(op)) >= len(op) // 2
    both = (op >= 0) & (on >= 0)
    if not both.all():
        op, on, is_gradient = op[both], on[both], is_gradient[both]
    return pl.DataFrame({"op": op.astype(np.uint32), "on": on.astype(np.uint32), "is_gradient": is_gradient})


class Messages(NamedTuple):
    """What passes between two ranks: action `op` needs what action `on` makes, both as rows of `schedule.actions`.

    place: the row of each in `messages(schedule)`. Legend: E messages.
    """

    op: NDArray[np.uint32]
    on: NDArray[np.uint32]
    is_gradient: NDArray[np.bool_]
    place: NDArray[np.int64]


def messages_between_ranks(schedule: Schedule) -> Messages:
    """Those between two ranks. Within one, its order is enough; where that is wrong, the message stays and shows it."""
    op, on, is_gradient = (column.to_numpy() for column in messages(schedule).iter_columns())
    rank = schedule.rank_N
    place = np.flatnonzero((rank[op] != rank[on]) | (on > op))
    return Messages(op[place], on[place], is_gradient[place], place)

"""DualPipe and DualPipeV: the batch goes through the pipeline in two directions at once, in eight steps.

Each rank holds two stages and sees two *phases* of micro-batches pass: phase 0 enters near it, phase 1 comes from far.
In the steady state the forward of one phase is always at hand for the backward of the other, and the two overlap.

DualPipe: the phases are two halves of the batch, one from each end of the pipeline, so every stage stands on two ranks.
DualPipeV: phase 1 is phase 0 on its way back through a V, so two stages stand on each rank and nothing is held twice.
Seen from one rank the two are the same, so both are `eight_steps`.

Source: DeepSeek, https://github.com/deepseek-ai/DualPipe (README's figure and its eight steps).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.columns import Columns, frame_of
from weftrace.pipeline.schedule import Schedule, code_of
from weftrace.units import counted

#: Cells of the figure: what a rank does next, by phase. F0B1 is the F&B of phase 0's forward and phase 1's backward. A
#: W is of the oldest I that has none yet.
Cells = NDArray[np.int8]
F0, F1, I0, I1, B0, B1, F0B1, F1B0, W = range(9)
_KIND = np.array([code_of(kind) for kind in ("F", "F", "I", "I", "B", "B", "F&B", "F&B", "W")])
_FORWARD = np.array([0, 1, -1, -1, -1, -1, 0, 1, -1])  # phase of the cell's forward, -1 for none
_BACKWARD = np.array([-1, -1, 0, 1, 0, 1, 1, 0, -1])  # phase of the cell's I or B, -1 for none


def eight_steps(half: int, place: int, num_each: int, *, switch: bool = True) -> Cells:
    """What one rank does, in the order of the published figure.

    half: ranks from an end of the pipeline to its middle, PP / 2. place: of those, how many are nearer to the end;
    half - 1 is in the middle. num_each: micro-batches of each phase, PP or more.
    switch: the rank in the middle runs its first F0 and B1 one after the other: overlapped, F0 would start only when B1
    can, and others wait for what comes of it.
    """
    return np.concatenate(
        [
            _times(2 * (half - place - 1), F0),  # 1: the pipeline fills from the near end
            _times(place + 1, F0, F1),  # 2: and from the far end
            _times(half - place - 1, I1, W, F1),  # 3: phase 1 turns at the end; split, for others wait for I1
            _first_pair(switch and place == half - 1),  # 4: the steady state, F0B1 F1B0, from its first pair
            _times(num_each - 2 * half + place, F0B1, F1B0),  # to its last
            _times(half - place - 1, B1, F1B0),  # 5: phase 0 has no forward left
            _zero_bubble(place + 1),  # 6: B1 B0; their second half leaves its W for the gaps to come
            _times(half - place - 1, W, I0),  # 7: the pipeline drains
            _times(place + 1, W),  # 8
        ]
    )


def dualpipe(num_stages: int, num_micro_batches: int, *, switch: bool = True) -> Schedule:
    """DualPipe: rank r holds stages r and PP-1-r; half of the micro-batches enters at rank 0, the other half at PP-1.

    num_stages: PP, also the number of ranks. switch: see `eight_steps`; without it the steady state begins overlapped.

    Raises `ScheduleError` where the number of stages or of micro-batches is odd, or there are fewer than 2 PP of these.
    """
    need_counts("DualPipe", num_stages=num_stages, num_micro_batches=num_micro_batches)
    half, num_each = num_stages // 2, num_micro_batches // 2
    _refuse_odd(num_stages, num_micro_batches)
    if num_each < num_stages:
        raise ScheduleError(
            f"DualPipe: {counted(num_micro_batches, 'micro-batch')} cannot fill {num_stages} stages: both "
            f"directions fill the pipeline at once, which takes 2 x {num_stages} = {2 * num_stages} or more."
        )
    up = tuple(range(num_stages))
    ranks = []
    for rank in up:
        far = num_stages - 1 - rank  # the rank's stage of direction 1
        near_first = ((rank, far), (0, num_each)) if rank < half else ((far, rank), (num_each, 0))
        cells = eight_steps(half, min(rank, far), num_each, switch=switch)
        ranks.append(_numbered(cells, rank, *near_first))
    placed = (up, up[::-1])
    return Schedule(name="DualPipe", rank_of=placed, num_micro_batches=num_micro_batches, actions=frame_of(ranks))


def dualpipe_v(num_ranks: int, num_micro_batches: int, *, switch: bool = True) -> Schedule:
    """DualPipeV: rank r of D holds stages r and 2D-1-r; each micro-batch goes down the V through all ranks, and back.

    switch: see `eight_steps`. Raises `ScheduleError` where there is no rank, or fewer micro-batches than 2 D.
    """
    need_counts("DualPipeV", num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    if num_micro_batches < 2 * num_ranks:
        raise ScheduleError(
            f"DualPipeV: {counted(num_micro_batches, 'micro-batch')} cannot fill {counted(num_ranks, 'rank')}: the V "
            f"is {2 * num_ranks} stages long, and takes that many or more to be full."
        )
    down = tuple(range(num_ranks))
    ranks = []
    for rank in down:
        cells = eight_steps(num_ranks, rank, num_micro_batches, switch=switch)
        ranks.append(_numbered(cells, rank, (rank, 2 * num_ranks - 1 - rank), (0, 0)))
    placed = (down + down[::-1],)
    return Schedule(name="DualPipeV", rank_of=placed, num_micro_batches=num_micro_batches, actions=frame_of(ranks))


def _times(count: int, *cells: int) -> Cells:
    return np.tile(np.array(cells, np.int8), count)


def _first_pair(switched: bool) -> Cells:
    return np.array([F0, B1, F1B0] if switched else [F0B1, F1B0], np.int8)


def _zero_bubble(pairs: int) -> Cells:
    """B1 B0 so many times, their second half split: an I each, with the W left for later."""
    cells = _times(pairs, B1, B0)
    cells[pairs:] += I0 - B0
    return cells


def _numbered(cells: Cells, rank: int, stages: tuple[int, ...], first: tuple[int, ...]) -> Columns:
    """The actions of a rank's cells.

    stages, first: of each phase the stage that the rank holds, and the number of its first micro-batch.
    """
    columns = np.full((6, len(cells)), -1, np.int32)
    columns[0], columns[1] = rank, _KIND[cells]
    forward, backward = _FORWARD[cells], _BACKWARD[cells]
    is_pair = (forward >= 0) & (backward >= 0)
    for phase in (0, 1):
        for of_phase, row in ((forward == phase, 2), (backward == phase, 4)):
            columns[row, of_phase] = stages[phase]
            columns[row + 1, of_phase] = first[phase] + np.arange(np.count_nonzero(of_phase))
    alone = (backward >= 0) & ~is_pair
    columns[2:4, alone], columns[4:6, alone] = columns[4:6, alone], -1
    columns[2:4, cells == W] = columns[2:4, (cells == I0) | (cells == I1)]
    return columns


def _refuse_odd(num_stages: int, num_micro_batches: int) -> None:
    if num_stages % 2:
        raise ScheduleError(
            f"DualPipe: {counted(num_stages, 'stage')}; the two directions meet in the middle, which takes an even "
            "number of them."
        )
    if num_micro_batches % 2:
        raise ScheduleError(
            f"DualPipe: {counted(num_micro_batches, 'micro-batch')}; each direction runs half of them, so their number "
            "is even."
        )

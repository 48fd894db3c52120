"""Do the ranks of a measured run have one clock? Where an action starts before its input was made, they do not.

Between two ranks messages go both ways, activations and gradients. The quickest each way took at least nothing, and is
taken to have taken as long as the quickest the other way: half of the difference is that of the clocks. Ranks that pass
nothing to each other are reached by way of others.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.dependencies import messages_between_ranks
from weftrace.pipeline.measured.run_costs import matched
from weftrace.pipeline.measured.runs import MeasuredRun
from weftrace.pipeline.schedule import Schedule, code_of
from weftrace.units import duration

_Ints = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max


def on_one_clock(run: MeasuredRun, schedule: Schedule) -> tuple[MeasuredRun, str]:
    """The run with its ranks' clocks brought together where they differ, and what was done in a sentence; the run as it
    is, and an empty text, where no input came before it was made."""
    least = _least_gaps(run, schedule)
    if not (least < 0).any():
        return run, ""
    offset = _offsets(least)
    shift = pl.col("rank").replace_strict(dict(enumerate(offset.tolist())), return_dtype=pl.Int64)
    is_told = pl.col("waited_until_ns") >= 0
    moved = run.actions.with_columns(
        pl.col("start_ns") - shift,
        pl.col("end_ns") - shift,
        pl.when(is_told).then(pl.col("waited_until_ns") - shift).otherwise(-1).alias("waited_until_ns"),
    )
    by = int(np.ptp(offset))
    return replace(run, actions=moved), (
        f"the clocks of the ranks differed by up to {duration(by)}: brought together by the quickest messages between "
        "them, taken to travel as long one way as the other"
    )


def _least_gaps(run: MeasuredRun, schedule: Schedule) -> _Ints:
    """[from rank, to rank]: the least time from the end of an action to the start of one that needs its output, as the
    two clocks tell it; a very large number where nothing passes."""
    rank = schedule.rank_N
    sent = messages_between_ranks(schedule)
    ends = schedule.kind_N[sent.on] != code_of("F&B")  # which may send before its end
    op, on = sent.op[ends], sent.on[ends]
    least = np.full((schedule.num_ranks, schedule.num_ranks), _NEVER)
    for _, step in matched(run, schedule).group_by("step"):
        times = step.sort("row")
        start, end = (times.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
        np.minimum.at(least, (rank[on], rank[op]), start[op] - end[on])
    return least


def _offsets(least: _Ints) -> _Ints:
    """How far the clock of each rank is ahead of rank 0's, [ranks]; 0 for one that no messages reach both ways."""
    offset = np.zeros(len(least), np.int64)
    known, waiting = {0}, deque([0])
    while waiting:
        at = waiting.popleft()
        for other in np.flatnonzero((least[at] < _NEVER) & (least[:, at] < _NEVER)).tolist():
            if other not in known:
                offset[other] = offset[at] + (least[at, other] - least[other, at]) // 2
                known.add(other)
                waiting.append(other)
    return offset

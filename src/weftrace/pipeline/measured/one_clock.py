"""Do the ranks of a measured run have one clock? The quickest messages between two ranks, both ways, tell.

The quickest each way took at least nothing, and is taken to have taken as long as the quickest the other way: half of
the difference is that of the clocks, uncertain by half of the sum. It counts where ranks waited for messages both ways,
for one that is read late seems slow, and where an input came before it was made, which proves that clocks differ. Ranks
that pass nothing to each other are reached by way of others.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.clock_lines import SMALL_NS
from weftrace.pipeline.dependencies import messages_between_ranks
from weftrace.pipeline.measured.run_costs import matched
from weftrace.pipeline.measured.runs import MeasuredRun
from weftrace.pipeline.schedule import Schedule, code_of
from weftrace.units import duration

_Ints = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max


def on_one_clock(run: MeasuredRun, schedule: Schedule) -> tuple[MeasuredRun, str]:
    """The run with its ranks' clocks brought together where they differ, and what was done in a sentence; the run as it
    is, and an empty text, where they agree to 10 us or all ranks name one machine, and no input came before it was
    made."""
    least, waited = _least_gaps(run, schedule)
    is_proved = bool((least < 0).any())
    if run.has_one_clock and not is_proved:
        return run, ""
    offset, unsure = _offsets(least, waited)
    by = int(np.ptp(offset))
    if by <= SMALL_NS and not is_proved:
        return run, ""
    shift = pl.col("rank").replace_strict(dict(enumerate(offset.tolist())), return_dtype=pl.Int64)
    is_told = pl.col("waited_until_ns") >= 0
    moved = run.actions.with_columns(
        pl.col("start_ns") - shift,
        pl.col("end_ns") - shift,
        pl.when(is_told).then(pl.col("waited_until_ns") - shift).otherwise(-1).alias("waited_until_ns"),
    )
    within = int(unsure[np.argmax(offset)] + unsure[np.argmin(offset)])
    return replace(run, actions=moved), (
        f"the clocks of the ranks {'' if is_proved else 'seem to have '}differed by up to {duration(by)} "
        f"(± {duration(within)}): brought together by the quickest messages between them, taken to travel as long one "
        "way as the other"
    )


def _least_gaps(run: MeasuredRun, schedule: Schedule) -> tuple[_Ints, _Ints]:
    """[from rank, to rank]: the least time from the end of an action to the start of one that needs its output, as the
    two clocks tell it; and to the end of the wait for it, of those that waited for that message alone, and for longer
    than this time. A very large number where there is none."""
    rank = schedule.rank_N
    sent = messages_between_ranks(schedule)
    ends = schedule.kind_N[sent.on] != code_of("F&B")  # which may send before its end
    op, on = sent.op[ends], sent.on[ends]
    is_alone = np.bincount(sent.op, minlength=len(rank))[op] == 1
    least, waited = np.full((2, schedule.num_ranks, schedule.num_ranks), _NEVER)
    for _, step in matched(run, schedule).group_by("step"):
        times = step.sort("row")
        start, end, took, until = (
            times.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "waited_ns", "waited_until_ns")
        )
        np.minimum.at(least, (rank[on], rank[op]), start[op] - end[on])
        gap = until[op] - end[on]
        waits = is_alone & (until[op] >= 0) & (took[op] > gap)
        np.minimum.at(waited, (rank[on[waits]], rank[op[waits]]), gap[waits])
    return least, waited


def _offsets(least: _Ints, waited: _Ints) -> tuple[_Ints, _Ints]:
    """How far the clock of each rank is ahead of rank 0's, [ranks], by way of what tells most surely, and how far off
    that may be; 0 for one that no messages reach both ways."""
    offset, unsure = np.zeros((2, len(least)), np.int64)
    known, links = set[int](), [(0, 0, 0, 0)]  # (how little it tells, uncertainty, rank, offset)
    while links:
        rough, within, at, by = heappop(links)
        if at in known:
            continue
        known.add(at)
        offset[at], unsure[at] = by, within
        for other in np.flatnonzero((least[at] < _NEVER) & (least[:, at] < _NEVER)).tolist():
            link_rough, ahead, link_within = _link(least, waited, at, other)
            heappush(links, (max(rough, link_rough), within + link_within, other, by + ahead))
    return offset, unsure


def _link(least: _Ints, waited: _Ints, a: int, b: int) -> tuple[int, int, int]:
    """(how little it tells, how far the clock of b is ahead of a's, and how far off that may be): by messages that were
    waited for, if there are some both ways; else by all, where these prove that clocks differ; else 0."""
    for rough, known in enumerate((waited, least)):
        forth, back = int(known[a, b]), int(known[b, a])
        if max(forth, back) < _NEVER and (rough == 0 or min(forth, back) < 0):
            return rough, (forth - back) // 2, abs(forth + back) // 2
    return 2, 0, max(forth, back)

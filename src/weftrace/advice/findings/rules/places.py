"""Where a finding of device work is: the ranks and events in which it shows best."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from weftrace.analysis.findings import Where
from weftrace.trace.work import Work

_MOST_EVENTS = 20
_MOST_KERNELS = 3


def where_of(works: Sequence[Work], rows: pl.DataFrame, *, by: str, phase: str = "") -> Where:
    """rows: at (position of the work), row (of its trace's events) and the time `by`. Events are of the worst rank."""
    if rows.is_empty():
        return Where(phase=phase)
    sums = rows.group_by("at").agg(pl.col(by).sum()).sort(by, "at", descending=[True, False])
    ats = sums.get_column("at").to_list()
    worst = works[ats[0]]
    longest = rows.filter(at=ats[0]).sort(by, descending=True).head(_MOST_EVENTS).get_column("row").to_list()
    events = worst.trace.events[longest]
    start, dur = events.select("ts_ns", "dur_ns").row(0)
    return Where(
        ranks=tuple(rank for at in ats if (rank := works[at].trace.rank) is not None),
        device=worst.device,
        phase=phase,
        kernels=tuple(events.get_column("name").cast(pl.String).unique(maintain_order=True).head(_MOST_KERNELS)),
        path=worst.trace.path,
        events=tuple(longest),
        start_ns=start,
        end_ns=start + (dur or 0),
    )

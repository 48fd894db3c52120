"""How the profiler's steps differ: the breakdown of each ProfilerStep."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from weftrace.analysis.time_account import Breakdown, breakdown
from weftrace.notebook import InNotebook
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(InNotebook):
    """One ProfilerStep: the device events that its host window launched, from the first start to the last end.

    The device runs behind the host, so cutting at the host's window would give a step's end to its successor.
    """

    step: int
    breakdown: Breakdown


def steps(source: Trace | Work) -> tuple[Step, ...]:
    """Every step that launched device work, in order; the last one included. Empty without ProfilerStep ranges."""
    work = as_work(source)
    parts = work.events.filter(pl.col("step").is_not_null()).partition_by("step", as_dict=True)
    return tuple(
        Step(step=number, breakdown=breakdown(replace(work, events=part, step=number)))
        for (number,), part in sorted(parts.items())
    )

"""How the profiler's steps differ: the breakdown of each ProfilerStep, over a window of the device's time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import polars as pl

from weftrace.analysis.intervals import covered_before, of_events
from weftrace.analysis.time_account import Breakdown, breakdown
from weftrace.notebook import InNotebook
from weftrace.trace.device_windows import step_windows
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work
from weftrace.units import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(InNotebook):
    """One ProfilerStep: all that ran in its window, whoever launched it. |X| as in `Breakdown`, times in ns.

    The window: from the first device event that the step launched (a copy that ran ahead is not meant) to the next
    step's; the last ends with the last event that any step launched. Windows touch, so with what lies outside of them
    (`outside_steps`) every part of every breakdown adds up to the whole trace's, exactly.
    from_other_steps_ns: |what runs in the window and was launched in another step, or outside all of them|.
    ran_ahead_ns, spilled_ns: |what the step launched and ran before its window|, |... after its window|. Events without
    a known launch count in none of the three.
    """

    step: int
    breakdown: Breakdown
    from_other_steps_ns: int
    ran_ahead_ns: int
    spilled_ns: int

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "step", str(self.step)
        yield from self.breakdown._describe()
        yield "launched by other steps", duration(self.from_other_steps_ns)
        yield "ran ahead", duration(self.ran_ahead_ns)
        yield "ran in later steps", duration(self.spilled_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideSteps(InNotebook):
    """The device's time before the first step's window, or after the last one's."""

    place: Literal["before", "after"]
    breakdown: Breakdown

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "place", f"{self.place} the {'first' if self.place == 'before' else 'last'} step"
        yield from self.breakdown._describe()


def steps(source: Trace | Work) -> tuple[Step, ...]:
    """Every step that launched device work, in order; the last one included. Empty without ProfilerStep ranges.

    Of the work of one step, that step alone, over its window, however the step was selected.
    """
    work = as_work(source)
    whole = work.whole or work
    chosen = step_windows(whole.events).filter(pl.col("step").is_in(work.steps))
    return tuple(_step(whole, *window) for window in chosen.iter_rows())


def _step(whole: Work, step: int, start_ns: int, end_ns: int) -> Step:
    part = whole.between(start_ns, end_ns)
    is_known, is_own = pl.col("link").is_not_null(), pl.col("step").eq_missing(step)
    own = of_events(whole.events.filter(is_known, is_own))
    before_start, before_end = covered_before(own, (start_ns, end_ns)).tolist()
    return Step(
        step=step,
        breakdown=breakdown(part),
        from_other_steps_ns=of_events(part.events.filter(is_known, ~is_own)).total_ns,
        ran_ahead_ns=before_start,
        spilled_ns=own.total_ns - before_end,
    )


def outside_steps(source: Trace | Work) -> tuple[OutsideSteps, ...]:
    """What lies before the first step's window and after the last one's, where there is any; of one step, nothing."""
    work = as_work(source)
    windows = step_windows(work.events)
    if work.step is not None or windows.is_empty():
        return ()
    first, last = windows.get_column("start_ns")[0], windows.get_column("end_ns")[-1]
    before = OutsideSteps(place="before", breakdown=breakdown(work.between(work.start_ns, first)))
    after = OutsideSteps(place="after", breakdown=breakdown(work.between(last, work.end_ns)))
    return tuple(part for part in (before, after) if part.breakdown.span_ns)

"""How the profiler's steps differ: the breakdown of each ProfilerStep, over a window of the device's time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from weftrace.analysis.intervals import Array, Intervals, covered, union
from weftrace.analysis.time_account import Breakdown, account_of, breakdown
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
    if chosen.is_empty():
        return ()
    start = chosen.get_column("start_ns").to_numpy().clip(min=whole.start_ns)
    end = chosen.get_column("end_ns").to_numpy().clip(max=whole.end_ns)
    numbers, around = chosen.get_column("step").to_list(), _from_elsewhere(whole, chosen, start, end)
    parts = zip(numbers, _breakdowns(whole, start, end), *around, strict=True)
    return tuple(
        Step(step=step, breakdown=part, from_other_steps_ns=others, ran_ahead_ns=ahead, spilled_ns=spilled)
        for step, part, others, ahead, spilled in parts
    )


def _breakdowns(whole: Work, start: Array, end: Array) -> Iterator[Breakdown]:
    """Of each window: the unions of the whole, as far as they lie in it."""
    account = account_of(whole)
    busy = account.busy

    def within(cover: Intervals) -> list[int]:
        found: list[int] = covered(cover, start, end).tolist()
        return found

    unions = (account.compute, account.fused, account.communication, account.hidden, account.memory)
    columns = zip(
        start.tolist(), end.tolist(), within(busy), within(account.compute | account.communication),
        _serial(whole.events, start, end), *map(within, unions), strict=True,
    )  # fmt: skip
    for first, last, busy_ns, without_memory, serial, compute, fused, communication, hidden, memory in columns:
        yield Breakdown(
            start_ns=first,
            span_ns=last - first,
            busy_ns=busy_ns,
            compute_ns=compute,
            fused_ns=fused,
            communication_ns=communication,
            hidden_communication_ns=hidden,
            memory_ns=memory,
            exposed_memory_ns=busy_ns - without_memory,
            serial_ns=serial,
        )


def _serial(events: pl.DataFrame, start: Array, end: Array) -> list[int]:
    """Of each window the sum of the events' lengths in it: what has begun by its end and start, less what has ended."""
    first = int(start[0])
    begins, ends = (np.sort(events.get_column(name).to_numpy()) - first for name in ("start_ns", "end_ns"))

    def until(times: Array) -> Array:
        """Of all events, the time before each of these."""
        found: Array = _sum_before(begins, times) - _sum_before(ends, times)
        return found

    summed: list[int] = (until(end - first) - until(start - first)).tolist()
    return summed


def _sum_before(marks: Array, times: Array) -> Array:
    """Sums of (time - mark) over the marks before each time; marks ascend."""
    number = np.searchsorted(marks, times)
    found: Array = number * times - np.concatenate(([0], np.cumsum(marks)))[number]
    return found


def _from_elsewhere(
    whole: Work, windows: pl.DataFrame, start: Array, end: Array
) -> tuple[list[int], list[int], list[int]]:
    """Of each window: what runs in it of other steps; what its step launched and ran before it; and after it."""
    known = whole.events.filter(pl.col("link").is_not_null()).select("step", "start_ns", "end_ns")
    begins, ends = (known.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    number = np.arange(len(start))
    mine = windows.select("step", own=pl.Series(number))
    own = known.join(mine, on="step", how="left", maintain_order="left").get_column("own").fill_null(-1).to_numpy()
    first, last = np.searchsorted(end, begins, "right"), np.searchsorted(start, ends, "left")
    counts = np.maximum(last - first, 0)  # windows that each event reaches into
    row = np.repeat(np.arange(len(begins)), counts)
    at = first[row] + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    row, at = row[own[row] != at], at[own[row] != at]
    others = union(np.maximum(begins[row], start[at]), np.minimum(ends[row], end[at]))
    has = own >= 0
    length = whole.end_ns - whole.start_ns + 1

    def apart(begin: Array, until: Array) -> list[int]:
        """|events| of each step, which may overlap those of another."""
        moved = own[has] * length - whole.start_ns
        joined = union(begin + moved, np.maximum(until, begin) + moved)
        found: list[int] = covered(joined, number * length, (number + 1) * length).tolist()
        return found

    ahead = apart(begins[has], np.minimum(ends[has], start[own[has]]))
    spilled = apart(np.maximum(begins[has], end[own[has]]), ends[has])
    return covered(others, start, end).tolist(), ahead, spilled


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

"""To which event does each nanosecond belong? The parts of a span, shared out among events so that all adds up."""

from __future__ import annotations

import numpy as np
import polars as pl

from weftrace.analysis.idle_causes import DEFAULT_THRESHOLD_NS, idle_gaps
from weftrace.analysis.intervals import EMPTY, Array, Intervals, covered
from weftrace.analysis.time_account import Account, Source, account_of
from weftrace.trace.device_windows import step_windows
from weftrace.trace.work import Work, in_lane

#: Columns of `own_times`. Times in ns.
OWN_SCHEMA: dict[str, pl.DataType] = {
    "step": pl.Int64(),  # in whose window it is; null outside of all, and where there are no steps
    "row": pl.UInt32(),  # of the event in the trace's events; of idle time, of the event that ends it
    "part": pl.String(),  # compute, exposed communication, exposed memory, idle
    "cause": pl.String(),  # of idle time, as in `idle_gaps`: data_loading, ..., host_wait, dependency_wait, kernel_gap
    "num": pl.Int64(),  # 1 where the event, or the gap, starts in this step, else 0
    "from_ns": pl.Int64(),  # absolute: from here on it lengthens the union, for union_ns
    "raw_ns": pl.Int64(),  # its duration, what of it is in the step
    "union_ns": pl.Int64(),  # by which it lengthens |events of its class|, events taken in order of start
    "own_ns": pl.Int64(),  # of union_ns, what is in its part: all of compute, what of the others nothing before hides
}

#: The parts of a span, in the order in which one hides the next.
PARTS = ("compute", "exposed communication", "exposed memory", "idle")


def own_times(source: Source, *, threshold_ns: int = DEFAULT_THRESHOLD_NS) -> pl.DataFrame:
    """Whose each nanosecond of a device's span is: a frame of `OWN_SCHEMA`, a row an event and step, a row a gap and
    step. What crosses from one step's window into the next has a row in both.

    own_ns adds up, exactly: over a step and a part to that part of the step's `Breakdown`, over a step to its window,
    over all to the span. By hand: an event of a class owns the time of its class that no event of the class which
    started earlier has taken, less what compute hides of it and, of memory, what communication hides. A gap is owned
    by the event that ends it.

    threshold_ns: as in `idle`. Raises as `account_of` does.
    """
    account = account_of(source)
    work = account.work
    windows = windows_of(work)
    hidden_by: tuple[tuple[str, pl.Expr, Intervals], ...] = (
        (PARTS[0], in_lane("compute"), EMPTY),
        (PARTS[1], pl.col("kind") == "communication", account.compute),
        (PARTS[2], pl.col("kind") == "memory", account.compute | account.communication),
    )
    parts = [_of_events(work.events.filter(chosen), part, cover, windows) for part, chosen, cover in hidden_by]
    parts.append(_of_gaps(account, windows, threshold_ns))
    rows = pl.concat(parts).filter((pl.col("num") > 0) | (pl.col("raw_ns") > 0))  # none of a step without length
    return rows.select(pl.col(name).cast(dtype) for name, dtype in OWN_SCHEMA.items())


def windows_of(work: Work) -> pl.DataFrame:
    """The windows of its steps (`step_windows`), or that of the one step that it is: step, start_ns, end_ns."""
    if work.step is None:
        return step_windows(work.around.events)
    return pl.DataFrame({"step": [work.step], "start_ns": [work.start_ns], "end_ns": [work.end_ns]})


def _of_events(events: pl.DataFrame, part: str, cover: Intervals, windows: pl.DataFrame) -> pl.DataFrame:
    start, end = (events.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    reach = np.maximum.accumulate(end) if len(end) else end
    taken = np.concatenate((start[:1], reach[:-1]))
    own_start = np.maximum(start, taken)  # from there on it lengthens the union
    at, step, from_ns, to_ns, is_first = _cut(start, end, windows)
    union_from = np.maximum(own_start[at], from_ns)
    union_to = np.maximum(np.minimum(end[at], to_ns), union_from)
    return pl.DataFrame(
        {
            "step": step,
            "row": events.get_column("row").gather(at),
            "part": pl.repeat(part, len(at), dtype=pl.String, eager=True),
            "cause": pl.repeat(None, len(at), dtype=pl.String, eager=True),
            "num": is_first,
            "from_ns": union_from,
            "raw_ns": to_ns - from_ns,
            "union_ns": union_to - union_from,
            "own_ns": union_to - union_from - covered(cover, union_from, union_to),
        }
    )


def _of_gaps(account: Account, windows: pl.DataFrame, threshold_ns: int) -> pl.DataFrame:
    gaps = idle_gaps(account.work, threshold_ns=threshold_ns)
    start = gaps.get_column("from_ns").to_numpy()
    at, step, from_ns, to_ns, is_first = _cut(start, start + gaps.get_column("gap_ns").to_numpy(), windows)
    return pl.DataFrame(
        {
            "step": step,
            "row": gaps.get_column("row").gather(at),
            "part": pl.repeat(PARTS[3], len(at), dtype=pl.String, eager=True),
            "cause": gaps.get_column("cause").gather(at),
            "num": is_first,
            "from_ns": from_ns,
            **dict.fromkeys(("raw_ns", "union_ns", "own_ns"), to_ns - from_ns),
        }
    )


def _cut(start: Array, end: Array, windows: pl.DataFrame) -> tuple[Array, pl.Series, Array, Array, Array]:
    """Stretches cut at the ends of the steps' windows: of each piece the stretch that it is of, its step, from and to
    when it is, and 1 where its stretch begins with it.

    Windows touch, so their ends are points in a row; before the first and after the last there is no step.
    """
    points = np.concatenate((windows.get_column("start_ns").to_numpy(), windows.get_column("end_ns").to_numpy()[-1:]))
    low = np.searchsorted(points, start, "right")
    if len(points):  # what has no length and stands at the very end is of the last window
        low = np.where((start == end) & (start == points[-1]), len(points) - 1, low)
    pieces = np.maximum(np.searchsorted(points, end, "left") - low, 0) + 1
    at = np.repeat(np.arange(len(start)), pieces)
    number = np.arange(len(at)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    window = low[at] + number
    ends = np.concatenate((points, [0]))  # the last is never looked at where it counts
    from_ns = np.where(number == 0, start[at], ends[np.maximum(window - 1, 0)])
    to_ns = np.where(number == pieces[at] - 1, end[at], ends[np.minimum(window, len(points))])
    steps = pl.Series([None, *windows.get_column("step"), None], dtype=pl.Int64)
    return at, steps.gather(window), from_ns, to_ns, (number == 0).astype(np.int64)

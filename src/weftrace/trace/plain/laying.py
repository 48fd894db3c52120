"""When did each step run, where a plain trace starts every step at zero, or holds some steps and not those between?"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

_OVERLAPPING = 0.5  # of the shorter of two steps: they cannot both have run then


@dataclass(frozen=True, slots=True, kw_only=True)
class Laying:
    """shift_ns: what is added to the times of each event. moved: whether it is anything but 0."""

    shift_ns: pl.Series
    moved: bool
    notes: tuple[str, ...]


def lay_steps(events: pl.DataFrame) -> Laying:
    """Steps that overlap on one rank are laid one after another, in order of their numbers. So are those between whose
    numbers others are missing: what ran there is not in the file, and no time is made up for it.

    events: worker, step, kind, ts_ns, end_ns.
    """
    zero = pl.Series("shift_ns", [0], dtype=pl.Int64).new_from_index(0, events.height)
    known = events.drop_nulls(("worker", "step"))
    extents = known.group_by("worker", "step").agg(pl.col("ts_ns").min(), pl.col("end_ns").max())
    if extents.get_column("step").n_unique() < 2:
        return Laying(shift_ns=zero, moved=False, notes=())
    computed = known.filter(pl.col("kind") == "compute")  # a receive of the next step may be posted long before it
    computed = computed.group_by("worker", "step").agg(pl.col("ts_ns").min(), pl.col("end_ns").max())
    overlapping = _overlap(computed if computed.height == extents.height else extents)
    whole = extents.group_by("step").agg(pl.col("ts_ns").min(), pl.col("end_ns").max()).sort("step")
    shifts: dict[int, int] = {}
    missing = 0
    shift, ended, before = 0, None, None
    for step, start, end in whole.iter_rows():
        if ended is not None and before is not None:
            skipped = step - before > 1
            if overlapping or (skipped and start + shift > ended):
                shift = ended - start
                missing += skipped
        shifts[step] = shift
        ended, before = end + shift, step
    if not any(shifts.values()):
        return Laying(shift_ns=zero, moved=False, notes=())
    note = f"steps are missing between others, {missing:,} times: the others follow without the time between"
    if overlapping:
        note = "the steps overlap in time, because each starts from 0 again: they are laid one after another, by number"
    return Laying(shift_ns=_shift_of(events, shifts, by_time=not overlapping), moved=True, notes=(note,))


def _overlap(extents: pl.DataFrame) -> bool:
    """Whether on some rank a step starts in the midst of the one before it."""
    ordered = extents.sort("worker", "step").with_columns((pl.col("end_ns") - pl.col("ts_ns")).alias("length"))
    previous = {column: pl.col(column).shift(1).over("worker") for column in ("ts_ns", "end_ns", "length")}
    shared = pl.min_horizontal("end_ns", previous["end_ns"]) - pl.max_horizontal("ts_ns", previous["ts_ns"])
    shorter = pl.min_horizontal("length", previous["length"])
    known = previous["end_ns"].is_not_null()
    return bool(ordered.select((known & (shared > _OVERLAPPING * shorter)).any()).item())


def _shift_of(events: pl.DataFrame, shifts: dict[int, int], *, by_time: bool) -> pl.Series:
    """Of an event without a step, by_time: that of the step that began last before it; else none, it is left out."""
    summary = events.get_column("step").replace_strict(shifts, default=None, return_dtype=pl.Int64).alias("shift_ns")
    if not by_time or not summary.null_count():
        return summary
    rows = events.with_row_index("row").with_columns(summary).sort("ts_ns", "row")
    return rows.with_columns(pl.col("shift_ns").forward_fill().fill_null(0)).sort("row").get_column("shift_ns")

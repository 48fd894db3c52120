"""Lanes, exposed stretches and counters as events of a trace viewer, for `annotate` to add to a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import polars as pl

PROCESS = "weftrace"  #: pid of the process that holds what weftrace adds

#: Names that the trace viewer has for colours, by a box's direction (`weftrace.alphabet`). Perfetto takes no
#: notice of them; it colours by name.
#: Source: ColorScheme in https://github.com/catapult-project/catapult (tracing/tracing/base/color_scheme.html)
COLOURS = {"F": "rail_idle", "B": "rail_load", "I": "rail_load", "W": "rail_response"}
_EXPOSED_COLOUR = "terrible"


def lane_events(
    boxes: pl.DataFrame,
    exposed: pl.DataFrame,
    counters: Mapping[str, pl.DataFrame] | None = None,
    *,
    base_ns: int,
    lane_sms: Mapping[str, str | None] | None = None,
) -> Iterator[dict[str, Any]]:
    """A process `weftrace`, above all others: one thread a lane, one for exposed communication, and counters.

    All times are absolute nanoseconds. base_ns: the file's own base, `file_base_ns(trace)`.
    boxes: `lane` ("compute", "communication" ...), `name`, `start_ns`, `end_ns`; where they are there, `index`,
    `busy_ns`, `hidden_ns`, `sms` become arguments, and `direction` (F, B, I, W) the colour. Lanes keep the order in
    which they appear; boxes of one lane that overlap go to further threads, since a thread's spans must nest.
    exposed: `start_ns`, `end_ns`.
    counters: name -> frame of `ts_ns`, `value`: the value from that moment on.
    lane_sms: SMs of a lane, as its title says them: "20 SMs".
    """
    yield _named("process_name", 0, name=PROCESS)
    yield _named("process_labels", 0, labels="lanes of computation and communication")
    yield _named("process_sort_index", 0, sort_index=-1)
    rows: list[tuple[str, pl.DataFrame]] = []
    for (lane,), lane_boxes in boxes.group_by("lane", maintain_order=True):
        sms = (lane_sms or {}).get(str(lane))
        title = f"{lane} lane ({sms})" if sms is not None else f"{lane} lane"
        rows += [(title if n == 0 else f"{title}, {n + 1}", row) for n, row in enumerate(_without_overlap(lane_boxes))]
    exposed_as_boxes = exposed.with_columns(name=pl.lit("exposed communication"), direction=pl.lit("exposed"))
    rows += [("exposed communication", row) for row in _without_overlap(exposed_as_boxes)]
    for tid, (title, row) in enumerate(rows, 1):
        yield _named("thread_name", tid, name=title)
        yield _named("thread_sort_index", tid, sort_index=tid)
        for box in row.iter_rows(named=True):
            yield _box(box, tid, base_ns)
    for name, frame in (counters or {}).items():
        yield from _counter(name, frame, base_ns)


def running_total(intervals: pl.DataFrame, weight: str | None = None) -> pl.DataFrame:
    """How many intervals are open, or the sum of their `weight`, as a counter: `ts_ns`, `value`, a row a change.

    intervals: `start_ns`, `end_ns` (half-open) and the column `weight`, in which a null counts as 0.
    """
    amount = pl.lit(1, dtype=pl.Int64) if weight is None else pl.col(weight).fill_null(0).cast(pl.Int64)
    edges = pl.concat(
        [
            intervals.select(pl.col("start_ns").alias("ts_ns"), amount.alias("value")),
            intervals.select(pl.col("end_ns").alias("ts_ns"), (-amount).alias("value")),
        ]
    )
    changes = edges.group_by("ts_ns").agg(pl.col("value").sum()).filter(pl.col("value") != 0).sort("ts_ns")
    return changes.with_columns(pl.col("value").cum_sum())


def _named(kind: str, tid: int, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": PROCESS, "tid": tid, "ts": 0, "args": args}


def _without_overlap(boxes: pl.DataFrame) -> list[pl.DataFrame]:
    """The boxes in order of time, dealt to as few rows as it takes that none overlaps another in its row."""
    boxes = boxes.sort("start_ns", "end_ns")
    ends: list[int] = []
    row_of_box: list[int] = []
    for start, end in boxes.select("start_ns", "end_ns").iter_rows():
        row = next((n for n, row_end in enumerate(ends) if row_end <= start), len(ends))
        ends[row : row + 1] = [end]
        row_of_box.append(row)
    numbered = boxes.with_columns(row=pl.Series(row_of_box, dtype=pl.Int64))
    return [numbered.filter(pl.col("row") == row).drop("row") for row in range(len(ends))]


def _box(box: Mapping[str, Any], tid: int, base_ns: int) -> dict[str, Any]:
    args = {key: box[key] for key in ("index", "sms") if box.get(key) is not None}
    args |= {f"{key}_us": _us(box[f"{key}_ns"]) for key in ("busy", "hidden") if box.get(f"{key}_ns") is not None}
    event = {
        "ph": "X",
        "cat": "weftrace",
        "name": box["name"],
        "pid": PROCESS,
        "tid": tid,
        "ts": _us(box["start_ns"] - base_ns),
        "dur": _us(box["end_ns"] - box["start_ns"]),
        "args": args,
    }
    colour = _EXPOSED_COLOUR if box.get("direction") == "exposed" else COLOURS.get(box.get("direction") or "")
    return event | {"cname": colour} if colour else event


def _counter(name: str, frame: pl.DataFrame, base_ns: int) -> Iterator[dict[str, Any]]:
    known = frame.select("ts_ns", "value").filter(
        pl.all_horizontal(pl.all().is_not_null()), pl.col("value").is_finite()
    )
    for ts, value in known.sort("ts_ns").iter_rows():
        yield {
            "ph": "C", "cat": "weftrace", "name": name, "pid": PROCESS, "tid": 0, "ts": _us(ts - base_ns),
            "args": {"value": value},
        }  # fmt: skip


def _us(time_ns: int) -> Decimal:
    """Microseconds, exactly."""
    return Decimal(time_ns).scaleb(-3)

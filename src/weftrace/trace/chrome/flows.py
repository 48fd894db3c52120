"""Which launch do flow arrows join to a device event that has no correlation?

ROCm 6.1 wrote correlation 0 on every communication kernel, and only the arrows tell their launches. Arrows are a third
of a file's events, and most files need none: they are read in a second pass, if some device event has no correlation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.files.sources import ByteStream
from weftrace.trace.chrome.columns import categorical
from weftrace.trace.chrome.cut import read_events
from weftrace.trace.chrome.events import Event
from weftrace.trace.chrome.facts import base_ns
from weftrace.trace.chrome.gather import label
from weftrace.trace.chrome.table import EventSink
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import times_ns
from weftrace.trace.model import Trace, is_launch, on_device

_PLACE = ("ts_ns", "pid", "tid")  # an arrow's end has the time and thread of the event that it touches


def has_orphans(events: pl.DataFrame) -> bool:
    """Whether some device event has no correlation that could join it to its launch."""
    return not events.select("cat", "correlation").filter(_is_orphan()).is_empty()


def with_flows(trace: Trace, stream: ByteStream, facts: Mapping[str, Any], *, exact: bool) -> Trace:
    """The trace with `flow_id` on the device events that have no correlation, and on their launches.

    stream: the trace's file from its beginning. exact: read times as decimals, as the first pass had to.
    """
    sink = _FlowSink(Tally(), exact=exact)
    read_events(stream, sink)
    flows = sink.frame().with_columns(pl.col("ts_ns") + base_ns(facts))
    rows = trace.events.select(*_PLACE, "cat", "correlation").with_row_index("row")
    orphans = rows.filter(_is_orphan())
    ends = flows.filter("is_end").join(orphans, on=_PLACE, how="semi")
    starts = flows.filter(~pl.col("is_end")).join(ends, on="flow_id", how="semi")
    found = pl.concat([_joined(orphans, ends), _joined(rows.filter(is_launch()), starts)]).sort("row", "flow_id")
    found = found.unique("row", keep="first")
    flow_id = rows.select("row").join(found, on="row", how="left", maintain_order="left").get_column("flow_id")
    return replace(trace, events=trace.events.with_columns(flow_id.alias("flow_id")))


def _joined(rows: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """The first arrow at the place of each row that has one, however many events and arrows are there."""
    first = flows.group_by(_PLACE).agg(pl.col("flow_id").min())
    return rows.join(first, on=_PLACE).select("row", "flow_id")


def _is_orphan() -> pl.Expr:
    return on_device() & (pl.col("correlation").fill_null(0) <= 0)


class _FlowSink(EventSink):
    """Keeps the two ends of arrows, and nothing else."""

    def __init__(self, tally: Tally, *, exact: bool) -> None:
        super().__init__(tally, exact=exact)
        self._chunks: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._threads: dict[tuple[int | str, int | str], int] = {}

    def add(self, events: Sequence[Event]) -> None:
        flows = [event for event in events if event.ph in ("s", "f") and event.cat != "fwdbwd" and _has_id(event)]
        if not flows:
            return
        ts_ns, usable = times_ns([flow.ts for flow in flows])
        threads = self._threads
        thread = [threads.setdefault((flow.pid, flow.tid), len(threads)) for flow in flows]
        columns = (
            ts_ns,
            np.array([int(flow.id or 0) for flow in flows], np.int64),
            np.array(thread, np.uint32),
            np.array([flow.ph == "f" for flow in flows], np.bool_),
        )
        self._chunks.append(tuple(column[usable] for column in columns))  # type: ignore[arg-type]

    def frame(self) -> pl.DataFrame:
        """Columns ts_ns, pid, tid, flow_id, is_end."""
        if not self._threads:
            ids = {"ts_ns": pl.Int64, "pid": pl.Categorical, "tid": pl.Categorical, "flow_id": pl.Int64}
            return pl.DataFrame(schema={**ids, "is_end": pl.Boolean})
        ts_ns, flow_id, thread, is_end = (np.concatenate(column) for column in zip(*self._chunks, strict=True))
        return pl.DataFrame(
            {
                "ts_ns": ts_ns,
                "pid": categorical(pl.Series(thread), [label(pid) for pid, _ in self._threads]),
                "tid": categorical(pl.Series(thread), [label(tid) for _, tid in self._threads]),
                "flow_id": flow_id,
                "is_end": is_end,
            }
        )


def _has_id(event: Event) -> bool:
    """Whether the arrow's id is an integer of 62 bits, as Kineto writes it."""
    return isinstance(event.id, int) and abs(event.id) < 1 << 62

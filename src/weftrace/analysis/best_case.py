"""How much faster the step could be if everything that may run at the same time did."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from typing import Literal

import polars as pl

from weftrace.analysis.time_account import Source, account_of
from weftrace.notebook import InNotebook
from weftrace.trace.model import is_launch
from weftrace.trace.work import Work

Bound = Literal["compute", "communication", "chain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom(InNotebook):
    """Span against perfect overlap, ns.

    ideal_ns: max(|compute|, |communication|, longest dependent chain), never above the span. headroom_ns: span - ideal.
    bound_by: "compute", "communication" or "chain", which of the three is the largest.
    longest_chain_ns: longest path through the device events, each after its predecessor on its stream and after the
    waits between streams that the trace records. assumption: what that leaves out, in words.
    """

    span_ns: int
    ideal_ns: int
    bound_by: Bound
    longest_chain_ns: int
    assumption: str

    @property
    def headroom_ns(self) -> int:
        return self.span_ns - self.ideal_ns


def headroom(source: Source) -> Headroom:
    """Distance of a device's span from perfect overlap. Durations are taken as they are, contention included."""
    account = account_of(source)
    work, b = account.work, account.breakdown
    waits = _recorded_waits(work)
    chain_ns = min(_longest_chain(work.events, waits), b.span_ns)
    bounds: dict[Bound, int] = {"compute": b.compute_ns, "communication": b.communication_ns, "chain": chain_ns}
    bound_by = max(bounds, key=lambda bound: bounds[bound])
    known = (
        f"and of {waits.height:,} recorded wait{'s' if waits.height > 1 else ''} between streams"
        if waits.height
        else "only: no waits between streams are recorded"
    )
    return Headroom(
        span_ns=b.span_ns,
        ideal_ns=bounds[bound_by],
        bound_by=bound_by,
        longest_chain_ns=chain_ns,
        assumption=f"durations stay as measured; the chain knows the order on each stream {known}",
    )


def _recorded_waits(work: Work) -> pl.DataFrame:
    """Stream waits that the profiler recorded (cuda_sync): stream, ts_ns, wait_stream, before_ns.

    The next event on `stream` started after everything that was launched to `wait_stream` before `before_ns`.
    """
    events = work.trace.events
    syncs = events.filter(
        pl.col("cat") == "cuda_sync",
        pl.col("device").is_null() | (pl.col("device") == pl.lit(work.device, dtype=pl.Int32)),
        pl.col("stream") >= 0,  # else the host waits, not a stream
        pl.col("wait_stream") >= 0,
        pl.col("wait_correlation") > 0,
    )
    if syncs.is_empty():
        return pl.DataFrame(
            schema={"stream": pl.Int64, "ts_ns": pl.Int64, "wait_stream": pl.Int64, "before_ns": pl.Int64}
        )
    calls = (
        events.select("cat", "correlation", "ts_ns")
        .filter(is_launch())
        .unique("correlation", keep="first", maintain_order=True)
    )
    records = calls.select(pl.col("correlation").alias("wait_correlation"), pl.col("ts_ns").alias("before_ns"))
    return (
        syncs.join(records, on="wait_correlation", maintain_order="left")
        .join(
            calls.select("correlation", pl.col("ts_ns").alias("called_ns")),
            on="correlation",
            how="left",
            maintain_order="left",
        )
        .select("stream", pl.coalesce("called_ns", "ts_ns").alias("ts_ns"), "wait_stream", "before_ns")
        .filter(pl.col("stream") != pl.col("wait_stream"))
    )


def _longest_chain(events: pl.DataFrame, waits: pl.DataFrame) -> int:
    """Longest sum of durations along stream order and waits. Events that overlap on a stream add only their union."""
    ended = pl.col("end_ns").cum_max().shift(1).over("stream")  # null, and so passed over, at the first
    own = events.select(
        "stream", "launch_ts_ns", (pl.col("end_ns") - pl.max_horizontal("start_ns", ended)).clip(0).alias("dur_ns")
    )
    if waits.is_empty():
        return int(own.group_by("stream").agg(pl.col("dur_ns").sum()).get_column("dur_ns").max() or 0)  # type: ignore[arg-type]
    pending: dict[int, deque[tuple[int, int, int]]] = {}
    for stream, ts, on, before in waits.sort("ts_ns", maintain_order=True).iter_rows():
        pending.setdefault(stream, deque()).append((ts, on, before))
    launched: dict[int, list[int]] = {}  # by stream, launch times in stream order ...
    reached: dict[int, list[int]] = {}  # ... and the longest chain that ends with each of those events
    for stream, launch, dur in own.iter_rows():
        times, lengths = launched.setdefault(stream, []), reached.setdefault(stream, [])
        length = lengths[-1] if lengths else 0
        queue = pending.get(stream)
        while launch is not None and queue and queue[0][0] <= launch:
            _, on, before = queue.popleft()
            if (number := bisect_right(launched.get(on, []), before)) > 0:
                length = max(length, reached[on][number - 1])
        times.append(launch if launch is not None else times[-1] if times else 0)
        lengths.append(length + dur)
    return max((lengths[-1] for lengths in reached.values()), default=0)

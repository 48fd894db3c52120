"""Which launches waited for room in the device's queue? A host may run about a thousand launches ahead, and no more.

From then on each launch takes as long as the device needs for a kernel, and neither name nor record says so.
What tells is the queue: as such calls return, the same number of launches is ahead of the device, each time.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from weftrace.plan.inference.confidence import BY_TIMES
from weftrace.plan.inference.streams.launches import with_calls
from weftrace.plan.inference.threads.blocking import NEAR_NS

#: Launches that take as long as this, or as this many quick ones (the quickest tenth), are asked why.
LONG_NS, TIMES_QUICK = NEAR_NS, 3
#: So many of them must find the queue equally full, and these must be most; queues hold more than this.
LEAST_CALLS, LEAST_SHARE, SHORTEST_QUEUE = 5, 0.5, 64
#: Equally full: within this share, and at least this many.
SAME_SHARE, SAME = 0.01, 8


def queued_launches(calls: pl.DataFrame, on_device: pl.DataFrame) -> pl.DataFrame:
    """Launches that returned when the device had begun another op, and so made room: call, on_event (that op, whose
    start they waited for), confidence.

    calls: of `host_calls`. on_device: of `device_ops`.
    """
    launched = with_calls(on_device, calls.filter(what="launch")).sort("launch_ts_ns", "event", maintain_order=True)
    place = pl.int_range(pl.len()).alias("place")
    first = launched.with_columns(place).unique("call", keep="first", maintain_order=True)
    start_ns = np.sort(launched.get_column("start_ns").to_numpy())
    returned = first.get_column("call_end_ns").to_numpy()
    ahead = pl.Series("ahead", first.get_column("place").to_numpy() - np.searchsorted(start_ns, returned, "right"))
    took = pl.col("call_end_ns") - pl.col("call_start_ns")
    first = first.select("call", "call_start_ns", "call_end_ns", took.alias("took_ns")).with_columns(ahead)
    quick_ns = float(first.get_column("took_ns").quantile(0.1) or 0)
    long = first.filter(pl.col("took_ns") >= min(LONG_NS, TIMES_QUICK * quick_ns))
    full = long.get_column("ahead").median()
    same = (pl.col("ahead") - full).abs() <= max(SAME, SAME_SHARE * float(full or 0))  # type: ignore[arg-type]
    agree = long.filter(same).height
    if agree < max(LEAST_CALLS, LEAST_SHARE * long.height) or float(full or 0) < SHORTEST_QUEUE:  # type: ignore[arg-type]
        return pl.DataFrame(schema={"call": pl.UInt32(), "on_event": pl.UInt32(), "confidence": pl.Float64()})
    begun = launched.select(pl.col("start_ns").alias("begun_ns"), pl.col("event").alias("on_event")).sort("begun_ns")
    found = first.filter(same).sort("call_end_ns").join_asof(begun, left_on="call_end_ns", right_on="begun_ns")
    waited = (pl.col("begun_ns") > pl.col("call_start_ns")) & (pl.col("call_end_ns") - pl.col("begun_ns") <= NEAR_NS)
    return found.filter(waited).select("call", "on_event", pl.lit(BY_TIMES).alias("confidence"))

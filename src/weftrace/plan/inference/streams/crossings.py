"""What did recorded waits for other streams hold up, and how soon after what it waited for does an op start?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.plan.inference.medians import median_ns
from weftrace.plan.inference.streams.launch_order import Launched
from weftrace.plan.inference.streams.launches import MOST_LATENCY_NS

_Ints = NDArray[np.int64]


def held_by(ops: Launched, waits: pl.DataFrame) -> tuple[_Ints, int]:
    """`ready_ns` of each op with these waits, as measured, [N]; and how soon after the end of what it waited for an op
    starts that waited for nothing else by then: the median, 0 where no op tells.

    waits: for the ends of others; op and on, rows of the plan.
    """
    order = np.argsort(ops.op)
    op, on = (waits.get_column(name).to_numpy() for name in ("op", "on"))
    known = np.isin(op, ops.op) & np.isin(on, ops.op)
    waiter, awaited = (order[np.searchsorted(ops.op, rows[known], sorter=order)] for rows in (op, on))
    ended_ns = np.full(len(ops), np.iinfo(np.int64).min)
    np.maximum.at(ended_ns, waiter, ops.end_ns[awaited])
    after_ns = pl.Series((ops.start_ns - ended_ns)[ended_ns >= ops.ready_ns])
    latency_ns = median_ns(after_ns.filter(after_ns.is_between(0, MOST_LATENCY_NS)))
    return np.maximum(ops.ready_ns, ended_ns), latency_ns

"""What goes with device work that is not done: its launches, and the host time of operators that launched it alone."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.named_ranges import device_rows, inside_on_host
from weftrace.plan.inference.values import Inferred
from weftrace.trace.work import Work

_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]


def launches_of(inferred: Inferred) -> _Bools:
    """Whether each wait is that of an op on a device for the call that launched it, [waits]."""
    mask: _Bools = inferred.edges.get_column("source").is_in(("launch", "graph")).fill_null(False).to_numpy()
    return mask


def gone_calls(inferred: Inferred, gone: _Bools) -> _Bools:
    """Ops of host threads that are calls which launched nothing but ops that are gone, [ops]; what such a call waits
    for is its own copy, so the part of it that blocks is among them."""
    launches = inferred.plan.waits.filter(pl.Series(launches_of(inferred)))
    op, on = (launches.get_column(name).to_numpy() for name in ("op", "on"))
    every = np.bincount(on, minlength=len(gone))
    lost = np.bincount(on[gone[op]], minlength=len(gone))
    calls: _Bools = (lost > 0) & (lost == every) & inferred.measured.get_column("event").is_null().to_numpy()
    keyed = inferred.measured.select("at", "call").with_row_index("op")
    mine = keyed.filter(pl.Series(calls)).drop_nulls("call").select("at", "call").unique()
    calls[keyed.join(mine, on=("at", "call"), how="semi").get_column("op").to_numpy()] = True
    return calls


def host_shares(inferred: Inferred, gone: _Bools) -> _Floats:
    """Of each op of a host thread the share of its time that goes with device work that is gone, [ops]."""
    shares = inside_on_host(inferred, [_idle_operators(inferred, at, gone) for at in range(len(inferred.works))])
    shares[gone_calls(inferred, gone)] = 1.0
    return shares


def _idle_operators(inferred: Inferred, at: int, gone: _Bools) -> pl.DataFrame:
    """Operators all of whose launches are gone: pid, tid, start_ns, end_ns."""
    work: Work = inferred.works[at]
    rows, events = device_rows(inferred, at)
    launched = work.events.select("launch_pid", "launch_tid", "launch_ts_ns")[events]
    launched = launched.with_columns(gone=pl.Series(gone[rows])).drop_nulls("launch_ts_ns").sort("launch_ts_ns")
    operators = work.trace.events.filter(pl.col("cat") == "cpu_op")
    operators = operators.select("pid", "tid", start_ns="ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns"))
    by_thread = launched.partition_by("launch_pid", "launch_tid", as_dict=True)
    found = [operators.clear()]
    for thread, mine in operators.partition_by("pid", "tid", as_dict=True).items():
        if (there := by_thread.get(thread)) is None:
            continue
        at_ns, lost = there.get_column("launch_ts_ns").to_numpy(), there.get_column("gone").to_numpy()
        first, last = (np.searchsorted(at_ns, mine.get_column(name).to_numpy()) for name in ("start_ns", "end_ns"))
        before = np.concatenate(([0], np.cumsum(lost)))
        found.append(mine.filter(pl.Series((last > first) & (before[last] - before[first] == last - first))))
    return pl.concat(found)

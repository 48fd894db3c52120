"""What held up a device's ops besides their stream and their launch: ops on other streams, and a lack of free SMs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from weftrace.plan.inference.streams.crossings import held_by
from weftrace.plan.inference.streams.free_sms import drain_ns, in_plan, sm_waits, told_sm_waits, waits_for_sms
from weftrace.plan.inference.streams.launch_order import Launched
from weftrace.plan.inference.streams.pairs import MOST_STREAMS
from weftrace.plan.inference.streams.recorded import Recorded, stream_waits
from weftrace.plan.inference.streams.votes import stream_wait_calls, voted_waits
from weftrace.trace.work import Work
from weftrace.units import counted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Between:
    """Waits of a device's ops for one another, across its streams.

    crossings: for an op on another stream, as recorded or as voted; for_sms: for free SMs, those that a replay keeps;
    both op, on, lag_ns, why, source, and votes where there were any. sm_waits: frame of `SM_WAIT_SCHEMA`, those that no
    replay keeps among them. wait_latency_ns, drain_ns: as `Kept` has them. num_open: calls that make a stream wait for
    which no pair of streams was found. notes: what a replay leaves out.
    """

    crossings: pl.DataFrame
    for_sms: pl.DataFrame
    sm_waits: pl.DataFrame
    wait_latency_ns: int
    drain_ns: int
    num_open: int
    notes: tuple[str, ...]


def between_streams(work: Work, ops: pl.DataFrame, launched: Launched, recorded: Recorded) -> Between:
    """Other streams as the file records them; where it does not, as repeats vote. What is late for neither, for SMs.

    ops: all of the plan. launched: those of the device that have a launch.
    """
    if recorded.tells_streams:
        crossings = stream_waits(ops, recorded)
        ready_ns, latency_ns = held_by(launched, crossings)
        sms, num_open = waits_for_sms(launched, ready_ns, work.num_sms), 0
    else:
        voted = voted_waits(launched, stream_wait_calls(work.trace.events, int(ops.item(0, "origin_ns"))))
        sms, num_open = waits_for_sms(launched, voted.ready_ns, work.num_sms), voted.num_open
        crossings, latency_ns = voted.counted(launched, sms.get_column("waiter")), voted.latency_ns
    return Between(
        crossings=crossings.with_columns(lag_ns=pl.lit(latency_ns)),
        for_sms=sm_waits(launched, sms),
        sm_waits=in_plan(launched, sms),
        wait_latency_ns=latency_ns,
        drain_ns=drain_ns(sms),
        num_open=num_open,
        notes=(
            *_told_left_out(launched, recorded),
            *_told_open(num_open),
            *told_sm_waits(sms),
        ),
    )


def _told_left_out(launched: Launched, recorded: Recorded) -> list[str]:
    left = 0 if recorded.tells_streams else len(np.unique(launched.stream)) - MOST_STREAMS
    which = f"the {MOST_STREAMS} streams with most ops; {counted(left, 'stream')} more are not looked at."
    return [f"waits between streams are looked for among {which}"] if left > 0 else []


def _told_open(num_open: int) -> list[str]:
    calls = "1 call that makes a stream wait" if num_open == 1 else f"{num_open:,} calls that make a stream wait"
    return [f"{calls} could not be placed: measured times do not show which streams they join."] if num_open else []

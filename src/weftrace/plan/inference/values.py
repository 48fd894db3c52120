"""Inferred: the plan of a measured trace, what was measured beside it, and how sure each of its waits is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from weftrace.notebook import InNotebook
from weftrace.plan.inference.replaying import Replay, replay_of
from weftrace.plan.model import Plan
from weftrace.plan.times import Timetable, timetable
from weftrace.trace.work import Work
from weftrace.units import duration

#: Host threads are streams of the plan from this number on; streams of a device are below.
FIRST_THREAD = 1_000_000

#: What an op is: a class of device work, or what a host thread does.
WHAT = ("compute", "communication", "memory", "fused", "launch", "host", "blocking")

#: Where a wait comes from. launch: the call that put the op on its stream. graph: the same, of a CUDA graph's replay.
#: recorded: an event or stream wait that the file records. voted: inferred from repeats. sm: no free SMs before.
#: blocking: a host call that returns when work has ended, or a launch that found the device's queue full. quiet: a host
#: thread that polled, without a call, until then. autograd, thread: one host thread waited for another. origin: where
#: the recording begins.
SOURCES = (
    "launch", "graph", "recorded", "voted", "sm", "blocking", "quiet", "autograd", "thread", "origin",
)  # fmt: skip

#: Columns of `Inferred.measured`, a row an op, in the order of `plan.ops`. Times are ns from `origin_ns`.
MEASURED_SCHEMA: dict[str, pl.DataType] = {
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "event": pl.UInt32(),  # row of the rank's `Work.events`; null for what a host thread does
    "call": pl.UInt32(),  # row of the trace's events, of a launch or a call that blocks; null elsewhere
    "at": pl.Int32(),  # position of the rank in `Inferred.works`
    "what": pl.Enum(WHAT),
    "family": pl.Categorical(),  # of a kernel; on a host thread the call's name
    "role": pl.Categorical(),  # data or barrier, of communication
    "phase_number": pl.Int32(),  # row of the rank's `Work.phases`
}

#: Columns of `Inferred.edges`, a row a wait, in the order of `plan.waits`.
EDGE_SCHEMA: dict[str, pl.DataType] = {
    "source": pl.Enum(SOURCES),
    "votes_for": pl.Int32(),  # repeats in which the waiter started as the other ended; null where nothing was voted on
    "votes_against": pl.Int32(),  # repeats in which it was late and started at another time
    "confidence": pl.Float64(),  # 1 of what is recorded; of a vote, what the votes leave
}

#: Columns of `Inferred.sm_waits`, a row an op that started late since others held the SMs.
SM_WAIT_SCHEMA: dict[str, pl.DataType] = {
    "op": pl.UInt32(),  # row of the plan, as `on`
    "on": pl.UInt32(),  # which made room, at its end or in its midst
    "late_ns": pl.Int64(),  # from when it was ready otherwise to its start
    "drain_ns": pl.Int64(),  # from its start to the end of the other
    "at_its_end": pl.Boolean(),  # whether a replay keeps it: only a wait that ends as the other does
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(InNotebook):
    """All that a replay keeps of a run besides measured durations and the listed waits. Times in ns.

    gap_ns: between two ops back to back on a stream, the median. launch_latency_ns: from the end of a launch call to
    the start of what it launched on a free stream, the median; wait_latency_ns: from the end of an op to the start of
    one on another stream that waited for it, the median. drain_ns: how long before the end of a kernel its SMs are
    free for the next, the median. graph_latency_ns: from the start of a call that replays a graph to its first kernel,
    the median. quiet_latency_ns: from the end of a kernel to when a thread that polled for it
    without a call went on, the median; negative where it went on before. num_pinned: streams whose first op was held up
    by what came before the recording, or has no launch in it, and which start when they did.
    """

    gap_ns: int
    launch_latency_ns: int
    wait_latency_ns: int = 0
    drain_ns: int = 0
    graph_latency_ns: int = 0
    quiet_latency_ns: int = 0
    num_pinned: int = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Inferred(InNotebook):
    """The plan of a measured run.

    plan: device events are its ops, and so are the calls of host threads and the time between them. works: what was
    measured, a rank each. measured: frame of `MEASURED_SCHEMA`; edges: of `EDGE_SCHEMA`. origin_ns: absolute time of
    the plan's 0. notes: what could not be inferred, or was left out. sm_waits: frame of `SM_WAIT_SCHEMA`. num_open:
    calls that make a stream wait, of which no vote told the streams.
    """

    plan: Plan
    works: tuple[Work, ...]
    measured: pl.DataFrame
    edges: pl.DataFrame
    origin_ns: int
    kept: Kept
    notes: tuple[str, ...] = ()
    sm_waits: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SM_WAIT_SCHEMA))
    num_open: int = 0

    @cached_property
    def times(self) -> Timetable:
        """When each op runs if the plan is replayed."""
        return timetable(self.plan)

    @cached_property
    def replay(self) -> Replay:
        """How far the plan, replayed, is from what was measured."""
        return replay_of(self.times, self.measured)

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "ops", f"{len(self.plan):,}"
        yield from ((str(source), f"{count:,} waits") for source, count in self.edges["source"].value_counts().rows())
        yield "replay", f"{duration(self.replay.replayed_ns)}, measured {duration(self.replay.span_ns)}"

"""Inferred: the plan of a measured trace, what was measured beside it, and how sure each of its waits is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, TypeAlias, get_args

import polars as pl
from msgspec import Meta

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
#: the recording begins. unrecorded: work ran before it that the file does not hold.
Source: TypeAlias = Literal[
    "launch", "graph", "recorded", "voted", "sm", "blocking", "quiet", "autograd", "thread", "origin",
    "unrecorded",
]  # fmt: skip
SOURCES: tuple[Source, ...] = get_args(Source)

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
    """All that a replay keeps of a run besides measured durations and the listed waits. Times in ns, medians; of joined
    ranks the medians of theirs."""

    gap_ns: Annotated[int, Meta(description="Between two ops back to back on a stream.")]
    launch_latency_ns: Annotated[int, Meta(description="From a launch call's end to its op's start on a free stream.")]
    wait_latency_ns: Annotated[
        int, Meta(description="From an op's end to the start of one on another stream that waited for it.")
    ] = 0
    drain_ns: Annotated[int, Meta(description="How long before a kernel's end its SMs are free for the next.")] = 0
    graph_latency_ns: Annotated[int, Meta(description="From a graph's launch to its first kernel.")] = 0
    quiet_latency_ns: Annotated[
        int,
        Meta(description="From a kernel's end until a thread that polled for it continued; below 0 if before."),
    ] = 0
    num_pinned: Annotated[
        int,
        Meta(
            ge=0,
            description="Streams that start when they did: held up before the recording, or without a launch in it.",
        ),
    ] = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Inferred(InNotebook):
    """The plan of a measured run.

    plan: device events are its ops, and so are the calls of host threads and the time between them. works: what was
    measured, a rank each. measured: frame of `MEASURED_SCHEMA`; edges: of `EDGE_SCHEMA`. origin_ns: absolute time of
    the plan's 0. notes: what could not be inferred, or was left out. sm_waits: frame of `SM_WAIT_SCHEMA`. num_open:
    calls that make a stream wait, of which no vote told the streams. kernels: of a plan of phases, the plan of
    kernels that it was made of. names: of each rank what a job of plain ranges calls it; empty elsewhere.
    transfer_only: names of ranges that begin when the last rank has come: their waiting is before them.
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
    kernels: Inferred | None = None
    names: tuple[str, ...] = ()
    transfer_only: tuple[str, ...] = ()

    @cached_property
    def times(self) -> Timetable:
        """When each op runs if the plan is replayed."""
        return timetable(self.plan)

    @cached_property
    def replay(self) -> Replay:
        """How far the plan, replayed, is from what was measured."""
        return replay_of(self.times, self.measured)

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "ops", f"{len(self.plan):,}"
        yield from (
            (str(source), f"{count:,} waits")
            for source, count in self.edges["source"].value_counts().sort("source").rows()
        )
        yield "replay", f"{duration(self.replay.replayed_ns)}, measured {duration(self.replay.span_ns)}"

"""Plan: what must happen, in which order, on which resource.

An `Op` takes time on a `Resource`, which is one stream of one rank. A `Plan` lists ops in the order in which the host
issues them, so the ops of one stream run first in, first out, as CUDA streams do. An op also waits for the ops named
in its `after`, on whatever stream or rank they are. These are plain values: `weftrace.plan.check` says whether a plan
can run, `weftrace.plan.engine` runs it.

Phases and ops are named in the alphabet of `weftrace.alphabet`: "attn(F)", "mlp(B)".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from weftrace.notebook import InNotebook

Kind = Literal["compute", "communication", "memory"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Resource(InNotebook):
    """One stream of one rank: it runs one op at a time, in the order of the plan."""

    rank: int = 0
    stream: int = 0

    def __str__(self) -> str:
        return f"rank {self.rank}, stream {self.stream}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op(InNotebook):
    """One piece of work on one stream.

    id: unique in the plan. Other ops name it in their `after`, and errors name it too.
    name: what runs, for kernel tables: many ops may share it.
    duration_ns: time its kernels run, integer nanoseconds, 0 or more.
    num_kernels: the op is this many equal kernels back to back; the stream idles `Plan.gap_ns` between them, so the
        op holds its stream for `duration_ns + (num_kernels - 1) * gap_ns`.
    after: ids of the ops that must have ended before this one starts.
    lags_ns: for each entry of `after`, the time that passes between that op's end and the earliest start of this one
        (a network latency, say); () means none at all.
    num_sms: SMs that each kernel holds; None where it is not known or holds none.
    phase: name of the host range that the op is launched in, such as "dispatch(F)"; None for no range.
    layer, micro_batch: which repetition of the phase this is.
    """

    id: str
    name: str
    duration_ns: int
    resource: Resource
    kind: Kind = "compute"
    after: tuple[str, ...] = ()
    lags_ns: tuple[int, ...] = ()
    num_sms: int | None = None
    num_kernels: int = 1
    phase: str | None = None
    layer: int | None = None
    micro_batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(InNotebook):
    """Ops in the order in which they are issued, and what they run on.

    ops: on one resource, issue order is execution order. Consecutive ops of a rank that share phase, layer and
        micro-batch are launched inside one host range.
    gap_ns: device idle time between two kernels back to back on one stream; 0 for an ideal device.
    num_sms, device_name: of every rank's device, where known.
    world_size: ranks in the job, which may be more than the plan shows; None for the highest rank here plus one.
    source: where the durations and the order come from. notes: what to know before trusting the result.
    """

    name: str
    source: str = ""
    notes: tuple[str, ...] = ()
    device_name: str = "device"
    num_sms: int | None = None
    world_size: int | None = None
    gap_ns: int = 0
    ops: tuple[Op, ...]

    def __repr__(self) -> str:
        return f"Plan({self.name!r}, {len(self.ops):,} ops, {len(self.ranks)} ranks, {len(self.resources)} streams)"

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "name", self.name
        yield "ops", f"{len(self.ops):,} on {len(self.resources):,} streams of {len(self.ranks):,} ranks"
        yield "device", self.device_name
        yield "source", self.source
        yield from (("note", note) for note in self.notes)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Streams in use, by rank, then stream."""
        return tuple(sorted({op.resource for op in self.ops}))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks in use, ascending."""
        return tuple(sorted({op.resource.rank for op in self.ops}))

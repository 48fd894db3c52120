"""Where a rank's time went: compute, exposed communication, exposed memory, idle. The four add up to the span."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from weftrace.analysis.intervals import Intervals, of_events
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """One device's time, in nanoseconds. |X| is the length of the union of X's events over all streams.

    start_ns: first device start, absolute. span_ns: last device end - first device start.
    busy_ns: |all device events|. idle_ns: span - busy.
    compute_ns, communication_ns, memory_ns: |events of that class|.
    hidden_communication_ns: |communication & compute|. exposed_communication_ns: |communication - compute|.
    exposed_memory_ns: |memory - compute - communication|.
    serial_ns: sum of durations, as if nothing ran beside anything.
    span = compute + exposed communication + exposed memory + idle.
    """

    start_ns: int
    span_ns: int
    busy_ns: int
    compute_ns: int
    communication_ns: int
    hidden_communication_ns: int
    memory_ns: int
    exposed_memory_ns: int
    serial_ns: int

    @property
    def idle_ns(self) -> int:
        return self.span_ns - self.busy_ns

    @property
    def exposed_communication_ns(self) -> int:
        return self.communication_ns - self.hidden_communication_ns

    @property
    def hidden_fraction(self) -> float | None:
        """Hidden communication / communication; None, undefined, when there is no communication."""
        return self.hidden_communication_ns / self.communication_ns if self.communication_ns else None

    @property
    def overlap_speedup(self) -> float | None:
        """Serial sum / busy: how much faster than one event at a time; None when there is no work."""
        return self.serial_ns / self.busy_ns if self.busy_ns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassUnions:
    """The unions of each class's events, which most analyses need."""

    compute: Intervals
    communication: Intervals
    memory: Intervals

    @property
    def busy(self) -> Intervals:
        return self.compute | self.communication | self.memory


def class_unions(work: Work) -> ClassUnions:
    """Union of the compute, the communication and the memory events of a device."""
    compute, communication, memory = (
        of_events(work.events.filter(pl.col("kind") == kind)) for kind in ("compute", "communication", "memory")
    )
    return ClassUnions(compute=compute, communication=communication, memory=memory)


def breakdown(source: Trace | Work, *, unions: ClassUnions | None = None) -> Breakdown:
    """Account for a device's time. `unions` spares computing them again.

    Raises TraceError when a Trace holds several devices: make a Work of one of them.
    """
    work = as_work(source)
    u = unions or class_unions(work)
    occupied = u.compute | u.communication
    busy = occupied | u.memory
    return Breakdown(
        start_ns=work.start_ns,
        span_ns=work.end_ns - work.start_ns,
        busy_ns=busy.total_ns,
        compute_ns=u.compute.total_ns,
        communication_ns=u.communication.total_ns,
        hidden_communication_ns=(u.communication & u.compute).total_ns,
        memory_ns=u.memory.total_ns,
        exposed_memory_ns=busy.total_ns - occupied.total_ns,
        serial_ns=int(work.events.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()),
    )

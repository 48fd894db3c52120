"""Where a rank's time went: compute, exposed communication, exposed memory, idle. The four add up to the span.

Fused kernels, which compute and communicate in one, stand with compute, for they hold the SMs, and are told apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import polars as pl
from msgspec import Meta

from weftrace.analysis.intervals import Intervals, of_events
from weftrace.files.schemas import Ns
from weftrace.notebook import InNotebook
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work, in_lane
from weftrace.units import duration, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown(InNotebook):
    """One device's time, in nanoseconds. |X| is the length of the union of X's events over all streams.

    start_ns: first device start, absolute. span_ns: last device end - first device start. Of a window of time (a step):
    its start and its length.
    busy_ns: |all device events|. idle_ns: span - busy.
    compute_ns, communication_ns, memory_ns: |events of that class|; fused kernels are in compute_ns.
    fused_ns: |fused kernels|, a part of compute_ns. What of it is communication is not separable: it is in none of the
    numbers of communication, hidden or exposed.
    hidden_communication_ns: |communication & compute|. exposed_communication_ns: |communication - compute|.
    exposed_memory_ns: |memory - compute - communication|.
    serial_ns: sum of durations, as if nothing ran beside anything.
    span = compute + exposed communication + exposed memory + idle.
    """

    start_ns: int
    span_ns: Ns
    busy_ns: Ns
    compute_ns: Ns
    fused_ns: Ns
    communication_ns: Ns
    hidden_communication_ns: Ns
    memory_ns: Ns
    exposed_memory_ns: Ns
    serial_ns: Ns

    @property
    def idle_ns(self) -> Annotated[int, Meta(ge=0)]:
        return self.span_ns - self.busy_ns

    @property
    def exposed_communication_ns(self) -> Annotated[int, Meta(ge=0)]:
        return self.communication_ns - self.hidden_communication_ns

    @property
    def hidden_fraction(self) -> Annotated[float | None, Meta(ge=0, le=1)]:
        """Hidden communication / communication; None, undefined, when there is no communication."""
        return self.hidden_communication_ns / self.communication_ns if self.communication_ns else None

    @property
    def overlap_speedup(self) -> Annotated[float | None, Meta(ge=0)]:
        """Serial sum / busy: how much faster than one event at a time; None when there is no work."""
        return self.serial_ns / self.busy_ns if self.busy_ns else None

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "span", duration(self.span_ns)
        parts = {
            "compute": self.compute_ns,
            "exposed communication": self.exposed_communication_ns,
            "exposed memory": self.exposed_memory_ns,
            "idle": self.idle_ns,
        }
        for name, part_ns in parts.items():
            yield name, f"{duration(part_ns)}, {percent(part_ns / self.span_ns if self.span_ns else None)}"
            if name == "compute" and self.fused_ns:
                yield "of which fused", f"{duration(self.fused_ns)}, computes and communicates: not separable"
        yield "communication", f"{duration(self.communication_ns)}, {percent(self.hidden_fraction)} hidden"


@dataclass(frozen=True, kw_only=True, eq=False)
class Account(InNotebook):
    """A device's work with what most analyses make of it. Each part is computed when it is first asked for, and once.

    compute, communication, memory: the union of that class's events; compute with the fused kernels, which fused holds
    alone. hidden: communication & compute. exposed: communication - compute. busy: all three. breakdown: see
    `Breakdown`.
    """

    work: Work

    @cached_property
    def compute(self) -> Intervals:
        return of_events(self.work.events.filter(in_lane("compute")))

    @cached_property
    def fused(self) -> Intervals:
        return self._union("fused")

    @cached_property
    def communication(self) -> Intervals:
        return self._union("communication")

    @cached_property
    def memory(self) -> Intervals:
        return self._union("memory")

    @cached_property
    def hidden(self) -> Intervals:
        return self.communication & self.compute

    @cached_property
    def exposed(self) -> Intervals:
        return self.communication - self.compute

    @cached_property
    def busy(self) -> Intervals:
        return self.compute | self.communication | self.memory

    @cached_property
    def breakdown(self) -> Breakdown:
        events = self.work.events
        busy_ns = self.busy.total_ns
        return Breakdown(
            start_ns=self.work.start_ns,
            span_ns=self.work.end_ns - self.work.start_ns,
            busy_ns=busy_ns,
            compute_ns=self.compute.total_ns,
            fused_ns=self.fused.total_ns,
            communication_ns=self.communication.total_ns,
            hidden_communication_ns=self.hidden.total_ns,
            memory_ns=self.memory.total_ns,
            exposed_memory_ns=busy_ns - (self.compute | self.communication).total_ns,
            serial_ns=int(events.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()),
        )

    def _describe(self) -> Iterator[tuple[str, str]]:
        return self.breakdown._describe()

    def _union(self, kind: str) -> Intervals:
        return of_events(self.work.events.filter(pl.col("kind") == kind))


#: What an analysis takes. Several of one device share its `Account`, so that nothing is computed twice.
Source = Trace | Work | Account


def account_of(source: Source) -> Account:
    """The account of a device. Raises TraceError when a Trace holds several devices: make a Work of one of them."""
    return source if isinstance(source, Account) else Account(work=as_work(source))


def breakdown(source: Source) -> Breakdown:
    """Account for a device's time. Raises as `account_of` does."""
    return account_of(source).breakdown

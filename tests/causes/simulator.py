"""A discrete-event model of host threads, device streams and the queues between them.

It knows nothing of weftrace and imports nothing of it: what is planted here (planted.py) and recorded (recorder.py)
tests what weftrace says of the file. All times are integer nanoseconds.

- A host thread has a clock. It opens ranges (annotations, operators, Python frames, runtime calls), works and waits.
- A launch puts work at the end of a stream's queue. The work starts when it has arrived (launch latency), when the work
  before it has ended (turnaround), and when what it waits for has ended. Of many launches a queue holds `queue_depth`;
  one more blocks the thread until there is room.
- Synchronising calls, copies from pageable memory, cudaFree and the like block the thread until the device is done.
- Another thread's clock moves when the first one hands over: the backward pass, or a lock.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

US = 1_000
MS = 1_000_000

Interval = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a call and a device of one maker take, in ns: medians, from recorded traces."""

    vendor: str
    call_ns: int
    latency_ns: int
    turnaround_ns: int
    wake_ns: int
    queue_depth: int = 1024


NVIDIA = Machine(vendor="nvidia", call_ns=4_500, latency_ns=2_200, turnaround_ns=1_100, wake_ns=4_000)
AMD = Machine(vendor="amd", call_ns=5_500, latency_ns=13_000, turnaround_ns=1_600, wake_ns=9_000)


@dataclass(slots=True)
class Range:
    """What a thread did from `begin` to `end`, in what it did around it; `parent` counts in the world's ranges."""

    thread: int
    kind: str
    name: str
    begin: int
    parent: int
    end: int = -1
    correlation: int = 0
    lost: bool = False
    args: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class DeviceWork:
    """A kernel, copy or fill on a stream, launched by a range."""

    stream: int
    kind: str
    name: str
    begin: int
    end: int
    launch: int
    arrived: int
    num_bytes: int = 0
    in_graph: bool = False
    lost: bool = False
    args: dict[str, object] = field(default_factory=dict)


@dataclass
class World:
    """The host, the device, and what happened on both. memory: when, on which thread, what an event of it holds."""

    machine: Machine
    rng: random.Random
    ranges: list[Range] = field(default_factory=list)
    device: list[DeviceWork] = field(default_factory=list)
    planted: list[Interval] = field(default_factory=list)
    memory: list[tuple[int, int, dict[str, object]]] = field(default_factory=list)
    ends: dict[int, list[int]] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)
    correlation: int = 8_000
    losing: bool = False

    def about(self, ns: float, sigma: float = 0.15) -> int:
        """`ns`, with the noise of a host: log-normal, the median kept."""
        return max(0, round(ns * math.exp(self.rng.gauss(0.0, sigma))))

    def ready(self, stream: int) -> int:
        """When the work queued so far on a stream ends."""
        ends = self.ends.get(stream)
        return ends[-1] if ends else 0

    def all_done(self) -> int:
        """When the work queued so far on any stream ends."""
        return max((ends[-1] for ends in self.ends.values()), default=0)

    def enqueue(
        self, *, stream: int, kind: str, name: str, arrived: int, ns: int, launch: int, in_graph: bool = False
    ) -> DeviceWork:
        """Runs `ns` of work on a stream, as soon as it may."""
        ends = self.ends.setdefault(stream, [])
        begin = max(arrived, self.waits.pop(stream, 0))
        if ends:
            begin = max(begin, ends[-1] + self.about(self.machine.turnaround_ns, 0.1))
        work = DeviceWork(
            stream, kind, name, begin, begin + max(600, ns), launch, arrived, in_graph=in_graph, lost=self.losing
        )
        ends.append(work.end)
        self.device.append(work)
        return work

    def recorded(self) -> list[Interval]:
        """The union of what the file has of the device's work."""
        return union([(work.begin, work.end) for work in self.device if not work.lost])

    def idle(self) -> list[Interval]:
        """The stretches between recorded device work, from its first to its last."""
        busy = self.recorded()
        return [(a, b) for (_, a), (b, _) in pairwise(busy)]

    def cut(self) -> dict[str, int]:
        """Idle time by what each stretch waited for: the host (until the launch call of what ends it began), the call,
        the way to the device (until it had arrived), or what was queued before it; of what was recorded.
        """
        found = {"host": 0, "call": 0, "latency": 0, "queued": 0}
        reach = 0
        for work in sorted((work for work in self.device if not work.lost), key=lambda work: work.begin):
            if reach and work.begin > reach:
                call = self.ranges[work.launch]
                marks = [reach, call.begin, call.end, work.arrived]
                at = [min(max(mark, reach), work.begin) for mark in marks] + [work.begin]
                for number, part in enumerate(found):
                    found[part] += max(0, at[number + 1] - max(at[: number + 1]))
            reach = max(reach, work.end)
        return found

    def span_ns(self) -> int:
        """From the first recorded device work to the end of the last."""
        busy = self.recorded()
        return busy[-1][1] - busy[0][0] if busy else 0

    def idle_ns(self) -> int:
        """Time in which no recorded work ran."""
        return length(self.idle())


@dataclass
class Host:
    """A thread: its clock, and the ranges that it has open."""

    world: World
    thread: int
    now: int = 0
    open: list[int] = field(default_factory=list)
    slow: float = 1.0
    num_launches: int = 0

    @contextmanager
    def inside(self, kind: str, name: str, **args: object) -> Iterator[Range]:
        """A range around what is done in it."""
        world = self.world
        parent = self.open[-1] if self.open else -1
        found = Range(self.thread, kind, name, self.now, parent, lost=world.losing, args=args)
        self.open.append(len(world.ranges))
        world.ranges.append(found)
        self.now += 200 if kind == "frame" else 700
        try:
            yield found
        finally:
            self.now += 150 if kind == "frame" else 400
            found.end = self.now
            self.open.pop()

    def work(self, ns: float) -> None:
        """Works: nothing of it is recorded but what is open."""
        self.now += self.world.about(ns * self.slow)

    def wait_until(self, at: int) -> None:
        """Stands until `at`, if that is still to come."""
        self.now = max(self.now, at)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """What is done in it is the planted cause."""
        begin = self.now
        yield
        self.world.planted.append((begin, self.now))

    @contextmanager
    def call(self, name: str, **args: object) -> Iterator[Range]:
        """A call of the runtime; what it waits for is done in it."""
        self.world.correlation += 1 + self.world.rng.randrange(3)
        parent = self.open[-1] if self.open else -1
        found = Range(
            self.thread,
            "call",
            name,
            self.now,
            parent,
            correlation=self.world.correlation,
            lost=self.world.losing,
            args=args,
        )
        self.world.ranges.append(found)
        yield found
        found.end = self.now = max(self.now, found.begin + 300)

    def launch(
        self,
        kernel: str,
        ns: float,
        *,
        stream: int = 7,
        call: str = "cudaLaunchKernel",
        extra_ns: int = 0,
        kind: str = "kernel",
        num_bytes: int = 0,
        exact: bool = False,
    ) -> DeviceWork:
        """Launches one piece of device work; blocks first where the queue is full."""
        world, machine = self.world, self.world.machine
        with self.call(call) as found:
            launch = len(world.ranges) - 1
            ends = world.ends.get(stream, [])
            if len(ends) >= machine.queue_depth:
                self.wait_until(ends[-machine.queue_depth])
            self.now += world.about(machine.call_ns) + extra_ns
            arrived = self.now - machine.call_ns // 3 + world.about(machine.latency_ns, 0.1)
            work = world.enqueue(
                stream=stream,
                kind=kind,
                name=kernel,
                arrived=arrived,
                ns=round(ns) if exact else world.about(ns, 0.04),
                launch=launch,
            )
            work.num_bytes = num_bytes
            found.args.setdefault("kernel", kernel)
        self.num_launches += 1
        return work

    def launch_graph(self, kernels: list[tuple[str, float]], *, call: str, block_ns: int, call_ns: int) -> None:
        """Launches a captured graph: one call, many kernels with its correlation."""
        world, machine = self.world, self.world.machine
        with self.call(call):
            launch = len(world.ranges) - 1
            self.now += world.about(call_ns) + block_ns
            arrived = self.now - call_ns // 2 + world.about(machine.latency_ns, 0.1)
            for kernel, ns in kernels:
                world.enqueue(
                    stream=7,
                    kind="kernel",
                    name=kernel,
                    arrived=arrived,
                    ns=world.about(ns, 0.04),
                    launch=launch,
                    in_graph=True,
                )

    def synchronize(self, call: str, *, stream: int | None = None) -> None:
        """Blocks until the device, or a stream of it, is done."""
        world = self.world
        with self.call(call):
            self.now += world.about(1_500)
            done = world.all_done() if stream is None else world.ready(stream)
            if done > self.now:
                self.now = done + world.about(world.machine.wake_ns)


def union(intervals: list[Interval]) -> list[Interval]:
    """The stretches that any of the intervals covers, in order."""
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > begin:
            found.append((begin, end))
    return found


def length(intervals: list[Interval]) -> int:
    """The length of disjoint intervals."""
    return sum(end - begin for begin, end in intervals)


def shared(first: list[Interval], second: list[Interval]) -> int:
    """How long both of two lists of disjoint, sorted intervals hold."""
    total, j = 0, 0
    for begin, end in first:
        while j < len(second) and second[j][1] <= begin:
            j += 1
        k = j
        while k < len(second) and second[k][0] < end:
            total += min(end, second[k][1]) - max(begin, second[k][0])
            k += 1
    return total

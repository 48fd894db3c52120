"""Runs the hosts and devices of many ranks, operation by operation, and says when each began and ended.

It knows nothing of weftrace and imports nothing of it. All times are nanoseconds.

- Each lane of a rank (a host thread, a stream) runs its operations in the order in which they were added.
- An operation begins when what it waits for has ended (`after`) or begun (`behind`), its launch included.
- A collective begins when its rank comes, and ends a transfer after the last of its group has come.
- While communication runs on a device, its computations take `beside` times as long.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field

HOST, KERNEL, COMMUNICATION, COPY = "host", "kernel", "communication", "copy"

#: From the end of a launch call to the first instant at which its kernel may run, and between two kernels of a stream.
LATENCY_NS, TURNAROUND_NS = 3_000.0, 900.0


def _spread(at: int) -> float:
    """Between 0.8 and 1.2, another one for each operation."""
    return 0.8 + 0.4 * (at * 7919 % 1009) / 1008


@dataclass(slots=True)
class Op:
    """What one lane of one rank does, and how it is recorded.

    ns: its time alone; of a collective, the transfer. category and thread: of a host's range. family: of a kernel.
    """

    rank: int
    lane: str
    kind: str
    name: str
    ns: float
    step: int
    after: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    launch: int = -1
    meet: tuple[object, ...] | None = None
    beside: float = 1.0
    category: str = ""
    thread: int = 1
    family: str = ""
    num_bytes: int = 0
    group: tuple[int, ...] = ()
    peer: int = -1
    blocks: int = 0


@dataclass(slots=True)
class Times:
    """Of each operation its begin, the begin of its transfer (of a computation: its begin) and its end."""

    begin: list[float]
    moved: list[float]
    end: list[float]


def run(ops: list[Op]) -> Times:
    """Runs all operations. Fails where some wait for each other."""
    number = len(ops)
    waits, earliest = [0] * number, [0.0] * number
    at_end: list[list[tuple[int, float]]] = [[] for _ in range(number)]
    at_begin: list[list[int]] = [[] for _ in range(number)]
    last: dict[tuple[int, str], int] = {}
    absent: dict[tuple[object, ...], int] = defaultdict(int)
    members: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for at, op in enumerate(ops):
        before = last.get((op.rank, op.lane))
        if before is not None:
            at_end[before].append((at, 0.0 if op.kind == HOST else TURNAROUND_NS * _spread(at)))
            waits[at] += 1
        last[op.rank, op.lane] = at
        for one in op.after:
            at_end[one].append((at, 0.0))
        for one in op.behind:
            at_begin[one].append(at)
        if op.launch >= 0:
            at_end[op.launch].append((at, LATENCY_NS * _spread(at)))
            waits[at] += 1
        waits[at] += len(op.after) + len(op.behind)
        if op.meet is not None:
            absent[op.meet] += 1
            members[op.meet].append(at)

    begin, moved, end = [-1.0] * number, [-1.0] * number, [-1.0] * number
    communicating: dict[int, int] = defaultdict(int)
    computing: dict[int, set[int]] = defaultdict(set)
    left, since, version = [op.ns for op in ops], [0.0] * number, [0] * number
    queue = [(0.0, at, -1) for at in range(number) if not waits[at]]  # version -1: a begin
    heapq.heapify(queue)

    def let(at: int, now: float) -> None:
        earliest[at] = max(earliest[at], now)
        waits[at] -= 1
        if not waits[at]:
            heapq.heappush(queue, (earliest[at], at, -1))

    def paced(rank: int, now: float, change: int) -> None:
        """Communication begins or ends on a device: what computes there goes on at another pace."""
        was = communicating[rank] > 0
        communicating[rank] += change
        if was == (communicating[rank] > 0):
            return
        for at in computing[rank]:
            slow = ops[at].beside
            left[at] -= (now - since[at]) / (slow if was else 1.0)
            since[at] = now
            version[at] += 1
            heapq.heappush(queue, (now + left[at] * (1.0 if was else slow), at, version[at]))

    while queue:
        now, at, stamp = heapq.heappop(queue)
        op = ops[at]
        if stamp >= 0:  # an end
            if stamp != version[at] or end[at] >= 0:
                continue
            end[at] = now
            computing[op.rank].discard(at)
            if op.kind == COMMUNICATION:
                paced(op.rank, now, -1)
            for then, lag in at_end[at]:
                let(then, now + lag)
            continue
        begin[at] = now
        for then in at_begin[at]:
            let(then, now)
        if op.kind == COMMUNICATION:
            paced(op.rank, now, 1)
        if op.meet is not None:
            absent[op.meet] -= 1
            if not absent[op.meet]:
                for one in members[op.meet]:
                    moved[one] = now
                    heapq.heappush(queue, (now + ops[one].ns, one, 0))
            continue
        moved[at] = since[at] = now
        if op.beside != 1.0:
            computing[op.rank].add(at)
        pace = op.beside if communicating[op.rank] else 1.0
        heapq.heappush(queue, (now + op.ns * pace, at, 0))
    stuck = [op.name for at, op in enumerate(ops) if end[at] < 0]
    assert not stuck, f"{len(stuck)} operations wait for each other, {stuck[0]} first"
    return Times(begin, moved, end)


def span_ns(ops: list[Op], times: Times) -> float:
    """From the first begin of device work on any rank to the last end."""
    device = [at for at, op in enumerate(ops) if op.kind != HOST]
    return max(times.end[at] for at in device) - min(times.begin[at] for at in device)

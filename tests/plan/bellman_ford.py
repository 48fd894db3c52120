"""When the ops of a plan start and end, by the definition and nothing else: plain, slow, apart from the engine.

A plan is a set of constraints between events. Op i has two, its start (2 i) and its end (2 i + 1), and a constraint
says that `target` happens at least `weight_ns` after `source`:

    start(i) >= 0
    start(i) >= end(op before it on its stream) + gap_ns
    start(i) >= end(on) + lag_ns, or start(on) + lag_ns where the wait counts since the start
    end(i)   >= start(i) + hold(i)                   hold(i) = duration_ns + (num_kernels - 1) * gap_ns
    end(i)   >= start(j) + hold(i)                   for each j of the same meet

Each event happens as early as these allow. Bellman and Ford's way to that: begin with 0 everywhere, raise whatever a
constraint asks to be later, and repeat until none does. That ends where no events wait for each other in a circle. A
search of its own tells first whether some do, whatever the weights: an event of a circle would have to be known before
itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """A position each: the event `target` happens `weight_ns` or more after the event `source`."""

    num_ops: int
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight_ns: NDArray[np.int64]


def start_of(op: int) -> int:
    return 2 * op


def end_of(op: int) -> int:
    return 2 * op + 1


def constraints_of(ops: pl.DataFrame, waits: pl.DataFrame, gap_ns: int, *, in_streams: bool = True) -> Constraints:
    """The constraints of a plan's frames. in_streams: whether an op waits for the one before it on its stream."""
    found: list[tuple[int, int, int]] = []
    last_on: dict[tuple[int, int], int] = {}
    members: dict[int, list[int]] = {}
    for i, op in enumerate(ops.iter_rows(named=True)):
        lane = (op["rank"], op["stream"])
        if in_streams and lane in last_on:
            found.append((end_of(last_on[lane]), start_of(i), gap_ns))
        last_on[lane] = i
        if op["meet"] is not None:
            members.setdefault(op["meet"], []).append(i)
    for i, op in enumerate(ops.iter_rows(named=True)):
        hold_ns = op["duration_ns"] + (op["num_kernels"] - 1) * gap_ns
        for j in {i, *members.get(op["meet"], [])}:
            found.append((start_of(j), end_of(i), hold_ns))
    for wait in waits.iter_rows(named=True):
        event = {"end": end_of, "start": start_of}[wait["since"]](wait["on"])
        found.append((event, start_of(wait["op"]), wait["lag_ns"]))
    source, target, weight_ns = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return Constraints(num_ops=len(ops), source=source, target=target, weight_ns=weight_ns)


def relaxed(constraints: Constraints, delays_ns: dict[int, int] | None = None) -> tuple[list[int], list[int]]:
    """Start and end of every op. delays_ns: ops that may not start before a time, and that time.

    There must be no circle: the repetition might never end.
    """
    time_ns = np.zeros(2 * constraints.num_ops, dtype=np.int64)
    for op, not_before_ns in (delays_ns or {}).items():
        time_ns[start_of(op)] = not_before_ns
    while True:
        before = time_ns.copy()
        np.maximum.at(time_ns, constraints.target, time_ns[constraints.source] + constraints.weight_ns)
        if (time_ns == before).all():
            return time_ns[0::2].tolist(), time_ns[1::2].tolist()


def successors(constraints: Constraints) -> list[list[int]]:
    """For each event, the events that wait for it."""
    after: list[list[int]] = [[] for _ in range(2 * constraints.num_ops)]
    for source, target in zip(constraints.source.tolist(), constraints.target.tolist(), strict=True):
        after[source].append(target)
    return after


def has_circle(constraints: Constraints) -> bool:
    """Depth first: does a walk along the constraints ever meet an event that it is still below of?"""
    after = successors(constraints)
    state = ["new"] * len(after)
    for root in range(len(after)):
        walk = [root] if state[root] == "new" else []
        while walk:
            event = walk[-1]
            if state[event] == "new":
                state[event] = "open"
                for following in after[event]:
                    if state[following] == "open":
                        return True
                    if state[following] == "new":
                        walk.append(following)
            else:
                state[event] = "done"
                walk.pop()
    return False


def in_circles(constraints: Constraints, among: Iterable[int]) -> list[int]:
    """Which of some ops wait for themselves: from the op's start or its end a walk leads back to the same event."""
    after = successors(constraints)

    def comes_back(event: int) -> bool:
        seen: set[int] = set()
        walk = list(after[event])
        while walk:
            following = walk.pop()
            if following == event:
                return True
            if following not in seen:
                seen.add(following)
                walk += after[following]
        return False

    return [op for op in among if comes_back(start_of(op)) or comes_back(end_of(op))]

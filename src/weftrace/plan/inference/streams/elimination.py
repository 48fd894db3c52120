"""Between which streams is a call that makes one wait, where nothing votes? Between the only two that are left."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from weftrace.plan.inference.streams.launch_order import Launched
from weftrace.plan.inference.streams.pairs import Calls, Pair, burst_ends, members_of, pairs_of, tried_streams

_Ints = NDArray[np.int64]


class _Order:
    """For each stream, which ops on the others it is known to come after, along its own launches."""

    def __init__(self, ops: Launched) -> None:
        self.number = {int(stream): at for at, stream in enumerate(tried_streams(ops))}
        self.of = ops.stream
        self.places: list[list[int]] = [[] for _ in self.number]
        self.known: list[list[_Ints]] = [[] for _ in self.number]

    def at(self, place: int) -> _Ints:
        """The latest place on each stream that is known to have ended before this one starts, [K]."""
        stream = self.number[int(self.of[place])]
        last = bisect_right(self.places[stream], place) - 1
        return self.known[stream][last].copy() if last >= 0 else np.full(len(self.number), -1, np.int64)

    def add(self, waiter: int, awaited: int) -> None:
        """Waits are added in order of their waiters on each stream."""
        known = np.maximum(self.at(waiter), self.at(awaited))
        other = self.number[int(self.of[awaited])]
        known[other] = max(int(known[other]), awaited)
        stream = self.number[int(self.of[waiter])]
        self.places[stream].append(waiter)
        self.known[stream].append(known)

    def knows(self, waiter: int, awaited: int) -> bool:
        return bool(self.at(waiter)[self.number[int(self.of[awaited])]] >= awaited)


def by_elimination(
    ops: Launched, calls: Calls, found: list[tuple[Pair, _Ints]]
) -> tuple[list[tuple[Pair, _Ints]], int]:
    """Pairs for the groups of calls that are left, where one pair alone is not ordered already; how many calls stay
    open. found: pairs that were voted for, each with its calls, which are of one group."""
    placed = {int(calls.group[at[0]]) for _, at in found}
    order = _Order(ops)
    summary = sorted((int(pair.waiter[i]), int(pair.awaited[i])) for pair, at in found for i in at)
    for waiter, awaited in summary:
        order.add(waiter, awaited)
    members = members_of(calls.group)
    left = [group for group in range(len(members)) if group not in placed]
    pairs = list(pairs_of(ops, calls, tried_streams(ops), ops.ready_ns, burst_ends(ops, calls))) if left else []
    more: list[tuple[Pair, _Ints]] = []
    num_open, main = 0, _main_stream(ops)
    for group in left:
        of = members[group]
        new = []
        for pair in pairs:
            at = of[pair.awaited[of] >= 0]
            if len(at) and not all(order.knows(int(pair.waiter[i]), int(pair.awaited[i])) for i in at[-2:]):
                new.append((pair, at))
        if any(pair.is_next[of].all() for pair in pairs):  # it belongs to the launch that follows, new or not
            new = [(pair, at) for pair, at in new if pair.is_next[of].all()]
        if len(new) > 1:  # most waits are forks from the stream that does most, and joins with it
            new = [(pair, at) for pair, at in new if main in (pair.waiting, pair.other)] or new
        if len(new) == 1:
            more.append(new[0])
        num_open += len(of) if len(new) > 1 else 0
    return more, num_open


def _main_stream(ops: Launched) -> int:
    """The stream with most ops; of several the one that was launched to first; -1 without ops."""
    streams, first, num = np.unique(ops.stream, return_index=True, return_counts=True)
    return int(streams[np.lexsort((first, -num))[0]]) if len(streams) else -1

"""For a call that makes a stream wait, and each pair of streams: which op may have waited, and for which?

The waiter is the next launch on the one stream. The awaited is the latest op on the other, by its place in launch order
before the call, that never ends after the waiter starts, in any repeat of the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weftrace.plan.inference.streams.launch_order import Launched
from weftrace.plan.inference.streams.launches import CLOCK_NS
from weftrace.units import US

#: A waiter starts within this of the end of what it waited for; a start this much after all causes is late.
SOON_NS = 10 * US
#: Streams among which waits are looked for, those with most ops: each pair of them is tried.
MOST_STREAMS = 32

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


class Calls(NamedTuple):
    """Calls that make a stream wait, in order of time: start, ns from the plan's 0, and the group of repeats of each.
    are_real: False where the file has none, and late ops stand for them."""

    at_ns: _Ints
    group: _Ints
    are_real: bool


class Pair(NamedTuple):
    """Of one pair of streams, for each call: waiter and awaited as places in launch order, -1 for none; whether the
    wait binds; whether the waiter is the next launch after the call, and no other call is between."""

    waiting: int
    other: int
    waiter: _Ints
    awaited: _Ints
    binds: _Bools
    is_next: _Bools


def tried_streams(ops: Launched) -> _Ints:
    """The streams among which waits are looked for, ascending."""
    streams, num = np.unique(ops.stream, return_counts=True)
    return np.sort(streams[np.argsort(-num, kind="stable")[:MOST_STREAMS]])


def pairs_of(ops: Launched, calls: Calls, streams: _Ints, ready: _Ints, may_record: _Bools) -> Iterator[Pair]:
    """Each two streams, either way, with what every call would have held up between them.

    ready: when each op was ready otherwise. may_record: whether an event may have been recorded after each.
    """
    next_launch = np.searchsorted(ops.at_ns, calls.at_ns, side="left")
    next_launch[:-1][np.diff(next_launch) == 0] = len(ops)  # another call stands between
    for waiting in streams.tolist():
        waiter = _next_on(ops, waiting, calls.at_ns)
        for other in streams.tolist():
            if other == waiting:
                continue
            awaited = _awaited(ops, np.flatnonzero((ops.stream == other) & may_record), waiter, calls)
            there = awaited >= 0
            end = ops.end_ns[awaited]
            binds = there & (end > ready[waiter] + CLOCK_NS) & (ops.start_ns[waiter] - end <= SOON_NS)
            yield Pair(waiting, other, waiter, awaited, binds, (waiter == next_launch) & (waiter >= 0))


def _next_on(ops: Launched, stream: int, at_ns: _Ints) -> _Ints:
    """Place in launch order of the next op on a stream after each time; -1 where there is none."""
    places = np.append(np.flatnonzero(ops.stream == stream), -1)
    found: _Ints = places[np.searchsorted(ops.at_ns[places[:-1]], at_ns, side="left")]
    return found


def _awaited(ops: Launched, places: _Ints, waiter: _Ints, calls: Calls) -> _Ints:
    """Of each call the latest of these places, counted back from the call, that in no repeat ends after its waiter
    starts; -1 where there is none."""
    before = np.searchsorted(ops.at_ns[places], calls.at_ns, side="left")
    ended = np.searchsorted(np.maximum.accumulate(ops.end_ns[places]), ops.start_ns[waiter] + CLOCK_NS, side="right")
    there = waiter >= 0
    back = np.zeros(int(calls.group.max(initial=-1)) + 1, np.int64)
    np.maximum.at(back, calls.group[there], np.maximum(before - ended, 0)[there])
    at = before - 1 - back[calls.group]
    if not len(places):
        return np.full(len(waiter), -1, np.int64)
    found: _Ints = np.where(there & (at >= 0), places[np.maximum(at, 0)], -1)
    return found


def burst_ends(ops: Launched, calls: Calls) -> _Bools:
    """Whether an event may have been recorded after each op: not in the midst of launches on one stream, of one phase,
    without anything between."""
    if not calls.are_real:
        return np.ones(len(ops), bool)
    number = np.searchsorted(calls.at_ns, ops.at_ns, side="left")  # calls before each launch
    goes_on = (np.diff(ops.stream) == 0) & (np.diff(ops.phase) == 0) & (np.diff(number) == 0)
    return np.append(~goes_on, True)


def members_of(group: _Ints) -> list[_Ints]:
    """The calls of each group, ascending."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group))[:-1]) if len(group) else []

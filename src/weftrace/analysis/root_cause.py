"""With whom did waiting begin? A rank that is late because it waited itself passes its lateness on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weftrace.analysis.clock_lines import Array

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_SAMPLE = 5_000  # meetings that tell which ranks share groups
_LEAST = 0.02  # of a wait: ranks that it began with to less are left out of `Blame`, for those that it did to more


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Meetings and what their members waited, on one clock.

    first: of each meeting its first member's row. Of each member: at, its position; arrival_ns, end_ns; waiting_ns;
    left_before, whether it went before the last came. Of each meeting: last, the position that came last; last_ns,
    when; is_pair, whether it is a send and its receive; is_counted, whether its waiting is to be blamed on somebody.
    """

    first: Array
    at: Array
    arrival_ns: Array
    end_ns: Array
    waiting_ns: Array
    left_before: Bools
    last: Array
    last_ns: Array
    is_pair: Bools
    is_counted: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """With whom waiting began.

    origin_ns: of each rank the waiting of all that began with it; the sum is the waiting of the counted meetings.
    row, origin, part: of each member that waited in a counted meeting, its row, the rank with which that began, and to
    which part; parts of one row add up to 1.
    """

    origin_ns: Array
    row: Array
    origin: Array
    part: Floats


def blame(waiting: Waiting, number: int) -> Blame:
    """With which of `number` ranks waiting began.

    What a rank arrives after is a path: the time since it left its last meeting is its own, what was before is the path
    of whom it waited for there, and so on; who did not wait comes after its own path. Where l comes last and w waits
    for it, their paths differ by just what w waits. It is blamed on the ranks that hold more time on the path of l than
    on that of w.
    """
    paths = [np.zeros(number)] * number  # of each rank, whose time its last meeting came after
    left = [int(waiting.arrival_ns.min())] * number  # when
    met = [-1 - rank for rank in range(number)]  # which
    sums = np.add.reduceat(waiting.waiting_ns, waiting.first)
    origin: Floats = np.bincount(waiting.last, np.where(waiting.is_counted, sums, 0), number).astype(np.float64)
    grid = _shared(waiting, number)
    columns = (waiting.at, waiting.arrival_ns, waiting.end_ns, waiting.waiting_ns, waiting.left_before)
    at, arrival, end, waited, left_before = (column.tolist() for column in columns)
    first, last_of = [*waiting.first.tolist(), len(at)], waiting.last.tolist()
    is_pair, is_counted = waiting.is_pair.tolist(), waiting.is_counted.tolist()
    passed_on: list[tuple[list[int], Floats]] = []  # rows that waited, and how long because of each rank
    for meeting in np.argsort(waiting.last_ns, kind="stable").tolist():
        rows, last = range(first[meeting], first[meeting + 1]), last_of[meeting]
        path = _with_own(paths[last], last, next(arrival[row] for row in rows if at[row] == last) - left[last])
        others = [row for row in rows if waited[row] > 0 and met[at[row]] != met[last]] if is_counted[meeting] else ()
        if others:
            who = [at[row] for row in others]
            apart = path - np.stack([paths[rank] for rank in who])
            apart[range(len(who)), who] -= [max(0, arrival[row] - left[at[row]]) for row in others]
            amounts = np.array([waited[row] for row in others])
            began = _began_with(apart, np.array(who) - last, amounts, None if is_pair[meeting] else grid)
            passed_on.append((others, began))
            began_ns = began.sum(axis=0)
            origin[last] -= began_ns.sum()
            origin += began_ns
        for row in rows:
            if not left_before[row]:
                rank = at[row]
                came_with = not waited[row] and rank != last  # at the same time: it comes after its own path as well
                paths[rank] = _with_own(paths[rank], rank, arrival[row] - left[rank]) if came_with else path
                left[rank], met[rank] = end[row], meeting
    return Blame(origin_ns=_whole(origin), **_parts(waiting, passed_on))


def _parts(waiting: Waiting, passed_on: list[tuple[list[int], Floats]]) -> dict[str, Any]:
    """Row, origin and part of each wait: what was passed on, and all others, which began with who came last."""
    sizes = np.diff(np.append(waiting.first, len(waiting.at)))
    left = np.repeat(waiting.is_counted, sizes) & (waiting.waiting_ns > 0)
    rows, origins, amounts = [], [], []
    for others, began in passed_on:
        who, origin = np.nonzero(began > _LEAST * waiting.waiting_ns[others][:, None])
        rows.append(np.array(others)[who])
        origins.append(origin)
        amounts.append(began[who, origin])
        left[rows[-1]] = False
    rest = np.flatnonzero(left)
    row = np.concatenate([*rows, rest])
    amount = np.concatenate([*amounts, np.ones(len(rest))])
    sums = np.bincount(row, amount, len(waiting.at))
    return {
        "row": row,
        "origin": np.concatenate([*origins, np.repeat(waiting.last, sizes)[rest]]),
        "part": amount / sums[row],
    }


def _with_own(path: Floats, rank: int, time_ns: int) -> Floats:
    longer = path.copy()
    longer[rank] += max(0, time_ns)
    return longer


def _began_with(apart: Floats, away: Array, waited: Array, shared: Bools | None) -> Floats:
    """Of each who waited, the waiting by whom it began with. apart: for each, what the path of the last has more of
    each rank's time; away: how far it stands from the last.

    In a pipeline of which there are several, the paths of two lead through the stages of each: time of a rank is set
    against that of the one at its place in the other. Of ranks laid out in a grid, that one is as far from it as who
    waited is from the last, and meets it in a collective.
    """
    more = np.maximum(apart, 0)
    if shared is not None:
        number = apart.shape[1]
        places = np.arange(number)[None, :] + away[:, None]
        inside = np.clip(places, 0, number - 1)
        alike = (places == inside) & shared[np.arange(number)[None, :], inside]
        less = np.take_along_axis(np.maximum(-apart, 0), inside, axis=1)
        more = np.maximum(more - np.where(alike, less, 0), 0)
    sums = more.sum(axis=1)
    share = np.divide(waited, sums, out=np.zeros_like(sums), where=sums > 0)
    found: Floats = more * share[:, None]
    return found


def _shared(waiting: Waiting, number: int) -> Bools:
    """Which ranks meet in collectives."""
    sizes = np.diff(np.append(waiting.first, len(waiting.at)))
    meetings = np.flatnonzero(~waiting.is_pair)
    chosen = meetings[np.linspace(0, len(meetings) - 1, min(len(meetings), _SAMPLE)).astype(np.int64)]
    place = np.full(len(sizes), -1)
    place[chosen] = np.arange(len(chosen))
    of_member = np.repeat(place, sizes)
    present = np.zeros((len(chosen), number), np.float32)
    present[of_member[of_member >= 0], waiting.at[of_member >= 0]] = 1
    found: Bools = (present.T @ present) > 0
    return found


def _whole(values: Floats) -> Array:
    """In whole nanoseconds, with the same sum."""
    whole = np.rint(values).astype(np.int64)
    whole[int(np.argmax(whole))] += round(float(values.sum())) - int(whole.sum())
    return whole

"""The loops of the engine: when each op runs, and how late it might; and a sort. Plain code over arrays, or over lists.

Small plans run them as they stand here, interpreted over lists, which costs no start; large ones compiled by Numba from
this same source. None looks at a plan's values: `graph` makes the arrays, `times` reads the result.

Names: N ops, Q streams, W waits, M meets. An offset array of a ragged table has one entry more than the table has rows.
"""

from __future__ import annotations

from typing import Any

#: Stands for a time, or an op, that is not known.
NONE = -1


def run(
    queue_first: Any, queue_ops: Any, queue_of: Any,
    wait_first: Any, wait_on: Any, wait_for_start: Any, wait_lag: Any,
    hold: Any, gap: Any, meet_of: Any, meet_first: Any, meet_ops: Any,
    start: Any, end: Any, waiter: Any, head: Any, at_wait: Any, free: Any, next_waiter: Any, awake: Any,
    meet_left: Any, meet_start: Any, events: Any,
) -> int:  # fmt: skip
    """Fill `start` and `end`; return how many ops ended, fewer than N where the plan gets stuck.

    Each stream advances through its queue until its head waits for an op that has not ended (or started), or for the
    others of its meet, and is woken when that happens. As streams are first in, first out and nothing else is shared,
    an op's start follows from what is before it whatever the order of the visits: the result is unique.

    queue_ops[queue_first[q]:queue_first[q + 1]]: ops of stream q, in order. queue_of[i]: stream of op i.
    wait_first[i] ... wait_first[i + 1]: op i's waits; wait_lag may be empty where all lags are 0. hold[i]: time that op
    i holds its stream. meet_of[i]: its meet, or NONE (empty where there is no meet); meet_ops: members by meet.
    start, end: of each op, NONE before. waiter[i]: first stream that waits for op i; next_waiter[q]: the next.
    head, at_wait, free: of each stream the position in queue_ops, the next wait to look at (NONE: the head's first),
    and the earliest time that the head may start by what is known. awake: streams to visit, all of them.
    meet_left, meet_start: of each meet, members that have not started, and the last start so far.
    events: filled with what happened, causes before effects: i for op i's start, -1 - i for its end. May be empty.
    """
    has_lags = len(wait_lag) > 0
    has_meets = len(meet_of) > 0
    records = len(events) > 0
    num_awake = len(awake)
    num_events = 0
    num_ended = 0
    while num_awake > 0:
        num_awake -= 1
        q = awake[num_awake]
        position = head[q]
        k = at_wait[q]
        t = free[q]
        last = queue_first[q + 1]
        while position < last:
            i = queue_ops[position]
            if start[i] < 0:
                if k < 0:
                    k = wait_first[i]
                stop = wait_first[i + 1]
                while k < stop:
                    on = wait_on[k]
                    ready = start[on] if wait_for_start[k] else end[on]
                    if ready < 0:
                        break
                    if has_lags:
                        ready += wait_lag[k]
                    if ready > t:
                        t = ready
                    k += 1
                if k < stop:
                    next_waiter[q] = waiter[on]
                    waiter[on] = q
                    break
                k = NONE
                start[i] = t
                if records:
                    events[num_events] = i
                    num_events += 1
                m = meet_of[i] if has_meets else NONE
                if m < 0:
                    end[i] = t + hold[i]
                    num_ended += 1
                    if records:
                        events[num_events] = -1 - i
                        num_events += 1
                else:
                    meet_left[m] -= 1
                    if t > meet_start[m]:
                        meet_start[m] = t
                    if meet_left[m] == 0:
                        for at in range(meet_first[m], meet_first[m + 1]):
                            j = meet_ops[at]
                            end[j] = meet_start[m] + hold[j]
                            num_ended += 1
                            if records:
                                events[num_events] = -1 - j
                                num_events += 1
                            if j != i:  # its stream stands at j, and wakes whoever waits for j's end
                                awake[num_awake] = queue_of[j]
                                num_awake += 1
            woken = waiter[i]  # i has started, or ended: whoever waits for it looks again
            waiter[i] = NONE
            while woken >= 0:
                awake[num_awake] = woken
                num_awake += 1
                woken = next_waiter[woken]
            if end[i] < 0:  # it waits for the others of its meet
                break
            t = end[i] + gap
            position += 1
        head[q] = position
        at_wait[q] = k
        free[q] = t
    return num_ended


def latest(
    events: Any, wait_first: Any, wait_on: Any, wait_for_start: Any, wait_lag: Any, hold: Any, gap: Any,
    meet_of: Any, before: Any, latest_start: Any, latest_end: Any, meet_latest: Any,
) -> None:  # fmt: skip
    """Fill `latest_start` and `latest_end`: how late each op may start and end so that nothing is later than allowed.

    events: as `run` recorded them. before[i]: the op before i on its stream, or NONE. latest_start and latest_end hold
    the makespan, or whatever is allowed, before; meet_latest likewise. The rest is as in `run`.
    """
    has_lags = len(wait_lag) > 0
    has_meets = len(meet_of) > 0
    for at in range(len(events) - 1, -1, -1):
        event = events[at]
        if event < 0:  # an end: all that waits for it has been seen
            i = -1 - event
            by = latest_end[i] - hold[i]
            m = meet_of[i] if has_meets else NONE
            if m < 0:
                if by < latest_start[i]:
                    latest_start[i] = by
            elif by < meet_latest[m]:
                meet_latest[m] = by
        else:
            i = event
            if has_meets and meet_of[i] >= 0 and meet_latest[meet_of[i]] < latest_start[i]:
                latest_start[i] = meet_latest[meet_of[i]]
            by = latest_start[i]
            j = before[i]
            if j >= 0 and by - gap < latest_end[j]:
                latest_end[j] = by - gap
            for k in range(wait_first[i], wait_first[i + 1]):
                on = wait_on[k]
                allowed = by - wait_lag[k] if has_lags else by
                if wait_for_start[k]:
                    if allowed < latest_start[on]:
                        latest_start[on] = allowed
                elif allowed < latest_end[on]:
                    latest_end[on] = allowed


def chain(
    last: Any, start: Any, end: Any, wait_first: Any, wait_on: Any, wait_for_start: Any, wait_lag: Any, gap: Any,
    meet_of: Any, meet_first: Any, meet_ops: Any, before: Any, found_op: Any, found_cause: Any, found_wait: Any,
) -> int:  # fmt: skip
    """From the end of op `last` back from cause to cause; return how many ops were found, the first of them `last`.

    found_op, found_cause, found_wait: room for two entries an op, all NONE. found_cause: the op that this one waited
    for, NONE where it began with the plan. found_wait: by which wait; NONE for the order of a stream; NONE - 1 for the
    member of its meet that started last. before: as in `latest`. The rest is as in `run`, after it.
    """
    has_lags = len(wait_lag) > 0
    has_meets = len(meet_of) > 0
    i = last
    at_end = True  # whether the end of i is to be explained, or its start
    num_found = 0
    while i >= 0:
        found_op[num_found] = i
        cause = NONE
        if has_meets and at_end and meet_of[i] >= 0:
            latest_member = i
            for at in range(meet_first[meet_of[i]], meet_first[meet_of[i] + 1]):
                if start[meet_ops[at]] > start[latest_member]:
                    latest_member = meet_ops[at]
            if latest_member != i:
                cause = latest_member
                found_wait[num_found] = NONE - 1
                at_end = False
        if cause < 0:
            for k in range(wait_first[i], wait_first[i + 1]):
                on = wait_on[k]
                ready = start[on] if wait_for_start[k] else end[on]
                if has_lags:
                    ready += wait_lag[k]
                if ready == start[i]:
                    cause = on
                    found_wait[num_found] = k
                    at_end = not wait_for_start[k]
                    break
        if cause < 0 and before[i] >= 0 and end[before[i]] + gap == start[i]:
            cause = before[i]
            at_end = True
        found_cause[num_found] = cause
        num_found += 1
        i = cause
    return num_found


def grouped(codes: Any, first: Any, order: Any) -> None:
    """Sort indices by code, those of one code in their order: a counting sort.

    codes: N numbers below G. first: G + 1 zeros, becomes the offset of each code. order: N, becomes the indices.
    """
    num_groups = len(first) - 1
    for code in codes:
        first[code + 1] += 1
    for g in range(num_groups):
        first[g + 1] += first[g]
    for i in range(len(codes)):
        code = codes[i]
        order[first[code]] = i
        first[code] += 1
    for g in range(num_groups, 0, -1):
        first[g] = first[g - 1]
    first[0] = 0

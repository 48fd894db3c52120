"""The loops that put actions in order: ranks run in time, and each chooses what it runs next when it is free.

Both are one event loop: the rank that chooses earliest goes next, and knows what has begun by then. A W runs where its
rank would wait. Where the W takes longer than the wait, the rank waits as long as it has been idle for no more than
`patience` in all, and else runs the W, which delays what comes. With no patience a rank is never idle while it has a W,
with endless patience no W delays anything; the best lies between, by the costs, so callers try several.

Legend: N actions, R ranks, S stages, M micro-batches. Times are nanoseconds; sizes any unit, the cap's.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weftrace.compiled import compiled_when_slow

#: Later than any time: the end of what has not begun, and endless patience.
NEVER = 1 << 62
_FACTOR, _MASK = 747_796_405, (1 << 32) - 1  # of a generator of random numbers


class Rows(NamedTuple):
    """Actions of a schedule, by row, and what they need.

    first_R, queue: the rows of each rank in order, without its W. need_first, need_on, need_lag: the rows whose results
    a row needs, and how long those are on their way. user_first, user_rank: the ranks that need a row's result.
    takes: size that is held from a row's start; frees: held no more from its end. weight: row of the W that an I leaves
    behind, or -1.
    """

    first_R: NDArray[np.int64]
    queue: NDArray[np.int64]
    need_first: NDArray[np.int64]
    need_on: NDArray[np.int64]
    need_lag: NDArray[np.int64]
    user_first: NDArray[np.int64]
    user_rank: NDArray[np.int64]
    duration: NDArray[np.int64]
    takes: NDArray[np.int64]
    frees: NDArray[np.int64]
    weight: NDArray[np.int64]


@compiled_when_slow
def place(rows: Rows, cap: int, patience: int, counts_start: bool, place_N: NDArray[np.int64]) -> tuple[int, int]:
    """Keep the order of a rank's queue, and choose where its W run: as `place_N`, the position of each row on its rank.

    A row that would take its rank over the cap waits for a W. counts_start: whether a rank is idle before its first
    action. Returns the makespan and the longest span of a rank;
    NEVER twice where the ranks got stuck.
    """
    num_ranks = len(rows.first_R) - 1
    end = np.full(len(rows.duration), NEVER, np.int64)
    at, num_placed = rows.first_R[:-1].copy(), np.zeros(num_ranks, np.int64)
    left, next_left, next_run = np.zeros(len(rows.queue), np.int64), at.copy(), at.copy()  # W, in the order of their I
    began, free = np.full(num_ranks, NEVER, np.int64), np.zeros(num_ranks, np.int64)
    idle, held, look = np.zeros(num_ranks, np.int64), np.zeros(num_ranks, np.int64), np.zeros(num_ranks, np.int64)
    events = [(0, 0)]  # when a rank chooses
    for rank in range(1, num_ranks):
        heappush(events, (0, rank))
    while len(events):
        now, rank = heappop(events)
        if look[rank] != now:
            continue
        look[rank] = NEVER
        row, ready, is_full = -1, NEVER, False
        if at[rank] < rows.first_R[rank + 1]:
            row = rows.queue[at[rank]]
            is_full = held[rank] + rows.takes[row] > cap and rows.takes[row] > 0
            ready = 0
            for k in range(rows.need_first[row], rows.need_first[row + 1]):
                known = end[rows.need_on[k]]
                ready = max(ready, known + rows.need_lag[k] if known < NEVER else NEVER)
        has_weight = next_run[rank] < next_left[rank]
        if row >= 0 and ready <= now and not is_full:
            at[rank] += 1
        elif has_weight and (
            is_full
            or ready == NEVER
            or now + rows.duration[left[next_run[rank]]] <= ready
            or idle[rank] + ready - now > patience
        ):
            row = left[next_run[rank]]
            next_run[rank] += 1
        else:
            if row >= 0 and ready < NEVER and not is_full:
                look[rank] = ready
                heappush(events, (ready, rank))
            continue
        began[rank] = min(began[rank], now)
        if counts_start or num_placed[rank]:
            idle[rank] += now - free[rank]
        free[rank] = end[row] = now + rows.duration[row]
        held[rank] += rows.takes[row] - rows.frees[row]
        place_N[row] = num_placed[rank]
        num_placed[rank] += 1
        if rows.weight[row] >= 0:
            left[next_left[rank]] = rows.weight[row]
            next_left[rank] += 1
        look[rank] = free[rank]
        heappush(events, (free[rank], rank))
        for k in range(rows.user_first[row], rows.user_first[row + 1]):
            user = rows.user_rank[k]
            if look[user] == NEVER:
                look[user] = max(now, free[user])
                heappush(events, (look[user], user))
    if num_placed.sum() < len(rows.duration):
        return NEVER, NEVER
    return free.max(), (free - began).max()


class Pipeline(NamedTuple):
    """Stages of one replica, and what their chunks cost, [S].

    first_R, own: the stages of each rank in the model's order. lag: of a message from a stage to the next, and back.
    size: of a chunk's activations. reserve: of those that later stages of the rank need, so that some are always free
    for them. freed_at_input: whether an I frees them, and not the W. counts_start: as in `place`.
    """

    rank: NDArray[np.int64]
    first_R: NDArray[np.int64]
    own: NDArray[np.int64]
    forward: NDArray[np.int64]
    gradient: NDArray[np.int64]
    weight: NDArray[np.int64]
    lag: NDArray[np.int64]
    size: NDArray[np.int64]
    reserve: NDArray[np.int64]
    freed_at_input: bool
    counts_start: bool


class Rules(NamedTuple):
    """What a rank prefers.

    cap: of what it holds. ahead: half of the F that a stage may have run before their I, for each stage after it.
    in_turns: after an I an F, else an I is always first. early_first: of two I, that of the earlier stage.
    waits_for_input: an F that would delay an I waits for it, within the patience. seed: 0, or from which one of 16
    choices is made otherwise, by chance.
    """

    cap: int
    ahead: int
    patience: int
    in_turns: bool
    early_first: bool
    waits_for_input: bool
    seed: int


@compiled_when_slow
def choose(pipeline: Pipeline, rules: Rules, place_KSM: NDArray[np.int64]) -> tuple[int, int]:
    """Choose the order of F, I and W: as `place_KSM`, the position of each on its rank, int64 [3, S, M].

    Of a stage, micro-batches go in their order; of several F, that of the latest stage is first. Returns as `place`.
    """
    num_stages, num_micro_batches = place_KSM.shape[1:]
    num_ranks = len(pipeline.first_R) - 1
    end_FSM = np.full((2, num_stages, num_micro_batches), NEVER, np.int64)  # of F, and of I
    done = np.zeros((2, num_stages), np.int64)
    most_left = num_micro_batches * num_stages
    left = np.zeros((num_ranks, 2), np.int64)  # of its W: the first that has not run, and how many were left
    left_stage = np.zeros(most_left, np.int64)
    left_micro_batch = np.zeros(most_left, np.int64)
    num_placed, began = np.zeros(num_ranks, np.int64), np.full(num_ranks, NEVER, np.int64)
    free, idle, held = np.zeros(num_ranks, np.int64), np.zeros(num_ranks, np.int64), np.zeros(num_ranks, np.int64)
    look, was_input = np.zeros(num_ranks, np.int64), np.zeros(num_ranks, np.bool_)
    chance, events = rules.seed, [(0, 0)]
    for rank in range(1, num_ranks):
        heappush(events, (0, rank))
    while len(events):
        now, rank = heappop(events)
        if look[rank] != now:
            continue
        look[rank] = NEVER
        forward, gradient, next_input, next_any, is_full = -1, -1, NEVER, NEVER, False
        for k in range(pipeline.first_R[rank], pipeline.first_R[rank + 1]):
            stage = pipeline.own[k]
            number = done[1, stage]
            if number < done[0, stage]:
                ready = end_FSM[0, stage, number]
                if stage + 1 < num_stages:
                    ready = end_FSM[1, stage + 1, number]
                    ready += pipeline.lag[stage] if ready < NEVER else 0
                if ready > now:
                    next_input = min(next_input, ready)
                elif gradient < 0 or not rules.early_first:
                    gradient = stage
            number = done[0, stage]
            in_flight = number - done[1, stage]
            if number < num_micro_batches and in_flight <= rules.ahead * (num_stages - 1 - stage) // 2:
                ready = 0
                if stage:
                    ready = end_FSM[0, stage - 1, number]
                    ready += pipeline.lag[stage - 1] if ready < NEVER else 0
                if held[rank] + pipeline.size[stage] + pipeline.reserve[stage] > rules.cap:
                    is_full = is_full or ready <= now
                elif ready > now:
                    next_any = min(next_any, ready)
                else:
                    forward = stage
        next_any = min(next_any, next_input)
        chance = chance * _FACTOR & _MASK if rules.seed else 0
        is_other = rules.seed > 0 and chance >> 28 == 0
        is_input = gradient >= 0 and (forward < 0 or (rules.in_turns and was_input[rank]) == is_other)
        has_weight = left[rank, 0] < left[rank, 1]
        base = pipeline.first_R[rank] * num_micro_batches
        weight_ns = pipeline.weight[left_stage[base + left[rank, 0]]] if has_weight else 0
        kind = 1 if is_input else 0 if forward >= 0 else 2
        wait = next_input - now
        if (
            kind == 0
            and rules.waits_for_input
            and wait < pipeline.forward[forward]
            and (idle[rank] + wait <= rules.patience)
        ):
            kind, next_any = 2, next_input
        if kind == 2 and not (
            has_weight
            and (
                is_full
                or next_any == NEVER
                or now + weight_ns <= next_any
                or (idle[rank] + next_any - now > rules.patience) != is_other
            )
        ):
            if next_any < NEVER:
                look[rank] = next_any
                heappush(events, (next_any, rank))
            continue
        if kind == 2:
            stage, number = left_stage[base + left[rank, 0]], left_micro_batch[base + left[rank, 0]]
            left[rank, 0] += 1
            last = now + weight_ns
        else:
            stage = gradient if is_input else forward
            number = done[kind, stage]
            done[kind, stage] += 1
            last = now + (pipeline.gradient[stage] if is_input else pipeline.forward[stage])
            end_FSM[kind, stage, number] = last
            was_input[rank] = is_input
            if is_input:
                left_stage[base + left[rank, 1]], left_micro_batch[base + left[rank, 1]] = stage, number
                left[rank, 1] += 1
        if kind == 0:
            held[rank] += pipeline.size[stage]
        elif (kind == 1) == pipeline.freed_at_input:
            held[rank] -= pipeline.size[stage]
        began[rank] = min(began[rank], now)
        if pipeline.counts_start or num_placed[rank]:
            idle[rank] += now - free[rank]
        free[rank] = last
        place_KSM[kind, stage, number] = num_placed[rank]
        num_placed[rank] += 1
        look[rank] = last
        heappush(events, (last, rank))
        user = stage - 1 if kind == 1 else stage + 1 if kind == 0 and stage + 1 < num_stages else -1
        if user >= 0 and pipeline.rank[user] != rank:
            arrives = max(last + pipeline.lag[min(stage, user)], free[pipeline.rank[user]])
            if arrives < look[pipeline.rank[user]]:
                look[pipeline.rank[user]] = arrives
                heappush(events, (arrives, pipeline.rank[user]))
    if num_placed.sum() < place_KSM.size:
        return NEVER, NEVER
    return free.max(), (free - began).max()

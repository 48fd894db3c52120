"""The compiled loops of the search: the time of an order of tokens, its critical path, and annealing over moves.

A token says what a rank does next, without the micro-batch: each stage takes micro-batches in one order (see `tokens`).
Its number, with V places for stages on a rank:

    F of place v    v               I    2 V + v        F&B of places v, w    4 V + V v + w
    B               V + v           W    3 V + v

Legend: R ranks, V places, T tokens' numbers, G stages of all replicas, M micro-batches, C caps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weftrace.compiled import compiled, compiled_part

#: The time of an order that cannot run, or does not fit.
NEVER = 1 << 62


class Tables(NamedTuple):
    """What does not change while an order is searched.

    duration_RT; and of each half, forward and backward, after the token's start: when it reads its input, and when its
    output is there. home_G: rank of a stage; stage_RV: stage of a place, -1 where a rank has fewer. before_G, after_G:
    the stages next to it, -1 at the ends. lag_G: of a message between a stage and the one before, either way.
    tail_HG: least time from the start of a half of a stage to the end of the step; 0 where it is not known.
    size_CG, pending_CG, room_CR: what a chunk holds from F on, what of it from I to W, and what a rank has room for.
    """

    duration_RT: Any
    reads_HRT: Any
    makes_HRT: Any
    home_G: Any
    stage_RV: Any
    before_G: Any
    after_G: Any
    lag_G: Any
    tail_HG: Any
    size_CG: Any
    pending_CG: Any
    room_CR: Any


class State(NamedTuple):
    """An order, order_RN with length_R, and room for what follows from it.

    out_HGM: when a half's output is there; at_HGM: its position on its rank. cause_RN: the token that each waited for,
    as rank x N + position; -1 for the start of the step. The rest is work space.
    """

    order_RN: Any
    length_R: Any
    out_HGM: Any
    at_HGM: Any
    cause_RN: Any
    done_HG: Any
    head_R: Any
    free_R: Any
    left_R: Any
    waits_R: Any
    awake_R: Any
    path_P: Any
    last_0: Any
    ahead_V: Any
    pending_V: Any
    held_C: Any


@compiled_part
def _halves(token: int, V: int) -> tuple[int, int]:
    """Places of the forward and of the backward (B, I or F&B) of a token; -1 where it has none."""
    if token < V:
        return token, -1
    if token < 3 * V:
        return -1, token % V
    if token < 4 * V:
        return -1, -1
    return (token - 4 * V) // V, (token - 4 * V) % V


@compiled_part
def _may_run(rank: int, t: Tables, s: State) -> bool:
    """Whether the order of a rank has each backward after its forward and each W after its I, within its room."""
    V = t.stage_RV.shape[1]
    C = t.size_CG.shape[0]
    ahead, pending, held = s.ahead_V, s.pending_V, s.held_C
    for place in range(V):
        ahead[place] = pending[place] = 0
    for c in range(C):
        held[c] = 0
    for position in range(s.length_R[rank]):
        token = s.order_RN[rank, position]
        f, b = _halves(token, V)
        if f >= 0:
            for c in range(C):
                held[c] += t.size_CG[c, t.stage_RV[rank, f]]
                if held[c] > t.room_CR[c, rank]:
                    return False
        if b >= 0:
            ahead[b] -= 1
            if ahead[b] < 0:
                return False
            g = t.stage_RV[rank, b]
            kept = 2 * V <= token < 3 * V
            pending[b] += kept
            for c in range(C):
                held[c] -= t.size_CG[c, g] - (t.pending_CG[c, g] if kept else 0)
        elif f < 0:
            w = token % V
            pending[w] -= 1
            if pending[w] < 0:
                return False
            for c in range(C):
                held[c] -= t.pending_CG[c, t.stage_RV[rank, w]]
        if f >= 0:
            ahead[f] += 1
    return True


@compiled_part
def _run(t: Tables, s: State, limit: int, salt: int) -> int:
    """Run the order; the makespan, or `NEVER` where it is over the limit or ranks wait for each other. salt: which of
    two causes that came at once is kept."""
    R, V = t.stage_RV.shape
    N = s.order_RN.shape[1]
    for g in range(len(t.home_G)):
        s.done_HG[0, g] = s.done_HG[1, g] = 0
    num_awake = R
    makespan = last = num_done = total = 0
    for rank in range(R):
        s.head_R[rank], s.free_R[rank], s.waits_R[rank] = 0, 0, -1
        s.awake_R[rank] = R - 1 - rank
        s.left_R[rank] = 0
        for position in range(s.length_R[rank]):
            s.left_R[rank] += t.duration_RT[rank, s.order_RN[rank, position]]
        if s.left_R[rank] > limit:
            return NEVER
    while num_awake > 0:
        num_awake -= 1
        rank = s.awake_R[num_awake]
        now = s.free_R[rank]
        position = s.head_R[rank]
        while position < s.length_R[rank]:
            token = s.order_RN[rank, position]
            f, b = _halves(token, V)
            start = now
            cause = rank * N + position - 1 if position else -1
            gf = gb = -1
            if f >= 0:
                gf = t.stage_RV[rank, f]
                g = t.before_G[gf]
                if g >= 0:
                    k = s.done_HG[0, gf]
                    if k >= s.done_HG[0, g]:
                        s.waits_R[rank] = gf
                        break
                    arrived = s.out_HGM[0, g, k] + t.lag_G[gf] - t.reads_HRT[0, rank, token]
                    if arrived > start or (arrived == start and (salt + rank + position) % 2):
                        start, cause = arrived, t.home_G[g] * N + s.at_HGM[0, g, k]
            if b >= 0:
                gb = t.stage_RV[rank, b]
                g = t.after_G[gb]
                if g >= 0:
                    k = s.done_HG[1, gb]
                    if k >= s.done_HG[1, g]:
                        s.waits_R[rank] = len(t.home_G) + gb
                        break
                    arrived = s.out_HGM[1, g, k] + t.lag_G[g] - t.reads_HRT[1, rank, token]
                    if arrived > start or (arrived == start and (salt + rank + position) % 2):
                        start, cause = arrived, t.home_G[g] * N + s.at_HGM[1, g, k]
            took = t.duration_RT[rank, token]
            end = start + took
            s.left_R[rank] -= took
            if end + s.left_R[rank] > limit:
                return NEVER
            s.cause_RN[rank, position] = cause
            if gf >= 0:
                if start + t.tail_HG[0, gf] > limit:
                    return NEVER
                k = s.done_HG[0, gf]
                s.out_HGM[0, gf, k] = start + t.makes_HRT[0, rank, token]
                total += start
                s.at_HGM[0, gf, k] = position
                s.done_HG[0, gf] = k + 1
                g = t.after_G[gf]
                if g >= 0 and s.waits_R[t.home_G[g]] == g:
                    s.waits_R[t.home_G[g]] = -1
                    s.awake_R[num_awake] = t.home_G[g]
                    num_awake += 1
            if gb >= 0:
                if start + t.tail_HG[1, gb] > limit:
                    return NEVER
                k = s.done_HG[1, gb]
                s.out_HGM[1, gb, k] = start + t.makes_HRT[1, rank, token]
                total += start
                s.at_HGM[1, gb, k] = position
                s.done_HG[1, gb] = k + 1
                g = t.before_G[gb]
                if g >= 0 and s.waits_R[t.home_G[g]] == len(t.home_G) + g:
                    s.waits_R[t.home_G[g]] = -1
                    s.awake_R[num_awake] = t.home_G[g]
                    num_awake += 1
            now = end
            position += 1
        s.head_R[rank], s.free_R[rank] = position, now
        if now > makespan:
            makespan, last = now, rank
        num_done += position == s.length_R[rank]
    if num_done < R:
        return NEVER
    s.last_0[0] = last
    s.last_0[1] = total
    return makespan


@compiled_part
def _path(s: State) -> int:
    """Fill `path_P` with the tokens that decide the makespan, from the last on; how many they are."""
    N = s.order_RN.shape[1]
    at = s.last_0[0] * N + s.length_R[s.last_0[0]] - 1
    num = 0
    while at >= 0:
        s.path_P[num] = at
        num += 1
        at = s.cause_RN[at // N, at % N]
    return num


@compiled_part
def _copy(of: Any, to: Any, length: int) -> None:
    for at in range(length):  # assigning a slice takes long to compile
        to[at] = of[at]


@compiled_part
def _keep(s: State, best_RN: Any, best_length_R: Any) -> None:
    for rank in range(len(best_length_R)):
        best_length_R[rank] = s.length_R[rank]
        _copy(s.order_RN[rank], best_RN[rank], s.length_R[rank])


@compiled_part
def _remove(row: Any, length: int, position: int) -> int:
    for at in range(position, length - 1):
        row[at] = row[at + 1]
    return length - 1


@compiled_part
def _insert(row: Any, length: int, position: int, token: int) -> int:
    for at in range(length, position, -1):
        row[at] = row[at - 1]
    row[position] = token
    return length + 1


@compiled_part
def _far(length: int) -> int:
    """A distance of one to the length, small ones as often as large ones of the same ratio."""
    return int(np.exp(np.random.random() * np.log(length)))


@compiled_part
def _other(row: Any, length: int, position: int) -> int:
    """A position at such a distance on either side; -1 where that is outside."""
    distance = _far(length)
    found = position + distance if np.random.random() < 0.5 else position - distance
    return found if 0 <= found < length else -1


@compiled_part
def _changed(row: Any, length: int, position: int, V: int, may_merge: bool, may_split: bool) -> int:
    """Make one random move at a position; the new length, or -1 for none."""
    other = _other(row, length, position)
    if other < 0:
        return -1
    token, chance = row[position], np.random.random()
    f, b = _halves(token, V)
    if chance < 0.4:
        return _insert(row, _remove(row, length, position), other, token)
    if chance < 0.55:
        row[position], row[other] = row[other], token
        return -1 if row[position] == token else length
    if 2 * V <= token < 4 * V:  # I or W: one B with its other half, at either's place
        if not may_split:
            return -1
        wanted = token + V if token < 3 * V else token - V
        step = 1 if token < 3 * V else -1
        at = position + step
        while 0 <= at < length and row[at] != wanted:
            at += step
        if not 0 <= at < length:
            return -1
        keep, drop = (position, at) if np.random.random() < 0.5 else (at, position)
        row[keep] = V + token % V
        return _remove(row, length, drop)
    if f >= 0 and b >= 0 and chance < 0.7:  # F&B apart
        first, second = (f, V + b) if np.random.random() < 0.5 else (V + b, f)
        row[position] = first
        if may_split and second >= V and np.random.random() < 0.3:
            row[position], second = second, first
        return _insert(row, length, position + 1, second)
    if f < 0 and may_split and chance < 0.75:  # B as I and W
        row[position] = 2 * V + b
        later = min(position + _far(length), length)
        return _insert(row, length, later, 3 * V + b)
    if not may_merge:
        return -1
    of, ob = _halves(row[other], V)
    if 2 * V <= row[other] < 4 * V:
        return -1
    if f >= 0 and of >= 0 and b < 0 and ob < 0:
        return -1
    if b >= 0 and ob >= 0 and f < 0 and of < 0:
        return -1
    if (f < 0 and ob < 0) or (b < 0 and of < 0):  # F and B as one F&B
        merged = 4 * V + V * max(f, of) + max(b, ob)
        keep, drop = (position, other) if np.random.random() < 0.5 else (other, position)
        row[keep] = merged
        return _remove(row, length, drop)
    # F&B and another: exchange a half
    if of >= 0 and f >= 0 and (ob < 0 or b < 0 or np.random.random() < 0.5):
        f, of = of, f
        if f == of:
            b, ob = ob, b
            if ob >= 0 and b >= 0:
                return -1
    else:
        b, ob = ob, b
        if b == ob:
            f, of = of, f
            if of >= 0 and f >= 0:
                return -1
    row[position] = f if b < 0 else V + b if f < 0 else 4 * V + V * f + b
    row[other] = of if ob < 0 else V + ob if of < 0 else 4 * V + V * of + ob
    return length


@compiled_part
def _next_swap(s: State, marks_RN: Any, cursor: Any) -> bool:
    """Step to the next two positions of a rank (rank, first, second) of which a swap may shorten the step: one is on
    the path that decides it, and they are not both inside one run of it. False after all of them, if none of them was
    swapped."""
    R = len(s.length_R)
    while cursor[0] < R:
        rank, first = cursor[0], cursor[1]
        cursor[2] += 1
        if cursor[2] >= s.length_R[rank]:
            cursor[1] += 1
            cursor[2] = cursor[1]
            if cursor[1] >= s.length_R[rank] - 1:
                cursor[0], cursor[1], cursor[2] = rank + 1, 0, 0
                if rank == R - 1 and cursor[3]:
                    cursor[0] = cursor[3] = 0
            continue
        one, other = marks_RN[rank, first], marks_RN[rank, cursor[2]]
        if s.order_RN[rank, first] != s.order_RN[rank, cursor[2]] and (one > 0 or other > 0) and not one == other > 1:
            return True
    return False


@compiled_part
def _mark(s: State, on_path: int, marks_RN: Any) -> None:
    """1 for the first and the last token of a run of the path on a rank, the run's number for those between."""
    N = s.order_RN.shape[1]
    for rank in range(len(marks_RN)):
        for position in range(s.length_R[rank]):
            marks_RN[rank, position] = 0
    run = 2
    for at in range(on_path):
        here = s.path_P[at]
        joins_later = at > 0 and s.path_P[at - 1] == here + 1
        joins_earlier = at + 1 < on_path and s.path_P[at + 1] == here - 1 and here % N > 0
        run += not joins_later
        marks_RN[here // N, here % N] = run if joins_later and joins_earlier else 1


@compiled
def search(
    t: Tables, s: State, best_RN: Any, best_length_R: Any, seed: int, num_moves: int, warm: float, cold: float,
    soon: float, may_merge: bool, may_split: bool, num_swaps: int, cursor: Any,
) -> tuple[int, int]:  # fmt: skip
    """Anneal an order that can run, then swap tokens of a rank as long as that helps. Fills the best order.

    num_moves: random moves; one that makes the step longer by x is taken with a chance of exp(-x / heat), the heat
    falls from `warm` to `cold`. soon: what the mean start of all halves counts beside the step, so that there is a way
    down where many paths decide the step. num_swaps: tried at most after that; one is made if it saves 0.05 %.
    cursor: where they go on; zeros to begin with.
    Returns the step's time, `NEVER` where the order cannot run or does not fit, and 1 where all swaps were tried.
    """
    np.random.seed(seed)
    R, V = t.stage_RV.shape
    N = s.order_RN.shape[1]
    share = soon / s.out_HGM.size
    kept = np.empty(N, s.order_RN.dtype)
    marks_RN = np.zeros((R, N), np.int32)
    now = best = NEVER
    mean, limit, on_path = 0.0, float(NEVER), 0
    rank = position = changed = 0
    for move in range(-1, num_moves + num_swaps + 1):
        row, length = s.order_RN[rank], s.length_R[rank]
        if 0 <= move < num_moves:
            if np.random.random() < 0.85:
                at = s.path_P[np.random.randint(on_path)]
                rank, position = at // N, at % N
            else:
                rank = np.random.randint(R)
                position = np.random.randint(max(s.length_R[rank], 1))
            row, length = s.order_RN[rank], s.length_R[rank]
            _copy(row, kept, length)
            changed = _changed(row, length, position, V, may_merge, may_split)
            heat = warm * (cold / warm) ** (move / num_moves)
            limit = now + mean - heat * np.log(1 - np.random.random())
        elif move == num_moves:  # back to the best, whose path is needed
            for each in range(R):
                s.length_R[each] = best_length_R[each]
                _copy(best_RN[each], s.order_RN[each], best_length_R[each])
            share, mean, limit, length = 0.0, 0.0, float(NEVER), s.length_R[rank]
            _copy(row, kept, length)
            changed = length
        elif move > num_moves:
            if not _next_swap(s, marks_RN, cursor):
                return best, 1
            rank = cursor[0]
            row, length = s.order_RN[rank], s.length_R[rank]
            _copy(row, kept, length)
            row[cursor[1]], row[cursor[2]] = row[cursor[2]], row[cursor[1]]
            changed, limit = length, now - max(1, now // 2_000)
        took = NEVER
        may_run = changed > 0 or move < 0
        if move >= 0 and may_run:
            s.length_R[rank] = changed
        for each in range(0 if move < 0 else rank, R if move < 0 else rank + 1):
            may_run = may_run and _may_run(each, t, s)
        if may_run:
            took = _run(t, s, int(limit - 0.98 * mean), move)
        if took < NEVER and took + share * s.last_0[1] <= limit:
            now, mean = took, share * s.last_0[1]
            on_path = _path(s)
            if move >= num_moves:
                _mark(s, on_path, marks_RN)
                cursor[3] |= move > num_moves
            if now < best or move == num_moves:
                best = now
                _keep(s, best_RN, best_length_R)
        elif move < 0:
            return NEVER, 0
        else:
            _copy(kept, row, length)
            s.length_R[rank] = length
    return best, 0

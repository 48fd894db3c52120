"""The compiled part of `improve`: one layer after the other, step by step. improve.py says what a step is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weftrace.compiled import compiled_part, compiled_when_slow
from weftrace.experts.arrays import Bools, Floats, Ints


class Gpus(NamedTuple):
    """The GPUs of all layers."""

    gpu_of_slot_P: Ints
    first_slot_G: Ints
    pace_G: Floats  # 1 / speed
    node_of_gpu_G: Ints


class _State(NamedTuple):
    """One layer on its way. Loads are over the mean time, so a perfectly balanced GPU has the time 1."""

    expert_P: Ints
    part_P: Floats  # load of each slot
    gpu_of_slot_P: Ints
    first_slot_G: Ints
    load_G: Floats
    pace_G: Floats  # 1 / speed
    node_of_gpu_G: Ints
    load_N: Floats
    copies_N: Ints
    home_N: Ints
    locked_P: Bools
    on_GN: Ints  # copies of an expert on a GPU, now
    was_GN: Ints  # and before
    first_N: Ints  # an expert's slots, as a linked list
    next_P: Ints
    added_G: Floats  # scratch, zeros
    loss_P: Floats  # what the sum rises by if a slot's expert has to do with its other copies; inf: not allowed
    step_22: Ints  # the best step: its one or two slots, each with its new expert


@compiled_when_slow
def walk(
    map_LP: Ints,
    before_LP: Ints,
    load_LN: Floats,
    gpus: Gpus,
    home_LN: Ints,
    locked_LP: Bools,
    slack: float,
    max_changed: int,
    seed: int,
) -> tuple[Ints, Ints, Ints, Ints, Floats]:
    """Parts of `Paths`. load_LN: over the mean time of a GPU; the rest as in `improve`."""
    num_layers, num_slots = map_LP.shape
    pace_G = gpus.pace_G
    num_experts, num_gpus = load_LN.shape[1], len(pace_G)
    most = 2 * max_changed + 2
    num_steps_L = np.zeros(num_layers, dtype=np.int64)
    put_LJ2 = np.full((num_layers, most, 2), -1, dtype=np.int64)
    num_puts_LK = np.zeros((num_layers, most + 1), dtype=np.int64)
    changed_LK = np.zeros((num_layers, most + 1), dtype=np.int64)
    worst_LK = np.zeros((num_layers, most + 1), dtype=np.float64)
    on_GN = np.zeros((num_gpus, num_experts), dtype=np.int64)
    was_GN = np.zeros((num_gpus, num_experts), dtype=np.int64)
    for layer in range(num_layers):
        state = _State(
            map_LP[layer].copy(), np.zeros(num_slots), gpus.gpu_of_slot_P, gpus.first_slot_G, np.zeros(num_gpus),
            pace_G, gpus.node_of_gpu_G, load_LN[layer], np.zeros(num_experts, dtype=np.int64), home_LN[layer],
            locked_LP[layer], on_GN, was_GN, np.full(num_experts, -1, dtype=np.int64),
            np.full(num_slots, -1, dtype=np.int64), np.zeros(num_gpus), np.zeros(num_slots),
            np.zeros((2, 2), dtype=np.int64),
        )  # fmt: skip
        changed, num_puts, num_steps = _start(state, before_LP[layer]), 0, 0
        full = _fullest(state)
        changed_LK[layer, 0], worst_LK[layer, 0] = changed, state.load_G[full] * pace_G[full]
        while changed - changed_LK[layer, 0] < max_changed and num_puts + 2 <= most:
            size = _best_step(state, full, slack, seed)
            if not size:
                break
            for at in range(size):
                slot, expert = state.step_22[at, 0], state.step_22[at, 1]
                put_LJ2[layer, num_puts, 0], put_LJ2[layer, num_puts, 1] = slot, expert
                num_puts += 1
            changed += _apply(state, size)
            num_steps += 1
            full = _fullest(state)
            num_puts_LK[layer, num_steps] = num_puts
            changed_LK[layer, num_steps] = changed
            worst_LK[layer, num_steps] = state.load_G[full] * pace_G[full]
        num_steps_L[layer] = num_steps
    return num_steps_L, put_LJ2, num_puts_LK, changed_LK, worst_LK


@compiled_part
def _start(state: _State, before_P: Ints) -> int:
    """Fill in copies, loads and lists from the map; returns how many slots differ from `before_P` already."""
    state.on_GN[:] = 0
    state.was_GN[:] = 0
    changed = 0
    for slot in range(len(before_P)):
        gpu, before, now = state.gpu_of_slot_P[slot], before_P[slot], state.expert_P[slot]
        if before >= 0:
            state.was_GN[gpu, before] += 1
        if now >= 0:
            state.on_GN[gpu, now] += 1
            state.copies_N[now] += 1
            state.next_P[slot], state.first_N[now] = state.first_N[now], slot
    for slot in range(len(before_P)):
        gpu, now = state.gpu_of_slot_P[slot], state.expert_P[slot]
        if now >= 0:
            state.part_P[slot] = state.load_N[now] / state.copies_N[now]
            state.load_G[gpu] += state.part_P[slot]
    for gpu in range(len(state.load_G)):
        for expert in range(len(state.load_N)):
            changed += max(0, state.on_GN[gpu, expert] - state.was_GN[gpu, expert])
    return changed


@compiled_part
def _fullest(state: _State) -> int:
    full = 0
    for gpu in range(len(state.load_G)):
        if state.load_G[gpu] * state.pace_G[gpu] > state.load_G[full] * state.pace_G[full]:
            full = gpu
    return full


@compiled_part
def _apply(state: _State, size: int) -> int:
    """Take the step in `step_22`; returns by how many the changed slots grow (it can be less than 0)."""
    grown = 0
    for at in range(size):
        slot, expert = state.step_22[at, 0], state.step_22[at, 1]
        gpu, old = state.gpu_of_slot_P[slot], state.expert_P[slot]
        if state.on_GN[gpu, old] > state.was_GN[gpu, old]:
            grown -= 1
        state.on_GN[gpu, old] -= 1
        if state.on_GN[gpu, expert] >= state.was_GN[gpu, expert]:
            grown += 1
        state.on_GN[gpu, expert] += 1
        if state.first_N[old] == slot:
            state.first_N[old] = state.next_P[slot]
        else:
            before = state.first_N[old]
            while state.next_P[before] != slot:
                before = state.next_P[before]
            state.next_P[before] = state.next_P[slot]
        state.next_P[slot], state.first_N[expert] = state.first_N[expert], slot
        state.copies_N[old] -= 1
        state.copies_N[expert] += 1
        state.load_G[gpu] -= state.part_P[slot]
        state.part_P[slot] = 0.0
        state.expert_P[slot] = expert
        _weigh(state, old)
        _weigh(state, expert)
    return grown


@compiled_part
def _weigh(state: _State, expert: int) -> None:
    """Give every copy of an expert its even part of the load."""
    at = state.first_N[expert]
    while at >= 0:
        part = state.load_N[expert] / state.copies_N[expert]
        state.load_G[state.gpu_of_slot_P[at]] += part - state.part_P[at]
        state.part_P[at] = part
        at = state.next_P[at]


@compiled_part
def _best_step(state: _State, full: int, slack: float, seed: int) -> int:
    """Slots of the step with the largest gain for each that changes, which is left in `step_22`; 0: there is none."""
    limit = state.load_G[full] * state.pace_G[full] * (1.0 - 1e-9)
    _price_losses(state, slack)
    best, size = _best_swap(state, full, slack, limit, seed)
    best, found = _best_new_copy(state, full, slack, limit, best, seed)
    size = found if found else size
    best, found = _best_lost_copy(state, full, slack, limit, best, seed)
    return found if found else size


@compiled_part
def _badness(time: float, slack: float) -> float:
    """A GPU's part of the sum that steps lower; `time` is over the mean."""
    late = time - 1.0 - slack
    return (late if late > 0.0 else 0.0) + 0.05 * (time - 1.0) * (time - 1.0)


@compiled_part
def _weight(seed: int, one: int, other: int) -> float:
    """1 with seed 0, else a number from 0.9 to 1.1 that depends on nothing but these three."""
    if seed == 0:
        return 1.0
    mixed = (one * 73856093) ^ (other * 19349663) ^ (seed * 83492791)
    mixed = (mixed ^ (mixed >> 13)) * 1274126177
    return 0.9 + 0.2 * ((mixed >> 8) & 0xFFFF) / 65535.0


@compiled_part
def _best_swap(state: _State, full: int, slack: float, limit: float, seed: int) -> tuple[float, int]:
    """A larger expert of the fullest GPU for a smaller one of another."""
    # The arrays get names of their own here and below: to pass the whole state on in an inner loop costs more than
    # what is computed there.
    load_G, pace_G, on_GN, was_GN, home_N = state.load_G, state.pace_G, state.on_GN, state.was_GN, state.home_N
    expert_P, part_P, locked_P, first_slot_G = state.expert_P, state.part_P, state.locked_P, state.first_slot_G
    best, size = 0.0, 0
    load_full, pace_full, node_full = load_G[full], pace_G[full], state.node_of_gpu_G[full]
    for gpu in range(len(load_G)):
        load_gpu, pace_gpu, node = load_G[gpu], pace_G[gpu], state.node_of_gpu_G[gpu]
        room = limit / pace_gpu - load_gpu
        now = _badness(load_full * pace_full, slack) + _badness(load_gpu * pace_gpu, slack)
        if gpu == full or room <= 0.0:
            continue
        for slot in range(first_slot_G[full], first_slot_G[full + 1]):
            a, part = expert_P[slot], part_P[slot]
            if a < 0 or on_GN[gpu, a] or locked_P[slot]:
                continue
            if node != node_full and home_N[a] >= 0 and home_N[a] != node:
                continue
            for other in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
                moved = part - part_P[other]
                if moved <= 0.0 or moved >= room:
                    continue
                gain = (
                    now
                    - _badness((load_full - moved) * pace_full, slack)
                    - _badness((load_gpu + moved) * pace_gpu, slack)
                )
                if 2.0 * gain <= best:
                    continue
                b = expert_P[other]
                if b < 0 or on_GN[full, b] or locked_P[other]:
                    continue
                if node != node_full and home_N[b] >= 0 and home_N[b] != node_full:
                    continue
                price = 0
                for there, new, old in ((gpu, a, b), (full, b, a)):
                    price += 1 if on_GN[there, new] >= was_GN[there, new] else 0
                    price -= 1 if on_GN[there, old] > was_GN[there, old] else 0
                gain = (gain / price if price > 0 else 2.0 * gain) * _weight(seed, slot, other)
                if gain > best:
                    best, size = gain, 2
                    state.step_22[0, 0], state.step_22[0, 1] = slot, b
                    state.step_22[1, 0], state.step_22[1, 1] = other, a
    return best, size


@compiled_part
def _price_losses(state: _State, slack: float) -> None:
    """Fill in `loss_P`."""
    expert_P, first_N, next_P, gpu_of_slot_P = state.expert_P, state.first_N, state.next_P, state.gpu_of_slot_P
    load_G, pace_G, loss_P = state.load_G, state.pace_G, state.loss_P
    for slot in range(len(expert_P)):
        loss_P[slot] = np.inf
        expert = expert_P[slot]
        if expert < 0 or state.locked_P[slot] or state.copies_N[expert] < 2:
            continue
        more = state.load_N[expert] / (state.copies_N[expert] - 1) - state.part_P[slot]
        loss = 0.0
        at = first_N[expert]
        while at >= 0:
            gpu = gpu_of_slot_P[at]
            if gpu != gpu_of_slot_P[slot]:
                time = load_G[gpu] * pace_G[gpu]
                loss += _badness(time + more * pace_G[gpu], slack) - _badness(time, slack)
            at = next_P[at]
        loss_P[slot] = loss


@compiled_part
def _best_new_copy(state: _State, full: int, slack: float, limit: float, best: float, seed: int) -> tuple[float, int]:
    """Another copy of one of the fullest GPU's experts, elsewhere."""
    load_G, pace_G, on_GN, was_GN, home_N = state.load_G, state.pace_G, state.on_GN, state.was_GN, state.home_N
    expert_P, copies_N, gpu_of_slot_P = state.expert_P, state.copies_N, state.gpu_of_slot_P
    load_N, part_P, loss_P = state.load_N, state.part_P, state.loss_P
    size = 0
    # Only half the loss is held against a step before it is computed in full: GPUs that lose one copy's and gain the
    # other's load have less of it.
    for at in range(state.first_slot_G[full], state.first_slot_G[full + 1]):
        a = expert_P[at]
        if a < 0:
            continue
        mine = load_N[a] / (copies_N[a] + 1)
        relief = _relief(a, slack, load_N, copies_N, state.first_N, state.next_P, gpu_of_slot_P, part_P, load_G, pace_G)
        for slot in range(len(expert_P)):
            b, gpu = expert_P[slot], gpu_of_slot_P[slot]
            if loss_P[slot] == np.inf or gpu == full or on_GN[gpu, a]:
                continue
            if home_N[a] >= 0 and home_N[a] != state.node_of_gpu_G[gpu]:
                continue
            price = (1 if on_GN[gpu, a] >= was_GN[gpu, a] else 0) - (1 if on_GN[gpu, b] > was_GN[gpu, b] else 0)
            factor = 1.0 if price > 0 else 2.0
            time = load_G[gpu] * pace_G[gpu]
            here = _badness(time, slack) - _badness(time + (mine - part_P[slot]) * pace_G[gpu], slack)
            if factor * (relief + here - 0.5 * loss_P[slot]) <= best:
                continue
            gain = factor * _gain_of_put(state, slot, a, slack, limit) * _weight(seed, slot, a)
            if gain > best:
                best, size = gain, 1
                state.step_22[0, 0], state.step_22[0, 1] = slot, a
    return best, size


@compiled_part
def _best_lost_copy(state: _State, full: int, slack: float, limit: float, best: float, seed: int) -> tuple[float, int]:
    """Another expert in place of a copy on the fullest GPU."""
    load_G, pace_G, on_GN, was_GN, home_N = state.load_G, state.pace_G, state.on_GN, state.was_GN, state.home_N
    load_N, copies_N = state.load_N, state.copies_N
    size = 0
    time, pace = load_G[full] * pace_G[full], pace_G[full]
    now, steepest = _badness(time, slack), (1.0 + 0.1 * time) * pace_G.max()
    for slot in range(state.first_slot_G[full], state.first_slot_G[full + 1]):
        b, part, loss = state.expert_P[slot], state.part_P[slot], state.loss_P[slot]
        if loss == np.inf:
            continue
        undone = on_GN[full, b] > was_GN[full, b]
        for a in range(len(load_N)):
            mine = load_N[a] / (copies_N[a] + 1)
            if mine >= part or on_GN[full, a] or (home_N[a] >= 0 and home_N[a] != state.node_of_gpu_G[full]):
                continue
            factor = 1.0 if on_GN[full, a] >= was_GN[full, a] and not undone else 2.0
            here = now - _badness(time + (mine - part) * pace, slack) - 0.5 * loss
            if factor * (here + mine * steepest) <= best:  # its other copies lose `mine` in sum
                continue
            relief = _relief(
                a,
                slack,
                load_N,
                copies_N,
                state.first_N,
                state.next_P,
                state.gpu_of_slot_P,
                state.part_P,
                load_G,
                pace_G,
            )
            if factor * (here + relief) <= best:
                continue
            gain = factor * _gain_of_put(state, slot, a, slack, limit) * _weight(seed, slot, a)
            if gain > best:
                best, size = gain, 1
                state.step_22[0, 0], state.step_22[0, 1] = slot, a
    return best, size


@compiled_part
def _relief(
    expert: int, slack: float, load_N: Floats, copies_N: Ints, first_N: Ints, next_P: Ints, gpu_of_slot_P: Ints,
    part_P: Floats, load_G: Floats, pace_G: Floats,
) -> float:  # fmt: skip
    """By how much the sum would fall if the expert got another copy that weighs nothing where it stands."""
    mine = load_N[expert] / (copies_N[expert] + 1)
    relief = 0.0
    at = first_N[expert]
    while at >= 0:
        time = load_G[gpu_of_slot_P[at]] * pace_G[gpu_of_slot_P[at]]
        fall = (part_P[at] - mine) * pace_G[gpu_of_slot_P[at]]
        relief += max(0.0, _badness(time, slack) - _badness(time - fall, slack))
        at = next_P[at]
    return relief


@compiled_part
def _gain_of_put(state: _State, slot: int, expert: int, slack: float, limit: float) -> float:
    """By how much the sum falls if the slot gets the expert; -inf if a GPU that gets load ends above the limit."""
    old, added_G, gpu_of_slot_P, part_P = state.expert_P[slot], state.added_G, state.gpu_of_slot_P, state.part_P
    first_N, next_P = state.first_N, state.next_P
    more = state.load_N[old] / (state.copies_N[old] - 1) - part_P[slot]
    mine = state.load_N[expert] / (state.copies_N[expert] + 1)
    added_G[gpu_of_slot_P[slot]] = mine - part_P[slot]
    at = first_N[old]
    while at >= 0:
        if at != slot:
            added_G[gpu_of_slot_P[at]] += more
        at = next_P[at]
    at = first_N[expert]
    while at >= 0:
        added_G[gpu_of_slot_P[at]] += mine - part_P[at]
        at = next_P[at]
    gain = 0.0
    for who in (old, expert):  # the slot's own GPU is among those of `old`
        at = first_N[who]
        while at >= 0:
            gpu = gpu_of_slot_P[at]
            added = added_G[gpu]
            if added != 0.0:
                added_G[gpu] = 0.0
                time = state.load_G[gpu] * state.pace_G[gpu]
                then = time + added * state.pace_G[gpu]
                if added > 0 and then > limit:
                    gain = -np.inf
                gain += _badness(time, slack) - _badness(then, slack)
            at = next_P[at]
    return gain

"""How many copies of each expert does each node hold, when most of a group's replicas stay at home?

A replica on a node that is not its group's home is foreign, and a node takes few of these. The search starts with all
at home and lowers

    sum over nodes of (load - its part of the mean)^2
    + sum over replicas above `largest` of (what is above)^2
    + sum over nodes of (`big` x its part a GPU x big replicas above one a GPU)^2

(a replica is big above `big` of what a GPU should have: two of them do not fit on one) by the best of two kinds of
steps: a replica of one node changes places with one of another node (a swap), or a slot gets another expert (a trade:
one expert loses a copy, another gains one). Copies of an expert take equal parts wherever they are.

Plain loops, because Numba takes seconds to compile what adds up, sorts and assigns whole arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.experts.arrays import Floats, Ints

MAX_STEPS = 150
GREAT = 0.3  # a swap that takes this part of the squares away is taken without a look at trades, which cost more time
WINNERS = 96  # experts that a trade may give a copy to: those with the largest replicas
CLOSE = 2e-5  # the search ends when no node is further above its part of the mean, relative


class NodeState(NamedTuple):
    """One layer. N experts, D nodes.

    load_N, home_N: of experts. slots_D, gpus_D: slots to fill and the most copies of an expert that a node may have.
    most_D: copies of an expert that a step may bring a node to. part_D: the load that a node should have.
    least_ND: copies that pins ask for. largest: size that a replica may have. big: see above.
    copies_ND, total_N, load_D, foreign_D, big_D: the answer so far, its sums over nodes, loads of nodes, and replicas
        that are foreign or big.
    """

    load_N: Floats
    home_N: Ints
    slots_D: Ints
    gpus_D: Ints
    most_D: Ints
    part_D: Floats
    least_ND: Ints
    largest: float
    big: float
    max_foreign: int
    copies_ND: Ints
    total_N: Ints
    load_D: Floats
    foreign_D: Ints
    big_D: Ints


@compiled
def node_counts(
    load_LN: Floats,
    home_LN: Ints,
    slots_LD: Ints,
    gpus_LD: Ints,
    most_LD: Ints,
    speed_LD: Floats,
    least_LND: Ints,
    largest_L: Floats,
    big: float,
    max_foreign: int,
    max_steps: int,
) -> Ints:
    """int64 [L, N, D] copies on each node: row sums at least 1, slots_LD in sum, a foreign one where it pays.

    max_steps: of the search of a layer.
    A layer for which no start is found (too few slots at home and too few foreign replicas allowed) is all zeros.
    """
    num_layers, num_experts = load_LN.shape
    num_nodes = slots_LD.shape[1]
    copies_LND = np.zeros((num_layers, num_experts, num_nodes), dtype=np.int64)
    for layer in range(num_layers):
        state = NodeState(
            load_LN[layer],
            home_LN[layer],
            slots_LD[layer],
            gpus_LD[layer],
            most_LD[layer],
            _parts(_sum(load_LN[layer]), speed_LD[layer]),
            least_LND[layer],
            largest_L[layer],
            big,
            max_foreign,
            copies_LND[layer],
            np.zeros(num_experts, dtype=np.int64),
            np.zeros(num_nodes),
            np.zeros(num_nodes, dtype=np.int64),
            np.zeros(num_nodes, dtype=np.int64),
        )
        if not _start(state):
            for expert in range(num_experts):
                for node in range(num_nodes):
                    state.copies_ND[expert, node] = 0
            continue
        for _ in range(max_steps):
            _weigh(state)
            if _is_close(state) or not _step(state):
                break
    return copies_LND


@compiled_part
def _start(state: NodeState) -> bool:
    """All experts at home, with what pins ask for; then copies for the largest replicas at home. False: no room."""
    num_experts, num_nodes = state.copies_ND.shape
    spare_D = np.empty(num_nodes, dtype=np.int64)
    for node in range(num_nodes):
        spare_D[node] = state.slots_D[node]
    for expert in range(num_experts):
        home = state.home_N[expert]
        for node in range(num_nodes):
            copies = max(1 if node == home else 0, state.least_ND[expert, node])
            state.copies_ND[expert, node] = copies
            state.total_N[expert] += copies
            state.foreign_D[node] += 0 if node == home else copies
            spare_D[node] -= copies
    for node in range(num_nodes):
        while spare_D[node] < 0:
            if not _evict(state, node, spare_D):
                return False
    for node in range(num_nodes):
        for _ in range(spare_D[node]):
            best = -1
            for expert in range(num_experts):
                may = state.home_N[expert] == node and state.copies_ND[expert, node] < state.gpus_D[node]
                if may and (best < 0 or _value(state, expert) > _value(state, best)):
                    best = expert
            if best < 0:
                return False
            state.copies_ND[best, node] += 1
            state.total_N[best] += 1
    for node in range(num_nodes):  # noqa: SIM110
        if state.foreign_D[node] > state.max_foreign:
            return False
    return True


@compiled_part
def _evict(state: NodeState, node: int, spare_D: Ints) -> bool:
    """Free a slot of a node that has fewer than its experts need: its lightest expert moves to the roomiest node."""
    best = -1
    for expert in range(len(state.load_N)):
        may = state.copies_ND[expert, node] > state.least_ND[expert, node] and state.home_N[expert] == node
        if may and (best < 0 or state.load_N[expert] < state.load_N[best]):
            best = expert
    if best < 0:
        return False
    if state.total_N[best] == 1:
        to = -1
        for other in range(len(spare_D)):
            has_room = other != node and spare_D[other] > 0 and state.foreign_D[other] < state.max_foreign
            if has_room and (to < 0 or spare_D[other] > spare_D[to]):
                to = other
        if to < 0:
            return False
        state.copies_ND[best, to] += 1
        state.foreign_D[to] += 1
        state.total_N[best] += 1
        spare_D[to] -= 1
    state.copies_ND[best, node] -= 1
    state.total_N[best] -= 1
    spare_D[node] += 1
    return True


@compiled_part
def _value(state: NodeState, expert: int) -> float:
    return float(state.load_N[expert] / state.total_N[expert])


@compiled_part
def _weigh(state: NodeState) -> None:
    """Sum up the nodes' loads anew: no drift from step to step."""
    for node in range(len(state.load_D)):
        state.load_D[node], state.big_D[node] = 0.0, 0
    for expert in range(len(state.load_N)):
        value = _value(state, expert)
        for node in range(len(state.load_D)):
            state.load_D[node] += value * state.copies_ND[expert, node]
            state.big_D[node] += _is_big(state, value, node) * state.copies_ND[expert, node]


@compiled_part
def _is_big(state: NodeState, value: float, node: int) -> int:
    return 1 if value * state.gpus_D[node] > state.big * state.part_D[node] else 0


@compiled_part
def _crowded(state: NodeState, node: int, big: int) -> float:
    """The third sum's term of a node with so many big replicas."""
    over = max(0, big - state.gpus_D[node]) * state.big * state.part_D[node] / max(1, state.gpus_D[node])
    return float(over * over)


@compiled_part
def _is_even(state: NodeState) -> bool:
    """No replica is too large, and no node has too many big ones."""
    for node in range(len(state.big_D)):
        if state.big_D[node] > state.gpus_D[node]:
            return False
    for expert in range(len(state.load_N)):  # noqa: SIM110 # Numba knows no generators
        if _value(state, expert) > state.largest * (1 + 1e-9):
            return False
    return True


@compiled_part
def _is_close(state: NodeState) -> bool:
    for node in range(len(state.load_D)):
        if state.load_D[node] > state.part_D[node] * (1 + CLOSE):
            return False
    return _is_even(state)


@compiled_part
def _step(state: NodeState) -> bool:
    """Take the best step; False where none lowers the sum of squares."""
    scale = _sum(state.load_N) ** 2 * 1e-15
    swap_gain, swap_4 = _best_swap(state)
    trade_gain, trade_3 = 0.0, (-1, -1, -1)
    if swap_gain < GREAT * _squares(_over(state)) or not _is_even(state):
        trade_gain, trade_3 = _best_trade(state)
    if max(swap_gain, trade_gain) <= scale:
        return False
    if swap_gain >= trade_gain:
        one, here, other, there = swap_4
        _move(state, one, here, -1)
        _move(state, one, there, 1)
        _move(state, other, there, -1)
        _move(state, other, here, 1)
    else:
        loser, winner, node = trade_3
        _move(state, loser, node, -1)
        _move(state, winner, node, 1)
    return True


@compiled_part
def _move(state: NodeState, expert: int, node: int, change: int) -> None:
    state.copies_ND[expert, node] += change
    state.total_N[expert] += change
    if state.home_N[expert] != node:
        state.foreign_D[node] += change


@compiled_part
def _fits(state: NodeState, loser: int, winner: int, node: int) -> bool:
    """May a copy of the loser on the node make way for one of the winner?"""
    foreign = state.foreign_D[node] + (state.home_N[winner] != node) - (state.home_N[loser] != node)
    return (
        loser != winner
        and foreign <= max(state.max_foreign, state.foreign_D[node])
        and state.copies_ND[loser, node] > state.least_ND[loser, node]
        and state.copies_ND[winner, node] < state.most_D[node]
    )


@compiled_part
def _extreme_nodes(over_D: Floats) -> Ints:
    """The two nodes with least load and the two with most: of many nodes these are the ones to change."""
    order_D = np.empty(len(over_D), dtype=np.int64)
    for node in range(len(over_D)):
        at = node
        while at > 0 and over_D[order_D[at - 1]] > over_D[node]:
            order_D[at] = order_D[at - 1]
            at -= 1
        order_D[at] = node
    if len(order_D) <= 4:
        return order_D
    order_D[2], order_D[3] = order_D[-2], order_D[-1]
    return order_D[:4]


@compiled_part
def _best_swap(state: NodeState) -> tuple[float, tuple[int, int, int, int]]:
    """(gain, (one, here, other, there)): a copy of `one` goes from here to there, one of `other` the other way."""
    num_experts, num_nodes = state.copies_ND.shape
    best, best_4 = 0.0, (-1, -1, -1, -1)
    over_D = _over(state)
    heres: Ints = _extreme_nodes(over_D)
    for here in heres:
        for there in range(num_nodes):
            apart = over_D[here] - over_D[there]
            if here == there:
                continue
            crowd = _crowded(state, here, state.big_D[here]) + _crowded(state, there, state.big_D[there])
            if apart <= 0 and crowd == 0:
                continue
            for one in range(num_experts):
                if state.copies_ND[one, here] == 0:
                    continue
                value = _value(state, one)
                for other in range(num_experts):
                    if state.copies_ND[other, there] == 0:
                        continue
                    shift = value - _value(state, other)
                    # (a - s)^2 + (b + s)^2 against a^2 + b^2
                    gain = 2 * shift * (apart - shift)
                    if gain + crowd <= best:
                        continue
                    worth = value - shift
                    leaves = _is_big(state, value, here) - _is_big(state, worth, here)
                    comes = _is_big(state, value, there) - _is_big(state, worth, there)
                    gain += crowd - _crowded(state, here, state.big_D[here] - leaves)
                    gain -= _crowded(state, there, state.big_D[there] + comes)
                    if gain <= best:
                        continue
                    if _fits(state, one, other, here) and _fits(state, other, one, there):
                        best, best_4 = gain, (one, here, other, there)
    return best, best_4


@compiled_part
def _best_trade(state: NodeState) -> tuple[float, tuple[int, int, int]]:
    """(gain, (loser, winner, node)): on the node a copy of the loser makes way for one of the winner."""
    num_experts, num_nodes = state.copies_ND.shape
    best, best_3 = 0.0, (-1, -1, -1)
    over_D = _over(state)
    after_D = np.empty(num_nodes)
    lost_D = np.empty(num_nodes)
    crowd = 0.0
    for node in range(num_nodes):
        crowd += _crowded(state, node, state.big_D[node])
    hot = _hot(state)
    for node in _extreme_nodes(over_D):
        for loser in range(num_experts):
            if state.copies_ND[loser, node] == 0 or state.total_N[loser] < 2:
                continue
            value, larger = _value(state, loser), state.load_N[loser] / (state.total_N[loser] - 1)
            for d in range(num_nodes):
                lost_D[d] = over_D[d] + (larger - value) * state.copies_ND[loser, d] - larger * (d == node)
            before = _above(state, value, state.total_N[loser])
            after = _above(state, larger, state.total_N[loser] - 1)
            if after - before > _squares(over_D) + crowd:
                continue
            for winner in range(num_experts):
                total, worth = state.total_N[winner], _value(state, winner)
                if worth < hot or not _fits(state, loser, winner, node):
                    continue
                smaller = state.load_N[winner] / (total + 1)
                for d in range(num_nodes):
                    after_D[d] = lost_D[d] + (smaller - worth) * state.copies_ND[winner, d] + smaller * (d == node)
                gain = before - after + _above(state, worth, total) - _above(state, smaller, total + 1)
                gain += _squares(over_D) - _squares(after_D) + crowd
                if gain <= best:
                    continue
                for d in range(num_nodes):
                    big = state.big_D[d]
                    was, now = _is_big(state, value, d), _is_big(state, larger, d)
                    big += (now - was) * state.copies_ND[loser, d] - now * (d == node)
                    was, now = _is_big(state, worth, d), _is_big(state, smaller, d)
                    big += (now - was) * state.copies_ND[winner, d] + now * (d == node)
                    gain -= _crowded(state, d, big)
                if gain > best:
                    best, best_3 = gain, (loser, winner, node)
    return best, best_3


@compiled_part
def _above(state: NodeState, value: float, copies: int) -> float:
    over = max(0.0, value - state.largest)
    return over * over * copies


@compiled_part
def _hot(state: NodeState) -> float:
    """The size of the smallest of the `WINNERS` largest replicas."""
    hot = np.inf
    for expert in range(len(state.load_N)):
        value, larger = _value(state, expert), 0
        for other in range(len(state.load_N)):
            larger += _value(state, other) > value
        if larger < WINNERS:
            hot = min(hot, value)
    return hot


@compiled_part
def _over(state: NodeState) -> Floats:
    """[D] how far each node is above its part."""
    over_D = np.empty(len(state.load_D))
    for node in range(len(over_D)):
        over_D[node] = state.load_D[node] - state.part_D[node]
    return over_D


@compiled_part
def _parts(load: float, speed_D: Floats) -> Floats:
    """[D] a load in proportion to speeds."""
    part_D, speed = np.empty(len(speed_D)), _sum(speed_D)
    for node in range(len(speed_D)):
        part_D[node] = load * speed_D[node] / speed
    return part_D


@compiled_part
def _sum(values_K: Floats) -> float:
    total = 0.0
    for value in values_K:
        total += value
    return total


@compiled_part
def _squares(values_D: Floats) -> float:
    total = 0.0
    for value in values_D:
        total += value * value
    return total

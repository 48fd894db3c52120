"""More search where a layer is above its bound: other copy counts, then the same replicas packed with more patience.
And whole GPUs exchanged between nodes, so that nodes are loaded alike."""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.packing.improve import follow, improve
from weftrace.experts.packing.packing import pack, pinned_replicas
from weftrace.experts.problem import Problem, Solution
from weftrace.experts.slots import copies_of, lay_out, load_of_gpus
from weftrace.experts.solvers.candidates import Best, better
from weftrace.experts.solvers.count_search import solve_count_search
from weftrace.experts.solvers.semi_hierarchical import foreign_replicas, homes, layers_of

CLOSE = 1e-4  # above its bound, relative, a layer is searched no further
# How far a second of a server's core gets, by layers x slots: measured on shapes of 64 to 416 experts, 32 to 160 GPUs.
PACKED_PER_S = 13_000_000  # slots in a round of `pack`
COUNTED_PER_S = 200_000  # slots in a round of `solve_count_search`


def refine(problem: Problem, best: Best, bound_L: Floats, policy: str, effort_s: float) -> Best:
    """`best` with layers above their bound searched for about `effort_s` seconds more.

    The seconds are turned into rounds at a fixed rate and no clock is read: every rank that balances the same loads
    must come to the same placement. Only an even split is searched; "global" packs over all GPUs, the other policies
    within each node, so that every expert stays on its nodes.
    """
    layers_K = np.flatnonzero(best.time_L > bound_L * (1 + CLOSE))
    is_filled_up = best.solution.expert_of_slot_LP.shape[1] > problem.num_experts * problem.cluster.num_gpus
    if not problem.is_even or not len(layers_K) or not effort_s or is_filled_up:
        return best
    part = layers_of(problem, layers_K)
    num_slots = len(layers_K) * problem.cluster.num_slots
    now = Best(
        solution=best.solution.of_layers(layers_K),
        time_L=best.time_L[layers_K],
        solver_of_layer=tuple(best.solver_of_layer[layer] for layer in layers_K),
    )
    now = _step(part, now, _with_other_counts(part, now.solution.expert_of_slot_LP, policy))
    if policy == "global":
        answer = solve_count_search(part, effort=effort_s / 2 * COUNTED_PER_S / num_slots)
        if isinstance(answer, Solution):
            now = _step(part, now, answer.expert_of_slot_LP)
    if part.capacity_LG.max() > 2:  # with two slots a GPU the counts decide
        rounds = int(effort_s / 2 * PACKED_PER_S / num_slots)
        now = _step(part, now, _packed_again(part, now.solution.expert_of_slot_LP, policy, rounds))
    return better(problem.cluster, best, _in_all_layers(best, layers_K, now))


def _step(part: Problem, now: Best, expert_of_slot_LP: Ints) -> Best:
    """The better of what there is and another map, layer by layer."""
    solution = part.evenly(expert_of_slot_LP)
    solvers = tuple(name if name.endswith(" + search") else f"{name} + search" for name in now.solver_of_layer)
    found = Best(solution=solution, time_L=part.worst_time(solution), solver_of_layer=solvers)
    return better(part.cluster, now, found)


def _with_other_counts(part: Problem, map_LP: Ints, policy: str) -> Ints:
    """Each layer after the best part of a path of swaps and changed copies (`improve`); pinned slots stay.

    Unless the policy is "global", an expert enters no node but the one with most replicas of its group, and a layer
    in which that makes too many replicas foreign stays as it is.
    """
    cluster = part.cluster
    home_LN = np.full(part.load_LN.shape, -1, dtype=np.int64)
    if policy != "global":
        home_LN = homes(map_LP, cluster, part.num_groups)
    locked_LP = np.zeros(map_LP.shape, dtype=np.bool_)
    for layer, expert, gpu in part.pins_K3:
        locked_LP[layer] |= (map_LP[layer] == expert) & (cluster.gpu_of_slot_P == gpu)
    paths = improve(
        map_LP,
        map_LP,
        part.load_LN,
        cluster,
        home_LN=home_LN,
        locked_LP=locked_LP,
        slack=0.0,
        max_changed=map_LP.shape[1],
    )
    is_on_path_LK = np.arange(paths.worst_LK.shape[1]) <= paths.num_steps_L[:, None]
    best_L = np.where(is_on_path_LK, paths.worst_LK, np.inf).argmin(axis=1)
    new_LP = follow(map_LP, paths.put_LJ2, np.take_along_axis(paths.num_puts_LK, best_L[:, None], axis=1)[:, 0])
    if policy == "semi-hierarchical":
        is_too_many_L = foreign_replicas(new_LP, cluster, part.num_groups).max(axis=1) > part.max_foreign
        new_LP[is_too_many_L] = map_LP[is_too_many_L]
    return new_LP


def _packed_again(part: Problem, map_LP: Ints, policy: str, rounds: int) -> Ints:
    """The replicas in other places: on any GPU under "global", else of the same node."""
    map_LP = map_LP.copy()
    value_LN = part.load_LN / np.maximum(copies_of(map_LP, part.num_experts), 1)
    nodes = 1 if policy == "global" else part.cluster.num_nodes
    gpus = part.cluster.num_gpus // nodes
    for first in range(0, part.cluster.num_gpus, gpus):
        slots = slice(*part.cluster.first_slot_G[[first, first + gpus]])
        map_LP[:, slots] = _packed(part, map_LP[:, slots], value_LN, first, gpus, rounds)
    return map_LP


def _packed(part: Problem, map_LP: Ints, value_LN: Floats, first: int, gpus: int, rounds: int) -> Ints:
    """The slots of some GPUs with their replicas in other places."""
    # as `pack` wants them: largest first, the empty slots (-1) last
    value_LP = np.where(map_LP >= 0, np.take_along_axis(value_LN, np.maximum(map_LP, 0), axis=1), -1.0)
    order_LP = np.lexsort((map_LP, -value_LP), axis=1)
    expert_LR = np.take_along_axis(map_LP, order_LP, axis=1)
    value_LR = np.maximum(np.take_along_axis(value_LP, order_LP, axis=1), 0.0)
    here_K = (part.pins_K3[:, 2] >= first) & (part.pins_K3[:, 2] < first + gpus)
    pins_K3 = part.pins_K3[here_K] - np.array([0, 0, first], dtype=np.int64)
    gpu_LR = pack(
        expert_LR,
        value_LR,
        part.capacity_LG[:, first : first + gpus],
        part.cluster.speed_G[first : first + gpus],
        pinned_LR=pinned_replicas(expert_LR, pins_K3),
        rounds=rounds,
    )
    first_slot_G = part.cluster.first_slot_G[first : first + gpus + 1]
    return lay_out(expert_LR, gpu_LR, first_slot_G - first_slot_G[0])


def _in_all_layers(best: Best, layers_K: Ints, found: Best) -> Best:
    """`best` with its layers layers_K as in `found`, which has those alone."""
    time_L, solvers = best.time_L.copy(), list(best.solver_of_layer)
    time_L[layers_K] = found.time_L
    for layer, solver in zip(layers_K, found.solver_of_layer, strict=True):
        solvers[layer] = solver
    solution = best.solution.with_layers(layers_K, found.solution)
    return Best(solution=solution, time_L=time_L, solver_of_layer=tuple(solvers))


def spread_over_nodes(
    expert_of_slot_LP: Ints, share_LP: Floats, load_LN: Floats, cluster: Cluster
) -> tuple[Ints, Floats]:
    """The same placement with its GPUs in another order, so that the fullest node has as little as possible.

    The maximum over GPUs does not change; the traffic into the fullest node does. It matters most with one slot a GPU:
    experts in order of creation put the hottest copies together on the last nodes. GPUs are packed to nodes as replicas
    are to GPUs, longest first and then swaps; a layer that does not gain stays as it was.

    cluster: equal GPUs; under pins or unequal GPUs an exchange is not free, and the arguments come back unchanged.
    Returns int64 [L, P] and float64 [L, P].
    """
    if cluster.num_nodes == 1 or not cluster.is_uniform:
        return expert_of_slot_LP, share_LP
    load_LG = load_of_gpus(expert_of_slot_LP, share_LP, load_LN, cluster.first_slot_G)
    order_LG = np.argsort(-load_LG, axis=1, kind="stable")
    capacity_LD = np.full((len(load_LG), cluster.num_nodes), cluster.gpus_per_node, dtype=np.int64)
    node_of_LG = pack(order_LG, np.take_along_axis(load_LG, order_LG, axis=1), capacity_LD, np.ones(cluster.num_nodes))
    # GPUs in the order of their new nodes; in the order that they had inside a node
    gpu_LG = np.take_along_axis(order_LG, np.lexsort((order_LG, node_of_LG), axis=1), axis=1)
    gains_L = node_balance(load_LG, gpu_LG, cluster) > node_balance(load_LG, None, cluster) * (1 + 1e-9)
    gpu_LG = np.where(gains_L[:, None], gpu_LG, np.arange(cluster.num_gpus))
    slots = cluster.num_slots // cluster.num_gpus
    slot_LP = (gpu_LG[:, :, None] * slots + np.arange(slots)).reshape(expert_of_slot_LP.shape)
    return np.take_along_axis(expert_of_slot_LP, slot_LP, axis=1), np.take_along_axis(share_LP, slot_LP, axis=1)


def node_balance(load_LG: Floats, gpu_LG: Ints | None, cluster: Cluster) -> Floats:
    """[L] mean / maximum over nodes of the sum of their GPUs' loads; gpu_LG: which GPU stands at each place."""
    placed_LG = load_LG if gpu_LG is None else np.take_along_axis(load_LG, gpu_LG, axis=1)
    load_LD = placed_LG.reshape(len(load_LG), cluster.num_nodes, -1).sum(axis=2)
    worst_L = load_LD.max(axis=1)
    balance_L: Floats = np.divide(load_LD.mean(axis=1), worst_L, out=np.ones_like(worst_L), where=worst_L > 0)
    return balance_L

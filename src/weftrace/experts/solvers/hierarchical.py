"""Hierarchical placement: every group of experts whole on one node.

Group-limited routing sends a token to few groups, so to few nodes. The problem falls apart: choose homes for the groups
(`group_partition`), then every node is a global problem of its own.
"""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Bools, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.packing.group_partition import best_partition, group_of_expert
from weftrace.experts.packing.packing import pack_counts, solve_lpt_swaps
from weftrace.experts.packing.replication import greedy_counts
from weftrace.experts.packing.shares import best_shares
from weftrace.experts.problem import NotApplicable, Problem, Solution, Solver
from weftrace.experts.slots import num_repeats
from weftrace.experts.solvers.count_search import solve_count_search
from weftrace.experts.solvers.wrap_around import solve_wrap_around


def solve_hierarchical(problem: Problem) -> Solution | NotApplicable:
    """Groups whole on nodes, as DeepSeek's hierarchical policy asks, with better homes and better packing.

    The published algorithm packs groups to nodes longest first; this one searches the homes for the lowest bound that
    any node sets (load / speed, hottest replica), then solves every node with each solver that applies and keeps the
    best of each layer. Replicas stay on the home node too.

    `NotApplicable` where groups cannot be shared evenly by nodes, a node has too few slots in service for its
    experts, or pins contradict the homes.
    """
    partition = best_partition(problem)
    if isinstance(partition, NotApplicable):
        return partition
    expert_of_slot_LP = np.full((problem.num_layers, problem.cluster.num_slots), -1, dtype=np.int64)
    share_LP = np.zeros(expert_of_slot_LP.shape)
    node_LN = partition.node_of_group_LM[:, group_of_expert(problem.num_experts, problem.num_groups)]
    for node in range(problem.cluster.num_nodes):
        expert_LE = _experts_of(node, node_LN)
        solution = solve_best(node_problem(problem, node, expert_LE))
        if isinstance(solution, NotApplicable):
            return NotApplicable(reason=f"node {node}: {solution.reason}")
        slots = slots_of_node(problem.cluster, node)
        expert_of_slot_LP[:, slots] = in_whole(expert_LE, solution.expert_of_slot_LP)
        share_LP[:, slots] = solution.share_LP
    return Solution(expert_of_slot_LP=expert_of_slot_LP, share_LP=share_LP)


def gpus_of_node(cluster: Cluster, node: int) -> slice:
    """Where a node's GPUs stand in an array of all GPUs."""
    return slice(node * cluster.gpus_per_node, (node + 1) * cluster.gpus_per_node)


def slots_of_node(cluster: Cluster, node: int) -> slice:
    """Where a node's slots stand in an array of all slots."""
    first, end = cluster.first_slot_G[[node * cluster.gpus_per_node, (node + 1) * cluster.gpus_per_node]]
    return slice(int(first), int(end))


def node_problem(problem: Problem, node: int, expert_LE: Ints) -> Problem:
    """The problem of one node and the experts that live there, numbered by their place in expert_LE."""
    gpus = gpus_of_node(problem.cluster, node)
    whole = problem.cluster
    cluster = Cluster(
        num_nodes=1,
        slots_G=whole.slots_G[gpus],
        speed_G=whole.speed_G[gpus],
        dead=frozenset(gpu - gpus.start for gpu in whole.dead if gpus.start <= gpu < gpus.stop),
        draining=frozenset(gpu - gpus.start for gpu in whole.draining if gpus.start <= gpu < gpus.stop),
    )
    here_K = (problem.pins_K3[:, 2] >= gpus.start) & (problem.pins_K3[:, 2] < gpus.stop)
    pins_K3 = problem.pins_K3[here_K].copy()
    for pin_3 in pins_K3:
        pin_3[1] = np.searchsorted(expert_LE[pin_3[0]], pin_3[1])
        pin_3[2] -= gpus.start
    return Problem(
        load_LN=np.ascontiguousarray(np.take_along_axis(problem.load_LN, expert_LE, axis=1)),
        cluster=cluster,
        capacity_LG=np.ascontiguousarray(problem.capacity_LG[:, gpus]),
        num_groups=1,
        pins_K3=pins_K3,
        is_even=problem.is_even,
        patience_s=problem.patience_s / whole.num_nodes,
    )


def in_whole(expert_LE: Ints, expert_of_slot_LP: Ints) -> Ints:
    """A node's map with the experts' numbers in the whole layer; -1 stays -1."""
    named_LP = np.take_along_axis(expert_LE, np.maximum(expert_of_slot_LP, 0), axis=1)
    return np.where(expert_of_slot_LP >= 0, named_LP, -1)


def solve_best(problem: Problem) -> Solution | NotApplicable:
    """The best of each layer among the solvers that apply, where any expert may stand on any GPU."""
    _, pinned_K = np.unique(problem.pins_K3[:, :2], axis=0, return_index=True)
    extra_L = np.bincount(np.delete(problem.pins_K3[:, 0], pinned_K), minlength=problem.num_layers)
    if (problem.num_experts + extra_L > problem.replicas_L).any():
        return NotApplicable(reason="too few slots for the experts and the further copies that pins ask for")
    if (problem.capacity_LG > problem.num_experts).any():
        return _solve_roomy(problem)
    solvers: tuple[Solver, ...] = (solve_lpt_swaps, solve_count_search, _solve_half_spread)
    if not problem.is_even:
        solvers = (solve_wrap_around, *solvers)
    best: Solution | None = None
    refusals = []
    for solver in solvers:
        answer = solver(problem)
        if isinstance(answer, NotApplicable):
            refusals.append(answer.reason)
        else:
            answer = with_best_shares(problem, answer)
            best = answer if best is None else better_layers(problem, best, answer)
    return NotApplicable(reason="; ".join(refusals)) if best is None else best


def _solve_half_spread(problem: Problem) -> Solution | NotApplicable:
    """Greedy counts, but no expert on more than half of the GPUs.

    Few GPUs share a node's load, and its hottest expert would get a copy on most of them, where each is in the way of
    the second hottest. Somewhat larger replicas on some GPUs leave the others free.
    """
    gpus_L = (problem.capacity_LG > 0).sum(axis=1)
    most_L = np.maximum(gpus_L // 2, 1)
    if (np.maximum(most_L[:, None], problem.pinned_LN).sum(axis=1) < problem.replicas_L).any():
        return NotApplicable(reason="there are more slots than copies on half of the GPUs could fill")
    counts_LN = greedy_counts(problem.load_LN, problem.replicas_L, most_L, problem.pinned_LN)
    return problem.evenly(pack_counts(problem, counts_LN))


def with_best_shares(problem: Problem, solution: Solution) -> Solution:
    """The same map with the shares that suit the loads best, where copies may take unequal parts."""
    if problem.is_even:
        return solution
    cluster = problem.cluster
    share_LP = best_shares(solution.expert_of_slot_LP, problem.load_LN, cluster.first_slot_G, cluster.speed_G)
    return Solution(expert_of_slot_LP=solution.expert_of_slot_LP, share_LP=share_LP)


def better_layers(problem: Problem, one: Solution, other: Solution, *, may_L: Bools | None = None) -> Solution:
    """Layer by layer the other where it is better and may be taken: fewer experts twice on a GPU, then less time."""
    first_slot_G = problem.cluster.first_slot_G
    repeats_2L = [num_repeats(map_LP, first_slot_G) for map_LP in (one.expert_of_slot_LP, other.expert_of_slot_LP)]
    is_faster_L = problem.worst_time(other) < problem.worst_time(one)
    takes_L = (repeats_2L[1] < repeats_2L[0]) | ((repeats_2L[1] == repeats_2L[0]) & is_faster_L)
    if may_L is not None:
        takes_L &= may_L
    return one.or_other(takes_L, other)


def _experts_of(node: int, node_LN: Ints) -> Ints:
    """[L, E] experts at home on the node, ascending; as many in every layer."""
    return np.nonzero(node_LN == node)[1].reshape(len(node_LN), -1).astype(np.int64)


def _solve_roomy(problem: Problem) -> Solution | NotApplicable:
    """More slots on a GPU than experts that may stand there: each GPU holds all, and the hottest of them again."""
    most = problem.capacity_LG.max()
    if not np.isin(problem.capacity_LG, (0, most)).all():
        return NotApplicable(reason=f"some GPUs have more slots than their {problem.num_experts} experts, others fewer")
    order_LN = np.argsort(-problem.load_LN, axis=1, kind="stable")
    row_LS = np.take_along_axis(order_LN, np.arange(most)[None, :] % problem.num_experts, axis=1)
    expert_of_slot_LP = np.full((problem.num_layers, problem.cluster.num_slots), -1, dtype=np.int64)
    for gpu, first in enumerate(problem.cluster.first_slot_G[:-1]):
        fills_L = problem.capacity_LG[:, gpu] > 0
        if not fills_L.any():
            continue
        expert_of_slot_LP[fills_L, first : first + most] = row_LS[fills_L]
    return problem.evenly(expert_of_slot_LP)

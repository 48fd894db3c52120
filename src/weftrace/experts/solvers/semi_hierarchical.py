"""Semi-hierarchical placement: groups at home on nodes, but for a few foreign replicas a node.

Whole groups cannot be shared out evenly (see `group_partition`). A few replicas a node, of hot experts mostly, that
stand on another node than their group even out the nodes, and a token still goes to about as few nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.packing.group_partition import best_partition, group_of_expert, nodes_of
from weftrace.experts.packing.node_counts import MAX_STEPS, node_counts
from weftrace.experts.packing.packing import pack_counts
from weftrace.experts.packing.replication import greedy_counts
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.slots import copies_of
from weftrace.experts.solvers.hierarchical import (
    better_layers,
    node_problem,
    slots_of_node,
    solve_hierarchical,
    with_best_shares,
)

STEP_S = 2e-7  # of `node_counts`, for each slot and node
ENOUGH_STEPS = 15  # of it, in each layer: most need no more. With fewer, one rule is tried alone
ENOUGH = 1e-3  # above the bound, relative: a layer that is no further is not tried again


@dataclass(frozen=True, slots=True)
class Rule:
    """Which copies make a node easy to pack? No rule suits all loads, so several are tried.

    largest: a replica up to this part of the mean time is small enough. big: of two above it there is one too many on
    a GPU. is_spread: no step gives an expert copies on more than half of a node's GPUs, where they are in the way of
    other large ones.
    """

    largest: float
    big: float
    is_spread: bool


RULES = (Rule(0.5, 0.48, False), Rule(0.4, 0.40, True), Rule(0.4, 0.36, False), Rule(0.4, 0.36, True))


def foreign_replicas(expert_of_slot_LP: Ints, cluster: Cluster, num_groups: int) -> Ints:
    """[L, D] replicas on each node whose group is at home on another.

    A group's home is the node with most of its replicas, the lowest of equals. Experts are numbered 0 to N - 1 and
    every one has a slot, so the map tells N.
    """
    replicas_LMD = _group_replicas(expert_of_slot_LP, cluster, num_groups)
    is_home_LMD = replicas_LMD.argmax(axis=2)[:, :, None] == np.arange(cluster.num_nodes)
    foreign_LD: Ints = (replicas_LMD * ~is_home_LMD).sum(axis=1)
    return foreign_LD


def homes(expert_of_slot_LP: Ints, cluster: Cluster, num_groups: int) -> Ints:
    """[L, N] home of each expert: the node with most replicas of its group, the lowest of equals."""
    home_LM = _group_replicas(expert_of_slot_LP, cluster, num_groups).argmax(axis=2)
    home_LN: Ints = home_LM[:, group_of_expert(int(expert_of_slot_LP.max()) + 1, num_groups)]
    return np.ascontiguousarray(home_LN)


def _group_replicas(expert_of_slot_LP: Ints, cluster: Cluster, num_groups: int) -> Ints:
    """[L, M, D] replicas of each group's experts on each node."""
    group_N = group_of_expert(int(expert_of_slot_LP.max()) + 1, num_groups)
    node_P = cluster.node_of_gpu_G[cluster.gpu_of_slot_P]
    replicas_LMD = np.zeros((len(expert_of_slot_LP), num_groups, cluster.num_nodes), dtype=np.int64)
    layer_K, slot_K = np.nonzero(expert_of_slot_LP >= 0)
    np.add.at(replicas_LMD, (layer_K, group_N[expert_of_slot_LP[layer_K, slot_K]], node_P[slot_K]), 1)
    return replicas_LMD


def solve_semi_hierarchical(problem: Problem) -> Solution | NotApplicable:
    """Groups at home on nodes, the same number on each, and at most `problem.max_foreign` foreign replicas a node.

    Homes as in the hierarchical policy; then copies of each expert on each node (`node_counts`) such that nodes are
    loaded alike and no replica is large; then every node is packed on its own. Layers that the hierarchical policy
    answers better, or that the search left with too many foreign replicas, are taken from there.

    `NotApplicable` where groups cannot be shared evenly by nodes, and where slots in service or pins need more foreign
    replicas than are allowed.
    """
    whole = solve_hierarchical(problem)
    partition = best_partition(problem)
    if isinstance(partition, NotApplicable):
        partition = best_partition(problem, must_fit=False)
        if isinstance(partition, NotApplicable):
            return partition
    home_LN = partition.node_of_group_LM[:, group_of_expert(problem.num_experts, problem.num_groups)]
    best = whole if isinstance(whole, Solution) else None
    for rule in RULES[: 1 if _steps(problem) < ENOUGH_STEPS else None]:
        late_K = np.arange(problem.num_layers) if best is None else _late_layers(problem, best)
        if not len(late_K):
            break
        part = layers_of(problem, late_K)
        old = None if best is None else best.of_layers(late_K)
        new = _try(part, np.ascontiguousarray(home_LN[late_K]), rule, old)
        if isinstance(new, NotApplicable):
            return _with_fewer_guests(problem, new)
        best = new if best is None else best.with_layers(late_K, new)
    assert best is not None
    return best


def _with_fewer_guests(problem: Problem, refusal: NotApplicable) -> Solution | NotApplicable:
    """In a small group, guests that are allowed one by one can outnumber those at home and move the home to them."""
    if problem.max_foreign == 0:
        return refusal
    answer = solve_semi_hierarchical(replace(problem, max_foreign=problem.max_foreign - 1))
    return refusal if isinstance(answer, NotApplicable) else answer


def _late_layers(problem: Problem, solution: Solution) -> Ints:
    """Layers well above what no placement at all can beat: the mean, and the largest replica of greedy counts."""
    _, gpus_LD, speed_LD, fastest_LD = nodes_of(problem)
    bound_L = np.maximum(
        problem.load_LN.sum(axis=1) / speed_LD.sum(axis=1), _largest_replica(problem, gpus_LD) / fastest_LD.max(axis=1)
    )
    return np.flatnonzero(problem.worst_time(solution) > bound_L * (1 + ENOUGH))


def _largest_replica(problem: Problem, gpus_LD: Ints) -> Floats:
    """[L] the largest load a copy, as small as counts can make it."""
    counts_LN = greedy_counts(problem.load_LN, problem.replicas_L, gpus_LD.sum(axis=1))
    largest_L: Floats = (problem.load_LN / counts_LN).max(axis=1)
    return largest_L


def _try(problem: Problem, home_LN: Ints, rule: Rule, old: Solution | None) -> Solution | NotApplicable:
    """The better of each layer: the old answer, which keeps the rules, and what a rule for copies leads to."""
    copies_LND = _copies(problem, home_LN, rule)
    is_found_L = copies_LND.any(axis=(1, 2))
    if old is not None:
        copies_LND[~is_found_L] = _copies_on_nodes(problem, old)[~is_found_L]
    elif not is_found_L.all():
        return _refusal(problem, int(np.argmin(is_found_L)))
    new = with_best_shares(problem, _packed(problem, copies_LND))
    foreign_LD = foreign_replicas(new.expert_of_slot_LP, problem.cluster, problem.num_groups)
    keeps_rules_L: Bools = np.all(foreign_LD <= problem.max_foreign, axis=1)
    if old is not None:
        return better_layers(problem, old, new, may_L=keeps_rules_L)
    return new if keeps_rules_L.all() else _refusal(problem, int(np.argmin(keeps_rules_L)))


def layers_of(problem: Problem, layers_K: Ints) -> Problem:
    """The problem of some layers alone."""
    place_L = np.full(problem.num_layers, -1, dtype=np.int64)
    place_L[layers_K] = np.arange(len(layers_K))
    pins_K3 = problem.pins_K3[place_L[problem.pins_K3[:, 0]] >= 0].copy()
    pins_K3[:, 0] = place_L[pins_K3[:, 0]]
    return replace(
        problem, load_LN=problem.load_LN[layers_K], capacity_LG=problem.capacity_LG[layers_K], pins_K3=pins_K3
    )


def _refusal(problem: Problem, layer: int) -> NotApplicable:
    return NotApplicable(
        reason=f"loads row {layer}: the slots in service or the pins need more than {problem.max_foreign} foreign "
        "replicas on a node"
    )


def _steps(problem: Problem) -> int:
    """Steps of `node_counts` in each layer."""
    return problem.steps(STEP_S * problem.cluster.num_slots * problem.cluster.num_nodes, MAX_STEPS)


def _copies(problem: Problem, home_LN: Ints, rule: Rule) -> Ints:
    """[L, N, D] copies of each expert on each node, all zeros in a layer where none were found."""
    cluster = problem.cluster
    slots_LD, gpus_LD, speed_LD, _ = nodes_of(problem)
    least_LND = np.zeros((problem.num_layers, problem.num_experts, cluster.num_nodes), dtype=np.int64)
    for layer, expert, gpu in problem.pins_K3:
        least_LND[layer, expert, cluster.node_of_gpu_G[gpu]] += 1
    mean_L = problem.load_LN.sum(axis=1) / speed_LD.sum(axis=1)
    return node_counts(
        problem.load_LN,
        home_LN,
        slots_LD,
        gpus_LD,
        np.maximum(gpus_LD - gpus_LD // 2, 1) if rule.is_spread else gpus_LD,
        speed_LD,
        least_LND,
        np.maximum(_largest_replica(problem, gpus_LD), rule.largest * mean_L),
        rule.big,
        problem.max_foreign,
        _steps(problem),
    )


def _packed(problem: Problem, copies_LND: Ints) -> Solution:
    """Every node packed on its own, with an even split in mind."""
    expert_of_slot_LP = np.full((problem.num_layers, problem.cluster.num_slots), -1, dtype=np.int64)
    value_LN = problem.load_LN / copies_LND.sum(axis=2)
    all_LN = np.tile(np.arange(problem.num_experts), (problem.num_layers, 1))
    for node in range(problem.cluster.num_nodes):
        copies_LN = np.ascontiguousarray(copies_LND[:, :, node])
        alone = replace(node_problem(problem, node, all_LN), load_LN=value_LN * copies_LN)
        expert_of_slot_LP[:, slots_of_node(problem.cluster, node)] = pack_counts(alone, copies_LN)
    return problem.evenly(expert_of_slot_LP)


def _copies_on_nodes(problem: Problem, solution: Solution) -> Ints:
    """[L, N, D] copies of each expert on each node."""
    maps = [
        np.ascontiguousarray(solution.expert_of_slot_LP[:, slots_of_node(problem.cluster, node)])
        for node in range(problem.cluster.num_nodes)
    ]
    return np.stack([copies_of(map_LP, problem.num_experts) for map_LP in maps], axis=2)

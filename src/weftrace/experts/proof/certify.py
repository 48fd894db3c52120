"""How good is a placement, and what keeps it from being better? Its certificate, from the bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weftrace.experts.arrays import Bools, Floats
from weftrace.experts.certificate import Certificate
from weftrace.experts.problem import Problem, Solution
from weftrace.experts.proof import bounds
from weftrace.experts.proof.exact import MOST_STEPS, STEP_S, best_even, is_small, pinned
from weftrace.experts.proof.fold_bound import fold_bound, fold_s
from weftrace.experts.slots import num_repeats

TARGET = 0.99  # balancedness


TIGHT = 1e-9  # relative: below it two times are the same


def certify(problem: Problem, solution: Solution, policy: str) -> Certificate:
    """What `solution` reaches, and the best that any solution of `problem` under `policy` could.

    The bound is the largest of: the mean; the largest replica under the best copy counts; what GPUs with few slots and
    pinned experts force (`bounds`); under "hierarchical" what the best homes of the groups leave on the fullest node
    (`partition_bound`). For a small layer under an even split it is the optimum itself (`exact`), for two slots a GPU
    what keeps large replicas from finding small company (`fold_bound`). "semi-hierarchical" has the bounds of "global",
    which allows more. The rules besides: every slot in service filled, and no expert twice on a GPU; a layer where one
    is gets a bound that holds with repeats too.
    """
    repeats_L = num_repeats(solution.expert_of_slot_LP, problem.cluster.first_slot_G) > 0
    achieved_L = problem.worst_time(solution)
    mean_L = problem.mean_L
    replica_L, is_everywhere_L = bounds.replica_bound(problem, any_shares_L=repeats_L)
    forced_L = np.maximum(bounds.capacity_bound(problem), np.where(repeats_L, 0.0, bounds.pin_bound(problem)))
    parts_L = bounds.partition_bound(problem) if policy == "hierarchical" else np.zeros_like(mean_L)
    plain_L = np.maximum.reduce([mean_L, replica_L, forced_L, parts_L])
    whole_L = _whole_replicas(problem, plain_L, achieved_L, repeats_L)
    bound_L = np.maximum(plain_L, whole_L)
    assert (bound_L <= achieved_L * (1 + TIGHT)).all(), (bound_L - achieved_L).max()
    bound_L = np.minimum(bound_L, achieved_L)  # they may differ in the last bit
    reasons = (
        (whole_L, "replica granularity"),
        (parts_L, "node partition"),
        (forced_L, "constraints"),
        (np.where(is_everywhere_L, replica_L, 0.0), "duplicates"),
        (np.where(is_everywhere_L, 0.0, replica_L), "slots"),
    )
    return Certificate(
        mean_L=mean_L,
        bound_L=bound_L,
        achieved_L=achieved_L,
        is_optimal_L=achieved_L <= bound_L * (1 + TIGHT),
        binding_L=tuple(_binding(reasons, layer, mean_L, bound_L, achieved_L) for layer in range(len(mean_L))),
        target=TARGET,
        slots_for_target=_slots_for_target(problem, mean_L, policy),
    )


def _whole_replicas(problem: Problem, bound_L: Floats, achieved_L: Floats, repeats_L: Bools) -> Floats:
    """[L] what replicas that cannot be cut force, in layers that are above their bound; 0 in the others."""
    asked_L = (achieved_L > bound_L * (1 + TIGHT)) & ~repeats_L
    if not is_small(problem):
        is_long = fold_s(problem) > problem.patience_s
        return np.zeros_like(bound_L) if is_long else fold_bound(problem, bound_L, achieved_L, asked_L)
    optimum_L = np.zeros_like(bound_L)
    most_steps = problem.steps(STEP_S, MOST_STEPS)
    for layer in np.flatnonzero(asked_L).tolist():
        time, _, is_proved = best_even(
            problem.load_LN[layer],
            problem.capacity_LG[layer],
            problem.cluster.speed_G,
            pinned(problem, layer),
            most_steps,
        )
        optimum_L[layer] = time if is_proved else 0.0
    return optimum_L


def _binding(
    reasons: tuple[tuple[Floats, str], ...], layer: int, mean_L: Floats, bound_L: Floats, achieved_L: Floats
) -> str:
    """What the larger part of the way from the mean to what is achieved is owed to."""
    mean, bound, achieved = mean_L[layer], bound_L[layer], achieved_L[layer]
    if achieved <= mean * (1 + TIGHT):
        return "none"
    if achieved - bound > bound - mean:
        return "packing"
    # Of equal bounds the cheapest to explain comes last in `reasons`.
    return [name for part_L, name in reasons if part_L[layer] >= bound * (1 - TIGHT)][-1]


def _slots_for_target(problem: Problem, mean_L: Floats, policy: str) -> int | None:
    base_L = mean_L
    if policy == "hierarchical":  # what is lost on the homes of the groups however many slots there are
        usable_G = problem.cluster.usable_G
        full_LG = np.tile(np.where(usable_G, problem.num_experts, 0), (problem.num_layers, 1))
        base_L = np.maximum(mean_L, bounds.partition_bound(replace(problem, capacity_LG=full_LG)))
    bound_LS = bounds.bound_by_slots(problem, base_L, int(problem.cluster.usable_G.sum()))
    reached_S = (mean_L[:, None] / bound_LS).mean(axis=0) >= TARGET
    return int(np.argmax(reached_S)) * problem.cluster.num_gpus if reached_S.any() else None

"""What a service would do when it re-plans: the strategies that `replay` compares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weftrace.compiled import compiled
from weftrace.errors import PlacementError
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.constraints import make_problem
from weftrace.experts.moves.replan import replan
from weftrace.experts.placement import Placement, make_placement
from weftrace.experts.problem import NotApplicable, Solution
from weftrace.experts.solvers.balance import balance
from weftrace.experts.solvers.deepseek import solve_deepseek
from weftrace.experts.solvers.resplit import resplit
from weftrace.experts.solvers.wrap_around import solve_wrap_around

NUM_PATHS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every plan of a replay has in common. policy: "global", "hierarchical" or "semi-hierarchical"."""

    cluster: Cluster
    num_experts: int
    num_groups: int
    policy: str
    split: str
    max_moves: float


class Plan(Protocol):
    def __call__(self, setting: Setting, estimate_LN: Floats, now: Placement | None) -> Placement:
        """A placement for the loads that are expected, given the one in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """plan: at a re-plan. between: in every window, without moving a weight. is_memoryless: the placement in force does
    not matter to the plan, so rows that re-plan at the same window share it."""

    plan: Plan
    between: Callable[[Placement, Floats], Placement] | None = None
    is_memoryless: bool = True


def plan_deepseek(setting: Setting, estimate_LN: Floats, now: Placement | None = None) -> Placement:
    """DeepSeek's published algorithm (even split), hierarchical where the nodes can share the groups evenly."""
    problem = make_problem(estimate_LN, setting.cluster, num_groups=setting.num_groups)
    solution = solve_deepseek(problem)
    if isinstance(solution, NotApplicable):
        raise PlacementError(f"solver 'deepseek' {solution.reason}; leave it out of the solvers")
    return _placement(setting, solution, even=True)


def plan_balance(setting: Setting, estimate_LN: Floats, now: Placement | None = None) -> Placement:
    """`balance` without further search: the best of every solver."""
    return _balanced(setting, estimate_LN, setting.split)


def plan_uneven(setting: Setting, estimate_LN: Floats, now: Placement | None = None) -> Placement:
    """An uneven split: the wrap-around construction, perfect where it applies, else `balance`."""
    if setting.policy == "global":
        solution = solve_wrap_around(make_problem(estimate_LN, setting.cluster, split="uneven"))
        if isinstance(solution, Solution):
            return _placement(setting, solution, even=False)
    return _balanced(setting, estimate_LN, "uneven")


def plan_replan(setting: Setting, estimate_LN: Floats, now: Placement | None = None) -> Placement:
    """`replan` of the placement in force, within max_moves; `balance` at the start. Fewer paths than `replan` tries by
    default: they cost a fraction of the time, and 0.2 points of balance."""
    if now is None:
        return plan_balance(setting, estimate_LN)
    groups = setting.num_groups if setting.policy != "global" else 1
    return replan(now, estimate_LN, max_moves=setting.max_moves, num_groups=groups, num_paths=NUM_PATHS).placement


PLANNERS: dict[str, Planner] = {
    "deepseek": Planner(plan=plan_deepseek),
    "balance": Planner(plan=plan_balance),
    "balance+resplit": Planner(plan=plan_uneven, between=resplit),
    "replan": Planner(plan=plan_replan, is_memoryless=False),
}
"""deepseek: `plan_deepseek`. balance: `plan_balance`. balance+resplit: `plan_uneven`, and in every window between the
re-plans the shares of the copies are solved again for what is then expected, which moves no weight. replan:
`plan_replan`."""


def moved_fraction(old: Placement, new: Placement) -> float:
    """Part of all slots whose expert has to be written: on each GPU, experts that it did not hold as often before.

    Slots of a GPU are interchangeable, so an expert that stays on its GPU stays in its slot.
    """
    written = _num_written(old.expert_of_slot_LP, new.expert_of_slot_LP, old.cluster.first_slot_G, old.num_experts)
    return int(written) / old.expert_of_slot_LP.size


@compiled
def _num_written(old_LP: Ints, new_LP: Ints, first_slot_G: Ints, num_experts: int) -> int:
    written = 0
    held_N = np.zeros(num_experts, dtype=np.int64)
    for layer in range(len(old_LP)):
        for gpu in range(len(first_slot_G) - 1):
            for slot in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
                if old_LP[layer, slot] >= 0:
                    held_N[old_LP[layer, slot]] += 1
            for slot in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
                if new_LP[layer, slot] >= 0:
                    held_N[new_LP[layer, slot]] -= 1
                    if held_N[new_LP[layer, slot]] < 0:
                        written += 1
            for slot in range(first_slot_G[gpu], first_slot_G[gpu + 1]):
                if old_LP[layer, slot] >= 0:
                    held_N[old_LP[layer, slot]] = 0
                if new_LP[layer, slot] >= 0:
                    held_N[new_LP[layer, slot]] = 0
    return written


def _balanced(setting: Setting, estimate_LN: Floats, split: str) -> Placement:
    return balance(
        estimate_LN,
        cluster=setting.cluster,
        num_groups=setting.num_groups,
        policy=setting.policy,
        split=split,
        time_budget_s=0.0,
    )


def _placement(setting: Setting, solution: Solution, *, even: bool) -> Placement:
    return make_placement(
        solution.expert_of_slot_LP,
        setting.cluster,
        setting.num_experts,
        shares=None if even else solution.share_LP,
        policy=setting.policy,
    )

"""Which ways of planning stand side by side: this placement's, the published EPLB's, and what tells them apart."""

from __future__ import annotations

from weftrace.experts.arrays import Floats
from weftrace.experts.moves.replan import replan
from weftrace.experts.placement import Placement
from weftrace.experts.problem import NotApplicable
from weftrace.experts.recorded.read import LoadHistory
from weftrace.experts.replays.held_out import Plan
from weftrace.experts.solvers.balance import balance
from weftrace.experts.solvers.deepseek import published_placement


def published_name(placement: Placement) -> str:
    """What sentences and pictures call a placement of the published algorithm."""
    return "the published EPLB by node" if placement.policy == "hierarchical" else "the published EPLB"


def baseline_of(placement: Placement, num_groups: int, load_LN: Floats) -> Placement | None:
    """The published algorithm in the same slots; None where it has no answer, or slots are left empty by a budget."""
    if (placement.expert_of_slot_LP < 0).any():
        return None
    found = published_placement(load_LN, placement.cluster, num_groups)
    return None if isinstance(found, NotApplicable) else found


def ways_of(
    placement: Placement, history: LoadHistory, num_groups: int, before: Placement | None, plan: Plan | None
) -> dict[str, Plan]:
    """Name -> way of planning: this placement's, then what it is compared with, then what stands beside them.

    The placement before is compared with where it could stay: not where it used GPUs that are now out of service.
    """
    cluster, policy, split = placement.cluster, placement.policy, "even" if placement.is_even else "uneven"

    def balanced(load_LN: Floats, policy: str = policy) -> Placement:
        return balance(load_LN, cluster=cluster, num_groups=num_groups, policy=policy, split=split, time_budget_s=0)

    def replanned(load_LN: Floats) -> Placement:
        assert before is not None
        return replan(before, load_LN, cluster=cluster, num_groups=num_groups).placement

    def published(load_LN: Floats, groups: int = num_groups) -> Placement:
        found = published_placement(load_LN, cluster, groups)
        assert not isinstance(found, NotApplicable), found.reason  # it has answered for all windows together
        return found

    ways: dict[str, Plan] = {policy if before is None else "this re-plan": plan or (replanned if before else balanced)}
    baseline = baseline_of(placement, num_groups, history.total())
    if before is not None and (before.cluster.usable_G == cluster.usable_G).all():
        ways["the placement before, kept"] = lambda load_LN: before
    if baseline is not None:
        ways[published_name(baseline)] = published
        if baseline.policy == "hierarchical":
            ways["the published EPLB globally"] = lambda load_LN: published(load_LN, 1)
    if before is None and policy == "semi-hierarchical":
        ways["hierarchical"] = lambda load_LN: balanced(load_LN, "hierarchical")
    return ways

"""The front door: expert loads in, the best placement that was found and its proof out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Bools, frozen
from weftrace.experts.certificate import Certificate
from weftrace.experts.cluster import Cluster, make_cluster
from weftrace.experts.constraints import Pins, make_problem
from weftrace.experts.loads import as_loads
from weftrace.experts.placement import Choice, Placement
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.proof.certify import certify
from weftrace.experts.slots import even_shares
from weftrace.experts.solvers.candidates import POLICIES, Best, best_of, better
from weftrace.experts.solvers.hierarchical import with_best_shares
from weftrace.experts.solvers.refine import CLOSE, refine, spread_over_nodes
from weftrace.experts.traffic.policy_cost import CostModel, policy_costs

AT_ONCE_S = 0.5  # a search may take without a time budget, about


def balance(
    loads: object,
    num_slots: int | None = None,
    num_gpus: int | None = None,
    num_nodes: int = 1,
    num_groups: int = 1,
    *,
    policy: str = "auto",
    split: str = "even",
    cluster: Cluster | None = None,
    slots_of_gpu: Sequence[int] | None = None,
    speed_of_gpu: Sequence[float] | None = None,
    dead: Iterable[int] = (),
    draining: Iterable[int] = (),
    pins: Pins = (),
    slots_of_layer: Sequence[int] | None = None,
    max_foreign: int = 4,
    time_budget_s: float = 1.0,
    cost_model: CostModel | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Placement:
    """Where every expert of every layer should live, so that no GPU finishes late; with proof of how good that is.

    Every solver that applies places every layer, and the best answer of each layer is kept. DeepSeek's published
    algorithm is one of them, so that no layer is worse than it (but where it puts an expert twice on a GPU, which this
    function does only where nothing else is left). The same arguments give the same placement on every machine.

    loads: [L, N] tokens of each expert, in any unit (`as_loads`). A layer of zeros is placed as one of equal experts.
    num_slots, num_gpus, num_nodes: P, G and the nodes of G / num_nodes GPUs; slots_of_gpu, speed_of_gpu, dead,
        draining: as `make_cluster` takes them. Or a `cluster` that says all of that.
    num_groups: groups of the routing: experts n * num_groups // N. 1 where routing knows no groups.
    policy: "global": any expert on any node. "hierarchical": a group's experts on one node, as many groups on each.
        "semi-hierarchical": the same, but for `max_foreign` replicas a node. "auto": on several nodes that can share
        the groups evenly, the cheapest of the three by `cost_model` (`policy_costs`); else "global".
    split: "even": copies of an expert take equal parts, as engines do that know no weights. "uneven": each takes its
        own part (`Placement.share_of_slot_LP`).
    pins: (expert, gpu), or (layer, expert, gpu): experts that must have a copy on a GPU.
    slots_of_layer: [L] slots that a layer fills, N to P; all of those in service where not given. num_slots may then be
        left out: the largest, rounded up to a multiple of the GPUs.
    time_budget_s: about how long layers that are above their bound are searched on, on one core. 0 answers at once: no
        such search, and those of the solvers are cut off where a large problem would make them last.
    on_progress: is called with what is being tried, "global: lpt-swaps" say.

    With more slots than N on every one of equal GPUs, each GPU holds every expert and the rest repeats them, the same
    on each; elsewhere slots above N on a GPU stay empty.
    Raises `LoadsError` for bad loads, `PlacementError` where numbers disagree or nothing can satisfy them.
    """
    given = as_loads(loads)
    if cluster is None:
        if num_slots is None and slots_of_gpu is None and num_gpus is not None and slots_of_layer is not None:
            num_slots = -(-max(slots_of_layer, default=num_gpus) // num_gpus) * num_gpus
        cluster = make_cluster(
            num_slots, num_gpus, num_nodes, slots_of_gpu=slots_of_gpu, speed_of_gpu=speed_of_gpu, dead=dead,
            draining=draining,
        )  # fmt: skip
    elif num_slots is not None or num_gpus is not None or slots_of_gpu or speed_of_gpu or dead or draining:
        raise PlacementError("give either a cluster or num_slots, num_gpus and what goes with them, not both")
    problem = make_problem(
        given,
        cluster,
        num_groups=num_groups,
        split=split,
        pins=pins,
        slots_of_layer=slots_of_layer,
        max_foreign=max_foreign,
    )
    if not (isinstance(time_budget_s, int | float) and 0 <= time_budget_s < np.inf):
        raise PlacementError(f"time_budget_s must be a number of seconds, not {time_budget_s!r}")
    if time_budget_s == 0:
        problem = replace(problem, patience_s=AT_ONCE_S)
    possible, ruled_out = _possible(problem, policy)
    found: dict[str, tuple[Best, Certificate]] = {}
    for name in possible:
        answer = _placed(problem, name, time_budget_s / len(possible), slots_of_layer is None, on_progress or _quiet)
        if isinstance(answer, NotApplicable):
            ruled_out[name] = answer.reason
        else:
            found[name] = answer
    if not found:
        raise PlacementError(f"policy {policy!r} is not possible: {'; '.join(ruled_out[name] for name in possible)}")
    solutions = {name: best.solution for name, (best, _) in found.items()}
    choice = _choose(problem, policy, solutions, cost_model, tuple(ruled_out.items()))
    chosen = choice.costs[0].policy if choice.costs else next(iter(found))
    best, certificate = found[chosen]
    return _placement(problem, best, chosen, _for_loads(certificate, given.sum(axis=1) == 0), choice)


def _possible(problem: Problem, policy: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Policies to try, and why not the others."""
    if policy not in ("auto", *POLICIES):
        raise PlacementError(f"no policy {policy!r}; choose from auto, {', '.join(POLICIES)}")
    num_groups, num_nodes = problem.num_groups, problem.cluster.num_nodes
    why = ""
    if num_groups % num_nodes:
        why = f"{num_groups} groups cannot be shared evenly by {num_nodes} nodes"
    elif policy == "auto" and num_nodes == 1:
        why = "there is one node"
    elif policy == "auto" and (problem.capacity_LG == problem.num_experts).all():
        why = "every GPU holds every expert"
    if policy == "auto":
        return (("global",), dict.fromkeys(POLICIES[1:], why)) if why else (POLICIES, {})
    if policy != "global" and why:
        raise PlacementError(f"policy {policy!r} is not possible: {why}")
    return (policy,), {}


def _placed(
    problem: Problem, policy: str, effort_s: float, fills_up: bool, on_progress: Callable[[str], None]
) -> tuple[Best, Certificate] | NotApplicable:
    best = best_of(problem, policy, lambda solver: on_progress(f"{policy}: {solver}"))
    if isinstance(best, NotApplicable):
        return best
    if fills_up:
        best = _filled_up(problem, best)
    certificate = certify(problem, best.solution, policy)
    on_progress(f"{policy}: search")
    refined = refine(problem, best, certificate.bound_L, policy, effort_s)
    if refined is not best:
        best, certificate = refined, certify(problem, refined.solution, policy)
    if not problem.is_even and (best.time_L > certificate.bound_L * (1 + CLOSE)).any():
        even = _placed(replace(problem, is_even=True), policy, effort_s, fills_up, on_progress)
        if not isinstance(even, NotApplicable):
            best = _levelled(problem, best, even[0])
            certificate = certify(problem, best.solution, policy)
    if policy == "global" and problem.is_plain:
        expert_of_slot_LP, share_LP = spread_over_nodes(
            best.solution.expert_of_slot_LP, best.solution.share_LP, problem.load_LN, problem.cluster
        )
        best = replace(best, solution=Solution(expert_of_slot_LP=expert_of_slot_LP, share_LP=share_LP))
    return best, certificate


def _levelled(problem: Problem, best: Best, even: Best) -> Best:
    """Layer by layer the answer for an even split where it is better once its copies take the parts that suit."""
    solution = with_best_shares(problem, even.solution)
    time_L = problem.worst_time(solution)
    return better(problem.cluster, best, replace(even, solution=solution, time_L=time_L))


def _choose(
    problem: Problem,
    policy: str,
    found: dict[str, Solution],
    cost_model: CostModel | None,
    ruled_out: tuple[tuple[str, str], ...],
) -> Choice:
    if policy != "auto":
        return Choice(costs=(), reason=f"policy {policy!r} was asked for", ruled_out=ruled_out)
    if len(found) == 1:
        reason = f"{next(iter(found))!r} is the only policy that is possible"
        return Choice(costs=(), reason=reason, ruled_out=ruled_out)
    return policy_costs(found, problem, cost_model, ruled_out=ruled_out)


def _filled_up(problem: Problem, best: Best) -> Best:
    """Where equal GPUs have more slots than N, each repeats what it holds, in the order of the experts' numbers."""
    cluster = problem.cluster
    slots = int(cluster.slots_G[0])
    if not cluster.is_uniform or slots <= problem.num_experts:
        return best
    expert_of_slot_LP = best.solution.expert_of_slot_LP.copy()
    for map_P in expert_of_slot_LP:
        for held_S in map_P.reshape(-1, slots):
            held_S[:] = np.resize(np.unique(held_S[held_S >= 0]), slots)
    solution = problem.evenly(expert_of_slot_LP)
    return replace(best, solution=solution, time_L=problem.worst_time(solution))


def _placement(problem: Problem, best: Best, policy: str, certificate: Certificate, choice: Choice) -> Placement:
    even_LP = even_shares(best.solution.expert_of_slot_LP, problem.num_experts)
    return Placement(
        cluster=problem.cluster,
        num_experts=problem.num_experts,
        expert_of_slot_LP=frozen(best.solution.expert_of_slot_LP),
        share_of_slot_LP=frozen(best.solution.share_LP),
        is_even=problem.is_even or bool(np.array_equal(best.solution.share_LP, even_LP)),
        policy=policy,
        solver_of_layer=best.solver_of_layer,
        certificate=certificate,
        choice=choice,
    )


def _for_loads(certificate: Certificate, is_zero_L: Bools) -> Certificate:
    """The certificate of layers of ones that stood for layers of zeros, in the loads that were given."""
    if not is_zero_L.any():
        return certificate
    return replace(
        certificate,
        mean_L=np.where(is_zero_L, 0.0, certificate.mean_L),
        bound_L=np.where(is_zero_L, 0.0, certificate.bound_L),
        achieved_L=np.where(is_zero_L, 0.0, certificate.achieved_L),
        is_optimal_L=certificate.is_optimal_L | is_zero_L,
        binding_L=tuple(
            "none" if is_zero else binding for is_zero, binding in zip(is_zero_L, certificate.binding_L, strict=True)
        ),
    )


def _quiet(step: str) -> None:
    pass

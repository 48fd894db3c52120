"""Which solver placed each layer best?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from weftrace.experts.arrays import Bools, Floats
from weftrace.experts.cluster import Cluster
from weftrace.experts.packing.packing import solve_lpt_swaps
from weftrace.experts.problem import NotApplicable, Problem, Solution, Solver
from weftrace.experts.proof.exact import solve_exact
from weftrace.experts.slots import num_repeats
from weftrace.experts.solvers.count_search import solve_count_search
from weftrace.experts.solvers.deepseek import solve_deepseek
from weftrace.experts.solvers.hierarchical import solve_hierarchical, with_best_shares
from weftrace.experts.solvers.semi_hierarchical import foreign_replicas, solve_semi_hierarchical
from weftrace.experts.solvers.wrap_around import solve_wrap_around

POLICIES = ("global", "hierarchical", "semi-hierarchical")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Best:
    """The best answer of each layer, its time (maximum over GPUs of load / speed), and the solver that gave it."""

    solution: Solution
    time_L: Floats
    solver_of_layer: tuple[str, ...]


def best_of(problem: Problem, policy: str, on_solver: Callable[[str], None]) -> Best | NotApplicable:
    """The best of each layer among the solvers of a policy: fewest experts twice on a GPU, then least time.

    An even split comes first from DeepSeek's published algorithm, so that no layer is worse than it. Of equal answers
    the first counts. `NotApplicable` with the last solver's reason where none answers.
    """
    asked = within(problem, policy)
    best: Best | None = None
    why = ""
    for name, solver in _solvers(policy, problem.is_even):
        on_solver(name)
        answer = solver(asked)
        if isinstance(answer, NotApplicable):
            why = answer.reason  # the last solver of a policy is the least demanding
            continue
        answer = with_best_shares(problem, answer)
        new = Best(solution=answer, time_L=problem.worst_time(answer), solver_of_layer=(name,) * problem.num_layers)
        best = new if best is None else better(problem.cluster, best, new)
    if best is not None and policy == "semi-hierarchical":
        best = _with_few_guests(problem, best)
    return NotApplicable(reason=why) if best is None else best


def _with_few_guests(problem: Problem, best: Best) -> Best:
    """Layer by layer a global answer where it is better and happens to keep to the policy: in small problems it often
    does, and there whole groups leave little to choose from."""
    answer = solve_lpt_swaps(within(problem, "global"))
    guests_LD = foreign_replicas(answer.expert_of_slot_LP, problem.cluster, problem.num_groups)
    keeps_L: Bools = np.all(guests_LD <= problem.max_foreign, axis=1)
    mixed = with_best_shares(problem, best.solution.or_other(keeps_L, answer))
    names = tuple(
        "lpt-swaps" if keeps else name for name, keeps in zip(best.solver_of_layer, keeps_L.tolist(), strict=True)
    )
    return better(problem.cluster, best, Best(solution=mixed, time_L=problem.worst_time(mixed), solver_of_layer=names))


def within(problem: Problem, policy: str) -> Problem:
    """The problem as the solvers of a policy see it: under "global" routing knows no groups."""
    return replace(problem, num_groups=1) if policy == "global" else problem


def better(cluster: Cluster, one: Best, other: Best) -> Best:
    """Layer by layer the other where it is better."""
    repeats_2L = [num_repeats(best.solution.expert_of_slot_LP, cluster.first_slot_G) for best in (one, other)]
    is_faster_L = other.time_L < one.time_L * (1 - 1e-12)
    takes_L = (repeats_2L[1] < repeats_2L[0]) | ((repeats_2L[1] == repeats_2L[0]) & is_faster_L)
    return Best(
        solution=one.solution.or_other(takes_L, other.solution),
        time_L=np.where(takes_L, other.time_L, one.time_L),
        solver_of_layer=tuple(
            b if takes else a for a, b, takes in zip(one.solver_of_layer, other.solver_of_layer, takes_L, strict=True)
        ),
    )


def _solvers(policy: str, is_even: bool) -> Iterable[tuple[str, Solver]]:
    if policy == "global":
        if not is_even:
            yield "wrap-around", solve_wrap_around
        yield "deepseek", solve_deepseek
        yield "exact", solve_exact
        yield "lpt-swaps", solve_lpt_swaps
        yield "count-search", solve_count_search
        return
    yield "deepseek", solve_deepseek
    yield "hierarchical", solve_hierarchical
    if policy == "semi-hierarchical":
        yield "semi-hierarchical", solve_semi_hierarchical

"""Problems for the tests of policies: checked arguments, and what an answer must keep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weftrace.experts.arrays import Floats
from weftrace.experts.cluster import Cluster, make_cluster
from weftrace.experts.problem import Problem, Solution
from weftrace.experts.slots import copies_of, load_of_gpus, num_repeats

DEEPSEEK = make_cluster(288, 32, 4)  # prefill: 256 experts in 8 groups


def problem_of(
    load_LN: Floats,
    cluster: Cluster,
    num_groups: int,
    *,
    is_even: bool = True,
    max_foreign: int = 4,
    pins: Sequence[tuple[int, int, int]] = (),
) -> Problem:
    load_LN = np.ascontiguousarray(load_LN, dtype=np.float64)
    capacity_G = np.minimum(cluster.capacity_G, load_LN.shape[1])
    return Problem(
        load_LN=load_LN,
        cluster=cluster,
        capacity_LG=np.tile(capacity_G, (len(load_LN), 1)),
        num_groups=num_groups,
        pins_K3=np.array(sorted(pins), dtype=np.int64).reshape(-1, 3),
        is_even=is_even,
        max_foreign=max_foreign,
    )


def worst_of(problem: Problem, solution: Solution) -> Floats:
    """[L] largest load / speed."""
    load_LG = load_of_gpus(solution.expert_of_slot_LP, solution.share_LP, problem.load_LN, problem.cluster.first_slot_G)
    worst_L: Floats = (load_LG / problem.cluster.speed_G).max(axis=1)
    return worst_L


def balancedness_of(problem: Problem, solution: Solution) -> float:
    mean_L = problem.load_LN.sum(axis=1) / problem.cluster.speed_G[problem.cluster.usable_G].sum()
    return float((mean_L / worst_of(problem, solution)).mean())


def check_answer(problem: Problem, solution: Solution) -> None:
    """What every solver promises."""
    map_LP, share_LP = solution.expert_of_slot_LP, solution.share_LP
    first_slot_G = problem.cluster.first_slot_G
    copies_LN = copies_of(map_LP, problem.num_experts)
    assert (copies_LN >= 1).all()
    for gpu, first in enumerate(first_slot_G[:-1]):
        for layer, capacity in enumerate(problem.capacity_LG[:, gpu]):
            row = map_LP[layer, first : first_slot_G[gpu + 1]]
            assert (row[:capacity] >= 0).all()
            assert (row[capacity:] == -1).all()
    for layer in range(problem.num_layers):
        used_P = map_LP[layer] >= 0
        sum_N = np.bincount(map_LP[layer][used_P], weights=share_LP[layer][used_P], minlength=problem.num_experts)
        np.testing.assert_allclose(sum_N, 1, atol=1e-9)
        if problem.is_even:
            np.testing.assert_allclose(share_LP[layer][used_P], 1 / copies_LN[layer][map_LP[layer][used_P]])
    assert (share_LP[map_LP < 0] == 0).all()
    for layer, expert, gpu in problem.pins_K3:
        assert expert in map_LP[layer, first_slot_G[gpu] : first_slot_G[gpu + 1]]


def repeats_of(problem: Problem, solution: Solution) -> int:
    return int(num_repeats(solution.expert_of_slot_LP, problem.cluster.first_slot_G).sum())

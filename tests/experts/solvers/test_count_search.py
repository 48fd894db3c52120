"""Counts searched with the packing: by hand, against all counts, against an exact solver, and the figures to reach."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.experts.packing.test_packing import balancedness, check, problem_of
from tests.fuzz import examples, few
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import make_cluster
from weftrace.experts.packing.packing import solve_lpt_swaps
from weftrace.experts.packing.replication import greedy_counts
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.solvers.count_search import fold_counts, solve_count_search


def fold(load_N: Floats, counts_N: Ints) -> float:
    """Largest sum of a replica and its partner, the largest with the smallest."""
    value_R = np.sort(np.repeat(load_N / counts_N, counts_N))
    return float((value_R + value_R[::-1]).max())


def solved(problem: Problem) -> Solution:
    solution = solve_count_search(problem)
    assert isinstance(solution, Solution)
    check(problem, solution)
    return solution


def test_splitting_the_small_expert_can_be_better() -> None:
    # 2 GPUs with 2 slots. Greedy splits the 12: 10 6 | 6 6 is 16 | 12. Splitting the 6: 12 3 | 10 3 is 15 | 13.
    load_LN = np.array([[12.0, 10, 6]])
    assert greedy_counts(load_LN, np.array([4]), 2).tolist() == [[2, 1, 1]]
    problem = problem_of(load_LN, make_cluster(4, 2))
    assert balancedness(problem, solve_lpt_swaps(problem)).tolist() == [14 / 16]
    assert balancedness(problem, solved(problem)).tolist() == [14 / 15]


def test_two_slots_match_the_best_of_all_counts() -> None:
    """60 layers of 5 experts on 4 GPUs with 2 slots: every way to hand out 8 slots."""
    load_LN = np.random.default_rng(2).integers(1, 40, (60, 5)).astype(np.float64)
    every_KN = np.array([c for c in itertools.product(range(1, 5), repeat=5) if sum(c) == 8])
    greedy_LN = greedy_counts(load_LN, np.full(60, 8), 4)
    mine_LN = fold_counts(load_LN, greedy_LN, 4, rounds=20)
    best_L = np.array([min(fold(load_N, counts_N) for counts_N in every_KN) for load_N in load_LN])
    mine_L = np.array([fold(*layer) for layer in zip(load_LN, mine_LN, strict=True)])
    greedy_L = np.array([fold(*layer) for layer in zip(load_LN, greedy_LN, strict=True)])
    assert (mine_L >= best_L * (1 - 1e-12)).all()
    assert (mine_L <= greedy_L * (1 + 1e-12)).all()
    assert (mine_L <= best_L * (1 + 2e-4)).mean() >= 0.9
    assert (greedy_L > best_L * 1.001).any()


@given(st.integers(2, 12), st.integers(0, 1000))
@settings(max_examples=examples(40), deadline=None)
def test_fold_counts_keep_the_slots(num_gpus: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    num_experts = int(random.integers(2, 2 * num_gpus + 1))
    load_LN = random.integers(0, 30, (2, num_experts)).astype(np.float64)
    greedy_LN = greedy_counts(load_LN, np.full(2, 2 * num_gpus), num_gpus)
    counts_LN = fold_counts(load_LN, greedy_LN, num_gpus)
    assert (counts_LN.sum(axis=1) == 2 * num_gpus).all()
    assert (counts_LN >= 1).all() and (counts_LN <= num_gpus).all()
    for load_N, mine_N, greedy_N in zip(load_LN, counts_LN, greedy_LN, strict=True):
        assert fold(load_N, mine_N) <= fold(load_N, greedy_N) * (1 + 1e-12)


def fits(load_N: Floats, num_gpus: int, limit: float, most: int) -> bool:
    """Whether some counts fold below a limit, decided by HiGHS.

    x[e, c] = 1 if expert e has c copies. One c for each e; the copies sum to 2G; and, so that the fold works, for each
    value v above limit / 2: no more replicas of at least v than of at most limit - v.
    """
    options = [(e, c, load_N[e] / c) for e in range(len(load_N)) for c in range(1, most + 1) if load_N[e] / c <= limit]
    expert_J, copies_J, value_J = (np.array(column) for column in zip(*options, strict=True))
    one_c = [(expert_J == e).astype(float) for e in range(len(load_N))]
    large = [v for v in np.unique(value_J) if v > limit / 2]
    partners = [copies_J * ((value_J >= v).astype(float) - (value_J <= limit - v)) for v in large]
    rows = np.array([*one_c, copies_J.astype(float), *partners])
    lower = np.array([1.0] * len(load_N) + [2 * num_gpus] + [-np.inf] * len(large))
    upper = np.array([1.0] * len(load_N) + [2 * num_gpus] + [0.0] * len(large))
    found = milp(
        np.zeros(len(options)),
        constraints=LinearConstraint(rows, lower, upper),
        integrality=np.ones(len(options)),
        bounds=Bounds(0, 1),
        options={"time_limit": 20},
    )
    assert found.status in (0, 2), found.message  # optimal or infeasible
    return bool(found.status == 0)


@pytest.mark.parametrize(("kind", "num_experts", "num_slots"), few([("logn0.5", 48, 60), ("zipf0.5", 64, 80)], 1))
def test_two_slots_come_close_to_an_exact_solver(kind: str, num_experts: int, num_slots: int) -> None:
    """Most of what exact optimisation gains over greedy counts is gained."""
    num_gpus, exact, greedy, mine = num_slots // 2, [], [], []
    load_LN = synthetic_loads(kind, 3, num_experts, seed=5)
    greedy_LN = greedy_counts(load_LN, np.full(3, num_slots), num_gpus)
    mine_LN = fold_counts(load_LN, greedy_LN, num_gpus, rounds=10)
    for load_N, greedy_N, mine_N in zip(load_LN, greedy_LN, mine_LN, strict=True):
        low, high = load_N.sum() / num_gpus, fold(load_N, mine_N) * (1 + 1e-9)
        assert fits(load_N, num_gpus, high, 8)
        while high - low > 1e-3 * low:
            middle = (low + high) / 2
            low, high = (low, middle) if fits(load_N, num_gpus, middle, 8) else (middle, high)
        exact.append(low)
        greedy.append(fold(load_N, greedy_N))
        mine.append(fold(load_N, mine_N))
    gain = np.sum(greedy) - np.sum(exact)
    assert gain > 0.01 * np.sum(greedy)
    assert np.sum(greedy) - np.sum(mine) >= 0.8 * gain


@given(st.data())
@settings(max_examples=examples(50), deadline=None)
def test_any_problem_is_solved_or_refused(data: st.DataObject) -> None:
    num_gpus = data.draw(st.integers(2, 6))
    slots = data.draw(st.lists(st.integers(1, 4), min_size=num_gpus, max_size=num_gpus))
    dead = data.draw(st.sets(st.integers(0, num_gpus - 1), max_size=num_gpus - 2))
    speeds = data.draw(st.lists(st.sampled_from([1.0, 1.0, 2.0]), min_size=num_gpus, max_size=num_gpus))
    cluster = make_cluster(None, num_gpus, slots_of_gpu=slots, speed_of_gpu=speeds, dead=dead)
    num_experts = data.draw(st.integers(int(cluster.capacity_G.max()), int(cluster.capacity_G.sum())))
    random = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    load_LN = random.integers(0, 50, (2, num_experts)).astype(np.float64)
    pins = []
    if int(cluster.capacity_G.sum()) > num_experts and data.draw(st.booleans()):
        pins = [(1, int(random.integers(num_experts)), int(np.argmax(cluster.usable_G)))]
    problem = problem_of(load_LN, cluster, pins=pins)
    solution = solve_count_search(problem)
    if isinstance(solution, Solution):
        check(problem, solution)


def test_what_it_refuses() -> None:
    load_LN = synthetic_loads("real", 2, 64)
    for problem in (
        problem_of(load_LN, make_cluster(64, 64)),
        problem_of(load_LN, make_cluster(72, 4)),
        problem_of(load_LN, make_cluster(72, 36), is_even=False),
    ):
        refusal = solve_count_search(problem)
        assert isinstance(refusal, NotApplicable) and refusal.reason


def test_a_lost_gpu_is_no_hindrance() -> None:
    problem = problem_of(synthetic_loads("real", 6, 128, seed=4), make_cluster(192, 64, dead=[3, 40]))
    mine, theirs = solved(problem), solve_lpt_swaps(problem)
    assert balancedness(problem, mine).mean() >= balancedness(problem, theirs).mean()


@pytest.mark.parametrize(
    ("kind", "num_experts", "num_slots", "num_gpus", "at_least"),
    [
        ("zipf0.5", 256, 288, 144, 0.820),  # swaps 0.796; exact 0.827
        ("logn0.5", 256, 320, 160, 0.985),  # swaps 0.965; exact 0.992
        ("real", 256, 320, 160, 0.905),  # swaps 0.898
        ("real", 256, 432, 144, 0.997),  # swaps 0.995
        ("real", 256, 288, 72, 0.999),  # swaps 0.9985
        ("real", 128, 160, 32, 0.9997),  # swaps 0.9996
    ],
)
def test_figures(kind: str, num_experts: int, num_slots: int, num_gpus: int, at_least: float) -> None:
    problem = problem_of(synthetic_loads(kind, 58, num_experts, seed=0), make_cluster(num_slots, num_gpus))
    assert balancedness(problem, solved(problem)).mean() >= at_least

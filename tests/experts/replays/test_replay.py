"""Replays are played in the order of time, and score what would have been in force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.errors import LoadsError, PlacementError
from weftrace.experts.arrays import Floats
from weftrace.experts.cluster import make_cluster
from weftrace.experts.placement import make_placement
from weftrace.experts.recorded.generator import generate_loads
from weftrace.experts.replays.planners import moved_fraction
from weftrace.experts.replays.replay import SOLVERS, Replay, Row, replay


def _mean(played: Replay, **wanted: object) -> float:
    """Balancedness of the one row that has these fields."""
    rows = played.table
    for name, value in wanted.items():
        rows = rows.filter(rows[name].eq_missing(value))
    assert len(rows) == 1, rows
    return float(rows["balancedness"][0])


def test_three_windows_by_hand() -> None:
    # GPU pairs on [4 3 2 1]: {0 3} {1 2}, 5 and 5. Under [4 1 2 3] that is 7 and 3: 5/7. Planned on it: {0 1} {3 2}.
    loads = [[[4, 3, 2, 1]], [[4, 1, 2, 3]], [[4, 1, 2, 3]]]
    played = replay(loads, num_slots=4, num_gpus=2, estimators=["last"], intervals=[1, 2], solvers=["deepseek"])
    assert played.rows == (
        Row(solver="deepseek", estimator="last", window=None, interval=1),
        Row(solver="deepseek", estimator="last", window=None, interval=2),
        Row(solver="once", estimator="first window", window=None, interval=None),
        Row(solver="oracle", estimator="oracle", window=None, interval=1),
    )
    nan = np.nan
    np.testing.assert_allclose(
        played.balancedness_RT, [[nan, 5 / 7, 1], [nan, 5 / 7, 5 / 7], [nan, 5 / 7, 5 / 7], [nan, 1, 1]]
    )
    # {0 3} {1 2} to {0 1} {2 3}: each GPU keeps one expert and writes one
    np.testing.assert_allclose(played.moved_RT[:2], [[nan, nan, 0.5], [nan, nan, nan]])
    assert played.num_plans_R == (2, 1, 1, 2)
    table = played.table
    np.testing.assert_allclose(table["balancedness"], [6 / 7, 5 / 7, 5 / 7, 1])
    assert table["moved_fraction"].to_list()[:3] == [0.5, 0.0, 0.0]
    assert (played.baseline_row, played.oracle_row, played.num_windows) == (2, 3, 3)


def test_slots_of_a_gpu_are_interchangeable_when_moves_are_counted() -> None:
    cluster = make_cluster(6, 2)
    old = make_placement([[0, 1, 1, 2, 3, 3]], cluster, 4)
    for slots, written in (([1, 0, 1, 3, 2, 3], 0), ([0, 0, 1, 2, 3, 3], 1), ([2, 3, 3, 0, 1, 1], 6)):
        assert moved_fraction(old, make_placement([slots], cluster, 4)) == written / 6


def test_loads_that_never_change_need_one_plan() -> None:
    history = generate_loads("real", 5, 4, 32, drift=1.0, tokens=None)
    played = replay(history, num_slots=40, num_gpus=8, windows=[2], intervals=[1])
    scored_RT = played.balancedness_RT[:, 1:]
    np.testing.assert_allclose(scored_RT, np.broadcast_to(scored_RT[:, :1], scored_RT.shape), rtol=1e-9)
    by_solver = dict(zip((row.solver for row in played.rows), scored_RT[:, 0], strict=True))
    assert by_solver["balance"] == pytest.approx(by_solver["oracle"]) == pytest.approx(by_solver["once"])
    assert by_solver["balance"] >= by_solver["deepseek"]
    assert by_solver["balance+resplit"] == pytest.approx(1)  # 40 >= 32 + 8 - 1 slots: the construction is perfect
    assert np.nanmax(played.moved_RT) <= 1e-9


def test_nothing_looks_ahead() -> None:
    """Whatever comes after a window, all that was scored up to it is the same to the last bit."""
    history = generate_loads("logn1", 9, 2, 16, drift=0.9, tokens=2000)
    other = generate_loads("zipf1", 9, 2, 16, drift=0.1, tokens=50, seed=7)
    arguments = {"estimators": ["last", "mean", "ema", "risk"], "windows": [3], "intervals": [1, 3]}
    full = replay(history, num_slots=20, num_gpus=4, **arguments)  # type: ignore[arg-type]
    for last in (1, 4, 6):
        poisoned = history.load_TLN.copy()
        poisoned[last + 1 :] = other.load_TLN[last + 1 :]
        played = replay(poisoned, num_slots=20, num_gpus=4, **arguments)  # type: ignore[arg-type]
        np.testing.assert_array_equal(played.balancedness_RT[:, : last + 1], full.balancedness_RT[:, : last + 1])
        np.testing.assert_array_equal(played.moved_RT[:, : last + 1], full.moved_RT[:, : last + 1])
        assert (played.balancedness_RT[:, last + 1 :] != full.balancedness_RT[:, last + 1 :]).any(axis=1).all()


def test_threads_and_progress_do_not_change_the_answer() -> None:
    history = generate_loads("logn1", 6, 2, 16, tokens=2000)
    summary: list[tuple[int, int]] = []
    one = replay(
        history, num_slots=20, num_gpus=4, workers=1, on_progress=lambda done, total: summary.append((done, total))
    )
    four = replay(history, num_slots=20, num_gpus=4, workers=4)
    np.testing.assert_array_equal(one.balancedness_RT, four.balancedness_RT)
    assert one.table.drop("plan_ms").equals(four.table.drop("plan_ms"))
    assert summary[-1] == (5 * len(one.rows),) * 2
    assert [done for done, _ in summary] == sorted(done for done, _ in summary)


def test_fast_drift_wants_the_last_window_and_noise_wants_the_mean_of_many() -> None:
    fast = generate_loads("logn1", 40, 4, 64, drift=0.8, tokens=None)
    noisy = generate_loads("logn0.5", 40, 4, 64, drift=1.0, tokens=640)
    means = [
        [_mean(played, estimator=estimator, window=window) for estimator, window in (("last", None), ("mean", 16))]
        for played in (
            replay(
                each,
                num_slots=80,
                num_gpus=16,
                solvers=["deepseek"],
                estimators=["last", "mean"],
                windows=[16],
                intervals=[1],
            )
            for each in (fast, noisy)
        )
    ]
    assert means[0][0] > means[0][1] + 0.02
    assert means[1][1] > means[1][0] + 0.03


def test_a_new_split_in_every_window_gains_points_and_a_replan_moves_little() -> None:
    history = generate_loads("real", 33, 8, 64, drift=0.98, tokens=200_000)
    played = replay(history, num_slots=80, num_gpus=16, estimators=["last"], intervals=[8], max_moves=0.06)
    assert _mean(played, solver="balance+resplit") > _mean(played, solver="balance") + 0.03
    assert _mean(played, solver="oracle") > _mean(played, solver="replan") > _mean(played, solver="once") + 0.03
    moved = dict(zip(played.table["solver"], played.table["moved_fraction"], strict=True))
    assert moved["replan"] <= 0.06 < 0.5 < moved["balance"]


def test_hierarchical_placements_are_kept_hierarchical() -> None:
    history = generate_loads("logn1", 4, 2, 32, tokens=None)
    played = replay(
        history, num_slots=48, num_gpus=8, num_nodes=2, num_groups=4, policy="hierarchical", windows=[2], intervals=[2]
    )
    assert played.policy == "hierarchical"
    free = replay(history, num_slots=48, num_gpus=8, num_nodes=2, num_groups=4, policy="global", solvers=["balance"])
    assert _mean(played, solver="oracle") <= _mean(free, solver="oracle") + 1e-9


@settings(max_examples=examples(15), deadline=None)
@given(
    num_windows=st.integers(2, 6),
    interval=st.integers(1, 4),
    spare=st.integers(0, 2),
    seed=st.integers(0, 99),
    split=st.sampled_from(["even", "uneven"]),
)
def test_scores_and_moves_are_fractions(num_windows: int, interval: int, spare: int, seed: int, split: str) -> None:
    history = generate_loads("zipf1", num_windows, 2, 8, drift=0.5, tokens=30, seed=seed)
    played = replay(
        history, num_slots=8 + 4 * spare, num_gpus=4, windows=[2], intervals=[interval], split=split, num_resamples=50
    )
    assert np.isnan(played.balancedness_RT[:, 0]).all()
    scored: Floats = played.balancedness_RT[:, 1:]
    assert ((scored > 0) & (scored <= 1 + 1e-9)).all()
    assert ((played.moved_RT >= 0) & (played.moved_RT <= 1) | np.isnan(played.moved_RT)).all()
    plans = -(-(num_windows - 1) // interval)
    assert played.num_plans_R[:-2] == (plans,) * (len(played.rows) - 2)
    table = played.table
    assert (table["low"] <= table["balancedness"] + 1e-12).all()
    assert (table["high"] >= table["balancedness"] - 1e-12).all()
    assert table.columns == [
        "solver", "estimator", "window", "interval", "balancedness", "low", "high",
        "moved_fraction", "num_plans", "plan_ms",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"history": [[1, 2], [3, 4]]}, LoadsError, "a window to plan on and one to score"),
        ({"history": [[[1, -2]], [[3, 4]]]}, LoadsError, "is negative"),
        ({"solvers": ["deepseek", "best"]}, PlacementError, f"choose from {', '.join(SOLVERS)}".replace("+", r"\+")),
        ({"estimators": ["median"]}, PlacementError, "no estimator 'median' to replay"),
        ({"windows": [0]}, PlacementError, "windows are whole numbers"),
        ({"intervals": [2.5]}, PlacementError, "intervals are whole numbers"),
        ({"intervals": []}, PlacementError, "at least one solver and one interval"),
        ({"num_resamples": 0}, PlacementError, "num_resamples"),
        ({"num_slots": 3}, PlacementError, "3 slots cannot be shared evenly by 2 GPUs"),
        ({"num_slots": 2}, PlacementError, "2 slots|slots"),
        ({"policy": "local"}, PlacementError, "local"),
        ({"max_moves": 2.0, "solvers": ["replan"], "intervals": [1]}, PlacementError, "max_moves"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], error: type[Exception], text: str) -> None:
    three = [[[1, 2, 3, 4]], [[4, 3, 2, 1]], [[1, 3, 2, 4]]]
    with pytest.raises(error, match=text) as raised:
        replay(**{"history": three, "num_slots": 4, "num_gpus": 2, **arguments})  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_a_replay_is_a_value() -> None:
    played = replay([[[1, 2]], [[2, 1]]], num_slots=2, num_gpus=2)
    with pytest.raises(AttributeError):
        played.seed = 3  # type: ignore[misc]
    assert replace(played, seed=3).seed == 3

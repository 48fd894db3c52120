"""The recommendation: the best row, its gain with a band, and the cheapest row that is as good."""

from __future__ import annotations

import numpy as np
import pytest

from weftrace.errors import PlacementError
from weftrace.experts.recorded.generator import generate_loads
from weftrace.experts.replays.recommend import in_words, recommend
from weftrace.experts.replays.replay import Replay, Row, replay

NAN = np.nan


def _replay(balancedness: list[list[float]], moved: list[list[float]]) -> Replay:
    """Rows by hand: deepseek, balance+resplit, replan, then the baseline and the oracle."""
    rows = (
        Row(solver="deepseek", estimator="last", window=None, interval=1),
        Row(solver="balance+resplit", estimator="mean", window=4, interval=2),
        Row(solver="replan", estimator="ema", window=8, interval=2),
        Row(solver="once", estimator="first window", window=None, interval=None),
        Row(solver="oracle", estimator="oracle", window=None, interval=1),
    )
    return Replay(
        rows=rows,
        balancedness_RT=np.array([[NAN, *row] for row in balancedness]),
        moved_RT=np.array([[NAN, *row] for row in moved]),
        num_plans_R=(4, 2, 2, 1, 4),
        plan_ms_R=(1.0,) * 5,
        source="by hand",
        num_layers=1,
        num_experts=4,
        num_slots=4,
        num_gpus=2,
        policy="global",
        block=1,
        num_resamples=2000,
        seed=0,
    )


STEADY = _replay(
    [[0.8, 0.9, 0.8, 0.9], [0.9, 1.0, 0.9, 1.0], [0.95, 0.93, 0.93, 0.95], [0.7, 0.8, 0.7, 0.8], [1.0] * 4],
    [[NAN, 0.9, 0.9, 0.9], [NAN, NAN, 0.9, NAN], [NAN, NAN, 0.05, NAN], [NAN] * 4, [NAN, 0.9, 0.9, 0.9]],
)


def test_the_best_row_its_paired_gain_and_the_cheaper_one() -> None:
    advice = recommend(STEADY)
    assert (advice.row, advice.baseline_row, advice.cheaper_row) == (1, 3, 2)
    assert advice.gain_points == pytest.approx(20)
    # the two rows differ by 0.2 in each window, so no resample can tell anything else
    assert advice.gain_low == pytest.approx(20) == pytest.approx(advice.gain_high)
    assert advice.text == (
        "balance+resplit every 2 windows on the mean of 4 would have reached a balancedness of 0.9500 "
        "(0.9000 to 1.0000), 20.0 points more (20.0 to 20.0) than a plan on the first window, kept. "
        "Within its band and cheaper: replan every 2 windows on a moving average as long as 8, 0.9400, "
        "which writes 1.2 % of the slots a window instead of 22.5 %."
    )


def test_a_row_below_the_band_is_not_cheaper_and_solvers_can_be_left_out() -> None:
    worse = _replay(
        [[0.80] * 4, [0.95] * 4, [0.94] * 4, [0.7] * 4, [1.0] * 4],
        [[NAN] * 4, [NAN, NAN, 0.9, NAN], [NAN, NAN, 0.05, NAN], [NAN] * 4, [NAN] * 4],
    )
    assert recommend(worse).cheaper_row is None
    assert "cheaper" not in recommend(worse).text
    even = recommend(worse, solvers=["deepseek", "replan"], baseline_row=0)
    assert (even.row, even.baseline_row) == (2, 0)
    assert even.gain_points == pytest.approx(14)


def test_the_baseline_is_the_published_eplb_planned_as_often_on_the_same_estimate() -> None:
    played = replay(
        generate_loads("real", 12, 4, 32), num_slots=40, num_gpus=8, intervals=[2], windows=[2], estimators=["last"],
        solvers=["deepseek", "balance+resplit"],
    )  # fmt: skip
    advice = recommend(played)
    assert played.rows[advice.row].solver == "balance+resplit"
    assert played.rows[advice.baseline_row] == Row(solver="deepseek", estimator="last", window=None, interval=2)
    assert "than deepseek every 2 windows on the last window" in advice.text
    alone = recommend(played, solvers=["deepseek"])
    assert alone.baseline_row == played.baseline_row  # the best itself: then planned once


def test_the_oracle_is_never_recommended_nor_unknown_rows() -> None:
    with pytest.raises(PlacementError, match="none of oracle was replayed"):
        recommend(STEADY, solvers=["oracle"])
    with pytest.raises(PlacementError, match="row 5 does not exist; the replay has rows 0 to 4"):
        recommend(STEADY, baseline_row=5)


def test_a_played_history_gets_its_advice() -> None:
    played = replay(generate_loads("real", 24, 4, 32, drift=0.95), num_slots=40, num_gpus=8, intervals=[2, 8])
    advice = recommend(played)
    table = played.table
    assert table["balancedness"][advice.row] == max(table["balancedness"].to_list()[:-2])
    assert played.rows[advice.row].solver == "balance+resplit"
    assert advice.gain_low <= advice.gain_points <= advice.gain_high
    assert recommend(played, baseline_row=played.baseline_row).gain_low > 0
    assert advice.text.count("\n") == 0


def test_rows_in_words() -> None:
    assert in_words(Row(solver="deepseek", estimator="risk", window=3, interval=1)) == (
        "deepseek every window on mean and deviation as long as 3"
    )
    assert in_words(STEADY.rows[-1]) == "a plan for each window on itself"

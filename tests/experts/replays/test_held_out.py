"""The next window: every plan is judged on loads that it has not seen, and the published EPLB stands beside it."""

from __future__ import annotations

import numpy as np
import pytest

from weftrace.errors import LoadsError
from weftrace.experts import (
    PlacementReport,
    as_history,
    balance,
    generate_loads,
    make_cluster,
    make_placement,
    placement_report,
    rebalance_experts,
    replan,
)
from weftrace.experts.arrays import Floats
from weftrace.experts.placement import Placement
from weftrace.experts.replays.held_out import MOST, judge_next_windows

CLUSTER = make_cluster(4, 2)


def in_pairs(load_LN: Floats) -> Placement:
    """Four experts on two GPUs: the hottest with the coldest."""
    order = np.argsort(-load_LN[0], kind="stable")
    return make_placement([[order[0], order[3], order[1], order[2]]], CLUSTER, 4)


def test_each_window_is_judged_by_a_plan_made_before_it() -> None:
    """Window 0: 4 3 2 1, planned 0+3 | 1+2. Window 1: 1 3 2 4 gives 5 | 5. Window 2: 0 4 4 0 gives 0 | 8."""
    history = as_history([[[4, 3, 2, 1]], [[1, 3, 2, 4]], [[0, 4, 4, 0]]])
    judged = judge_next_windows(history, {"in pairs": in_pairs}, look_back=1)
    assert judged is not None
    assert (judged.windows_W, judged.look_back) == ((1, 2), 1)
    # the plan for window 2 is made on window 1: 3+0 | 1+2, of which it makes 0 | 8
    np.testing.assert_allclose(judged.rows[0].balancedness_W, [1.0, 0.5])


def test_plans_see_all_windows_before_or_as_many_as_they_look_back() -> None:
    history = generate_loads("real", 12, 1, 4)
    for look_back, first in ((None, 12 - MOST), (1, 12 - MOST), (10, 10), (12, 11)):
        seen: list[Floats] = []

        def plan(load_LN: Floats, seen: list[Floats] = seen) -> Placement:
            seen.append(load_LN)
            return in_pairs(load_LN)

        judged = judge_next_windows(history, {"in pairs": plan}, look_back=look_back)
        assert judged is not None and judged.windows_W == tuple(range(first, 12))
        for window, load_LN in zip(judged.windows_W, seen, strict=True):
            start = 0 if look_back is None else max(0, window - look_back)
            np.testing.assert_allclose(load_LN, history.load_TLN[start:window].sum(axis=0))


def test_one_window_has_no_next() -> None:
    assert judge_next_windows(as_history([[1, 2, 3, 4]]), {"in pairs": in_pairs}) is None
    history = as_history(np.ones((1, 2, 32)))
    assert placement_report(balance(history.total(), 48, 8, time_budget_s=0), history).next_windows is None


def rows_of(report: PlacementReport) -> dict[str, float]:
    judged = report.next_windows
    assert judged is not None
    return {row.name: float(np.mean(row.balancedness_W)) for row in judged.rows}


def test_the_published_eplb_stands_beside_on_the_same_windows() -> None:
    history = generate_loads("real", 6, 4, 64, drift=0.9)
    placement = balance(history.total(2), 72, 8, 2, 4, policy="semi-hierarchical", time_budget_s=0)
    report = placement_report(placement, history, num_groups=4, last=2)
    rows = rows_of(report)
    assert list(rows) == [
        "semi-hierarchical", "the published EPLB by node", "the published EPLB globally", "hierarchical",
    ]  # fmt: skip
    for name, groups, nodes in (("the published EPLB by node", 4, 2), ("the published EPLB globally", 1, 1)):
        by_hand = []
        for window in range(2, 6):
            loads = history.load_TLN[window - 2 : window].sum(axis=0)
            phy2log = rebalance_experts(loads, 72, groups, nodes, 8, order="stable")[0]
            published = make_placement(phy2log, placement.cluster, 64)
            by_hand.append(published.balancedness(history.load_TLN[window]).mean())
        assert rows[name] == pytest.approx(np.mean(by_hand))
    judged = report.next_windows
    assert judged is not None
    assert [row.part for row in judged.rows] == ["this", "baseline", "beside", "beside"]


@pytest.mark.parametrize(("drift", "least"), [(1.0, 5.0), (0.995, 3.5), (0.98, 1.0)])
def test_the_gain_on_the_next_window_is_semi_hierarchical_against_hierarchical(drift: float, least: float) -> None:
    """Loads of DeepSeek-V3's shape, of 16 layers, planned on the window before: what packing gains on the loads that it
    is fitted to is gone on the next window, where the published EPLB run globally is as good; what a few foreign
    replicas a node gain against whole groups is not."""
    history = generate_loads("real", 8, 16, 256, drift=drift)
    placement = balance(history.total(1), 288, 32, 4, 8, policy="semi-hierarchical", time_budget_s=0)
    rows = rows_of(placement_report(placement, history, num_groups=8, last=1))
    semi = rows["semi-hierarchical"]
    assert 100 * (semi - rows["hierarchical"]) > least
    assert 100 * (semi - rows["the published EPLB by node"]) > least
    assert abs(semi - rows["the published EPLB globally"]) < 0.01
    assert placement.balancedness(history.total(1)).mean() > 0.999  # the fit, whatever the drift


def test_a_re_plan_is_judged_beside_the_placement_before() -> None:
    history = generate_loads("real", 6, 4, 64, drift=0.9)
    before = balance(history.load_TLN[0], 72, 8, 2, 4, time_budget_s=0)
    after = replan(before, history.total(1), num_groups=4).placement
    rows = rows_of(placement_report(after, history, num_groups=4, before=before, last=1))
    assert list(rows)[:2] == ["this re-plan", "the placement before, kept"]
    kept = [before.balancedness(window_LN).mean() for window_LN in history.load_TLN[1:]]
    assert rows["the placement before, kept"] == pytest.approx(np.mean(kept))


def test_a_placement_that_used_lost_gpus_is_not_kept() -> None:
    history = generate_loads("real", 4, 2, 32)
    before = balance(history.total(), 48, 8, time_budget_s=0)
    after = replan(before, history.total(), cluster=make_cluster(48, 8, dead=[2])).placement
    assert list(rows_of(placement_report(after, history, before=before))) == ["this re-plan"]


def test_loads_without_windows_have_no_last_ones() -> None:
    placement = balance(np.ones((2, 8)), 8, 4, time_budget_s=0)
    with pytest.raises(LoadsError, match="give the LoadHistory"):
        placement_report(placement, np.ones((2, 8)), last=1)

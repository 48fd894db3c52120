"""Who computes longer than those that do the same: by hand, over ranks, stages and steps."""

from __future__ import annotations

import polars as pl
import pytest

from weftrace.analysis.slow_work import ALL, TIMES_SCHEMA, slow_work


def rank(*per_step: int, **phases: list[int]) -> pl.DataFrame:
    """What a rank computed in steps 0, 1, ...; and in its phases."""
    rows = [(step, ALL, ns) for step, ns in enumerate(per_step)]
    rows += [(step, phase, ns) for phase, each in phases.items() for step, ns in enumerate(each)]
    return pl.DataFrame(rows, schema=TIMES_SCHEMA, orient="row")


def test_a_slow_rank_is_told_with_the_phase_in_which_it_loses() -> None:
    """20 against a lower median of 10: 2.00 times, of which the backward is 14 against 6."""
    others = [rank(10, 10, forward=[4, 4], backward=[6, 6]) for _ in range(3)]
    found = slow_work([others[0], rank(20, 20, forward=[6, 6], backward=[14, 14]), *others[1:]])
    assert found is not None and found.num_steps == 2
    assert found.ranks.get_column("is_slow").to_list() == [False, True, False, False]
    assert found.ranks.select("compute_ns", "peers_ns", "ratio", "phase").row(1) == (20, 10, 2.0, "backward")
    assert found.ranks.get_column("phase_ratio")[1] == pytest.approx(14 / 6)
    assert found.stages.is_empty() and found.varies is None


def test_a_long_stage_is_no_slow_rank_of_it() -> None:
    """Stages of two ranks: each is as its peer, and the last takes 14 where the others take 10."""
    found = slow_work([rank(10), rank(10), rank(10), rank(10), rank(14), rank(14)], [0, 0, 1, 1, 2, 2])
    assert found is not None
    assert not found.ranks.get_column("is_slow").any()
    assert found.stages.get_column("compute_ns").to_list() == [10, 10, 14]
    assert found.stages.get_column("ratio").to_list() == pytest.approx([1.0, 1.0, 1.4])
    assert found.stages.get_column("is_slow").to_list() == [False, False, True]


def test_a_slow_rank_makes_no_long_stage() -> None:
    ranks = [rank(20, 20), *[rank(10, 10)] * 3, *[rank(10, 10)] * 4]
    found = slow_work(ranks, [0] * 4 + [1] * 4)
    assert found is not None
    assert found.ranks.filter("is_slow").get_column("at").to_list() == [0]
    assert not found.stages.get_column("is_slow").any()


def test_another_slowest_in_each_step_is_no_slow_rank() -> None:
    """Steps in which one rank after the other takes twice as long: as where sequences differ in length."""
    ranks = [rank(*(20 if step == at else 10 for step in range(4))) for at in range(4)]
    found = slow_work(ranks)
    assert found is not None
    assert not found.ranks.get_column("is_slow").any()
    assert (found.varies, found.num_slowest) == (2.0, 4)


def test_a_rank_within_the_scatter_of_all_is_not_told() -> None:
    """Ratios 0.8, 0.9, 1.0, 1.1, 1.2 around 1: the last is no farther out than chance takes them."""
    found = slow_work([rank(ns, ns) for ns in (80, 90, 100, 110, 120)])
    assert found is not None and not found.ranks.get_column("is_slow").any()


def test_only_steps_that_every_rank_tells_are_compared() -> None:
    found = slow_work([rank(10, 10, 10), rank(10), rank(10)])
    assert found is not None and found.num_steps == 1


def test_of_one_rank_nothing_is_told() -> None:
    assert slow_work([rank(10)]) is None
    assert slow_work([rank(0), rank(0)]) is None

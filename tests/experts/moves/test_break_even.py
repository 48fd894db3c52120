"""Break-even by pencil."""

from __future__ import annotations

import pytest

from weftrace.errors import PlacementError
from weftrace.experts.cluster import make_cluster
from weftrace.experts.moves.break_even import break_even
from weftrace.experts.placement import make_placement
from weftrace.facts import sustained_flops_per_s

CLUSTER = make_cluster(4, 2)
OLD = make_placement([[0, 1, 2, 3]], CLUSTER, 4)
NEW = make_placement([[0, 2, 1, 3]], CLUSTER, 4)
LOADS = [[1, 2, 1, 0]]  # the old one has 3 and 1 on its GPUs, the new one 2 and 2


def test_steps_are_moving_time_over_saved_time() -> None:
    summary = break_even(OLD, NEW, LOADS, moving_s=10, token_s=2)
    assert (summary.before_s, summary.after_s, summary.saved_s) == (6, 4, 2)
    assert summary.num_steps == 5
    assert break_even(OLD, NEW, LOADS, moving_s=10.5, token_s=2).num_steps == 6
    assert break_even(OLD, NEW, LOADS, moving_s=10, token_s=2, steps_in_loads=10).num_steps == 50


def test_layers_add_up() -> None:
    one, two = (make_placement(each.phy2log.tolist() * 2, CLUSTER, 4) for each in (OLD, NEW))
    assert break_even(one, two, LOADS * 2, moving_s=10, token_s=2).num_steps == 3


def test_what_saves_nothing_never_pays() -> None:
    worse = break_even(NEW, OLD, LOADS, moving_s=1, token_s=2)
    assert worse.num_steps is None
    assert worse.saved_s < 0
    assert break_even(OLD, OLD, LOADS, moving_s=1, token_s=2).num_steps is None
    assert break_even(OLD, OLD, LOADS, moving_s=0, token_s=2).num_steps == 0


def test_a_slow_gpu_counts_by_its_speed() -> None:
    slow = make_placement([[0, 1, 2, 3]], make_cluster(4, 2, speed_of_gpu=[1, 0.25]), 4)
    assert break_even(slow, OLD, LOADS, moving_s=1, token_s=1).before_s == 4  # load 1 at speed 1/4


def test_deepseek_v3_computes_a_seventh_of_a_second_a_step() -> None:
    """58 layers, 4096 tokens a GPU, 8 experts a token: 32768 rows a GPU of 74 ns; 0.5 s of moving pays for itself in 19
    steps if a fifth of that is saved."""
    assert pytest.approx(0.141, rel=0.01) == 58 * 32768 * 6 * 7168 * 2048 / sustained_flops_per_s("expert gemm")


def test_bad_options() -> None:
    with pytest.raises(PlacementError, match="moving_s must be a number of at least 0, not -1"):
        break_even(OLD, NEW, LOADS, moving_s=-1, token_s=2)
    with pytest.raises(PlacementError, match="token_s must be a number above 0, not 0"):
        break_even(OLD, NEW, LOADS, moving_s=1, token_s=0)
    with pytest.raises(PlacementError, match="4 experts, and the loads of 1 and 3"):
        break_even(OLD, NEW, [[1, 2, 3]], moving_s=1, token_s=2)

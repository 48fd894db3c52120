"""Moves are carried out on a simulated memory: the right experts end in the right slots, one peer a GPU and round."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.errors import PlacementError
from weftrace.experts.arrays import Ints
from weftrace.experts.cluster import make_cluster
from weftrace.experts.moves.moves import Moves, moves_between
from weftrace.experts.moves.relabel import relabel
from weftrace.experts.moves.replan import replan
from weftrace.experts.placement import Placement, make_placement
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.experts.solvers.balance import balance
from weftrace.experts.solvers.deepseek import rebalance_experts
from weftrace.experts.traffic.policy_cost import CostModel
from weftrace.facts import hardware

EXPERT_BYTES = CostModel().expert_bytes  # DeepSeek-V3's in FP8


def carried_out(old: Placement, moves: Moves) -> Ints:
    """The slots after the moves, as the docstring of `Moves` says: a round reads before it writes, and what is
    overwritten goes to staging memory as long as a later move names its slot."""
    memory = old.expert_of_slot_LP.copy()
    last_read: dict[tuple[int, int], int] = {}
    for now, layer, slot in zip(
        moves.round_M.tolist(), moves.layer_M.tolist(), moves.from_slot_M.tolist(), strict=True
    ):
        last_read[layer, slot] = now
    staging: dict[tuple[int, int], int] = {}
    gpu_of_slot_P = old.cluster.gpu_of_slot_P
    most = 0
    for now in range(moves.num_rounds):
        arriving: dict[tuple[int, int], int] = {}
        held = np.zeros(old.cluster.num_gpus, dtype=np.int64)
        for move in np.flatnonzero(moves.round_M == now):
            layer = int(moves.layer_M[move])
            source, target = (layer, int(moves.from_slot_M[move])), (layer, int(moves.slot_M[move]))
            assert moves.staged_M[move] == (source in staging)
            stored = moves.from_slot_M[move] < 0
            arriving[target] = int(moves.expert_M[move]) if stored else staging.get(source, int(memory[source]))
            held[moves.to_gpu_M[move]] += int(moves.from_gpu_M[move] != moves.to_gpu_M[move])
        for target in arriving:
            if last_read.get(target, -1) > now:
                staging[target] = int(memory[target])
        for _, slot in staging:
            held[gpu_of_slot_P[slot]] += 1
        most = max(most, int(held.max()))
        for target, expert in arriving.items():
            memory[target] = expert
        staging = {place: expert for place, expert in staging.items() if last_read[place] > now}
    assert moves.most_staged == most
    return memory


def check(old: Placement, new: Placement) -> Moves:
    moves = moves_between(old, new, expert_bytes=EXPERT_BYTES)
    filled = new.expert_of_slot_LP >= 0
    np.testing.assert_array_equal(carried_out(old, moves)[filled], new.expert_of_slot_LP[filled])
    assert moves.num_moves == ((old.expert_of_slot_LP != new.expert_of_slot_LP) & filled).sum()
    peers: dict[tuple[int, int], set[int]] = defaultdict(set)
    sent: dict[tuple[int, int], int] = defaultdict(int)
    received: dict[tuple[int, int], int] = defaultdict(int)
    for now, one, other in zip(moves.round_M, moves.from_gpu_M, moves.to_gpu_M, strict=True):
        if one >= 0 and one != other:
            peers[now, one].add(other)
            peers[now, other].add(one)
            sent[now, one] += 1
            received[now, other] += 1
    assert all(len(others) == 1 for others in peers.values()), "one peer a GPU and round"
    assert max([*sent.values(), *received.values()], default=0) <= 1, "one expert each way"
    assert not set(moves.from_gpu_M.tolist()) & new.cluster.dead
    assert (np.diff(moves.round_M) >= 0).all()
    return moves


def placed(slots: list[list[int]], gpus: int, num_experts: int, **options: Any) -> Placement:
    return make_placement(slots, make_cluster(len(slots[0]), gpus, **options), num_experts)


def test_a_swap_is_one_round() -> None:
    moves = check(placed([[0, 1]], 2, 2), placed([[1, 0]], 2, 2))
    assert (moves.num_rounds, moves.num_moves, moves.most_staged) == (1, 2, 1)


def test_a_chain_is_read_before_it_is_overwritten() -> None:
    # GPU 2's expert is spare: 0 to GPU 1, 1 to GPU 2; GPU 1 has one peer a round, and gives away before it receives
    moves = check(placed([[0, 1, 0]], 3, 2), placed([[0, 0, 1]], 3, 2))
    assert moves.table.select("round", "slot", "from_slot").rows() == [(0, 2, 1), (1, 1, 0)]
    assert not moves.staged_M.any()


def test_a_ring_of_three_is_broken_by_staging() -> None:
    moves = check(placed([[0, 1, 2]], 3, 3), placed([[2, 0, 1]], 3, 3))
    assert (moves.num_moves, moves.num_rounds, moves.staged_M.sum()) == (3, 3, 1)


def test_inside_a_gpu_nothing_travels() -> None:
    moves = check(placed([[0, 1, 2, 3]], 2, 4), placed([[1, 0, 3, 2]], 2, 4))
    assert (moves.num_moves, moves.num_local, moves.num_bytes, moves.time_s) == (4, 4, 0, 0.0)


def test_time_is_the_sum_of_the_slowest_transfers() -> None:
    # two nodes of two GPUs: a swap inside the first (round 0), and 0 -> 1 of the second across nodes with its answer
    old, new = placed([[0, 1, 2, 3]], 4, 4, num_nodes=2), placed([[1, 0, 3, 2]], 4, 4, num_nodes=2)
    device = hardware("H800")
    assert check(old, new).time_s == pytest.approx(EXPERT_BYTES / device.link_bytes_per_s)
    new = placed([[2, 3, 0, 1]], 4, 4, num_nodes=2)
    moves = check(old, new)
    assert moves.time_s == pytest.approx(EXPERT_BYTES / device.nic_bytes_per_s)
    assert (moves.num_in_node, moves.num_between_nodes, moves.num_bytes) == (0, 4, 4 * EXPERT_BYTES)


def test_the_nearest_copy_is_read_and_never_a_dead_one() -> None:
    old = placed([[0, 1, 2, 3, 0, 4]], 6, 5, num_nodes=2)  # expert 0 on GPUs 0 and 4
    new = placed([[0, 1, 0, 3, 2, 4]], 6, 5, num_nodes=2)
    assert check(old, new).table.row(by_predicate=pl.col("slot") == 2, named=True)["from_gpu"] == 0
    new = make_placement([[-1, 1, 0, 3, 2, 4]], make_cluster(6, 6, 2, dead=[0]), 5)
    assert check(old, new).table.row(by_predicate=pl.col("slot") == 2, named=True)["from_gpu"] == 4


def test_an_expert_without_a_copy_comes_from_storage() -> None:
    cluster = make_cluster(6, 3, dead=[0])
    old = make_placement([[0, 1, 2, 1, 2, 1]], make_cluster(6, 3), 3)
    new = make_placement([[-1, -1, 0, 1, 2, 1]], cluster, 3)
    moves = check(old, new)
    assert (moves.num_from_storage, moves.num_bytes) == (1, 0)


def test_a_draining_gpu_can_still_be_read() -> None:
    old = make_placement([[0, 1, 2, 1, 2, 1]], make_cluster(6, 3), 3)
    new = make_placement([[-1, -1, 0, 1, 2, 1]], make_cluster(6, 3, draining=[0]), 3)
    moves = check(old, new)
    assert (moves.num_from_storage, moves.from_gpu_M.tolist()) == (0, [0])


def test_nothing_to_do() -> None:
    old = placed([[0, 1]], 2, 2)
    moves = check(old, old)
    assert (moves.num_moves, moves.num_rounds, moves.most_staged, moves.time_s) == (0, 0, 0, 0.0)


def test_moving_everything_of_deepseek_v3_takes_about_half_a_second() -> None:
    """58 layers of 288 slots of 44 MB are 735 GB; at 50 GB/s for each of 32 GPUs they take 0.46 s if every one of them
    receives all the time. With one peer at a time it does not quite."""
    loads = synthetic_loads("real", 58, 256)
    cluster = make_cluster(288, 32, 4)
    old = make_placement(rebalance_experts(loads, 288, 8, 4, 32, order="stable")[0], cluster, 256)
    new = make_placement(rebalance_experts(loads[::-1].copy(), 288, 1, 1, 32, order="stable")[0], cluster, 256)
    moves = check(old, new)
    assert pytest.approx(44e6, rel=0.002) == EXPERT_BYTES
    assert moves.num_slots * EXPERT_BYTES == pytest.approx(735e9, rel=0.002)
    assert moves.num_moves > 0.9 * moves.num_slots
    received_G = np.bincount(moves.to_gpu_M[moves.from_gpu_M != moves.to_gpu_M], minlength=32)
    assert received_G.max() * EXPERT_BYTES / 50e9 == pytest.approx(0.46, abs=0.03)
    assert moves.time_s is not None and 0.45 < moves.time_s < 0.7
    assert moves.num_rounds < 1.5 * received_G.max()
    assert check(old, relabel(old, new)).num_moves < 0.96 * moves.num_moves


@settings(max_examples=examples(60))
@given(data=st.data())
def test_any_two_placements(data: st.DataObject) -> None:
    gpus = data.draw(st.sampled_from([2, 3, 4, 6]))
    slots = data.draw(st.integers(1, 4))
    num_experts = data.draw(st.integers(max(1, slots), gpus * slots))
    seed = data.draw(st.integers(0, 10_000))
    random = np.random.default_rng(seed)

    def any_map() -> Placement:
        rows = []
        for _ in range(2):
            extra = random.integers(0, num_experts, gpus * slots - num_experts)
            rows.append(random.permutation(np.concatenate([np.arange(num_experts), extra])))
        return make_placement(rows, make_cluster(gpus * slots, gpus), num_experts)

    check(any_map(), any_map())


def test_moves_of_a_replan_after_a_death() -> None:
    loads = synthetic_loads("logn1", 4, 32)
    old = balance(loads, 48, 8, 2, 4, policy="global", time_budget_s=0)
    new = replan(old, loads, cluster=make_cluster(48, 8, 2, dead=[5]), max_moves=0.05)
    moves = check(old, new.placement)
    assert moves.num_moves == new.num_moves


def test_placements_of_other_shapes_are_refused() -> None:
    with pytest.raises(PlacementError, match="layers of"):
        moves_between(placed([[0, 1]], 2, 2), placed([[0, 1], [1, 0]], 2, 2))
    with pytest.raises(PlacementError, match="at least 1, not 0"):
        moves_between(placed([[0, 1]], 2, 2), placed([[0, 1]], 2, 2), expert_bytes=0)

"""The drop-in is DeepSeek's balancer bit for bit; the solver made from it repeats no expert on a GPU."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experts.described_eplb import rebalance
from tests.fuzz import examples
from weftrace.errors import LoadsError, PlacementError
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import make_cluster
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.recorded.generator import KINDS, synthetic_loads
from weftrace.experts.slots import copies_of, even_shares, load_of_gpus, num_repeats
from weftrace.experts.solvers.deepseek import DIFFERENCES, ORDERS, rebalance_experts, solve_deepseek, stable_descending

# The example that DeepSeek publishes with its code: 16 slots, 4 groups, 2 nodes, 8 GPUs.
EXAMPLE = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]
EXAMPLE_PHY2LOG = [
    [5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
    [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1],
]

# experts, slots, groups, nodes, GPUs
SHAPES = [
    (256, 288, 8, 4, 32),  # DeepSeek-V3's prefill: hierarchical
    (256, 288, 1, 1, 32),  # the same, global
    (256, 288, 8, 1, 32),  # one node: the groups are sorted, and any is at home
    (256, 288, 4, 4, 32),  # one group a node: groups stay where they are
    (256, 288, 8, 18, 144),  # nodes do not divide groups: global; the decode deployment
    (256, 320, 8, 5, 320),  # S = 1: no packing
    (64, 96, 8, 2, 4),
    (12, 16, 4, 2, 8),
    (12, 12, 3, 3, 3),  # no redundancy
    (6, 60, 1, 1, 10),  # more slots a GPU than experts
    (7, 12, 1, 1, 1),
    (1, 5, 1, 1, 5),
]


def assert_as_described(weight: torch.Tensor, *numbers: int) -> None:
    phy2log, log2phy, logcnt = rebalance_experts(weight, *numbers)
    described = rebalance(weight, *numbers)
    assert phy2log.tolist() == described[0]
    assert [[[slot for slot in slots if slot >= 0] for slots in layer] for layer in log2phy.tolist()] == described[1]
    assert logcnt.tolist() == described[2]
    assert log2phy.shape == (*weight.shape, int(logcnt.max()))


def test_by_hand() -> None:
    """Loads 6 and 2, one extra slot: 6 has it. Replicas 3, 2, 3; two of 3 tie, the first goes first.

    1 slot a GPU: they stay in order of creation. 3 slots on 1 GPU: 3, 3, 2 (whichever 3 the order puts first).
    """
    phy2log, log2phy, logcnt = rebalance_experts([[6, 2]], 3, 1, 1, 3)
    assert phy2log.tolist() == [[0, 1, 0]]
    assert log2phy.tolist() == [[[0, 2], [1, -1]]]
    assert logcnt.tolist() == [[2, 1]]
    assert rebalance_experts([[6, 2]], 3, 1, 1, 1, order="stable")[0].tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("order", ORDERS)
def test_published_example(order: str) -> None:
    phy2log, _, logcnt = rebalance_experts(torch.tensor(EXAMPLE), 16, 4, 2, 8, order=order)
    assert phy2log.tolist() == EXAMPLE_PHY2LOG
    assert logcnt.sum(1).tolist() == [16, 16]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bit_identical(shape: tuple[int, ...]) -> None:
    num_experts, *numbers = shape
    num_layers = 2 if num_experts > 64 else 20
    for seed, kind in enumerate(KINDS):
        loads = torch.tensor(synthetic_loads(kind, num_layers, num_experts, seed=seed))
        assert_as_described(loads, *numbers)
        assert_as_described((loads * 4096).to(torch.int32), *numbers)
    random = np.random.default_rng(1)
    for most in (1, 2, 4, 30):  # ties everywhere, layers of zeros among them
        assert_as_described(torch.tensor(random.integers(0, most, (num_layers, num_experts))), *numbers)


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_bit_identical_anywhere(data: st.DataObject) -> None:
    nodes, groups_a_node, group = (data.draw(st.integers(1, most)) for most in (4, 4, 5))
    gpus_a_node, num_layers = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    num_experts = nodes * groups_a_node * group
    num_gpus = nodes * gpus_a_node
    least = -(-num_experts // num_gpus)
    num_slots = num_gpus * data.draw(st.integers(least, least + 4))
    num_groups = nodes * groups_a_node + (data.draw(st.integers(0, 1)) if nodes > 1 else 0)  # 1 more: global
    values = st.one_of(st.integers(0, 3).map(float), st.floats(0, 1e6, width=32))
    rows = st.lists(values, min_size=num_experts, max_size=num_experts)
    weight = data.draw(st.lists(rows, min_size=num_layers, max_size=num_layers))
    assert_as_described(torch.tensor(weight), num_slots, num_groups, nodes, num_gpus)


def test_float32_as_published() -> None:
    """2^24 and 2^24 + 1 are one float32, and 2^53 + 2^29 + 1 rounds up to float32 only if it never was a float64."""
    assert_as_described(torch.tensor([[2**24, 2**24 + 1, 5, 5]]), 6, 1, 1, 2)
    assert_as_described(torch.tensor([[2**60 + 2**36 + 1, 2**60, 2**60 + 2**37, 0]]), 8, 1, 1, 4)
    by_array = rebalance_experts(np.array([[2**60 + 2**36 + 1, 2**60 + 2**37, 2**60]]), 4, 1, 1, 4)
    assert by_array[2].tolist() == [[2, 1, 1]]  # equal to the second, and the first of equals
    assert_as_described(torch.tensor([[-0.0, 0.0, -0.0, 0.0]]), 8, 1, 1, 2)
    assert_as_described(torch.tensor([[1e-45, 3e-45, 1e-40, 0.0]]), 8, 1, 1, 2)


def test_a_layer_of_zeros_copies_the_first_expert() -> None:
    assert rebalance_experts(np.zeros((1, 4)), 6, 1, 1, 2)[2].tolist() == [[3, 1, 1, 1]]


def test_strides_and_precisions_of_tensors() -> None:
    """A transposed tensor is added in another order; whatever torch does, the answer follows."""
    loads = torch.tensor(synthetic_loads("logn1", 256, 6, seed=2)).float().T
    assert not loads.is_contiguous()
    assert_as_described(loads, 288, 8, 4, 32)
    assert_as_described(loads[::2, ::2], 144, 8, 4, 16)
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool):
        assert_as_described(loads.to(dtype), 288, 8, 4, 32)
    assert_as_described(loads.clone().requires_grad_().detach(), 288, 8, 4, 32)
    rebalance_experts(loads.clone().requires_grad_(), 288, 8, 4, 32)


@pytest.mark.parametrize("order", ORDERS)
def test_answers_in_kind(order: str) -> None:
    of_tensor = rebalance_experts(torch.tensor(EXAMPLE), 16, 4, 2, 8, order=order)
    of_list: tuple[Any, ...] = rebalance_experts(EXAMPLE, 16, 4, 2, 8, order=order)
    of_array = rebalance_experts(np.array(EXAMPLE, dtype=np.int32), 16, 4, 2, 8, order=order)
    for tensor, from_list, array in zip(of_tensor, of_list, of_array, strict=True):
        assert isinstance(tensor, torch.Tensor) and tensor.dtype == torch.int64 and tensor.device.type == "cpu"
        assert isinstance(from_list, np.ndarray) and from_list.dtype == np.int64
        assert tensor.tolist() == from_list.tolist() == array.tolist()


@pytest.mark.filterwarnings("error")
def test_leaves_the_weights_alone() -> None:
    weight = np.array(EXAMPLE, dtype=np.float32)
    weight.flags.writeable = False
    kept = weight.copy()
    answers = rebalance_experts(weight, 16, 4, 2, 8)
    answers[0][:] = 0  # the caller's to change
    assert (weight == kept).all()


def test_stable_order_is_numpys() -> None:
    load_RK = np.random.default_rng(0).integers(0, 9, (50, 40)).astype(np.float32) / np.float32(3)
    load_RK[0, ::2] = -0.0
    load_RK[1] = np.float32(1e-45)
    assert (stable_descending(load_RK) == np.argsort(-load_RK, axis=1, kind="stable")).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_stable_differs_in_ties_alone(shape: tuple[int, ...]) -> None:
    num_experts, *numbers = shape
    for kind in ("logn1", "real"):
        loads = synthetic_loads(kind, 4, num_experts, seed=3)
        stable, by_torch = (rebalance_experts(loads, *numbers, order=order) for order in ORDERS)
        assert (stable[2] == by_torch[2]).all()
        first_slot_G = np.arange(0, numbers[0] + 1, numbers[0] // numbers[3])
        worst = [
            load_of_gpus(phy2log, even_shares(phy2log, num_experts), loads, first_slot_G).max(axis=1)
            for phy2log in (stable[0], by_torch[0])
        ]
        assert worst[0] == pytest.approx(worst[1], rel=1e-6)


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PlacementError, match=r'pip install .*torch.*; or take order="stable"'):
        rebalance_experts(EXAMPLE, 16, 4, 2, 8)
    assert rebalance_experts(EXAMPLE, 16, 4, 2, 8, order="stable")[0].tolist() == EXAMPLE_PHY2LOG


@pytest.mark.parametrize(
    ("weight", "numbers", "text"),
    [
        ([[1.0, float("nan")]], (2, 1, 1, 1), "weight: the load of expert 1 in layer 0 is not finite: nan"),
        ([[1.0, float("inf")]], (2, 1, 1, 1), "weight: the load of expert 1 in layer 0 is not finite: inf"),
        ([[1.0], [-2.0]], (2, 1, 1, 1), "weight: the load of expert 0 in layer 1 is negative: -2.0"),
        ([1.0, 2.0], (2, 1, 1, 1), "weight has 1 dimensions; it must be [layers, experts], even for one layer"),
        ([[[1.0]]], (2, 1, 1, 1), "weight: loads must be [layers, experts]; these have shape [1, 1, 1]"),
        (np.zeros((0, 4)), (4, 1, 1, 1), "weight: 0 layers of 4 experts: there is nothing to place"),
        (np.zeros((4, 0)), (4, 1, 1, 1), "weight: 4 layers of 0 experts: there is nothing to place"),
        ([["a"]], (1, 1, 1, 1), "weight: not an array of numbers but of <U1"),
        ([[1e39, 0]], (2, 1, 1, 1), "weight: layer 0 sums to 1e+39, above 1.7e+38, too large for float32"),
        ([[2e38, 2e38]], (2, 1, 1, 1), "weight: layer 0 sums to 4e+38, above 1.7e+38, too large for float32"),
        (EXAMPLE, (11, 1, 1, 1), "12 experts need as many slots at least, and num_replicas is 11"),
        (EXAMPLE, (16, 4, 2, 6), "16 slots cannot be shared evenly by 6 GPUs"),
        (EXAMPLE, (15, 4, 2, 5), "5 GPUs cannot be shared evenly by 2 nodes"),
        (EXAMPLE, (16, 8, 2, 8), "12 experts cannot be shared evenly by 8 groups"),
        (EXAMPLE, (16, 0, 2, 8), "num_groups must be at least 1, not 0"),
        (EXAMPLE, (16, 4, 0, 8), "num_nodes must be at least 1, not 0"),
        (EXAMPLE, (16, 4, 2, 0), "num_gpus must be at least 1, not 0"),
        (EXAMPLE, (16, 4, -2, 8), "num_nodes must be at least 1, not -2"),
        (EXAMPLE, (16.0, 4, 2, 8), "num_replicas must be a whole number, not 16.0"),
    ],
)
@pytest.mark.parametrize("order", ORDERS)
def test_errors(weight: object, numbers: tuple[int, ...], text: str, order: str) -> None:
    with pytest.raises((LoadsError, PlacementError), match="^" + re.escape(text)) as caught:
        rebalance_experts(weight, *numbers, order=order)
    assert "\n" not in str(caught.value)


def test_unknown_order() -> None:
    with pytest.raises(PlacementError, match="no order 'quick'; choose from torch, stable"):
        rebalance_experts(EXAMPLE, 16, 4, 2, 8, order="quick")
    assert all(text.endswith(".") for text in DIFFERENCES)


def make_problem(load_LN: Floats, num_slots: int, num_groups: int, num_nodes: int, num_gpus: int) -> Problem:
    cluster = make_cluster(num_slots, num_gpus, num_nodes)
    return Problem(
        load_LN=load_LN,
        cluster=cluster,
        capacity_LG=np.tile(np.minimum(cluster.slots_G, load_LN.shape[1]), (len(load_LN), 1)),
        num_groups=num_groups,
        pins_K3=np.zeros((0, 3), dtype=np.int64),
        is_even=True,
    )


def solved(problem: Problem) -> Ints:
    solution = solve_deepseek(problem)
    assert isinstance(solution, Solution), solution
    assert (solution.share_LP == even_shares(solution.expert_of_slot_LP, problem.num_experts)).all()
    return solution.expert_of_slot_LP


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[1] // shape[4] <= shape[0]], ids=str)
def test_solver_is_the_drop_in_where_nothing_repeats(shape: tuple[int, ...]) -> None:
    num_experts, *numbers = shape
    loads = synthetic_loads("logn1", 10, num_experts, seed=4)
    problem = make_problem(loads, *numbers)
    phy2log = rebalance_experts(loads, *numbers, order="stable")[0]
    fine_L = num_repeats(phy2log, problem.cluster.first_slot_G) == 0
    assert (solved(problem)[fine_L] == phy2log[fine_L]).all()


def test_repeats_by_hand() -> None:
    """Loads 90, 1, 1 in 6 slots of 2 GPUs: the greedy gives 4 copies to expert 0, and only 2 GPUs can hold one each."""
    loads = np.array([[90.0, 1.0, 1.0]])
    assert rebalance_experts(loads, 6, 1, 1, 2, order="stable")[2].tolist() == [[4, 1, 1]]
    assert sorted(map(sorted, solved(make_problem(loads, 6, 1, 1, 2)).reshape(2, 3).tolist())) == [[0, 1, 2]] * 2


def test_swaps_do_not_cost_balance() -> None:
    """64 experts in 288 slots of 32 GPUs, where the published code repeats most: half a percent is the price."""
    loads = synthetic_loads("real", 58, 64, seed=0)
    problem = make_problem(loads, 288, 8, 1, 32)
    first_slot_G = problem.cluster.first_slot_G
    published = rebalance_experts(loads, 288, 8, 1, 32, order="stable")[0]
    assert num_repeats(published, first_slot_G).sum() > 50
    ours = solved(problem)
    assert num_repeats(ours, first_slot_G).sum() == 0
    worst, worst_ours = (
        load_of_gpus(map_LP, even_shares(map_LP, 64), loads, first_slot_G).max(axis=1) for map_LP in (published, ours)
    )
    kept_L = (copies_of(published, 64) <= 32).all(axis=1)
    assert kept_L.sum() > 20
    assert (worst_ours / worst)[kept_L].mean() < 1.005


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_solver_never_repeats_an_expert_on_a_gpu(data: st.DataObject) -> None:
    num_nodes, gpus_a_node, per_node = (data.draw(st.integers(1, most)) for most in (3, 5, 6))
    num_experts, num_gpus = num_nodes * per_node, num_nodes * gpus_a_node
    least = -(-num_experts // num_gpus)
    per_gpu = data.draw(st.integers(least, max(least, num_experts)))
    values = st.one_of(st.integers(0, 3).map(float), st.floats(0, 1e6), st.just(1e9))
    rows = st.lists(values, min_size=num_experts, max_size=num_experts)
    loads = np.array(data.draw(st.lists(rows, min_size=1, max_size=3)))
    problem = make_problem(loads, per_gpu * num_gpus, num_nodes, num_nodes, num_gpus)
    map_LP = solved(problem)
    copies_LN = copies_of(map_LP, num_experts)
    assert (copies_LN >= 1).all() and (copies_LN.sum(axis=1) == problem.cluster.num_slots).all()
    assert (copies_LN <= num_gpus).all()
    assert (map_LP // per_node == problem.cluster.node_of_gpu_G[problem.cluster.gpu_of_slot_P]).all()
    if per_gpu <= per_node:
        assert (num_repeats(map_LP, problem.cluster.first_slot_G) == 0).all()


def test_solver_refuses_what_was_never_published() -> None:
    loads = np.ones((1, 12))
    plain = make_problem(loads, 16, 4, 2, 8)
    lost = Problem(
        load_LN=loads,
        cluster=make_cluster(16, 8, 2, dead=[0]),
        capacity_LG=plain.capacity_LG,
        num_groups=4,
        pins_K3=plain.pins_K3,
        is_even=True,
    )
    assert isinstance(solve_deepseek(lost), NotApplicable)
    refused = solve_deepseek(make_problem(loads, 16, 8, 2, 8))
    assert refused == NotApplicable(reason="12 experts cannot be shared evenly by 8 groups")
    assert isinstance(solve_deepseek(make_problem(loads * 1e38, 16, 4, 2, 8)), NotApplicable)

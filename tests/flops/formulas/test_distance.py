"""Distances between rows."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tests.flops.formulas.single_op import assert_same, count_op, forward_and_backward, leaf
from weftrace.costs.cost import Phase, Status

P, R, M = 7, 5, 4


@pytest.mark.parametrize(
    ("norm", "of_element", "of_pair", "status"),
    [
        (0.0, 3, 0, Status.EXACT),  # subtract, compare, add
        (1.0, 3, 0, Status.EXACT),  # subtract, absolute value, add
        (2.0, 3, 1, Status.EXACT),  # subtract, square, add; a root
        (3.0, 4, 1, Status.ESTIMATE),  # subtract, absolute value, power, add; a root
        (math.inf, 3, 0, Status.EXACT),  # subtract, absolute value, maximum
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_cdist_pair_by_pair(norm: float, of_element: int, of_pair: int, status: Status, device: str) -> None:
    x, y = leaf(device, P, M), leaf(device, R, M)
    code = forward_and_backward(lambda: torch.cdist(x, y, p=norm), [x, y])
    plain, counted = code(), count_op(code)
    assert_same(counted.out, plain)
    cost = counted.op("_cdist_forward").cost
    assert (cost.flops, cost.vector_flops) == (0, P * R * (M * of_element + of_pair))
    assert cost.status is status
    backward = [op for op in counted.ops if "_cdist_backward" in op.name]
    assert sum(op.calls for op in backward) == 2  # one for each side
    assert all(op.phase is Phase.BACKWARD for op in backward)
    if norm == 2:
        assert backward[0].cost.vector_flops == 4 * P * R * M


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_large_euclidean_cdist_is_a_product(device: str) -> None:
    """More than 25 rows: one product over m + 2 columns; backward, one of [p, r] and [r, m] for each side."""
    x, y = leaf(device, 30, M), leaf(device, 28, M)
    code = forward_and_backward(lambda: torch.cdist(x, y), [x, y])
    plain, counted = code(), count_op(code)
    assert_same(counted.out, plain)
    assert counted.forward == 2 * 30 * 28 * (M + 2)
    assert counted.backward == 2 * 2 * 30 * 28 * M
    assert counted.op("_euclidean_dist").cost.status is Status.EXACT


def test_batched_cdist() -> None:
    x, y = torch.randn(3, P, M), torch.randn(3, R, M)
    assert count_op(lambda: torch.cdist(x, y, p=1.0)).op("_cdist").cost.vector_flops == 3 * P * R * M * 3
    far = count_op(lambda: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist"))
    assert far.forward == 3 * 2 * P * R * (M + 2)


def test_pdist_has_each_pair_once() -> None:
    x = torch.randn(P, M, requires_grad=True)
    counted = count_op(lambda: F.pdist(x).sum().backward())
    pairs = P * (P - 1) // 2
    assert counted.op("_pdist_forward").cost.vector_flops == pairs * (3 * M + 1)
    assert counted.op("_pdist_backward").cost.vector_flops == pairs * M * 5


def test_cosine_similarity_has_no_matrix_work() -> None:
    x, y = torch.randn(P, M), torch.randn(P, M)
    counted = count_op(lambda: F.cosine_similarity(x, y))
    assert counted.forward == 0
    assert counted.failures == {}

"""Reductions, scans, sorts, pooling and interpolation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Status

CASES: list[tuple[str, Callable[[Tensor], object], int]] = [
    ("sum", lambda x: x.sum(), 1),
    ("mean of rows", lambda x: x.mean(1), 1),
    ("amax", lambda x: x.amax(0), 1),
    ("argmax", lambda x: x.argmax(), 1),
    ("max with indices", lambda x: x.max(1), 1),
    ("norm", lambda x: torch.linalg.vector_norm(x), 2),
    ("var", lambda x: x.var(), 4),
    ("logsumexp", lambda x: torch.ops.aten.logsumexp(x, [1]), 4),
    ("cumsum", lambda x: x.cumsum(0), 1),
]


@pytest.mark.parametrize(("code", "each"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_vector_flops_for_each_element_of_the_input(code: Callable[[Tensor], object], each: int) -> None:
    counted = count_op(lambda: code(torch.ones(3, 5)))
    assert counted.vector_flops() == each * 15 and counted.statuses() == {Status.EXACT}


def test_maximum_of_two_tensors_is_elementwise() -> None:
    assert count_op(lambda: torch.maximum(torch.ones(3), torch.ones(5, 1))).vector_flops() == 15


def test_sorting_is_an_estimate() -> None:
    cost = count_op(lambda: torch.ones(4, 8).sort(-1)).op("sort").cost
    assert (cost.vector_flops, cost.status) == (32 * 3, Status.ESTIMATE) and cost.note
    cost = count_op(lambda: torch.ones(4, 8).topk(2)).op("topk").cost
    assert (cost.vector_flops, cost.status) == (32 * 1, Status.ESTIMATE)


def test_pooling_counts_windows() -> None:
    picture = torch.ones(1, 2, 8, 8, requires_grad=True)
    counted = count_op(lambda: F.max_pool2d(picture, 2).sum().backward())
    assert counted.op("max_pool2d_with_indices.default").cost.vector_flops == 2 * 16 * 4
    assert counted.op("max_pool2d_with_indices_backward").cost.vector_flops == 2 * 16
    counted = count_op(lambda: F.avg_pool2d(picture, 3, 1).sum().backward())
    assert counted.op("avg_pool2d.default").cost.vector_flops == 2 * 36 * (9 + 1)
    assert counted.op("avg_pool2d_backward").cost.vector_flops == 2 * 36 * (9 + 1)


def test_adaptive_windows_may_overlap() -> None:
    """5 into 3: elements 0-1, 1-3, 3-4 are windows of 2, 3 and 2."""
    cost = count_op(lambda: F.adaptive_avg_pool2d(torch.ones(1, 1, 5, 5), 3)).op("adaptive_avg_pool2d").cost
    assert cost.vector_flops == 7 * 7 + 9
    cost = count_op(lambda: F.adaptive_max_pool2d(torch.ones(1, 1, 5, 5), 3)).op("adaptive_max_pool2d").cost
    assert cost.vector_flops == 7 * 7


def test_interpolation_counts_products_and_sums() -> None:
    picture = torch.ones(1, 2, 4, 4)
    assert count_op(lambda: F.interpolate(picture, scale_factor=2, mode="bilinear")).vector_flops() == 2 * 64 * 7
    assert count_op(lambda: F.interpolate(picture, scale_factor=2, mode="bicubic")).vector_flops() == 2 * 64 * 31
    assert count_op(lambda: F.interpolate(picture, scale_factor=2)).vector_flops() == 0


def test_a_search_is_binary() -> None:
    assert count_op(lambda: torch.bucketize(torch.ones(5), torch.ones(7))).vector_flops() == 5 * 3
    assert count_op(lambda: torch.searchsorted(torch.ones(7), torch.ones(5))).vector_flops() == 5 * 3


def test_the_larger_of_two_is_elementwise() -> None:
    row, table, out = torch.ones(4), torch.ones(3, 4), torch.empty(3, 4)
    assert count_op(lambda: torch.max(row, table, out=out)).vector_flops() == 12
    assert count_op(lambda: torch.ops.aten.min.other(row, table)).vector_flops() == 12
    assert count_op(lambda: torch.max(table, 1, out=(torch.empty(3), torch.empty(3).long()))).vector_flops() == 12

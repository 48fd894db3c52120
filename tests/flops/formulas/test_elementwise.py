"""Elementwise operators: vector FLOPs for each element of the output."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Kind, Phase, Status

CASES: list[tuple[str, Callable[[Tensor], Tensor], int]] = [
    ("add", lambda x: x + 1, 1),
    ("mul", lambda x: x * x, 1),
    ("div", lambda x: x / 3, 1),
    ("exp", torch.exp, 1),
    ("relu", torch.relu, 1),
    ("gt", lambda x: x > 0, 1),
    ("where", lambda x: torch.where(x > 0, x, x), 2),  # and the comparison
    ("clamp", lambda x: x.clamp(0, 1), 2),
    ("lerp", lambda x: x.lerp(x, 0.5), 3),
    ("addcmul", lambda x: x.addcmul(x, x), 3),
    ("sigmoid", torch.sigmoid, 4),  # 1 / (1 + exp(-x))
    ("silu", F.silu, 5),
    ("gelu", F.gelu, 5),  # x / 2 (1 + erf(x / sqrt 2))
    ("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), 9),
    ("leaky_relu", F.leaky_relu, 2),
    ("elu", F.elu, 4),
    ("hardswish", F.hardswish, 5),
    ("add in place", lambda x: x.clone().add_(1), 1),
]


@pytest.mark.parametrize(("code", "each"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_vector_flops_for_each_element(code: Callable[[Tensor], Tensor], each: int) -> None:
    counted = count_op(lambda: code(torch.ones(3, 5)))
    assert counted.vector_flops() == each * 15
    assert counted.flops() == 0 and counted.statuses() == {Status.EXACT}


def test_a_broadcast_is_counted_on_what_comes_out_and_read_once() -> None:
    cost = count_op(lambda: torch.ones(3, 1) + torch.ones(5)).op("add").cost
    assert (cost.vector_flops, cost.read_bytes, cost.written_bytes) == (15, (3 + 5) * 4, 15 * 4)
    cost = count_op(lambda: torch.ones(3, 1).expand(3, 50) * 2.0).op("mul").cost
    assert cost.read_bytes == 3 * 4  # what expand repeats


def test_gated_linear_units_count_their_output() -> None:
    cost = count_op(lambda: F.glu(torch.ones(4, 6))).op("glu").cost
    assert cost.vector_flops == 4 * 3 * 5  # a sigmoid and a product


BACKWARDS: list[tuple[str, Callable[[Tensor], Tensor], str, int]] = [
    ("sigmoid", torch.sigmoid, "sigmoid_backward", 3),
    ("tanh", torch.tanh, "tanh_backward", 3),
    ("relu", torch.relu, "threshold_backward", 1),
    ("silu", F.silu, "silu_backward", 9),
    ("gelu", F.gelu, "gelu_backward", 11),
]


@pytest.mark.parametrize(
    ("code", "name", "each"), [case[1:] for case in BACKWARDS], ids=[case[0] for case in BACKWARDS]
)
def test_backwards(code: Callable[[Tensor], Tensor], name: str, each: int) -> None:
    counted = count_op(lambda: code(torch.ones(3, 5, requires_grad=True)).sum().backward())
    assert counted.op(name, Phase.BACKWARD).cost.vector_flops == each * 15


def test_complex_products_are_six_real_operations() -> None:
    z = torch.ones(4, dtype=torch.complex64)
    assert count_op(lambda: z * z).vector_flops() == 4 * 6  # 4 products, 2 sums
    assert count_op(lambda: z + z).vector_flops() == 4 * 2
    assert count_op(lambda: z.exp()).statuses() == {Status.ESTIMATE}


def test_lists_of_tensors() -> None:
    tensors = [torch.ones(3), torch.ones(2, 2)]
    counted = count_op(lambda: torch._foreach_add_(tensors, 1.0))
    cost = counted.op("foreach_add_").cost
    assert (cost.vector_flops, cost.read_bytes, cost.written_bytes) == (7, 28, 28)  # in place: nothing is returned
    counted = count_op(lambda: torch._foreach_addcdiv_(tensors, tensors, tensors, 1.0))
    assert counted.vector_flops() == 3 * 7
    assert count_op(lambda: torch._foreach_norm(tensors)).vector_flops() == 2 * 7


def test_dropout_compares_and_scales() -> None:
    counted = count_op(lambda: F.dropout(torch.ones(3, 5), 0.5))
    assert counted.vector_flops() <= 3 * 15 and counted.unknown() == []
    assert all(op.cost.kind in (Kind.VECTOR, Kind.MOVE, Kind.FREE) for op in counted.ops)

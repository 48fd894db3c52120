"""Products of strided nested tensors: ragged batches, of which each part has a shape and the whole has none.

linear and matmul, which torch makes of other operators for dense tensors, have kernels of their own for nested ones.
"""

from __future__ import annotations

import math
from typing import Any

from weftrace.costs.cost import Cost
from weftrace.costs.formulas.macs import additions, flops_per_mac
from weftrace.costs.registry import Call, matrix_cost, whole_rule
from weftrace.costs.tensors import STRIDED, TensorLike, shape_of


def is_ragged(tensor: TensorLike) -> bool:
    """Whether a tensor is nested in the strided layout, so that it has no shape."""
    return tensor.is_nested and str(tensor.layout) == STRIDED


def ragged_product(call: Call) -> Cost:
    """a [..., m, k] times b [..., k, n], part by part; torch takes two nested tensors or none."""
    a, b = call.args[:2]
    parts: Any = zip(shape_of(a), shape_of(b), strict=True)
    return matrix_cost(call, flops_per_mac(a, b) * sum(math.prod(of_a) * of_b[-1] for of_a, of_b in parts))


@whole_rule("aten::matmul")
def _matmul(call: Call) -> Cost:
    return ragged_product(call)


@whole_rule("aten::linear")
def _linear(call: Call) -> Cost:
    """Ragged rows of k times the transpose of [n, k], and a bias."""
    x, weight = call.arg("input"), call.arg("weight")
    bias = additions(call.out) if call.arg("bias") is not None else 0
    return matrix_cost(call, flops_per_mac(x, weight) * x.numel() * weight.shape[0], vector_flops=bias)

"""Normalisation: vector FLOPs for each element of the input; the few operations for each row or channel are left out.

Forward: the mean takes 1 (add), the variance 3 (subtract, multiply, add), normalising 2 (subtract, multiply by
1/sigma), the weight 1 and the bias 1. Without a mean (RMS): square, add; multiply by 1/rms; the weight 1. With
statistics that are given (batch norm in evaluation): normalising, weight and bias alone.

Backward, with y the normalised input, g the gradient, w the weight and h = w g:
    y again 2 (RMS: 1); dw = sum(g y) 2; db = sum(g) 1; dx = (h - mean(h) - y mean(h y)) / sigma: h 1 (with a weight),
    mean(h) 1, mean(h y) 2, then multiply, 2 subtracts, multiply. RMS: h 1, mean(h y) 2, multiply, subtract, multiply.
    Statistics that are given: dx = h / sigma: 1 and the weight's 1.
"""

from __future__ import annotations

from typing import Any

from weftrace.costs.cost import Cost
from weftrace.costs.registry import Call, Key, rule, vector_cost


def _forward(call: Call, elements: int, *affine: Any, statistics: int = 4, normalise: int = 2) -> Cost:
    return vector_cost(call, elements * (statistics + normalise + sum(given is not None for given in affine)))


@rule("aten::native_layer_norm", "aten::native_group_norm")
def _layer(call: Call) -> Cost:
    return _forward(call, call.args[0].numel(), call.arg("weight"), call.arg("bias"))


@rule("aten::_fused_rms_norm")
def _rms(call: Call) -> Cost:
    return _forward(call, call.args[0].numel(), call.arg("weight"), statistics=2, normalise=1)


@rule(
    "aten::native_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::_native_batch_norm_legit_functional",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
    key=Key.ARGUMENTS,
)
def _batch(call: Call) -> Cost:
    """Running averages are of a channel, not of an element."""
    training = bool(call.arg("training", False))
    affine = call.arg("weight"), call.arg("bias")
    return _forward(call, call.args[0].numel(), *affine, statistics=4 if training else 0)


@rule("aten::_native_batch_norm_legit_no_training", "aten::_batch_norm_no_update", "aten::batch_norm_elemt")
def _batch_given(call: Call) -> Cost:
    return _forward(call, call.args[0].numel(), call.arg("weight"), call.arg("bias"), statistics=0)


@rule("aten::_batch_norm_with_update", "aten::_batch_norm_with_update_functional")
def _batch_updated(call: Call) -> Cost:
    return _forward(call, call.args[0].numel(), call.arg("weight"), call.arg("bias"))


@rule("aten::batch_norm_stats", "aten::batch_norm_update_stats")
def _statistics(call: Call) -> Cost:
    return vector_cost(call, 4 * call.args[0].numel())


@rule("aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts")
def _gathered(call: Call) -> Cost:
    """Means and variances of the ranks are combined: a weighted mean each, 8 for each rank and channel."""
    return vector_cost(call, 8 * call.arg("mean").numel())


def _backward(call: Call, weight: Any, *, given: bool = False, rms: bool = False) -> Cost:
    grads = list(call.out) if isinstance(call.out, (list, tuple)) else [call.out]
    dx, dw, db = [grad is not None and grad.numel() > 0 for grad in (*grads, None, None)][:3]
    again = 1 if rms else 2
    each = (again if dw or (dx and not given) else 0) + 2 * dw + db
    if dx:
        each += (weight is not None) + (1 if given else 5 if rms else 7)
    return vector_cost(call, each * call.arg("input").numel())


@rule("aten::native_layer_norm_backward", "aten::native_group_norm_backward")
def _layer_backward(call: Call) -> Cost:
    return _backward(call, call.arg("weight"))


@rule("aten::_fused_rms_norm_backward")
def _rms_backward(call: Call) -> Cost:
    return _backward(call, call.arg("weight"), rms=True)


@rule(
    "aten::native_batch_norm_backward",
    "aten::batch_norm_backward",
    "aten::cudnn_batch_norm_backward",
    "aten::miopen_batch_norm_backward",
    key=Key.ARGUMENTS,
)
def _batch_backward(call: Call) -> Cost:
    training = call.arg("train", call.arg("update", True))
    return _backward(call, call.arg("weight"), given=not training)


@rule("aten::batch_norm_backward_reduce")
def _batch_backward_reduce(call: Call) -> Cost:
    """Sums of g and of g y: 1 + 2 + 2."""
    return vector_cost(call, 5 * call.arg("input").numel())


@rule("aten::batch_norm_backward_elemt")
def _batch_backward_elements(call: Call) -> Cost:
    """y 2, the weight 1, then multiply, two subtracts, multiply."""
    return vector_cost(call, 7 * call.arg("input").numel())


@rule("aten::renorm", "aten::renorm_")
def _renorm(call: Call) -> Cost:
    """Norms of the slices, 2, and a multiply."""
    return vector_cost(call, 3 * call.args[0].numel())

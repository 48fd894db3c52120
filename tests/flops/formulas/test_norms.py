"""Norms: by the definition, for each element; the arithmetic of a row or a channel as a whole is left out."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Cost, Phase, Status
from weftrace.flops.runtime.formulas.live_call import LiveCall
from weftrace.flops.runtime.formulas.operators import operator, rule_of


def cost_of(name: str, *args: object, out: object = None) -> Cost:
    op = operator(name)
    assert op is not None
    rule = rule_of(op)
    assert rule is not None
    return rule.formula(LiveCall(op, args, {}, out))


@pytest.mark.parametrize(("affine", "forward", "backward"), [(True, 8, 13), (False, 6, 9)])
def test_layer_norm(affine: bool, forward: int, backward: int) -> None:
    """4 for mean and variance, 2 to normalise, weight and bias; back: y 2, dx 7 (8 with a weight), dw 2, db 1."""
    x = torch.randn(3, 5, requires_grad=True)
    weight, bias = (torch.ones(5, requires_grad=affine) if affine else None for _ in range(2))
    counted = count_op(lambda: F.layer_norm(x, (5,), weight, bias).sum().backward())
    assert counted.op("native_layer_norm.default").cost.vector_flops == forward * 15
    assert counted.op("native_layer_norm_backward").cost.vector_flops == backward * 15
    assert counted.statuses() == {Status.EXACT}


def test_frozen_weights_save_their_gradients() -> None:
    x, weight, bias = torch.randn(3, 5, requires_grad=True), torch.ones(5), torch.ones(5)
    counted = count_op(lambda: F.layer_norm(x, (5,), weight, bias).sum().backward())
    assert counted.op("native_layer_norm_backward", Phase.BACKWARD).cost.vector_flops == (2 + 8) * 15


def test_root_mean_square_norm() -> None:
    """Square, add; multiply by 1 / rms; the weight. Back: y 1, dw 2, dx 6."""
    x, weight = torch.empty(3, 5), torch.empty(5)
    assert cost_of("aten::_fused_rms_norm", x, [5], weight, 1e-5, out=(x, x)).vector_flops == 4 * 15
    assert cost_of("aten::_fused_rms_norm", x, [5], None, 1e-5, out=(x, x)).vector_flops == 3 * 15
    cost = cost_of("aten::_fused_rms_norm_backward", x, x, [5], x, weight, [True, True], out=(x, weight))
    assert cost.vector_flops == 9 * 15


@pytest.mark.parametrize(("training", "each"), [(True, 8), (False, 4)])
def test_batch_norm(training: bool, each: int) -> None:
    """In evaluation the statistics are given: normalise 2, weight, bias."""
    x, channel = torch.randn(2, 3, 4, 4), torch.ones(3)
    counted = count_op(lambda: F.batch_norm(x, channel.clone(), channel.clone(), channel, channel, training))
    assert counted.op("native_batch_norm").cost.vector_flops == each * 96


def test_batch_norm_backward() -> None:
    x = torch.randn(2, 3, 4, 4, requires_grad=True)
    weight, bias = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    counted = count_op(lambda: F.batch_norm(x, None, None, weight, bias, True).sum().backward())
    assert counted.op("native_batch_norm_backward").cost.vector_flops == 13 * 96


def test_group_norm() -> None:
    x, weight, bias = torch.randn(2, 4, 3), torch.ones(4), torch.ones(4)
    assert count_op(lambda: F.group_norm(x, 2, weight, bias)).op("group_norm").cost.vector_flops == 8 * 24

"""Softmax and losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Phase, Status


def test_softmax() -> None:
    """Maximum, subtract, exp, sum, divide; back: y (g - sum(g y)): multiply, sum, subtract, multiply."""
    x = torch.randn(3, 5, requires_grad=True)
    counted = count_op(lambda: F.softmax(x, -1).mul(2).sum().backward())
    assert counted.op("_softmax.default").cost.vector_flops == 5 * 15
    assert counted.op("_softmax_backward").cost.vector_flops == 4 * 15


def test_cross_entropy() -> None:
    """The log of a softmax, 5, and one of its values for each target; back: 4, and 2 for each target."""
    x = torch.randn(3, 7, requires_grad=True)
    counted = count_op(lambda: F.cross_entropy(x, torch.tensor([0, 1, 6])).backward())
    assert counted.op("_log_softmax.default").cost.vector_flops == 5 * 21
    loss = counted.op("nll_loss_forward").cost
    assert loss.vector_flops == 2 * 3
    assert loss.read_bytes == 3 * 8 + 3 * 4  # targets, and three scores of 21
    assert counted.op("_log_softmax_backward").cost.vector_flops == 4 * 21
    back = counted.op("nll_loss_backward", Phase.BACKWARD).cost
    assert back.vector_flops == 2 * 3 and back.written_bytes == 21 * 4
    assert counted.statuses() == {Status.EXACT}


def test_squared_error() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    counted = count_op(lambda: F.mse_loss(x, torch.ones(3, 5)).backward())
    assert counted.op("mse_loss.default").cost.vector_flops == counted.op("mse_loss_backward").cost.vector_flops == 45


def test_a_loss_on_a_broadcast_prediction_is_known() -> None:
    counted = count_op(lambda: F.binary_cross_entropy_with_logits(torch.randn(3, 5), torch.ones(3, 5)))
    assert counted.unknown() == [] and counted.vector_flops() > 0

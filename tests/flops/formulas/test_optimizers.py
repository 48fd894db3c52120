"""Optimizers: vector FLOPs for each parameter of the fused kernels, by their update rules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.flops.formulas.single_op import Counted, count_op
from weftrace.costs.cost import Phase

PARAMETERS = 4 * 3 + 3


def _second_step(name: str, **settings: Any) -> Counted:
    layer = nn.Linear(4, 3)
    optimizer = getattr(torch.optim, name)(layer.parameters(), lr=0.1, **settings)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return count_op(optimizer.step)


@pytest.mark.parametrize(
    ("name", "settings", "each"),
    [
        ("Adam", {}, 13),
        ("Adam", {"weight_decay": 0.1}, 15),
        ("Adam", {"amsgrad": True}, 14),
        ("AdamW", {"weight_decay": 0.1}, 14),
        ("AdamW", {"weight_decay": 0.0}, 13),
        ("SGD", {}, 2),
        ("SGD", {"momentum": 0.9}, 5),
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, 9),
        ("Adagrad", {}, 7),
    ],
)
def test_fused(name: str, settings: dict[str, Any], each: int) -> None:
    counted = _second_step(name, fused=True, **settings)
    ops = [op for op in counted.ops if "_fused_" in op.name]
    assert sum(op.calls for op in ops) == 1 and ops[0].phase is Phase.OPTIMIZER
    assert ops[0].cost.vector_flops == each * PARAMETERS


def test_adam_moves_its_state() -> None:
    """Reads parameter, gradient and two moments, writes all but the gradient (its kernel may scale that too)."""
    cost = _second_step("Adam", fused=True).op("_fused_adam_").cost
    assert cost.read_bytes == 4 * PARAMETERS * 4 + 2 * 4  # and a step count for each of two tensors
    assert cost.written_bytes in (3 * PARAMETERS * 4, 4 * PARAMETERS * 4)


def test_foreach_and_loops_do_the_same_work_as_each_other() -> None:
    """SGD with momentum: v = u v + g, p - s v. torch's own loop has the same operators as its lists."""
    loop = _second_step("SGD", foreach=False, momentum=0.9)
    lists = _second_step("SGD", foreach=True, momentum=0.9)
    assert loop.vector_flops(Phase.OPTIMIZER) == lists.vector_flops(Phase.OPTIMIZER) == 3 * PARAMETERS

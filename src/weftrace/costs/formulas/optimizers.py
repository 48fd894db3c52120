"""Fused optimizers: vector FLOPs for each parameter, from the update rule; what is done once a tensor is left out.

Adam (Kingma 2015, algorithm 1): m = m + (1 - b1)(g - m) 3; v = b2 v + (1 - b2) g g 4; sqrt(v) / c + eps 3; p - s m / d
3: 13.
    L2 decay g + l p 2 (AdamW: p (1 - s l) 1); AMSGrad's maximum 1; maximize's sign 1; the gradient scaler's division 1.
SGD: p - s g 2; decay 2; momentum u b + (1 - d) g 3; Nesterov g + u b 2.
Adagrad: a + g g 2; p - s g / (sqrt(a) + eps) 5; decay 2.
Optimizers that are not fused run as foreach or elementwise operators, which are counted as such.
"""

from __future__ import annotations

from typing import Any

from weftrace.costs.cost import Cost
from weftrace.costs.formulas.elementwise import elements, in_place_cost
from weftrace.costs.registry import Call, Key, rule


def _switches(call: Call) -> int:
    return bool(call.arg("maximize", False)) + (call.arg("grad_scale") is not None)


def _cost(call: Call, each: int) -> Cost:
    return in_place_cost(call, elements(call.args[0]) * (each + _switches(call)))


def _on(value: Any) -> bool:
    """A hyperparameter that is not zero; one given as a tensor is taken to be on, and is not read."""
    return value is not None and (not isinstance(value, (int, float)) or value != 0)


@rule("aten::_fused_adam", "aten::_fused_adam_", key=Key.ARGUMENTS)
def _adam(call: Call) -> Cost:
    return _cost(call, 13 + 2 * _on(call.arg("weight_decay")) + bool(call.arg("amsgrad")))


@rule("aten::_fused_adamw", "aten::_fused_adamw_", key=Key.ARGUMENTS)
def _adamw(call: Call) -> Cost:
    return _cost(call, 13 + _on(call.arg("weight_decay")) + bool(call.arg("amsgrad")))


@rule("aten::_fused_sgd", "aten::_fused_sgd_", key=Key.ARGUMENTS)
def _sgd(call: Call) -> Cost:
    """The first step's momentum is a copy of the gradient."""
    each = 2 + 2 * _on(call.arg("weight_decay"))
    if _on(call.arg("momentum")):
        each += 3 * (not call.arg("is_first_step")) + 2 * bool(call.arg("nesterov"))
    return _cost(call, each)


@rule("aten::_fused_adagrad", "aten::_fused_adagrad_", key=Key.ARGUMENTS)
def _adagrad(call: Call) -> Cost:
    return _cost(call, 7 + 2 * _on(call.arg("weight_decay")))

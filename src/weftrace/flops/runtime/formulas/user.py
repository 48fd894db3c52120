"""Formulas of users, for operators of their own or instead of weftrace's.

They stand before weftrace's own, whenever they are registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from weftrace.costs.cost import Cost
from weftrace.costs.registry import Call, Key, Rule, matrix_cost
from weftrace.flops.runtime.formulas.operators import set_rule


def register_formula(
    op: OpOverload | OpOverloadPacket | HigherOrderOperator | str,
    formula: Callable[[Call], Cost | int] | None = None,
    *,
    by_value: bool = False,
) -> Any:
    """Tell weftrace what a custom operator costs. Public: `weftrace.flops.register_formula`; also a decorator.

        @register_formula("mylib::attention")          # or torch.ops.mylib.attention, or one overload of it
        def _(call):
            q, k = call.arg("q"), call.arg("k")        # tensors: look at shapes, dtypes; read no values
            return 4 * q.numel() * k.shape[-2]         # matrix FLOPs, or a weftrace.flops.Cost

    op: every overload of a packet or name ("mylib::attention"); one overload ("mylib::attention.default"). An operator
        that does not exist yet may be named. A later registration replaces an earlier one, weftrace's own too.
    formula: returns FLOPs on matrix units (an int), or a `Cost`. It is asked once for each signature: shapes, dtypes
        and other arguments. by_value: ask at each call instead, because the cost depends on values of tensors.
    Returns the formula. Raises `WeftraceError` where op is not an operator.
    """
    if formula is None:
        return lambda function: register_formula(op, function, by_value=by_value)

    def counted(call: Call) -> Cost:
        value = formula(call)
        return value if isinstance(value, Cost) else matrix_cost(call, value)

    set_rule(op, Rule(counted, Key.VALUES if by_value else Key.ARGUMENTS))
    return formula

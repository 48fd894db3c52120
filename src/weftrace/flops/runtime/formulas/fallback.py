"""Operators that nobody wrote a formula for: what torch itself says of them, by its tags and schemas."""

from __future__ import annotations

import math

import torch
from torch._ops import HigherOrderOperator, OpOverload

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.formulas.elementwise import output_elements
from weftrace.costs.registry import Call, Key, Rule, vector_cost
from weftrace.flops.runtime.formulas.live_call import Operator
from weftrace.flops.runtime.formulas.operators import overloads


def fallback_rule(op: Operator) -> Rule | None:
    """What torch itself says of an operator: views cost nothing, pointwise and reduction tags are one an element."""
    if isinstance(op, HigherOrderOperator) or not isinstance(op, OpOverload):
        return None
    if _is_view(op):
        return Rule(lambda call: Cost(kind=Kind.FREE), Key.NAME)
    if torch.Tag.pointwise in op.tags:
        return Rule(_tagged_pointwise)
    if torch.Tag.reduction in op.tags:
        return Rule(_tagged_reduction)
    original = _base(op)
    return None if original is None else fallback_rule(original)


def _is_view(op: OpOverload) -> bool:
    """An output shares memory with an input, and nothing is written."""
    schema = op._schema
    written = any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments)
    return not written and any(out.alias_info is not None and not out.alias_info.is_write for out in schema.returns)


def _base(op: OpOverload) -> OpOverload | None:
    """The operator of which this one is the in-place form, where it lacks the tags of that."""
    name = op._schema.name
    if not name.endswith("_") or name.endswith("__"):
        return None
    return next(iter(overloads(name[:-1])), None)


def _tagged_pointwise(call: Call) -> Cost:
    note = "one operation an element: torch tags it pointwise and weftrace has no formula"
    return vector_cost(call, output_elements(call), status=Status.ESTIMATE, note=note)


def _tagged_reduction(call: Call) -> Cost:
    note = "one operation an element of the input: torch tags it a reduction and weftrace has no formula"
    most = max((math.prod(tensor.shape) for tensor in call.inputs()), default=0)
    return vector_cost(call, most, status=Status.ESTIMATE, note=note)

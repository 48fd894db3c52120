"""Signatures: operators with the shapes and dtypes they were called with, numbered, and the cost of a call of each."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

import weftrace.flops.runtime.formulas  # noqa: F401  (registers every formula)
from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.registry import WHOLE_RULES, Call, Key, Rule, dtype_name, matrix_cost
from weftrace.costs.tensors import shape_of, tensors_in
from weftrace.flops.runtime.formulas.fallback import fallback_rule
from weftrace.flops.runtime.formulas.live_call import LiveCall, Operator
from weftrace.flops.runtime.formulas.operators import overloads, rule_of


class Signatures:
    """number: key -> index into ops, costs, texts and shapes, of the tensors among the arguments. failures: operator
    -> why its formula failed."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}
        self.ops: list[Operator] = []
        self.costs: list[Cost] = []
        self.texts: list[str] = []
        self.shapes: list[tuple[Any, ...]] = []
        self.failures: dict[str, str] = {}

    def add(self, call: LiveCall, text: str | None = None, cost: Cost | None = None) -> int:
        """A new signature; its number."""
        cost = self.cost(call) if cost is None else cost
        text = signature_text(call) if text is None else text
        shapes = tuple(map(shape_of, tensors_in(call.args)))
        self.ops.append(call.op)  # the four lists grow together or, where something failed above, not at all
        self.costs.append(cost)
        self.texts.append(text)
        self.shapes.append(shapes)
        return len(self.ops) - 1

    def of(self, call: LiveCall, *, by_value: bool = False) -> int:
        """The number of a call by all of its arguments; by_value: and by what its formula says of their values."""
        key: Any = (call.op, described(call.args), described(tuple(call.kwargs.items())), described(call.out))
        cost = None
        if by_value:
            cost = self.cost(call)
            key = (key, cost)
        number = self.number.get(key)
        if number is None:
            number = self.number[key] = self.add(call, cost=cost)
        return number

    def stated(self, name: str, cost: Cost) -> int:
        """The number of work that no operator shows."""
        number = self.number.get((name, cost))
        if number is None:
            call = LiveCall(name, (), {}, None)  # type: ignore[arg-type]
            number = self.number[name, cost] = self.add(call, text="", cost=cost)
        return number

    def cost(self, call: LiveCall) -> Cost:
        """What its formula says; unknown where there is none or it fails."""
        rule = find_rule(call.op)
        if rule is None:
            return unknown_cost(call, "no formula")
        try:
            return rule.formula(call)  # the mode is off in here: what a formula runs is not counted
        except Exception as error:  # a formula's mistake must not stop the program that is profiled
            self.failures.setdefault(str(call.op), f"{type(error).__name__}: {error}")
            return unknown_cost(call, f"its formula failed: {type(error).__name__}: {error}")


def find_rule(op: Operator) -> Rule | None:
    """weftrace's rule or a user's, else what was registered with torch's own counter, else what torch's tags tell."""
    return (
        rule_of(op)
        or _rule_registered_with_torch(op)
        or fallback_rule(op)
        or _rule_of_namesake(op)
        or WHOLE_RULES.get(_name(op))
    )


def _name(op: Operator) -> str:
    schema = getattr(op, "_schema", None)
    return "" if schema is None else schema.name


def _rule_of_namesake(op: Operator) -> Rule | None:
    """torch's primitives ("prims::mul": forward-mode gradients run them) cost what their namesakes in aten do."""
    if getattr(op, "namespace", "") != "prims":
        return None
    named = overloads(f"aten::{op._schema.name.removeprefix('prims::')}")  # type: ignore[union-attr]
    return next((found for found in map(rule_of, named) if found is not None), None)


def _rule_registered_with_torch(op: Operator) -> Rule | None:
    formula = flop_registry.get(getattr(op, "_overloadpacket", op))
    if formula is None:
        return None

    def counted(call: Call) -> Cost:
        flops = formula(*call.args, **call.kwargs, out_val=call.out)
        return matrix_cost(call, flops, note="formula registered with torch")

    return Rule(counted, Key.ARGUMENTS)


def unknown_cost(call: LiveCall, note: str) -> Cost:
    """The cost of an operator without a formula: its bytes, and its name in the report."""
    dtype = next((tensor.dtype for tensor in call.inputs()), None)
    return Cost(
        read_bytes=call.read_bytes,
        written_bytes=call.written_bytes,
        dtype="" if dtype is None else dtype_name(dtype),
        kind=Kind.UNKNOWN,
        status=Status.UNKNOWN,
        note=note,
    )


def signature_text(call: LiveCall) -> str:
    """Shapes of a call for a person: "[80, 1024] fp32, [1024, 4096] fp32 -> [80, 4096] fp32"."""
    return f"{_shapes((call.args, call.kwargs))} -> {_shapes((call.out,))}"


def _shapes(values: Any, most: int = 6) -> str:
    found = [f"{list(shape_of(tensor))} {dtype_name(tensor.dtype)}" for tensor in tensors_in(values)]
    return ", ".join(found[:most]) + (f", … {len(found) - most} more" if len(found) > most else "")


def described(value: Any) -> Any:
    """A value that stands for an argument in a key: shapes for tensors, the thing itself where it can be hashed."""
    if isinstance(value, torch.Tensor):
        return (shape_of(value), value.dtype, value.layout)
    if isinstance(value, (list, tuple)):
        return tuple(described(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, described(item)) for name, item in value.items())
    if isinstance(value, torch.ScriptObject):  # packed weights: they cannot be compared, and are not to be kept
        return type(value).__name__
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value

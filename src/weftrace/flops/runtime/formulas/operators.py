"""Which rule counts an operator of torch: a user's, or weftrace's by its name."""

from __future__ import annotations

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from weftrace.costs.registry import Rule, rule_named
from weftrace.errors import WeftraceError
from weftrace.flops.runtime.formulas.live_call import Operator

RULES: dict[Operator, Rule] = {}  # what users registered, and what was found for an operator that has run
_BY_NAME: dict[str, Rule] = {}  # what users registered by name: of operators that may be defined later


def operator(name: str) -> Operator | None:
    """The operator of torch's name ("aten::mm", "aten.addmm.default"), None where this torch has none."""
    namespace, _, rest = name.replace("::", ".", 1).partition(".")
    packet_name, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, namespace), packet_name)
    except AttributeError:
        return None
    if not isinstance(packet, OpOverloadPacket):
        return packet if isinstance(packet, (OpOverload, HigherOrderOperator)) else None
    wanted = overload or "default"
    return getattr(packet, wanted) if wanted in packet.overloads() else None


def overloads(name: str) -> tuple[OpOverload, ...]:
    """Every overload of an operator ("aten::add": Tensor, Scalar, out ...); empty where this torch does not have it."""
    namespace, _, packet_name = name.partition("::")
    try:
        packet = getattr(getattr(torch.ops, namespace), packet_name)
    except AttributeError:
        return ()
    if not isinstance(packet, OpOverloadPacket):
        return ()
    return tuple(getattr(packet, overload) for overload in packet.overloads())


def set_rule(op: OpOverload | OpOverloadPacket | HigherOrderOperator | str, entry: Rule) -> None:
    """The rule of every overload of a packet or of a name ("mylib::attention"), or of one overload, from now on.

    An operator that does not exist yet may be named. Raises `WeftraceError` where op is not an operator.
    """
    if isinstance(op, str):
        if "::" not in op:
            raise WeftraceError(f"register_formula: {op!r} is not an operator's name; write it as 'library::name'")
        _BY_NAME[op] = entry
        targets: tuple[Operator, ...] = overloads(op) if "." not in op else tuple(filter(None, (operator(op),)))
    elif isinstance(op, OpOverloadPacket):
        targets = tuple(getattr(op, overload) for overload in op.overloads())
    elif isinstance(op, (OpOverload, HigherOrderOperator)):
        targets = (op,)
    else:
        raise WeftraceError(f"register_formula: {op!r} is not a torch operator, as torch.ops.mylib.name is")
    RULES.update(dict.fromkeys(targets, entry))


def rule_of(op: Operator) -> Rule | None:
    """The rule of an operator: a user's, by name where it was registered before the operator existed; or weftrace's."""
    found = RULES.get(op)
    if found is None and isinstance(op, OpOverload):
        name, overload = op._schema.name, op._schema.overload_name or "default"
        found = _BY_NAME.get(name) or _BY_NAME.get(f"{name}.{overload}") or rule_named(name, overload)
        if found is not None:
            RULES[op] = found
    return found

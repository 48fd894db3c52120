"""Writes src/weftrace/costs/operators.txt: the arguments of torch's operators, from torch's own schemas.

Run it with the torch whose operators the file is to have: `python -m tests.costs.operator_arguments`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload

import weftrace.costs
from weftrace.costs.registry import Key
from weftrace.flops.runtime.count.counter import _is_composite
from weftrace.flops.runtime.count.signatures import find_rule
from weftrace.flops.runtime.formulas.operators import overloads, rule_of

FILE = Path(weftrace.costs.__file__).parent / "operators.txt"
HEAD = f"""\
# Arguments of operators in their order, one overload a line, as the schemas of torch {torch.__version__.split("+")[0]}
# (torch._C._jit_get_all_schemas) have them. Written by tests/costs/operator_arguments.py.
# x a tensor   x? one or None   x* a list   x*? a list with None   .x a number   #x numbers   ~x anything else
# x! is written in place and is no result   =1 its default   | only keywords follow
# No out= forms (the same, with the results behind); no in-place forms with the arguments of their namesake.
# A name alone is a view: it costs nothing. After "- " comes an overload that torch makes of others, which are counted.
"""
_NUMBERS = {"int", "float", "bool", "number", "Scalar", "SymInt", "complex"}


def operators_text() -> str:
    """The text of the file."""
    names = sorted({schema.name for schema in torch._C._jit_get_all_schemas()})
    lines = {
        line for name in names if name.startswith(("aten::", "c10d::", "_c10d_functional::")) for line in lines_of(name)
    }
    return HEAD + "\n".join(sorted(lines)) + "\n"


def lines_of(name: str) -> list[str]:
    """A line for each overload of an operator that the counter meets, none for those that torch makes of others."""
    lines = []
    short = name.removeprefix("aten::")
    functional = [op for op in overloads(name) if _is_dispatched(op)]
    composite = {op for op in functional if _is_composite(op) and not _has_kernel(op)}
    rules = {op: rule_of(op) if op in composite else find_rule(op) for op in functional}
    for op in functional:
        rule = rules[op]
        if rule is None and op in composite:  # what a trace calls by the same name as an overload with a formula
            rule = next(filter(None, rules.values()), None)
        if rule is None or rule.formula.__name__.startswith("_tagged"):
            continue
        if rule.key is Key.NAME:
            return [short]
        arguments = _arguments(op)
        if op in composite:
            lines.append(f"{short} - {arguments}")
            continue
        namesakes = {_arguments(other) for other in overloads(name[:-1])} if name.endswith("_") else set()
        if arguments.replace("self*!", "self*") in namesakes:
            continue
        lines.append(f"{short} {arguments}")
    return lines


def _is_dispatched(op: OpOverload) -> bool:
    """No out= form, and none of TorchScript's own ("aten::Bool")."""
    if any(argument.is_out for argument in op._schema.arguments):
        return False
    try:
        return torch._C._dispatch_has_kernel(op.name())
    except RuntimeError:
        return False


def _has_kernel(op: OpOverload) -> bool:
    """A device's own, beside the way in which torch makes it of others: _fused_rms_norm has one on CUDA alone."""
    return op.name() == "aten::_fused_rms_norm" or torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CPU")


def _arguments(op: OpOverload) -> str:
    words: list[str] = []
    keywords = False
    returned = {mark for out in op._schema.returns if out.alias_info is not None for mark in out.alias_info.after_set}
    for argument in op._schema.arguments:
        if argument.kwarg_only and not keywords:
            words.append("|")
            keywords = True
        words.append(_word(argument, returned))
    return " ".join(words)


def _word(argument: Any, returned: set[str]) -> str:
    kind = str(argument.type)
    inner = kind.removeprefix("Optional[").rstrip("]").removeprefix("List[").removeprefix("Optional[")
    listed = "List[" in kind
    if inner == "Tensor":
        word = argument.name + ("*" if listed else "") + ("?" if "Optional" in kind else "")
        written = argument.alias_info is not None and argument.alias_info.is_write
        return word + ("!" if written and not argument.alias_info.after_set & returned else "")
    word = (("#" if listed else ".") if inner in _NUMBERS else "~") + argument.name
    default = argument.default_value if argument.has_default_value() else None
    return word if default is None else f"{word}={str(default).replace(' ', '')}"


if __name__ == "__main__":
    FILE.write_text(operators_text(), encoding="utf-8")

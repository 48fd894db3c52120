"""What a recorded call of an operator costs: its name and the texts of the columns `input_*`, made a `Cost`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import msgspec

import weftrace.costs.formulas
import weftrace.costs.outputs  # noqa: F401  (these two fill their tables)
from weftrace.costs.arguments import Unreadable, recorded_arguments
from weftrace.costs.cost import MATRIX_KINDS, Cost, Kind, Status
from weftrace.costs.custom_ops import CustomOp, custom_op
from weftrace.costs.operators import find_overload, has_composites, is_view
from weftrace.costs.outputs.result import result_of
from weftrace.costs.registry import RULES, Call, Key, NotRecorded, Rule, dtype_name, vector_cost
from weftrace.costs.tensors import STRIDED, tensors_in
from weftrace.costs.traced_call import UNRECORDED, TracedCall

# What a formula raises where the recorded arguments are not those of its operator, in whatever way.
_MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
_TRITON = "triton_"  # kernels of torch.compile: triton_poi_fused_add_0
_COMPILED = "bytes alone, each tensor once and the last one written: which it writes, and FLOPs, are not recorded"
_DENSE = "at most: how many elements its sparse tensors store was not read"
_AT_LEAST = "at least: the shapes of its results are not known"


class RecordedCall(NamedTuple):
    """A call of an operator as Kineto records it with record_shapes; each text is a JSON list, one entry an argument.

    shapes: "Input Dims". types: "Input type". strides: "Input Strides". values: "Concrete Inputs", scalars as texts.
    None where the file has none.
    """

    name: str
    shapes: str | None = None
    types: str | None = None
    strides: str | None = None
    values: str | None = None


def is_counted(name: str, types: str | None = None, custom: tuple[CustomOp, ...] | None = None) -> bool:
    """Whether an operator of that name ("aten::mm", "triton_poi_fused_add_0", "vllm::fp8_gemm") has a formula.

    types: of its arguments, as recorded: some overloads of a few operators (where, max, std) are made of others, which
    are counted in their place. custom: rules of other libraries' operators (`load_custom_ops`); None: weftrace's own.
    """
    if _rule(name) is None:
        found = custom_op(name, custom)
        return name.startswith(_TRITON) if found is None else found.counted
    if types is None or not has_composites(name):
        return True
    try:
        overload = find_overload(name, msgspec.json.decode(types, type=list[str]))
    except msgspec.DecodeError:
        return True
    return overload is None or not overload.composite


def cost_of(
    call: RecordedCall, likely_dtype: str = "float32", custom: tuple[CustomOp, ...] | None = None
) -> Cost | None:
    """What one call costs; None where its shapes were not recorded.

    likely_dtype: torch's name of the dtype of tensors in lists where no other argument tells it: traces do not record
    it. An operator with shapes and without a formula costs the bytes of its inputs, status UNKNOWN, and the note says
    so. What had to be assumed makes an exact cost an estimate, and the note says what. custom: as in `is_counted`.
    """
    rule = _rule(call.name)
    if rule is not None and rule.key is Key.NAME:
        return rule.formula(TracedCall(call.name, ()))
    if call.shapes is None or call.types is None:
        return None
    if rule is not None and not is_counted(call.name, call.types):
        return Cost(kind=Kind.UNKNOWN, status=Status.UNKNOWN, note="made of other operators, which count in its place")
    known = custom_op(call.name, custom) if rule is None else None
    try:
        arguments = recorded_arguments(call, likely_dtype, None if known is None else known.overload)
    except Unreadable as error:
        return _unknown(TracedCall(call.name, ()), str(error))
    traced = arguments.call
    if known is not None:
        cost = _counted(known.rule(), traced, known.result)
    elif rule is not None:
        cost = _counted(rule, traced)
    elif call.name.startswith(_TRITON):
        cost = _compiled(traced)
    else:
        return _unknown(traced, "no formula: bytes of its inputs alone")
    notes = [
        *arguments.notes,
        *traced.notes,
        *(f"{name} taken to be its default: not recorded" for name in dict.fromkeys(traced.assumed)),
    ]
    if not notes:
        return cost
    status = Status.ESTIMATE if cost.status is Status.EXACT else cost.status
    return replace(cost, status=status, note="; ".join(filter(None, (cost.note, *notes))))


def _compiled(call: TracedCall) -> Cost:
    """A kernel that torch.compile made of several operators: the bytes of its tensors, each once."""
    tensors = list(call.inputs())
    if not tensors:
        return _unknown(call, "none of its tensors was recorded")
    *read, written = tensors
    cost = vector_cost(TracedCall(call.name, read, out=written), 0)
    return replace(cost, status=Status.ESTIMATE, note=_COMPILED)


def _counted(rule: Rule, call: TracedCall, result: Callable[[TracedCall], Any] = result_of) -> Cost:
    try:
        call.set_out(result(call))
        if next(tensors_in((call.args, call.kwargs, call.out)), None) is None:
            return _unknown(call, "none of its tensors was recorded")
        cost = rule.formula(call)
        if cost.status is Status.EXACT and any(tensor.layout != STRIDED for tensor in call.inputs()):
            return replace(cost, status=Status.UPPER_BOUND, note=_DENSE)
        return cost
    except NotRecorded as error:
        return _without_results(rule, call, str(error))
    except _MISFITS:
        if any(value is UNRECORDED for value in call.args):
            return _unknown(call, "not known: values of its arguments were not recorded")
        return _unknown(call, "its formula does not fit the arguments that were recorded")


def _without_results(rule: Rule, call: TracedCall, why: str) -> Cost:
    """The cost of a call whose results are not known: matrix work as it is, bytes and the rest at least."""
    call.set_out(())
    try:
        cost = rule.formula(call)
    except (NotRecorded, *_MISFITS):
        return _unknown(call, f"not known: {why}")
    if cost.kind in MATRIX_KINDS:
        status = Status.ESTIMATE if cost.status is Status.EXACT else cost.status
        return replace(cost, status=status, note="; ".join(filter(None, (cost.note, f"bytes {_AT_LEAST}"))))
    return replace(cost, vector_flops=0, status=Status.UNKNOWN, note=f"bytes at least; not recorded: {why}")


def _unknown(call: Call, note: str) -> Cost:
    dtype = next((tensor.dtype for tensor in call.inputs()), None)
    return Cost(
        read_bytes=call.read_bytes,
        dtype="" if dtype is None else dtype_name(dtype),
        kind=Kind.UNKNOWN,
        status=Status.UNKNOWN,
        note=note,
    )


_OF_OVERLOADS = {name.split(".")[0]: rule for name, rule in RULES.items() if "." in name}


@cache
def _rule(name: str) -> Rule | None:
    """The rule of an operator. One of which torch makes some overloads of others is left to those."""
    found = RULES.get(name) or _OF_OVERLOADS.get(name)
    if found is None and is_view(name):
        return Rule(lambda call: Cost(kind=Kind.FREE), Key.NAME)
    return found

"""The arguments of a recorded call: tensors, lists and numbers from the texts that Kineto writes.

    Input Dims       [[4, 8], [[2, 3], [2, 3]], [], []]
    Input type       ["float", "TensorList", "Scalar", ""]
    Input Strides    [[8, 1], [[3, 1], [3, 1]], [], []]
    Concrete Inputs  ["", "", "0.5", ""]

A tensor without dimensions has [] and a dtype. What has neither dtype nor value is None, or (a text, a list of optional
tensors) not recorded. The dtypes of a list of tensors are not recorded.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Protocol

import msgspec

from weftrace.costs.operators import Argument, ArgumentKind, Overload, find_overload
from weftrace.costs.tensors import RECORDED_DTYPES, DType, Tensor
from weftrace.costs.traced_call import UNRECORDED, TracedCall

_NO_DTYPES = frozenset({"", "Scalar", "ScalarList", "TensorList", "GenericList"})
_LISTS = "dtype of tensors in lists taken to be {}: not recorded"

# A Python number beside a tensor is recorded as a tensor without dimensions of these dtypes.
_NUMBERS = {"double": 1.0, "long int": 1, "long": 1, "c10::complex<double>": 1j}
_WITH_NUMBERS = """
    add sub mul div remainder fmod floor_divide bitwise_and bitwise_or bitwise_xor
"""
_PLAIN = frozenset(f"aten::{name}" for name in _WITH_NUMBERS.split())


class Texts(Protocol):
    """What was recorded of a call, as `weftrace.costs.recorded.RecordedCall` has it."""

    @property
    def name(self) -> str: ...
    @property
    def shapes(self) -> str | None: ...
    @property
    def types(self) -> str | None: ...
    @property
    def strides(self) -> str | None: ...
    @property
    def values(self) -> str | None: ...


class Unreadable(Exception):
    """Texts that are not what Kineto writes, or that were cut; the sentence says which."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """call: with its arguments and without its result. notes: what had to be assumed of them."""

    call: TracedCall
    notes: tuple[str, ...] = ()


def recorded_arguments(call: Texts, likely_dtype: str, overload: Overload | None = None) -> Arguments:
    """Arguments with their names, where the operator's are known. Raises `Unreadable`.

    overload: of an operator that is none of torch's.
    """
    shapes = _list(call.shapes, "shapes")
    types, form = _form(call.name, call.types or "[]", overload)
    if len(shapes) != len(types):
        raise Unreadable(f"{len(shapes)} shapes and {len(types)} types were recorded")
    count = len(types)
    strides = _padded(None if call.strides is None else _list(call.strides, "strides"), count, None)
    values = _padded(None if call.values is None else _list(call.values, "values"), count, None)
    lists = [index for index, type_ in enumerate(types) if type_ == "TensorList"]
    if lists and not any(shapes[index] for index in lists):
        raise Unreadable("shapes of lists of tensors were not recorded")
    listed, notes = _dtype_of_lists(shapes, types, lists, likely_dtype)
    numbers = _numbers(call.name, shapes, types)
    known = form.arguments
    args: list[Any] = []
    for index, type_ in enumerate(types):
        argument = known[index] if index < len(known) else None
        if index in numbers:
            args.append(_NUMBERS[type_])
        elif argument is not None and argument.kind is ArgumentKind.OTHER:
            args.append(UNRECORDED)
        elif type_ == "TensorList":
            args.append(_tensors(shapes[index], strides[index], listed))
        elif type_ not in _NO_DTYPES:
            args.append(_tensor(shapes[index], _dtype(type_), strides[index]))
        elif type_ == "" and index == 0 and overload is None and _is_tensor(argument):
            raise Unreadable("a tensor was recorded without its shape, as nested ones are")
        else:
            args.append(_value(type_, values[index], argument))
    return Arguments(_traced(call.name, args, form), notes)


@dataclass(frozen=True, slots=True)
class _Form:
    """What all calls of an operator with arguments of the same types have in common."""

    arguments: tuple[Argument, ...]
    names: tuple[str, ...]
    defaults: dict[str, Any]
    outs: int
    results: tuple[int, ...]


@lru_cache(maxsize=8192)
def _form(name: str, types_text: str, overload: Overload | None) -> tuple[tuple[str, ...], _Form]:
    types = tuple(_list(types_text, "types"))
    if not all(isinstance(type_, str) for type_ in types):
        raise Unreadable("types were recorded that are none")
    found = overload or find_overload(name, types) or Overload(())
    return types, _Form(
        found.arguments,
        tuple(argument.name + "!" * argument.written for argument in found.arguments),
        {argument.name: argument.default for argument in found.arguments},
        found.outs,
        tuple(index for index, argument in enumerate(found.arguments[: len(types)]) if argument.result),
    )


def _traced(name: str, args: list[Any], form: _Form) -> TracedCall:
    given = len(args) - form.outs
    results = args[given:]
    for index in form.results:
        if args[index] is not None:
            results.append(args[index])
            args[index] = None
    call = TracedCall(name, args[:given], form.names, defaults=form.defaults)
    if results:
        call.kwargs["out"] = results[0] if len(results) == 1 else tuple(results)
    return call


def _dtype_of_lists(
    shapes: Sequence[Any], types: Sequence[str], lists: Sequence[int], likely: str
) -> tuple[DType, tuple[str, ...]]:
    """Of the tensors in lists: the dtype of the first other tensor with dimensions, else the likeliest."""
    if not lists:
        return DType(likely), ()
    for shape, type_ in zip(shapes, types, strict=True):
        if shape and type_ not in _NO_DTYPES:
            return _dtype(type_), (_LISTS.format(_dtype(type_).name),)
    return DType(likely), (_LISTS.format(likely),)


def _numbers(name: str, shapes: Sequence[Any], types: Sequence[str]) -> frozenset[int]:
    """Which arguments were Python numbers. Beside nothing but tensors of such a kind, all but the first."""
    if name.removesuffix("_") not in _PLAIN:
        return frozenset()
    tensors = [index for index, type_ in enumerate(types) if type_ not in _NO_DTYPES]
    alike = {index for index in tensors if not shapes[index] and types[index] in _NUMBERS}
    return frozenset(alike if len(alike) < len(tensors) else sorted(alike)[1:])


def _tensor(shape: Any, dtype: DType, strides: Any) -> Tensor:
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise Unreadable("a shape was recorded that is none")
    return Tensor(tuple(shape), dtype, None if strides is None else tuple(strides))


def _tensors(shapes: Any, strides: Any, dtype: DType) -> list[Tensor]:
    if not isinstance(shapes, list):
        raise Unreadable("shapes of a list of tensors were recorded that are none")
    steps = strides if strides is not None and len(strides) == len(shapes) else [None] * len(shapes)
    scalar = DType("float32")  # steps of an optimizer, scales
    return [_tensor(shape, dtype if shape else scalar, step) for shape, step in zip(shapes, steps, strict=True)]


@cache
def _dtype(type_: str) -> DType:
    name = RECORDED_DTYPES.get(type_)
    if name is None:
        raise Unreadable(f"the dtype {type_} is not known")
    return DType(name)


def _value(type_: str, text: Any, argument: Argument | None) -> Any:
    """A number or a list of them. Without a value: None where an argument may be that, else not recorded."""
    if isinstance(text, str) and text:
        return _number(text)
    if type_ in ("Scalar", "ScalarList") or (text is None and type_ == "" and _is_number(argument)):
        return UNRECORDED  # a file without values has no types of lists either
    if argument is None or argument.kind is ArgumentKind.TENSOR or argument.kind is ArgumentKind.TENSORS:
        return UNRECORDED if argument is not None and argument.kind is ArgumentKind.TENSORS else None
    if argument.name == "reduce":
        return ""  # which way a scatter reduces does not matter; that it does follows from its overload
    return UNRECORDED if argument.kind is ArgumentKind.OTHER or argument.default is not None else None


def _is_tensor(argument: Argument | None) -> bool:
    """Whether it must be a tensor: the first has a dtype then, others may be undefined (no lengths, no statistics)."""
    return argument is not None and argument.kind is ArgumentKind.TENSOR and not argument.optional


def _is_number(argument: Argument | None) -> bool:
    return argument is not None and argument.kind in (ArgumentKind.NUMBER, ArgumentKind.NUMBERS)


@cache
def _number(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    try:
        return float(text)  # inf, nan
    except ValueError:
        return UNRECORDED


def _list(text: str | None, what: str) -> list[Any]:
    try:
        return msgspec.json.decode(text or "[]", type=list)
    except msgspec.DecodeError:
        raise Unreadable(f"the {what} were recorded in part") from None


def _padded(values: list[Any] | None, count: int, empty: Any) -> list[Any]:
    return values if values is not None and len(values) == count else [empty] * count

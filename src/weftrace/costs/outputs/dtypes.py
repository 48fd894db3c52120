"""Which dtype an operator gives: torch's rules of type promotion, and the codes of dtypes that traces record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weftrace.costs.tensors import DType, Tensor

FLOAT, INT64, INT32, BOOL, UINT8 = DType("float32"), DType("int64"), DType("int32"), DType("bool"), DType("uint8")

#: c10::ScalarType, in its order (c10/core/ScalarType.h): how an argument `dtype` is recorded.
_CODES = """
    uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32
    bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz
    float8_e4m3fnuz uint16 uint32 uint64 uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7
    float8_e8m0fnu float4_e2m1fn_x2
"""
_OF_CODE = tuple(_CODES.split())

_BOOL, _INT, _FLOAT, _COMPLEX = range(4)
_REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_WIDER = {real: name for name, real in _REAL.items()}


def dtype_of_code(code: Any) -> DType | None:
    """The dtype of an argument `dtype`; None where it was None."""
    return DType(_OF_CODE[code]) if isinstance(code, int) and 0 <= code < len(_OF_CODE) else None


def category(dtype: DType) -> int:
    if dtype.is_complex:
        return _COMPLEX
    if dtype.is_floating_point:
        return _FLOAT
    return _BOOL if dtype == BOOL else _INT


def promoted(operands: Iterable[Any]) -> DType:
    """The dtype that tensors and numbers have in common: `torch.result_type` of all of them.

    A tensor without dimensions decides only where its category (bool < integer < float < complex) is above that of the
    others, a number only where its category is above that of every tensor.
    """
    ranks: list[DType | None] = [None, None, None]  # of tensors with dimensions, without, and of numbers
    for operand in operands:
        if isinstance(operand, Tensor):
            rank, dtype = (0 if operand.shape else 1), operand.dtype
        elif isinstance(operand, (bool, int, float, complex)):
            rank, dtype = 2, _of_number(operand)
        else:
            continue
        known = ranks[rank]
        ranks[rank] = dtype if known is None else _common(known, dtype)
    dims, scalars, numbers = ranks
    return _combined(dims, _combined(scalars, numbers)) or FLOAT


def _combined(first: DType | None, second: DType | None) -> DType | None:
    """What two ranks give, of which the first decides (c10's combine_categories)."""
    if first is None or second is None:
        return first or second
    kind, other = category(first), category(second)
    if kind == _FLOAT and other == _COMPLEX:
        return as_complex(first)
    return _common(first, second) if kind == _BOOL or (kind == _INT and other > _INT) else first


def as_float(dtype: DType) -> DType:
    """What operators that have no integer result (div, sqrt, exp) make of a dtype: integers become float32."""
    return FLOAT if category(dtype) <= _INT else dtype


def as_sum(dtype: DType) -> DType:
    """What a sum of integers or booleans is kept in: int64."""
    return INT64 if category(dtype) <= _INT else dtype


def as_real(dtype: DType) -> DType:
    """The dtype of an absolute value."""
    return DType(_REAL.get(dtype.name, dtype.name))


def as_complex(dtype: DType) -> DType:
    """The complex numbers of a dtype's precision."""
    return dtype if dtype.is_complex else DType(_WIDER.get(dtype.name, "complex64"))


def as_statistic(dtype: DType) -> DType:
    """The dtype in which means and deviations are kept: single precision for half precision, as GPUs do."""
    return FLOAT if dtype.itemsize < 4 else as_real(dtype)


def _of_number(number: complex) -> DType:
    if isinstance(number, bool):
        return BOOL
    return INT64 if isinstance(number, int) else FLOAT if isinstance(number, float) else DType("complex64")


def _common(a: DType, b: DType) -> DType:
    """The dtype of two tensors of the same rank."""
    if a == b:
        return a
    low, high = sorted((a, b), key=category)
    kind = category(high)
    if kind == _COMPLEX:
        real = _common(as_real(low), as_real(high)) if category(low) >= _FLOAT else as_real(high)
        return DType(_WIDER.get(real.name, "complex64"))
    if category(low) < kind:
        return high
    if kind == _INT and low.itemsize == high.itemsize:  # one has a sign, the other has none: the next with a sign
        return DType({1: "int16", 2: "int32", 4: "int64"}.get(low.itemsize, "float32"))
    if kind == _FLOAT and low.itemsize == high.itemsize:  # float16 and bfloat16
        return FLOAT
    if kind == _INT:
        small, large = sorted((low, high), key=lambda dtype: dtype.itemsize)
        return (
            large
            if not large.name.startswith("u") or small.name.startswith("u")
            else DType(f"int{16 * large.itemsize}")
        )
    return max(low, high, key=lambda dtype: dtype.itemsize)

"""A tensor as a trace records it: shape, dtype, strides, and no values.

It answers the questions that formulas ask of a tensor in torch's own words (`shape`, `numel()`, `dim()`, `stride()`,
`element_size()`, `is_complex()`), so a formula takes either: what the live counter hands it, or what a trace recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

#: torch's name of a dtype -> bytes of an element.
ITEM_BYTES = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "complex32": 4, "complex64": 8, "complex128": 16,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
    "qint8": 1, "quint8": 1, "qint32": 4,
}  # fmt: skip

#: Kineto's name of a dtype (C++'s, as `scalarTypeToTypeMeta` demangles it) -> torch's.
RECORDED_DTYPES = {
    "double": "float64", "float": "float32", "c10::BFloat16": "bfloat16", "c10::Half": "float16",
    "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz", "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu", "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "c10::complex<c10::Half>": "complex32", "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
    "long int": "int64", "long": "int64", "long long": "int64", "int": "int32", "short": "int16", "short int": "int16",
    "signed char": "int8", "char": "int8", "unsigned char": "uint8", "bool": "bool",
    "unsigned long": "uint64", "unsigned long int": "uint64", "unsigned int": "uint32", "unsigned short": "uint16",
    "c10::qint8": "qint8", "c10::quint8": "quint8", "c10::qint32": "qint32",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `str` gives "torch.float32", as torch's own does; `itemsize` is in bytes."""

    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"

    @property
    def itemsize(self) -> int:
        return ITEM_BYTES[self.name]

    @property
    def is_complex(self) -> bool:
        return self.name.startswith("complex")

    @property
    def is_floating_point(self) -> bool:
        return self.name.startswith(("float", "bfloat"))


STRIDED = "torch.strided"
"""`str` of the layout of a dense tensor."""


class TensorLike(Protocol):
    """What formulas ask of a tensor: torch's own answers, and so does `Tensor`."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def layout(self) -> Any: ...
    @property
    def ndim(self) -> int: ...
    @property
    def is_nested(self) -> bool: ...
    @property
    def is_meta(self) -> bool: ...
    def numel(self) -> int: ...
    def dim(self) -> int: ...
    def stride(self) -> Any: ...
    def element_size(self) -> int: ...
    def is_complex(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Tensor:
    """shape: sizes. dtype: of its elements. strides: in elements; None where the trace has none (then contiguous).

    Its values are not known, like those of a tensor on the meta device. Kineto records no strides (an empty list) of a
    tensor whose layout has none, a sparse one: how many elements that stores is not known either.
    """

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] | None = None

    is_nested = False
    is_mkldnn = False
    is_meta = True

    @property
    def layout(self) -> str:
        """ "torch.strided", as torch writes it, or "sparse"."""
        return STRIDED if self.strides != () or not self.shape else "sparse"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def element_size(self) -> int:
        return self.dtype.itemsize

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def stride(self) -> tuple[int, ...]:
        if self.strides is not None and len(self.strides) == len(self.shape):
            return self.strides
        steps, step = [], 1
        for size in reversed(self.shape):
            steps.append(step)
            step *= max(size, 1)
        return tuple(reversed(steps))


_types: tuple[type, ...] = (Tensor,)


def take_for_tensors(type_: type) -> None:
    """From now on what is of this type is a tensor, too: torch's, where torch is."""
    global _types
    if type_ not in _types:
        _types = (*_types, type_)


def is_tensor(value: object) -> bool:
    return isinstance(value, _types)


def tensors_in(values: Iterable[Any]) -> Iterator[Any]:
    """The tensors of nested lists, tuples and dictionaries, in order."""
    for value in values:
        if isinstance(value, _types):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def storage_bytes(tensor: Any) -> int:
    """Bytes of a tensor's distinct elements: dimensions of stride 0 count once; values and indices if sparse."""
    if str(tensor.layout) != STRIDED:
        return sparse_bytes(tensor)
    if tensor.is_nested:
        return int(tensor.numel() * tensor.element_size())
    elements = math.prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or not size)
    return int(elements * tensor.element_size())


def sparse_bytes(tensor: Any) -> int:
    """Bytes of the values and indices of a sparse tensor; 0 where its layout hides them."""
    layout, parts = str(tensor.layout), []
    if layout == "torch.sparse_coo":
        parts = [tensor._indices(), tensor._values()]
    elif layout in ("torch.sparse_csr", "torch.sparse_bsr"):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif layout in ("torch.sparse_csc", "torch.sparse_bsc"):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    elif tensor.is_mkldnn or layout == "sparse":  # as recorded: at most
        parts = [tensor]
    return sum(part.numel() * part.element_size() for part in parts)


def shape_of(tensor: Any) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
    """The shape of a tensor; of a nested one, which has none, the shapes of those in it."""
    if tensor.is_nested and str(tensor.layout) == STRIDED:
        return tuple(tuple(sizes) for sizes in tensor._nested_tensor_size().tolist())
    return tuple(tensor.shape)

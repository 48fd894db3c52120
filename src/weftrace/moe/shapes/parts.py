"""A part of a layer: what one kernel, or a row of equal ones, computes and moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

#: Whole and exact where rows are whole; an array [L, R] where layers and ranks differ.
Amount = int | float | NDArray[np.float64]
#: product: [rows, inner] x [inner, columns]; batched: the same with a small matrix for each head or group; core:
#: queries with keys, weights with values; scores: of an indexer; memory: memory-bound kernels between them; casts: FP8
#: to FP8 along the other axis.
Sort = Literal["product", "batched", "core", "scores", "memory", "casts"]

SCALED = 128  # elements that share a scale of 4 bytes in FP8
MAIN_GRADIENT = 8  # bytes a parameter: gradients are added in FP32, read and written


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """flops: a multiply and an add are two. moved_bytes: that a kernel must read and write at least.

    rows, inner, columns, groups: of products: all rows together, and the matrices that they are multiplied with.
    grouped: each row with one of the matrices, as routed experts have it.
    dtype: of a product's inputs. backward: "" in the forward; "dgrad", "wgrad".
    gradient_bytes: of moved_bytes, what adding up weight gradients moves. num_kernels: equal kernels that do it.
    """

    name: str
    sort: Sort
    flops: Amount
    moved_bytes: Amount
    rows: Amount = 0
    inner: int = 0
    columns: int = 0
    groups: int = 1
    grouped: bool = False
    dtype: str = "bf16"
    backward: str = ""
    gradient_bytes: int = 0
    num_kernels: int = 1

    @property
    def params(self) -> int:
        """Elements of its matrices."""
        return self.groups * self.inner * self.columns

    @property
    def bytes_in_fp8(self) -> Amount:
        """Of a product: what it would move with its inputs in FP8, without adding up gradients."""
        return _product_bytes(self.rows, self.inner, self.columns, self.groups, True)

    @property
    def widths(self) -> Amount:
        """Elements that its rows read and write."""
        return self.rows * (self.inner + self.columns)


def product(name: str, rows: Amount, inner: int, columns: int, *, groups: int = 1, fp8: bool = True) -> Part:
    """[rows, inner] x [inner, columns], rows divided among `groups` matrices; BF16 out.

    2 rows inner columns FLOP. Bytes in FP8: rows (inner + scales) + matrices and their scales + 2 rows columns.
    """
    return Part(
        name=name, sort="product", flops=2 * rows * inner * columns, rows=rows, inner=inner, columns=columns,
        groups=groups, moved_bytes=_product_bytes(rows, inner, columns, groups, fp8), dtype="fp8" if fp8 else "bf16",
    )  # fmt: skip


def batched(name: str, rows: Amount, inner: int, columns: int, groups: int) -> Part:
    """As `product`, in BF16, each row against each of `groups` matrices: rows are tokens times groups."""
    return replace(product(name, rows, inner, columns, groups=groups, fp8=False), sort="batched")


def backward_of(part: Part, kind: Literal["dgrad", "wgrad"]) -> Part:
    """Gradient by the inputs, or by the weights: the forward's FLOPs and bytes, and the sum of weight gradients."""
    if kind == "dgrad":
        return replace(part, backward=kind)
    gradients = MAIN_GRADIENT * part.params
    return replace(part, backward=kind, gradient_bytes=gradients, moved_bytes=part.moved_bytes + gradients)


def in_bf16(part: Part) -> Part:
    """The same product where nothing is in FP8."""
    if part.dtype != "fp8":
        return part
    moved = _product_bytes(part.rows, part.inner, part.columns, part.groups, False)
    return replace(part, dtype="bf16", moved_bytes=moved + part.gradient_bytes)


def _product_bytes(rows: Amount, inner: int, columns: int, groups: int, fp8: bool) -> Amount:
    if not fp8:
        return 2 * (rows * inner + groups * inner * columns + rows * columns)
    blocks = -(-inner // SCALED)
    matrix = inner * columns + 4 * blocks * -(-columns // SCALED)
    return rows * (inner + 4 * blocks) + groups * matrix + 2 * rows * columns

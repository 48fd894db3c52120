"""Products with sparse matrices: each stored element meets a row of the other operand, 2 nnz n FLOPs.

nnz counts stored elements, explicit zeros and the whole of each block (BSR, BSC) included: the kernels multiply them
too.
"""

from __future__ import annotations

import math
from typing import Any

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.formulas.macs import additions, flops_per_mac
from weftrace.costs.registry import Call, Key, matrix_cost, rule
from weftrace.costs.tensors import TensorLike

_SPREAD = "two sparse operands: the stored elements are taken to be spread evenly"
_NO_VALUES = "how many elements are stored was not read: counted as if all were"


def is_sparse(tensor: TensorLike) -> bool:
    """Whether a tensor stores only some of its elements (COO, CSR, CSC, BSR, BSC)."""
    return "sparse" in str(tensor.layout)


def stored(tensor: Any) -> int:
    """Elements that a sparse tensor stores; one on the meta device, or recorded, does not know."""
    values = tensor._values() if str(tensor.layout) == "torch.sparse_coo" else tensor.values()
    return int(values.numel())


def _sparse_flops(a: TensorLike, b: TensorLike) -> tuple[int, Status, str]:
    """FLOPs of a product of which one operand at least is sparse, and how far that is known."""
    mac = flops_per_mac(a, b)
    columns = b.shape[-1] if b.dim() > 1 else 1
    inner = a.shape[-1]
    if a.is_meta or b.is_meta:
        return mac * math.prod(a.shape) * columns, Status.UPPER_BOUND, _NO_VALUES
    if is_sparse(a) and is_sparse(b):
        return mac * stored(a) * stored(b) // max(1, inner), Status.ESTIMATE, _SPREAD
    if is_sparse(a):
        return mac * stored(a) * columns, Status.EXACT, ""
    return mac * stored(b) * a.shape[-2], Status.EXACT, ""


def sparse_product(call: Call, a: TensorLike, b: TensorLike) -> Cost:
    """[m, k] times [k, n], one or both of them sparse."""
    flops, status, note = _sparse_flops(a, b)
    return matrix_cost(call, flops, dtype=a.dtype, status=status, note=note)


def added_sparse_product(call: Call, a: TensorLike, b: TensorLike) -> Cost:
    """The same, added to a matrix: an addition for each (if the result is sparse: stored) element of the result."""
    flops, status, note = _sparse_flops(a, b)
    out = call.out
    adds = 0 if call.arg("beta", 1) == 0 else stored(out) if is_sparse(out) and not out.is_meta else additions(out)
    return matrix_cost(call, flops, vector_flops=adds, dtype=a.dtype, status=status, note=note)


@rule("aten::_sparse_addmm", "aten::sspaddmm", key=Key.VALUES)
def _added(call: Call) -> Cost:
    return added_sparse_product(call, call.args[1], call.args[2])


@rule("aten::_sparse_sparse_matmul", "aten::hspmm", key=Key.VALUES)
def _products(call: Call) -> Cost:
    return sparse_product(call, call.args[0], call.args[1])


@rule("aten::_sparse_mm_reduce_impl", key=Key.VALUES)
def _reduced(call: Call) -> Cost:
    return sparse_product(call, call.args[0], call.args[1])


@rule("aten::_sparse_mm_reduce_impl_backward", key=Key.VALUES)
def _reduced_backward(call: Call) -> Cost:
    pattern, grad = call.args[0], call.args[1]
    products = sum(int(wanted) for wanted in call.arg("output_mask"))
    if pattern.is_meta:
        flops, status, note = math.prod(pattern.shape), Status.UPPER_BOUND, _NO_VALUES
    else:
        flops, status, note = stored(pattern), Status.EXACT, ""
    return matrix_cost(call, products * 2 * flops * grad.shape[-1], dtype=grad.dtype, status=status, note=note)


@rule("aten::sparse_sampled_addmm", key=Key.VALUES)
def _sampled(call: Call) -> Cost:
    """A dense product of which only the elements that `self` stores are computed: a dot product of k for each."""
    pattern, a, b = call.args[:3]
    if pattern.is_meta:
        elements, status, note = math.prod(pattern.shape), Status.UPPER_BOUND, _NO_VALUES
    else:
        elements, status, note = stored(pattern), Status.EXACT, ""
    adds = 0 if call.arg("beta", 1) == 0 else elements
    return matrix_cost(
        call, flops_per_mac(a, b) * elements * a.shape[-1], vector_flops=adds, dtype=a.dtype, status=status, note=note
    )


@rule("aten::_spsolve", key=Key.VALUES)
def _solve(call: Call) -> Cost:
    """How much a sparse factorization fills in is not in its arguments."""
    return Cost(
        read_bytes=call.read_bytes,
        written_bytes=call.written_bytes,
        kind=Kind.UNKNOWN,
        status=Status.UNKNOWN,
        note="the fill-in of a sparse factorization is not known",
    )


@rule("aten::_sparse_semi_structured_mm", "aten::_sparse_semi_structured_addmm", "aten::_cslt_sparse_mm")
def _half(call: Call) -> Cost:
    """2:4 sparsity: two of every four elements of a row are stored, half the dense product is computed: m n k FLOPs."""
    out = call.out
    dense = call.arg("mat2") if call.arg("mat2") is not None else call.arg("dense_B")
    added = call.arg("input") is not None or call.arg("bias") is not None
    return matrix_cost(call, out.numel() * dense.shape[-2], vector_flops=out.numel() if added else 0, dtype=dense.dtype)


@rule("aten::_sparse_semi_structured_linear", key=Key.ARGUMENTS)
def _half_linear(call: Call) -> Cost:
    x, out = call.args[0], call.out
    extra = int(call.arg("bias") is not None) + int(call.arg("activation") not in (None, "none"))
    return matrix_cost(call, out.numel() * x.shape[-1], vector_flops=extra * out.numel(), dtype=x.dtype)

"""Products of matrices and vectors: mm, bmm, addmm, mv, dot ... : 2 m n k FLOPs, 8 m n k of complex numbers.

The sum that addmm and its like add is vector work, one addition for each element of the result, where beta is not 0.
linear, matmul, einsum, tensordot, chain_matmul and inner are made of these by torch before they are counted.
"""

from __future__ import annotations

from weftrace.costs.cost import Cost
from weftrace.costs.formulas.macs import additions, flops_per_mac
from weftrace.costs.formulas.nested import is_ragged, ragged_product
from weftrace.costs.formulas.sparse import added_sparse_product, is_sparse, sparse_product
from weftrace.costs.registry import Call, Key, NotRecorded, matrix_cost, rule, vector_cost
from weftrace.costs.tensors import TensorLike, storage_bytes


def product_flops(a: TensorLike, b: TensorLike) -> int:
    """FLOPs of [..., m, k] times [..., k, n] or [k]: each element of a meets the n columns of b."""
    inner = b.shape[-2] if b.dim() > 1 else b.shape[-1]
    if a.shape[-1] != inner:
        raise NotRecorded(f"recorded shapes that cannot be multiplied: {list(a.shape)} and {list(b.shape)}")
    columns = b.shape[-1] if b.dim() > 1 else 1
    return flops_per_mac(a, b) * a.numel() * columns


@rule("aten::mm", "aten::bmm", "aten::mv", key=Key.DENSE)
def _product(call: Call) -> Cost:
    a, b = call.args[0], call.args[1]
    if is_ragged(a):
        return ragged_product(call)
    if is_sparse(a) or is_sparse(b):
        return sparse_product(call, a, b)
    return matrix_cost(call, product_flops(a, b))


@rule("aten::dot", "aten::vdot")
def _dot(call: Call) -> Cost:
    a, b = call.args[0], call.args[1]
    return matrix_cost(call, flops_per_mac(a, b) * a.numel())


@rule(
    *("aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_", "aten::addbmm", "aten::addbmm_"),
    *("aten::addmv", "aten::addmv_", "aten::_addmm_activation"),
    key=Key.DENSE,
)
def _added_product(call: Call) -> Cost:
    added, a, b = call.args[:3]
    if is_sparse(a) or is_sparse(b):
        return added_sparse_product(call, a, b)
    adds = call.arg("beta", 1) != 0
    activation = call.out.numel() if "activation" in call.name else 0
    unread = 0 if adds else storage_bytes(added)
    return matrix_cost(
        call,
        product_flops(a, b),
        vector_flops=(additions(call.out) if adds else 0) + activation,
        dtype=a.dtype,
        read_bytes=call.read_bytes - unread,
    )


@rule("aten::addr", "aten::addr_", key=Key.DENSE)
def _outer(call: Call) -> Cost:
    """No sum over k: a multiplication (and, where beta is not 0, an addition) an element, on no matrix unit."""
    adds = call.arg("beta", 1) != 0
    multiply = 6 if call.out.is_complex() else 1
    return vector_cost(call, call.out.numel() * multiply + (additions(call.out) if adds else 0))


@rule("aten::_foreach_mm")
def _products(call: Call) -> Cost:
    pairs = list(zip(call.args[0], call.args[1], strict=True))
    return matrix_cost(call, sum(product_flops(a, b) for a, b in pairs))


@rule("inductor::_mm_plus_mm")
def _two_products(call: Call) -> Cost:
    a, b, c, d = call.args[:4]
    return matrix_cost(call, product_flops(a, b) + product_flops(c, d), vector_flops=additions(call.out))


@rule(
    *("aten::mkldnn_linear", "mkldnn::_linear_pointwise", "mkl::_mkl_linear", "aten::_mixed_dtypes_linear"),
    key=Key.ARGUMENTS,
)
def _linear(call: Call) -> Cost:
    """[..., k] times the transpose of [n, k]; the weight may be packed so that its own shape tells nothing."""
    x, out = call.args[0], call.out
    repeated = storage_bytes(call.args[2]) if "_mkl_linear" in call.name else 0  # the weight, packed and as it was
    bias = call.arg("bias") is not None or call.arg("B") is not None
    activated = call.arg("attr", "none") not in ("none", None, "") or call.arg("activation") not in (None, "none")
    return matrix_cost(
        call,
        2 * out.numel() * x.shape[-1],
        vector_flops=out.numel() * (int(bias) + int(activated)),
        read_bytes=call.read_bytes - repeated,
    )


@rule("aten::linear_backward", "aten::mkldnn_linear_backward", key=Key.ARGUMENTS)
def _linear_backward(call: Call) -> Cost:
    grad, weight = call.arg("grad_output"), call.arg("weight")
    mask = call.arg("output_mask")
    products = int(mask[0]) + int(mask[1])
    return matrix_cost(
        call, products * 2 * grad.numel() * weight.shape[-1], vector_flops=grad.numel() if mask[2] else 0
    )


@rule("aten::mkldnn_linear_backward_input")
def _linear_backward_input(call: Call) -> Cost:
    grad, weight = call.arg("grad_output"), call.arg("weight")
    return matrix_cost(call, 2 * grad.numel() * weight.shape[-1])


@rule("aten::mkldnn_linear_backward_weights", key=Key.ARGUMENTS)
def _linear_backward_weights(call: Call) -> Cost:
    grad, x = call.arg("grad_output"), call.arg("input")
    bias = grad.numel() if call.arg("bias_defined") else 0
    return matrix_cost(call, 2 * grad.numel() * x.shape[-1], vector_flops=bias)


@rule("aten::matmul_backward", key=Key.ARGUMENTS)
def _matmul_backward(call: Call) -> Cost:
    grad, a = call.arg("grad"), call.arg("self")
    products = sum(int(wanted) for wanted in call.arg("mask"))
    return matrix_cost(call, products * flops_per_mac(grad, a) * grad.numel() * a.shape[-1])


@rule("aten::_trilinear", key=Key.ARGUMENTS)
def _trilinear(call: Call) -> Cost:
    """Two products in turn, of i1 with i2 and of that with i3; each sums the dimensions that nothing later needs.

    nn.Bilinear of [b, i] and [b, j] to [b, o]: 2 b o i j + 2 b o j. torch goes through the unrolled dimension one
    index at a time; a product that sums nothing is an elementwise one.
    """
    i1, i2, i3, expand1, expand2, expand3, summed = call.args[:7]
    unrolled = call.arg("unroll_dim", 1)
    dims = range(i1.dim() + len(expand1))
    sizes1, sizes2, sizes3 = (_expanded(t, e, len(dims)) for t, e in ((i1, expand1), (i2, expand2), (i3, expand3)))
    first_sums = [d for d in dims if d in summed and d != unrolled and d in expand3]
    then_sums = [d for d in dims if d in summed and d != unrolled and d not in expand3]
    first, then = 1, 1
    for d in dims:
        pair = max(sizes1[d], sizes2[d], sizes3[d]) if d == unrolled else max(sizes1[d], sizes2[d])
        first *= pair
        then *= 1 if d in first_sums else max(pair, sizes3[d])
    mac = flops_per_mac(i1, i2)
    flops = (mac * first if first_sums else 0) + (mac * then if then_sums else 0)
    vector = (0 if first_sums else first) + (0 if then_sums else then)
    steps = max(sizes1[unrolled], sizes2[unrolled], sizes3[unrolled])
    accumulated = call.out.numel() * (steps if unrolled in summed else 1)
    return matrix_cost(call, flops, vector_flops=vector + accumulated)


def _expanded(tensor: TensorLike, expand: list[int], dims: int) -> list[int]:
    sizes = iter(tensor.shape)
    return [1 if d in expand else next(sizes) for d in range(dims)]

"""Convolutions, forward and backward, of any number of dimensions, grouped, dilated or transposed.

Forward: 2 N C_out (C_in / groups) |kernel| |output|, for the positions of the output; transposed: the same over the
positions of the input. Products with padding are counted in full, as everyone does. The gradients of the input and of
the weight cost what the forward does, each; a bias is an addition for each element of the output, in either direction.
"""

from __future__ import annotations

import math

from weftrace.costs.cost import Cost, Kind
from weftrace.costs.formulas.macs import additions, flops_per_mac
from weftrace.costs.registry import Call, Key, matrix_cost, rule, vector_cost
from weftrace.costs.tensors import TensorLike, storage_bytes


def conv_flops(x: TensorLike, weight: TensorLike, out: TensorLike, transposed: bool = False) -> int:
    """FLOPs of a convolution's forward.

    x: [N, C_in, ...] or [C_in, ...]. weight: [C_out, C_in / groups, *kernel], transposed [C_in, C_out / groups,
    *kernel]. Each element of the output (of the input, where transposed) meets the weights of one such channel.
    """
    positions = x if transposed else out
    return flops_per_mac(x, weight) * positions.numel() * math.prod(weight.shape[1:])


@rule("aten::convolution", "aten::_convolution", "aten::convolution_overrideable", key=Key.ARGUMENTS)
def _convolution(call: Call) -> Cost:
    x, weight, bias = call.args[:3]
    flops = conv_flops(x, weight, call.out, bool(call.arg("transposed")))
    vector = additions(call.out) if bias is not None else 0
    return matrix_cost(call, flops, kind=Kind.CONV, vector_flops=vector, dtype=x.dtype)


@rule("aten::convolution_backward", "aten::convolution_backward_overrideable", key=Key.ARGUMENTS)
def _convolution_backward(call: Call) -> Cost:
    grad, x, weight = call.args[:3]
    mask = call.arg("output_mask")
    flops = (int(mask[0]) + int(mask[1])) * conv_flops(x, weight, grad, bool(call.arg("transposed")))
    unread = storage_bytes(weight) * (not mask[0]) + storage_bytes(x) * (not mask[1])
    return matrix_cost(
        call,
        flops,
        kind=Kind.CONV,
        vector_flops=additions(grad) if mask[2] else 0,
        dtype=grad.dtype,
        read_bytes=call.read_bytes - unread,
    )


@rule("aten::mps_convolution_backward", key=Key.ARGUMENTS)
def _mps_backward(call: Call) -> Cost:
    x, grad, weight = call.args[:3]
    mask = call.arg("output_mask")
    flops = (int(mask[0]) + int(mask[1])) * conv_flops(x, weight, grad)
    return matrix_cost(call, flops, kind=Kind.CONV, vector_flops=grad.numel() if mask[2] else 0)


@rule("aten::_slow_conv2d_backward", key=Key.ARGUMENTS)
def _slow_backward(call: Call) -> Cost:
    grad, x, weight = call.args[:3]
    mask = call.arg("output_mask", (True, True, True))
    flops = (int(mask[0]) + int(mask[1])) * conv_flops(x, weight, grad)
    return matrix_cost(call, flops, kind=Kind.CONV, vector_flops=grad.numel() if mask[2] else 0)


@rule(
    *("aten::cudnn_convolution", "aten::cudnn_convolution_relu", "aten::cudnn_convolution_add_relu"),
    *("aten::miopen_convolution", "aten::miopen_convolution_relu", "aten::miopen_convolution_add_relu"),
    *("aten::miopen_depthwise_convolution", "aten::_slow_conv2d_forward", "aten::slow_conv3d_forward"),
    *("aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d", "aten::_conv_depthwise2d", "aten::conv_depthwise3d"),
    *("aten::mkldnn_convolution", "aten::_nnpack_spatial_convolution", "aten::_mps_convolution"),
    *("mkldnn::_convolution_pointwise", "mkldnn::_convolution_pointwise_"),
    key=Key.ARGUMENTS,
)
def _forward_kernel(call: Call) -> Cost:
    """Kernels that only go one way. Some add a bias, another tensor, an activation, in the same pass."""
    x, weight = _input_and_weight(call)
    out = call.out
    apart = int(weight.dim() == x.dim() + 1)  # reordered by oneDNN: [groups, C_out / groups, C_in / groups, ...]
    flops = flops_per_mac(x, weight) * out.numel() * math.prod(weight.shape[1 + apart :])
    return matrix_cost(call, flops, kind=Kind.CONV, vector_flops=out.numel() * _fused(call), dtype=x.dtype)


@rule(
    *("aten::cudnn_convolution_transpose", "aten::miopen_convolution_transpose", "aten::slow_conv_transpose2d"),
    *("aten::slow_conv_transpose3d", "mkldnn::_convolution_transpose_pointwise"),
    key=Key.ARGUMENTS,
)
def _transposed_kernel(call: Call) -> Cost:
    x, weight = _input_and_weight(call)
    out = call.out
    flops = conv_flops(x, weight, out, transposed=True)
    return matrix_cost(call, flops, kind=Kind.CONV, vector_flops=out.numel() * _fused(call), dtype=x.dtype)


def _input_and_weight(call: Call) -> tuple[TensorLike, TensorLike]:
    """(input, weight), wherever an operator has them."""
    weight = call.arg("W") if call.arg("W") is not None else call.arg("weight")
    x = next(found for name in ("self", "X", "input") if (found := call.arg(name)) is not None)
    return x, weight


def _fused(call: Call) -> int:
    """Elementwise operations for each element of the output, done in the same pass."""
    name = call.name
    bias = call.arg("bias") is not None or call.arg("B") is not None
    relu = "_relu" in name or call.arg("attr", "none") != "none" or call.arg("unary_attr") not in (None, "none")
    other = 2 if "_add_" in name else int(call.arg("binary_attr") is not None)  # alpha z + ...
    return int(bias) + int(relu) + other


@rule("aten::conv_tbc")
def _conv_tbc(call: Call) -> Cost:
    """[T, B, C_in] with weight [kernel, C_in, C_out]: 2 |output| kernel C_in. Its backward is made of addmm."""
    x, weight = call.args[:2]
    out = call.out
    flops = 2 * out.numel() * weight.shape[0] * weight.shape[1]
    return matrix_cost(call, flops, kind=Kind.CONV, vector_flops=out.numel(), dtype=x.dtype)


@rule("aten::im2col")
def _im2col(call: Call) -> Cost:
    return vector_cost(call, 0, kind=Kind.MOVE)


@rule("aten::col2im")
def _col2im(call: Call) -> Cost:
    """Columns are added up where they overlap: an addition for each of their elements."""
    return vector_cost(call, additions(call.args[0]))

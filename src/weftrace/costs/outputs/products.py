"""Results of products of matrices and of convolutions."""

from __future__ import annotations

from typing import Any

from weftrace.costs.outputs.dtypes import INT32, dtype_of_code
from weftrace.costs.outputs.elementwise import like
from weftrace.costs.outputs.reductions import window
from weftrace.costs.outputs.registry import output
from weftrace.costs.tensors import DType, Tensor
from weftrace.costs.traced_call import TracedCall


def _given(call: TracedCall, own: DType) -> DType:
    return dtype_of_code(call.arg("out_dtype", -1)) or own


def _product(a: Tensor, b: Tensor, dtype: DType) -> Tensor:
    return Tensor((*a.shape[:-1], *b.shape[-1:]) if b.ndim > 1 else a.shape[:-1], dtype)


@output("mm bmm mv _int_mm _scaled_mm _scaled_mm_v2")
def _two(call: TracedCall) -> Any:
    a, b = call.args[:2]
    return _product(a, b, INT32 if call.name == "aten::_int_mm" else _given(call, a.dtype))


@output("addmm baddbmm addmv _addmm_activation")
def _added(call: TracedCall) -> Any:
    return _product(call.args[1], call.args[2], _given(call, call.args[0].dtype))


@output("addbmm")
def _summed(call: TracedCall) -> Any:
    a, b = call.args[1:3]
    return Tensor((a.shape[1], b.shape[2]), call.args[0].dtype)


@output("addr")
def _outer(call: TracedCall) -> Any:
    return Tensor((call.args[1].shape[0], call.args[2].shape[0]), call.args[0].dtype)


@output("dot vdot")
def _dot(call: TracedCall) -> Any:
    return Tensor((), call.args[0].dtype)


@output("_trilinear")
def _trilinear(call: TracedCall) -> Any:
    """Three tensors, each with dimensions put in, multiplied and summed over some."""
    dims = range(call.args[0].ndim + len(call.args[3]))
    sizes: list[list[int]] = []
    for tensor, put_in in zip(call.args[:3], call.args[3:6], strict=True):
        own = iter(tensor.shape)
        sizes.append([1 if dim in put_in else next(own) for dim in dims])
    kept = [dim for dim in dims if dim not in call.arg("sumdim")]
    return Tensor(tuple(max(each[dim] for each in sizes) for dim in kept), call.args[0].dtype)


@output("_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2")
def _grouped(call: TracedCall) -> Any:
    """Rows or columns jagged: two dimensions; the sum jagged: a product for each group."""
    a, b = call.args[:2]
    dtype = _given(call, a.dtype)
    if a.ndim == b.ndim == 2:
        return Tensor((call.arg("offs").shape[0], a.shape[0], b.shape[1]), dtype)
    batch = a.shape[:1] if a.ndim == b.ndim else ()
    return Tensor((*batch, a.shape[-2], b.shape[-1]), dtype)


# Weights that are packed to fewer bits: n is in the scales, or in the shape of the packed weight.
@output("_weight_int8pack_mm")
def _int8(call: TracedCall) -> Any:
    x, weight = call.args[:2]
    return Tensor((x.shape[0], weight.shape[0]), x.dtype)


@output("_weight_int4pack_mm")
def _int4(call: TracedCall) -> Any:
    x, weight = call.args[:2]
    return Tensor((x.shape[0], weight.shape[0] * 8), x.dtype)


# -- convolutions: [N, C, *sizes] with [C_out, C / groups, *kernel]; transposed [C, C_out / groups, *kernel]


def _convolved(call: TracedCall, x: Tensor, weight: Tensor, *, transposed: bool) -> Tensor:
    dims = weight.ndim - 2
    kernel = weight.shape[2:]
    stride, padding = window(call.arg("stride"), dims), window(call.arg("padding"), dims)
    dilation = window(call.arg("dilation", 1), dims)
    added = window(call.arg("output_padding", 0), dims)
    groups = call.arg("groups", 1)
    sizes = []
    for place, size in enumerate(x.shape[-dims:]):
        reach, step, pad = dilation[place] * (kernel[place] - 1), stride[place], padding[place]
        if transposed:
            sizes.append((size - 1) * step - 2 * pad + reach + added[place] + 1)
        else:
            sizes.append((size + 2 * pad - reach - 1) // step + 1)
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    return Tensor((*x.shape[: -dims - 1], channels, *sizes), x.dtype)


@output("convolution _convolution convolution_overrideable")
def _convolution(call: TracedCall) -> Any:
    return _convolved(call, call.args[0], call.args[1], transposed=bool(call.arg("transposed", False)))


_KERNELS = """
    cudnn_convolution cudnn_convolution_relu cudnn_convolution_add_relu miopen_convolution miopen_convolution_relu
    miopen_convolution_add_relu miopen_depthwise_convolution _slow_conv2d_forward slow_conv3d_forward
    slow_conv_dilated2d slow_conv_dilated3d _conv_depthwise2d conv_depthwise3d mkldnn_convolution
    _nnpack_spatial_convolution _mps_convolution
"""


@output(_KERNELS)
def _kernel(call: TracedCall) -> Any:
    return _convolved(call, call.args[0], call.args[1], transposed=False)


@output("cudnn_convolution_transpose miopen_convolution_transpose slow_conv_transpose2d slow_conv_transpose3d")
def _transposed_kernel(call: TracedCall) -> Any:
    return _convolved(call, call.args[0], call.args[1], transposed=True)


@output("convolution_backward convolution_backward_overrideable _slow_conv2d_backward")
def _convolution_backward(call: TracedCall) -> Any:
    grad, x, weight = call.args[:3]
    mask = call.arg("output_mask", (True, True, True))
    bias = Tensor((grad.shape[1],), grad.dtype)
    return like(x) if mask[0] else None, like(weight) if mask[1] else None, bias if mask[2] else None


@output("conv_tbc")
def _conv_tbc(call: TracedCall) -> Any:
    x, weight = call.args[:2]
    return Tensor((x.shape[0] + 2 * call.arg("pad", 0) - weight.shape[0] + 1, x.shape[1], weight.shape[2]), x.dtype)


@output("im2col")
def _im2col(call: TracedCall) -> Any:
    x = call.args[0]
    kernel, dilation, padding, stride = (call.arg(name) for name in ("kernel_size", "dilation", "padding", "stride"))
    blocks = 1
    for place, size in enumerate(x.shape[-2:]):
        blocks *= (size + 2 * padding[place] - dilation[place] * (kernel[place] - 1) - 1) // stride[place] + 1
    return Tensor((*x.shape[:-3], x.shape[-3] * kernel[0] * kernel[1], blocks), x.dtype)


@output("col2im")
def _col2im(call: TracedCall) -> Any:
    x, kernel = call.args[0], call.arg("kernel_size")
    return Tensor((*x.shape[:-2], x.shape[-2] // (kernel[0] * kernel[1]), *call.arg("output_size")), x.dtype)

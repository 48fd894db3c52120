"""Results of reductions, scans, sorts and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weftrace.costs.outputs.dtypes import (
    BOOL,
    INT32,
    INT64,
    UINT8,
    as_float,
    as_real,
    as_sum,
    dtype_of_code,
    promoted,
)
from weftrace.costs.outputs.elementwise import broadcast, like
from weftrace.costs.outputs.registry import output
from weftrace.costs.tensors import DType, Tensor
from weftrace.costs.traced_call import TracedCall


def reduced(call: TracedCall, name: str = "dim") -> tuple[int, ...]:
    """The shape of the first tensor without its named dimensions (1 in their place, where they are kept)."""
    shape = call.args[0].shape
    dims = call.arg(name)
    chosen = [dims] if isinstance(dims, int) else list(dims or range(len(shape)))
    gone = {dim % max(len(shape), 1) for dim in chosen}
    keeps = bool(call.arg("keepdim", False))
    return tuple(1 if place in gone else size for place, size in enumerate(shape) if keeps or place not in gone)


def _dtype(call: TracedCall) -> DType | None:
    return dtype_of_code(call.arg("dtype", -1))


@output("sum nansum prod mean norm linalg_vector_norm logsumexp std var amax amin linalg__powsum native_norm")
def _reduced(call: TracedCall) -> Any:
    own = call.args[0].dtype
    name = call.name.removeprefix("aten::")
    if name in ("sum", "nansum", "prod"):
        dtype = as_sum(own)
    else:
        dtype = own if name in ("amax", "amin") else as_float(own)
        dtype = as_real(dtype) if name in ("norm", "linalg_vector_norm", "std", "var", "native_norm") else dtype
    return Tensor(reduced(call), _dtype(call) or dtype)


@output("argmax argmin count_nonzero")
def _places(call: TracedCall) -> Any:
    return Tensor(reduced(call), INT64)


@output("any all _is_all_true _is_any_true")
def _tests(call: TracedCall) -> Any:
    return Tensor(reduced(call), UINT8 if call.args[0].dtype == UINT8 else BOOL)


@output("std_mean var_mean aminmax _aminmax")
def _both(call: TracedCall) -> Any:
    first = Tensor(reduced(call), call.args[0].dtype)
    return like(first, as_real(first.dtype)) if "mean" in call.name else first, first


@output("max min")
def _largest(call: TracedCall) -> Any:
    """Of one tensor; along a dimension, with places; of two tensors, elementwise."""
    if call.arg("other") is not None:
        return Tensor(broadcast([call.args[0].shape, call.args[1].shape]), promoted(call.args[:2]))
    values = Tensor(reduced(call), call.args[0].dtype)
    return (values, like(values, INT64)) if call.arg("dim") is not None else values


@output("median nanmedian mode kthvalue")
def _chosen(call: TracedCall) -> Any:
    values = Tensor(reduced(call), call.args[0].dtype)
    return (values, like(values, INT64)) if call.arg("dim") is not None else values


@output("cumsum cumprod logcumsumexp _logcumsumexp")
def _scanned(call: TracedCall) -> Any:
    own = call.args[0].dtype
    return like(call.args[0], _dtype(call) or (as_sum(own) if "logcum" not in call.name else own))


@output("sort cummax cummin")
def _with_places(call: TracedCall) -> Any:
    return like(call.args[0]), like(call.args[0], INT64)


@output("topk")
def _topk(call: TracedCall) -> Any:
    shape = list(call.args[0].shape)
    if shape:
        shape[call.arg("dim", -1)] = call.arg("k")
    return Tensor(tuple(shape), call.args[0].dtype), Tensor(tuple(shape), INT64)


@output("trace dist")
def _scalar(call: TracedCall) -> Any:
    return Tensor((), as_sum(call.args[0].dtype))


@output("histc")
def _histogram(call: TracedCall) -> Any:
    return Tensor((call.arg("bins", 100),), call.args[0].dtype)


@output("searchsorted bucketize")
def _searched(call: TracedCall) -> Any:
    values = call.arg("self")
    shape = values.shape if isinstance(values, Tensor) else ()
    return Tensor(shape, INT32 if call.arg("out_int32", False) else INT64)


# -- pooling


def window(values: Any, dims: int) -> list[int]:
    """A number for each dimension, of which one may be given for all."""
    found = list(values) if isinstance(values, Sequence) else [values]
    return found * dims if len(found) == 1 else found


def _pooled(call: TracedCall, dims: int) -> tuple[int, ...]:
    shape = call.args[0].shape
    kernel = window(call.arg("kernel_size"), dims)
    stride = window(call.arg("stride", []) or kernel, dims)
    padding = window(call.arg("padding", 0), dims)
    dilation = window(call.arg("dilation", 1), dims)
    ceil = bool(call.arg("ceil_mode", False))
    sizes = []
    for size, width, step, pad, spread in zip(shape[-dims:], kernel, stride, padding, dilation, strict=True):
        room = size + 2 * pad - spread * (width - 1) - 1
        count = (room + (step - 1 if ceil else 0)) // step + 1
        sizes.append(count - 1 if ceil and (count - 1) * step >= size + pad else count)
    return (*shape[:-dims], *sizes)


def _num_dims(call: TracedCall) -> int:
    return next((dims for dims in (1, 2, 3) if f"{dims}d" in call.name), 2)


@output("max_pool2d_with_indices max_pool3d_with_indices")
def _max_pool(call: TracedCall) -> Any:
    shape = _pooled(call, _num_dims(call))
    return Tensor(shape, call.args[0].dtype), Tensor(shape, INT64)


@output("avg_pool2d avg_pool3d mkldnn_max_pool2d mkldnn_max_pool3d quantized_max_pool2d")
def _avg_pool(call: TracedCall) -> Any:
    return Tensor(_pooled(call, _num_dims(call)), call.args[0].dtype)


@output("_adaptive_avg_pool2d _adaptive_avg_pool3d mkldnn_adaptive_avg_pool2d")
def _adaptive_avg(call: TracedCall) -> Any:
    x, sizes = call.args[0], call.arg("output_size")
    return Tensor((*x.shape[: -len(sizes)], *sizes), x.dtype)


@output("adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive_max(call: TracedCall) -> Any:
    out = _adaptive_avg(call)
    return out, like(out, INT64)


_UPSAMPLED = ["nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d"]
_ALIASED = ["nearest_exact1d", "nearest_exact2d", "nearest_exact3d", "bilinear2d_aa", "bicubic2d_aa", "lanczos2d_aa"]
_NAMES = [f"upsample_{name}" for name in _UPSAMPLED] + [f"_upsample_{name}" for name in _ALIASED]


@output(" ".join(_NAMES))
def _upsampled(call: TracedCall) -> Any:
    x = call.args[0]
    return Tensor((*x.shape[:2], *call.arg("output_size")), x.dtype)


@output(" ".join(f"{name}_backward" for name in _NAMES))
def _upsampled_backward(call: TracedCall) -> Any:
    return Tensor(tuple(call.arg("input_size")), call.args[0].dtype)


@output("grid_sampler_2d grid_sampler_3d cudnn_grid_sampler")
def _grid(call: TracedCall) -> Any:
    x, grid = call.args[:2]
    return Tensor((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


@output("grid_sampler_2d_backward grid_sampler_3d_backward")
def _grid_backward(call: TracedCall) -> Any:
    mask = call.arg("output_mask", (True, True))
    return like(call.arg("input")) if mask[0] else None, like(call.arg("grid"))

"""Reductions, scans, sorting and pooling: vector FLOPs for each element of the input, or of a window."""

from __future__ import annotations

import math
from typing import Any

from weftrace.costs.cost import Cost, Status
from weftrace.costs.formulas.elementwise import elements, in_place_cost
from weftrace.costs.registry import Call, Formula, Key, rule, vector_cost

# For each element of the first argument.
PER_INPUT: dict[str, int] = {
    "sum": 1,
    "nansum": 2,
    "mean": 1,  # the division of each result is left out
    "prod": 1,
    "amax": 1,
    "amin": 1,
    "aminmax": 2,
    "_aminmax": 2,
    "argmax": 1,
    "argmin": 1,
    "all": 1,
    "any": 1,
    "_is_all_true": 1,
    "_is_any_true": 1,
    "count_nonzero": 1,
    "norm": 2,  # square, add
    "native_norm": 2,
    "linalg_vector_norm": 2,
    "linalg__powsum": 2,
    "dist": 3,
    "std": 4,  # mean, subtract, square, add
    "var": 4,
    "std_mean": 4,
    "var_mean": 4,
    "logsumexp": 4,  # maximum, subtract, exp, add
    "_logcumsumexp": 4,
    "logcumsumexp": 4,
    "cumsum": 1,
    "cumsum_": 1,
    "cumprod": 1,
    "cumprod_": 1,
    "cummax": 1,
    "cummin": 1,
    "_cummax_helper": 1,
    "_cummin_helper": 1,
    "trace": 0,
    "histc": 3,  # to a bin: subtract, multiply; add
    "bincount": 1,
    "_histogramdd_from_bin_cts": 3,
    "hash_tensor": 1,
    "segment_reduce": 1,
    "_segment_reduce_backward": 1,
    "max_pool2d_with_indices_backward": 1,
    "max_pool3d_with_indices_backward": 1,
    "max_pool2d_backward": 1,
    "adaptive_max_pool2d_backward": 1,
    "adaptive_max_pool3d_backward": 1,
    "fractional_max_pool2d_backward": 1,
    "fractional_max_pool3d_backward": 1,
    "_nested_sum_backward": 0,
}


def _per_input(flops: int) -> Formula:
    def formula(call: Call) -> Cost:
        return vector_cost(call, flops * max((tensor.numel() for tensor in call.args[:1]), default=0))

    return formula


for _name, _flops in PER_INPUT.items():
    rule(f"aten::{_name}")(_per_input(_flops))


@rule("aten::max", "aten::min")
def _largest(call: Call) -> Cost:
    """max(a, b) is elementwise; of one tensor it is a reduction."""
    return vector_cost(call, (call.args[0] if call.arg("other") is None else call.out).numel())


@rule("aten::_foreach_norm", "aten::_foreach_max")
def _foreach_norm(call: Call) -> Cost:
    return in_place_cost(call, (2 if "norm" in call.name else 1) * elements(call.args[0]))


SORTS = """
    sort kthvalue median nanmedian mode _unique _unique2 unique_dim unique_consecutive
    unique_dim_consecutive
"""


@rule(*(f"aten::{name}" for name in (*SORTS.split(), "isin")), key=Key.ARGUMENTS)
def _sort(call: Call) -> Cost:
    """n log2 n comparisons for each row of n."""
    values = call.args[0]
    dim = call.arg("dim")
    row = values.shape[dim] if isinstance(dim, int) and values.ndim else values.numel()
    return vector_cost(
        call,
        values.numel() * max(math.ceil(math.log2(max(row, 1))), 1),
        status=Status.ESTIMATE,
        note="n log2 n comparisons for each row; a radix sort makes none",
    )


@rule("aten::topk", key=Key.ARGUMENTS)
def _topk(call: Call) -> Cost:
    """Each element compared with a heap of k."""
    most = math.ceil(math.log2(max(int(call.args[1]), 2)))
    note = "each element compared log2 k times; a radix select makes none"
    return vector_cost(call, call.args[0].numel() * most, status=Status.ESTIMATE, note=note)


@rule("aten::searchsorted", "aten::bucketize")
def _search(call: Call) -> Cost:
    """A binary search for each value."""
    tensors = list(call.inputs())
    table, values = (
        (tensors[0], tensors[1]) if "searchsorted" in call.name and len(tensors) > 1 else (tensors[-1], tensors[0])
    )
    return vector_cost(call, values.numel() * math.ceil(math.log2(table.shape[-1] + 1)))


# -- pooling


def _window(call: Call, dims: int) -> int:
    size = call.arg("kernel_size")
    size = list(size) if isinstance(size, (list, tuple)) else [size]
    return math.prod(int(edge) for edge in (size * dims if len(size) == 1 else size))


@rule(
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
    "aten::mkldnn_max_pool2d",
    "aten::mkldnn_max_pool3d",
    "aten::quantized_max_pool2d",
    "aten::fractional_max_pool2d",
    "aten::fractional_max_pool3d",
    key=Key.ARGUMENTS,
)
def _max_pool(call: Call) -> Cost:
    """A comparison for each element of each window; windows that hang over the edge are counted whole."""
    out = next(call.outputs())
    return vector_cost(call, out.numel() * _window(call, _dims(call)))


@rule("aten::avg_pool2d", "aten::avg_pool3d", key=Key.ARGUMENTS)
def _avg_pool(call: Call) -> Cost:
    """An add for each element of a window and a division for each window."""
    return vector_cost(call, call.out.numel() * (_window(call, _dims(call)) + 1))


@rule("aten::avg_pool2d_backward", "aten::avg_pool3d_backward", key=Key.ARGUMENTS)
def _avg_pool_backward(call: Call) -> Cost:
    """A division for each window, and an add for each of its elements."""
    return vector_cost(call, call.args[0].numel() * (_window(call, _dims(call)) + 1))


def _dims(call: Call) -> int:
    return 1 if "1d" in call.name else 3 if "3d" in call.name else 2


def _adaptive_windows(outer: Any, inner: Any, dims: int) -> int:
    """Elements of all windows that cut `inner` elements into `outer`: floor(i n / m) to ceil((i + 1) n / m)."""
    sums = []
    for total, parts in zip(inner.shape[-dims:], outer.shape[-dims:], strict=True):
        sums.append(sum(-(-(index + 1) * total // parts) - index * total // parts for index in range(parts)))
    return math.prod(sums) * math.prod(inner.shape[:-dims])


@rule("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d", "aten::mkldnn_adaptive_avg_pool2d")
def _adaptive_avg(call: Call) -> Cost:
    return vector_cost(call, _adaptive_windows(call.out, call.args[0], _dims(call)) + call.out.numel())


@rule(
    "aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward", "aten::adaptive_avg_pool3d_backward"
)
def _adaptive_avg_backward(call: Call) -> Cost:
    grad, inner = call.args[0], call.args[1]
    return vector_cost(call, _adaptive_windows(grad, inner, _dims(call)) + grad.numel())


@rule("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def _adaptive_max(call: Call) -> Cost:
    out = next(call.outputs())
    return vector_cost(call, _adaptive_windows(out, call.args[0], _dims(call)))


# -- interpolation: products and sums for each element of the output (its gradient: the same, scattered)
_TAPS = {"linear1d": 2, "bilinear2d": 4, "trilinear3d": 8, "bicubic2d": 16}


def _interpolation(taps: int, *, backward: bool) -> Formula:
    def formula(call: Call) -> Cost:
        large = call.args[0] if backward else call.out
        note = "the weights themselves, computed once a row or column, are left out"
        return vector_cost(call, large.numel() * (2 * taps if backward else 2 * taps - 1), note=note)

    return formula


for _name, _count in _TAPS.items():
    rule(f"aten::upsample_{_name}")(_interpolation(_count, backward=False))
    rule(f"aten::upsample_{_name}_backward")(_interpolation(_count, backward=True))


@rule(
    "aten::grid_sampler_2d", "aten::grid_sampler_3d", "aten::cudnn_grid_sampler", "aten::_grid_sampler_2d_cpu_fallback"
)
def _grid(call: Call) -> Cost:
    """Linear: 4 (8) products and 3 (7) sums for each element."""
    taps = 8 if "3d" in call.name else 4
    note = "linear interpolation is assumed; the grid's own arithmetic is left out"
    return vector_cost(call, call.out.numel() * (2 * taps - 1), status=Status.ESTIMATE, note=note)


@rule("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward", "aten::cudnn_grid_sampler_backward")
def _grid_backward(call: Call) -> Cost:
    """Into the input, and a product with each neighbour for the grid."""
    taps = 8 if "3d" in call.name else 4
    note = "linear interpolation is assumed; the grid's own arithmetic is left out"
    return vector_cost(call, call.args[0].numel() * 4 * taps, status=Status.ESTIMATE, note=note)


@rule(
    *(
        f"aten::_upsample_{name}_aa{end}"
        for name in ("bilinear2d", "bicubic2d", "lanczos2d")
        for end in ("", "_backward")
    )
)
def _antialiased(call: Call) -> Cost:
    """Rows, then columns; a window is the kernel's width, 2, 4 or 6, times the scale where the picture shrinks."""
    name = call.name
    width = 2 if "bilinear" in name else 4 if "bicubic" in name else 6
    small, large = (call.out, call.args[0]) if "backward" not in name else (call.args[0], call.out)
    taps = [width * max(one / two, 1) for one, two in zip(large.shape[-2:], small.shape[-2:], strict=True)]
    planes, (rows, columns) = math.prod(small.shape[:-2]), small.shape[-2:]
    done = planes * columns * (large.shape[-2] * taps[1] + rows * taps[0])
    note = "windows are taken to have the width of the kernel times the scale"
    return vector_cost(call, math.ceil(2 * done), status=Status.ESTIMATE, note=note)

"""Results of copies, joins, lookups, scatters and factories."""

from __future__ import annotations

import math
from typing import Any

from weftrace.costs.outputs.dtypes import FLOAT, INT64, dtype_of_code, promoted
from weftrace.costs.outputs.elementwise import broadcast, like
from weftrace.costs.outputs.registry import output
from weftrace.costs.registry import NotRecorded
from weftrace.costs.tensors import Tensor
from weftrace.costs.traced_call import TracedCall

# What has the shape and dtype of its first tensor.
_LIKE_FIRST = """
    clone flip roll tril triu _pin_memory lift_fresh_copy alias_copy detach_copy select_scatter slice_scatter
    diagonal_scatter as_strided_scatter _conj_copy _neg_view_copy index_put _unsafe_index_put index_add index_copy
    index_fill scatter scatter_add scatter_reduce index_reduce put masked_scatter embedding_renorm renorm fill
    _masked_softmax _safe_softmax bernoulli normal_functional uniform exponential geometric cauchy log_normal random
    poisson channel_shuffle rrelu_with_noise zero
"""


@output(_LIKE_FIRST)
def _like_first(call: TracedCall) -> Any:
    return like(call.args[0])


@output("copy")
def _copy(call: TracedCall) -> Any:
    return like(call.args[0])


@output("_to_copy zeros_like ones_like full_like rand_like randn_like randint_like _copy_from")
def _cast(call: TracedCall) -> Any:
    return like(call.args[0], dtype_of_code(call.arg("dtype", -1)))


@output("new_zeros new_ones new_full")
def _new(call: TracedCall) -> Any:
    return Tensor(tuple(call.arg("size")), dtype_of_code(call.arg("dtype", -1)) or call.args[0].dtype)


@output("zeros ones full rand randn randint normal")
def _made(call: TracedCall) -> Any:
    """`full` takes the dtype of its value; normal of tensors has their shape."""
    sizes = call.arg("size")
    if sizes is None:
        given = [x for x in call.args if isinstance(x, Tensor)]
        return Tensor(broadcast(x.shape for x in given), promoted(given))
    own = INT64 if call.name == "aten::randint" else FLOAT
    if call.name == "aten::full":
        own = promoted([call.arg("fill_value")])
    return Tensor(tuple(sizes), dtype_of_code(call.arg("dtype", -1)) or own)


@output("randperm eye scalar_tensor tril_indices triu_indices hann_window hamming_window blackman_window")
def _sized(call: TracedCall) -> Any:
    dtype = dtype_of_code(call.arg("dtype", -1))
    if call.name == "aten::scalar_tensor":
        return Tensor((), dtype or FLOAT)
    if call.name.endswith("indices"):
        raise NotRecorded(f"the size of the result of {call.name}")
    size = call.arg("n") if call.arg("n") is not None else call.arg("window_length")
    if call.name == "aten::eye":
        return Tensor((size, call.arg("m") or size), dtype or FLOAT)
    return Tensor((size,), dtype or (INT64 if call.name == "aten::randperm" else FLOAT))


@output("arange range linspace logspace")
def _steps(call: TracedCall) -> Any:
    start, end, step = call.arg("start") or 0, call.arg("end"), call.arg("step") or 1
    if call.arg("steps") is not None:
        return Tensor((call.arg("steps"),), dtype_of_code(call.arg("dtype", -1)) or FLOAT)
    count = math.ceil((end - start) / step) + (call.name == "aten::range")
    whole = all(isinstance(value, int) for value in (start, end, step))
    return Tensor((max(count, 0),), dtype_of_code(call.arg("dtype", -1)) or (INT64 if whole else FLOAT))


@output("cat _cat")
def _cat(call: TracedCall) -> Any:
    tensors = [tensor for tensor in call.args[0] if tensor.shape != (0,)]
    if not tensors:
        return Tensor((0,), promoted(call.args[0]))
    shape = list(tensors[0].shape)
    dim = call.arg("dim", 0)
    shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
    return Tensor(tuple(shape), promoted(call.args[0]))


@output("stack _stack")
def _stack(call: TracedCall) -> Any:
    shape = list(call.args[0][0].shape)
    dim = call.arg("dim", 0) % (len(shape) + 1)
    return Tensor((*shape[:dim], len(call.args[0]), *shape[dim:]), promoted(call.args[0]))


@output("repeat")
def _repeat(call: TracedCall) -> Any:
    x, times = call.args[0], call.arg("repeats")
    sizes = (1,) * (len(times) - x.ndim) + x.shape
    return Tensor(tuple(size * time for size, time in zip(sizes, times, strict=True)), x.dtype)


@output("repeat_interleave")
def _repeat_interleave(call: TracedCall) -> Any:
    size = call.arg("output_size")
    if size is None:
        raise NotRecorded("how often repeat_interleave repeats")
    return Tensor((size,), INT64)


_PADS = [f"{kind}_pad{dims}d" for kind in ("reflection", "replication") for dims in (1, 2, 3)]


@output("constant_pad_nd " + " ".join(_PADS))
def _padded(call: TracedCall) -> Any:
    shape = list(call.args[0].shape)
    pads = call.arg("pad") if call.name == "aten::constant_pad_nd" else call.arg("padding")
    for place in range(len(pads) // 2):
        shape[-1 - place] += pads[2 * place] + pads[2 * place + 1]
    return Tensor(tuple(shape), call.args[0].dtype)


@output("pixel_shuffle pixel_unshuffle")
def _pixels(call: TracedCall) -> Any:
    *lead, channels, rows, columns = call.args[0].shape
    if call.name == "aten::pixel_shuffle":
        factor = call.arg("upscale_factor")
        return Tensor((*lead, channels // factor**2, rows * factor, columns * factor), call.args[0].dtype)
    factor = call.arg("downscale_factor")
    return Tensor((*lead, channels * factor**2, rows // factor, columns // factor), call.args[0].dtype)


@output("view_copy expand_copy as_strided_copy _reshape_alias_copy")
def _sized_copy(call: TracedCall) -> Any:
    shape = call.args[0].shape
    sizes = list(call.arg("size") or ())
    if call.name == "aten::expand_copy":
        old = (1,) * (len(sizes) - len(shape)) + shape
        sizes = [one if size < 0 else size for size, one in zip(sizes, old, strict=True)]
    elif -1 in sizes:
        sizes[sizes.index(-1)] = math.prod(shape) // max(-math.prod(sizes), 1)
    return Tensor(tuple(sizes), call.args[0].dtype)


@output("t_copy transpose_copy permute_copy rot90")
def _turned_copy(call: TracedCall) -> Any:
    """Turned, it has as many elements."""
    return like(call.args[0])


@output("split_with_sizes_copy unbind_copy")
def _split_copy(call: TracedCall) -> Any:
    return [like(call.args[0])]


@output("diag_embed")
def _diag_embed(call: TracedCall) -> Any:
    *lead, size = call.args[0].shape
    edge = size + abs(call.arg("offset", 0))
    return Tensor((*lead, edge, edge), call.args[0].dtype)


# A gradient put into zeros.
@output("select_backward slice_backward diagonal_backward unfold_backward")
def _into_zeros(call: TracedCall) -> Any:
    return Tensor(tuple(call.arg("input_sizes")), call.args[0].dtype)


# -- lookups


@output("embedding")
def _embedding(call: TracedCall) -> Any:
    weight, indices = call.args[:2]
    return Tensor((*indices.shape, *weight.shape[1:]), weight.dtype)


@output("embedding_dense_backward")
def _embedding_backward(call: TracedCall) -> Any:
    grad = call.args[0]
    return Tensor((call.arg("num_weights"), grad.shape[-1]), grad.dtype)


@output("_embedding_bag _embedding_bag_forward_only")
def _bags(call: TracedCall) -> Any:
    """The cost looks at the first alone."""
    weight, _, offsets = call.args[:3]
    bags = offsets.shape[0] - bool(call.arg("include_last_offset", False))
    return (Tensor((bags, weight.shape[1]), weight.dtype),)


@output("_embedding_bag_dense_backward")
def _bags_backward(call: TracedCall) -> Any:
    return Tensor((call.arg("num_weights"), call.args[0].shape[1]), call.args[0].dtype)


@output("index_select")
def _index_select(call: TracedCall) -> Any:
    x, dim, index = call.args[:3]
    shape = list(x.shape)
    if shape:
        shape[dim] = index.numel()
    return Tensor(tuple(shape), x.dtype)


@output("gather")
def _gather(call: TracedCall) -> Any:
    return Tensor(call.args[2].shape, call.args[0].dtype)


@output("take")
def _take(call: TracedCall) -> Any:
    return Tensor(call.args[1].shape, call.args[0].dtype)


@output("multinomial")
def _multinomial(call: TracedCall) -> Any:
    return Tensor((*call.args[0].shape[:-1], call.arg("num_samples")), INT64)


@output("index _unsafe_index masked_select nonzero _unique _unique2 unique_dim unique_consecutive")
def _by_value(call: TracedCall) -> Any:
    raise NotRecorded(f"the indices of {call.name}" if "index" in call.name else f"the values that {call.name} picks")


@output("nonzero_static")
def _nonzero_static(call: TracedCall) -> Any:
    return Tensor((call.arg("size"), call.args[0].ndim), INT64)


@output("masked_scatter_backward")
def _masked_scatter_backward(call: TracedCall) -> Any:
    return Tensor(tuple(call.arg("sizes")), call.args[0].dtype)


@output("_embedding_bag_per_sample_weights_backward")
def _bag_weights(call: TracedCall) -> Any:
    return Tensor(call.args[2].shape, call.args[0].dtype)


@output("block_diag")
def _block_diag(call: TracedCall) -> Any:
    sizes = [(1,) * (2 - tensor.ndim) + tensor.shape for tensor in call.args[0]]
    return Tensor((sum(rows for rows, _ in sizes), sum(columns for _, columns in sizes)), promoted(call.args[0]))


@output("max_unpool2d max_unpool3d")
def _unpooled(call: TracedCall) -> Any:
    x, sizes = call.args[0], call.arg("output_size")
    return Tensor((*x.shape[: -len(sizes)], *sizes), x.dtype)


@output("equal allclose")
def _told(call: TracedCall) -> Any:
    """A bool and no tensor."""
    return None


# -- collectives that give a tensor


@output("_c10d_functional::all_reduce _c10d_functional::broadcast")
def _reduced_by_all(call: TracedCall) -> Any:
    return like(call.args[0])


@output("_c10d_functional::all_gather_into_tensor _c10d_functional::reduce_scatter_tensor")
def _gathered_by_all(call: TracedCall) -> Any:
    x, ranks = call.args[0], call.arg("group_size")
    rows = x.shape[0] * ranks if "gather" in call.name else x.shape[0] // ranks
    return Tensor((rows, *x.shape[1:]), x.dtype)

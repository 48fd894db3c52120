"""Lookups and scatters: only the rows that are picked are read, not the whole table."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.registry import Call, Key, dtype_name, rule
from weftrace.costs.tensors import is_tensor, storage_bytes

_ROWS = "bytes of the rows that are read; a row read twice counts twice"


def _bytes_of(*values: Any) -> int:
    return sum(
        storage_bytes(value) if is_tensor(value) else _bytes_of(*value)
        for value in values
        if isinstance(value, (list, tuple)) or is_tensor(value)
    )


def _moved(call: Call, read: int, written: int, flops: int = 0, status: Status = Status.EXACT, note: str = "") -> Cost:
    first = next(call.outputs(), None)
    return Cost(
        vector_flops=flops,
        read_bytes=read,
        written_bytes=written,
        dtype="" if first is None else dtype_name(first.dtype),
        kind=Kind.VECTOR if flops else Kind.MOVE,
        status=status,
        note=note,
    )


@rule("aten::embedding")
def _embedding(call: Call) -> Cost:
    rows = call.written_bytes
    return _moved(call, storage_bytes(call.args[1]) + rows, rows, note=_ROWS)


@rule("aten::index", "aten::_unsafe_index", "aten::_unsafe_masked_index")
def _index(call: Call) -> Cost:
    rows = call.written_bytes
    return _moved(call, _bytes_of(*call.args[1:]) + rows, rows, note=_ROWS)


@rule("aten::index_select", "aten::gather", "aten::take", "aten::masked_select")
def _gather(call: Call) -> Cost:
    rows = call.written_bytes
    return _moved(call, _bytes_of(*call.args[1:]) + rows, rows, note=_ROWS)


@rule("aten::embedding_dense_backward")
def _embedding_backward(call: Call) -> Cost:
    """A table of zeros, and each row of the gradient added to its row."""
    grad, indices = call.args[0], call.args[1]
    return _moved(call, _bytes_of(grad, indices), call.written_bytes, flops=grad.numel())


@rule("aten::embedding_renorm_", "aten::embedding_renorm")
def _renorm(call: Call) -> Cost:
    """Norm of each row that is used (square, add) and a multiply; rows named twice are done once."""
    table, indices = call.args[0], call.args[1]
    rows = indices.numel() * table.shape[1]
    moved = rows * table.element_size()
    note = "every index is taken to name another row"
    return _moved(call, storage_bytes(indices) + moved, moved, 3 * rows, Status.UPPER_BOUND, note)


@rule("aten::_embedding_bag", "aten::_embedding_bag_forward_only", key=Key.ARGUMENTS)
def _bag(call: Call) -> Cost:
    """Each row is added to its bag (maximum: compared), times its weight if it has one; a mean divides once a bag."""
    table, indices = call.args[0], call.args[1]
    rows = indices.numel() * table.shape[1]
    weights = call.arg("per_sample_weights")
    flops = rows * (1 if weights is None else 2)
    if call.arg("mode", 0) == 1:
        flops += call.out[0].numel()
    read = _bytes_of(indices, call.args[2], weights) + rows * table.element_size()
    return _moved(call, read, storage_bytes(call.out[0]), flops)


@rule("aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward")
def _bag_backward(call: Call) -> Cost:
    """Each bag's gradient is added to each of its rows."""
    grad, indices = call.args[0], call.args[1]
    flops = indices.numel() * grad.shape[-1]
    return _moved(call, _bytes_of(grad, indices), call.written_bytes, flops)


@rule("aten::_embedding_bag_per_sample_weights_backward")
def _bag_weights(call: Call) -> Cost:
    """A dot product of a bag's gradient with each of its rows."""
    grad, table, indices = call.args[:3]
    elements = indices.numel() * table.shape[1]
    read = _bytes_of(grad, indices) + elements * table.element_size()
    return _moved(call, read, call.written_bytes, 2 * elements)


def _scattered(call: Call, indices: Any, source: Any, flops: int, elements: int | None = None) -> Cost:
    """In place: as many elements as the source has (or `elements`) are written; read too, if added to.

    Else the whole is copied first.
    """
    in_place = call.name.endswith("_")
    first = next(call.outputs(), None)
    width = 0 if first is None else first.element_size()
    if elements is None:
        elements = source.numel()
    rows = elements * width
    read = _bytes_of(indices, source) + (rows if flops else 0)
    written = rows
    if not in_place:
        read += _bytes_of(call.args[0])
        written = call.written_bytes
    return _moved(call, read, written, flops * elements)


@rule("aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put", key=Key.ARGUMENTS)
def _index_put(call: Call) -> Cost:
    """`accumulate` adds each value. A value that is broadcast is written as often as the indices say.

    Under a mask of booleans the values say how many; one value under a mask may be written everywhere.
    """
    target, indices, values = call.args[:3]
    flops = 1 if call.arg("accumulate", False) else 0
    given = [index for index in indices if index is not None]
    if any(str(index.dtype) in ("torch.bool", "torch.uint8") for index in given):
        if values.numel() > 1:
            return _scattered(call, indices, values, flops)
        cost = _scattered(call, indices, values, flops, max(index.numel() for index in given))
        return replace(cost, status=Status.UPPER_BOUND, note="the mask's values are not read: every element is counted")
    kept = [size for size, index in zip(target.shape, indices, strict=False) if index is None]
    kept += target.shape[len(indices) :]
    rows = _broadcast_elements([index.shape for index in given])
    return _scattered(call, indices, values, flops, rows * math.prod(kept))


def _broadcast_elements(shapes: list[Any]) -> int:
    """Elements of the shape that these broadcast to."""
    by_dimension = zip_longest(*map(reversed, shapes), fillvalue=1)
    return math.prod(next((size for size in sizes if size != 1), 1) for sizes in by_dimension)


@rule("aten::_unsafe_masked_index_put_accumulate")
def _masked_put(call: Call) -> Cost:
    return _scattered(call, call.args[1:3], call.args[3], 1)


@rule("aten::index_add", "aten::index_add_", "aten::scatter_add", "aten::scatter_add_")
def _add_at(call: Call) -> Cost:
    return _scattered(call, call.args[2], call.args[3], 1)


@rule("aten::index_copy", "aten::index_copy_")
def _put_at(call: Call) -> Cost:
    return _scattered(call, call.args[2], call.args[3], 0)


@rule("aten::index_fill", "aten::index_fill_", key=Key.ARGUMENTS)
def _fill_at(call: Call) -> Cost:
    """One value, in the named slices of a dimension."""
    target, dim, index = call.args[:3]
    each = target.numel() // max(target.shape[dim], 1) if target.ndim else 1
    return _scattered(call, index, None, 0, index.numel() * each)


@rule("aten::scatter", "aten::scatter_", "aten::scatter_reduce", "aten::scatter_reduce_", key=Key.ARGUMENTS)
def _scatter(call: Call) -> Cost:
    """A reduction combines each element; a plain scatter moves it."""
    reduced = "reduce" in call.name or call.arg("reduce") is not None
    index = call.args[2]  # as many elements of the source are used as it has, no more
    return _scattered(call, index, index, 1 if reduced else 0)


@rule("aten::index_reduce", "aten::index_reduce_")
def _index_reduce(call: Call) -> Cost:
    return _scattered(call, call.args[2], call.args[3], 1)


@rule("aten::put", "aten::put_", key=Key.ARGUMENTS)
def _put(call: Call) -> Cost:
    return _scattered(call, call.args[1], call.args[2], 1 if call.arg("accumulate", False) else 0)


@rule(
    "aten::masked_scatter",
    "aten::masked_scatter_",
    "aten::masked_scatter_backward",
    "aten::nonzero",
    "aten::nonzero_static",
)
def _by_mask(call: Call) -> Cost:
    return _moved(call, call.read_bytes, call.written_bytes)

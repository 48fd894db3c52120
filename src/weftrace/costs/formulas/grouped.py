"""Grouped products: the experts of a mixture, each with its own rows, in one operator.

One operand or both are jagged: `offs` holds where each group ends. Whatever is jagged, each of its rows meets one
group's matrix, so the FLOPs do not depend on how the rows are shared out, only on how many there are in all.
"""

from __future__ import annotations

from typing import Any

from weftrace.costs.cost import Cost, Status
from weftrace.costs.registry import Call, Key, matrix_cost, rule
from weftrace.costs.tensors import TensorLike, is_tensor, storage_bytes

_ALL = "every row of the jagged dimension is taken to belong to a group"


@rule("aten::_grouped_mm", "aten::_scaled_grouped_mm", "aten::_scaled_grouped_mm_v2", key=Key.VALUES)
def _grouped(call: Call) -> Cost:
    """[m, k] x [g, k, n] (rows jagged), [g, m, k] x [k, n] (columns), [m, k] x [k, n] (the sum), [g, m, k] x [g, k, n].

    2 m n k in the first three, where m, n or k is the end of the last group; 2 g m n k in the last. Bytes: matrices
    of groups without a row are not read.
    """
    a, b, out = call.args[0], call.args[1], call.out
    packed = 2 if "float4" in str(a.dtype) else 1  # two numbers in a byte: the shape is that of bytes
    vector = out.numel() if call.arg("bias") is not None else 0
    offs = call.arg("offs")
    if a.dim() == b.dim() == 3:
        return matrix_cost(call, 2 * packed * a.numel() * b.shape[-1], vector_flops=vector, dtype=a.dtype)
    jagged = a.shape[-1] * packed if a.dim() == b.dim() else a.shape[0] if a.dim() == 2 else b.shape[-1]
    rows, groups = _used(call, offs, jagged)
    status, note = Status.EXACT, ""
    if rows is None:
        rows, status, note = jagged, Status.ESTIMATE, _ALL
    if a.dim() == 3:
        flops = 2 * packed * a.shape[-2] * a.shape[-1] * rows
        unread = _unread(a, groups)
    elif b.dim() == 3:
        flops = 2 * packed * rows * b.shape[-2] * b.shape[-1]
        unread = _unread(b, groups)
    else:
        flops, unread = 2 * a.shape[0] * b.shape[-1] * rows, 0
    return matrix_cost(
        call,
        flops,
        vector_flops=vector,
        dtype=a.dtype,
        read_bytes=call.read_bytes - unread,
        status=status,
        note=note,
    )


def _used(call: Call, offs: Any, jagged: int) -> tuple[int | None, int]:
    """Rows in groups (None: not to be read), and the number of groups that have any, at most."""
    if not is_tensor(offs):
        return jagged, jagged
    ends = call.integers(offs)
    if ends is None:
        return None, min(offs.numel(), jagged)
    starts = [0, *ends[:-1]]
    return (ends[-1] if ends else 0), sum(end > start for start, end in zip(starts, ends, strict=True))


def _unread(matrices: TensorLike, groups: int) -> int:
    count = matrices.shape[0]
    return storage_bytes(matrices) * (count - min(groups, count)) // max(1, count)

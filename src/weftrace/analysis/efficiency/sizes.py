"""Sizes of an operator's tensors as a person writes them: [5185x1024] [1024x4096]."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec

_MOST_TENSORS, _MOST_CHARS = 8, 160


def sizes_text(shapes: str | None) -> str:
    """The sizes of the tensors among an operator's arguments, from the text of its input_shapes; "" of none.

    Of a list of tensors, and of many, the first 8 are written and the number of the rest.
    """
    try:
        dims = msgspec.json.decode(shapes) if shapes else []
    except msgspec.DecodeError:
        return (shapes or "")[:_MOST_CHARS]
    tensors = list(_tensors(dims if isinstance(dims, list) else []))
    shown = " ".join(f"[{'x'.join(map(str, each))}]" for each in tensors[:_MOST_TENSORS])
    more = len(tensors) - _MOST_TENSORS
    return f"{shown} and {more} more" if more > 0 else shown


def product_sides(sizes: str) -> tuple[int, int, int] | None:
    """(rows, inner, columns) of the first two matrices in a text of sizes that can be multiplied; None of none."""
    matrices = [(int(rows), int(columns)) for rows, columns in re.findall(r"\[(\d+)x(\d+)\]", sizes)]
    pairs = pairwise(matrices)
    return next(((m, k, n) for (m, k), (inner, n) in pairs if k == inner), None)


def shape_label(operator: str, sizes: str) -> str:
    """An operator, PyTorch's own without their namespace, and the sizes of its tensors, where room is short:
    bmm 16x5185x64 16x64x5185."""
    return f"{operator.removeprefix('aten::')} {sizes.replace('[', '').replace(']', '')}".rstrip()


def _tensors(dims: list[Any]) -> list[list[Any]]:
    found: list[list[Any]] = []
    for each in dims:
        if isinstance(each, list) and each:
            found += _tensors(each) if isinstance(each[0], list) else [each]
    return found

"""Expert loads as they come in (lists, arrays, tensors) turned into one checked array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats


def as_loads(loads: object, *, what: str = "loads") -> Floats:
    """Expert loads as float64 [L, N], C-contiguous, never the caller's own memory.

    loads: how many tokens each expert of each layer got, in any unit: a list of lists, an array or a tensor [layers,
    experts]; one row alone is one layer. Whole numbers above 2^53 are rounded to the nearest float64 (a relative error
    below 1.2e-16). A layer of zeros is valid: it says nothing, so it is balanced as if all its experts were equal.
    what: how an error names the loads, a file's path say.

    Raises `LoadsError` where a value is NaN, infinite or negative (naming layer and expert), where rows differ in
    length, where there is no layer or no expert, or where the values are not numbers.
    """
    array = as_numbers(loads, what)
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2:
        raise LoadsError(f"{what}: loads must be [layers, experts]; these have shape {list(array.shape)}")
    if 0 in array.shape:
        raise LoadsError(f"{what}: {array.shape[0]} layers of {array.shape[1]} experts: there is nothing to place")
    load_LN = np.array(array, dtype=np.float64, order="C", copy=True)
    refuse_wrong(load_LN, what)
    with np.errstate(over="ignore"):
        total_L = load_LN.sum(axis=1)
    if not np.isfinite(total_L).all():
        raise LoadsError(
            f"{what}: the sum of layer {int(np.argmin(np.isfinite(total_L)))} is above the range of float64"
        )
    return load_LN


def as_numbers(value: Any, what: str) -> NDArray[Any]:
    """An array of numbers, or a tensor's; raises `LoadsError` for what is none: text, rows of different lengths."""
    if hasattr(value, "detach"):  # a tensor, on whatever device, with or without a gradient
        value = value.detach().cpu()
        if str(getattr(value, "dtype", "")) in ("torch.bfloat16", "torch.float16"):  # NumPy has no bfloat16
            value = value.float()
    try:
        array = np.asarray(value)
        if array.dtype == object:  # whole numbers beyond int64 arrive as Python's own
            array = array.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise LoadsError(f"{what}: not an array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise LoadsError(f"{what}: not an array of numbers but of {array.dtype}")
    return array


def refuse_wrong(loads: Floats, what: str, layers: Sequence[int] | None = None) -> None:
    """Raise `LoadsError` for the first of [L, N] or [T, L, N] that is not finite or negative. layers: their numbers."""
    for wrong, fault in ((~np.isfinite(loads), "is not finite"), (loads < 0, "is negative")):
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0].tolist())
            *window, layer, expert = at
            place = f"layer {layer if layers is None else layers[layer]}" + "".join(f", window {at}" for at in window)
            others = f" (and {wrong.sum() - 1:,} more)" if wrong.sum() > 1 else ""
            raise LoadsError(f"{what}: the load of expert {expert} in {place} {fault}: {loads[at]}{others}")

"""Expert loads as they come in (lists, arrays, tensors) turned into one checked array."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    array = _array(loads, what)
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2:
        raise LoadsError(f"{what}: loads must be [layers, experts]; these have shape {list(array.shape)}")
    if 0 in array.shape:
        raise LoadsError(f"{what}: {array.shape[0]} layers of {array.shape[1]} experts: there is nothing to place")
    load_LN = np.array(array, dtype=np.float64, order="C", copy=True)
    _refuse(~np.isfinite(load_LN), load_LN, what, "is not finite")
    _refuse(load_LN < 0, load_LN, what, "is negative")
    with np.errstate(over="ignore"):
        total_L = load_LN.sum(axis=1)
    if not np.isfinite(total_L).all():
        raise LoadsError(
            f"{what}: the sum of layer {int(np.argmin(np.isfinite(total_L)))} is above the range of float64"
        )
    return load_LN


def _array(loads: Any, what: str) -> np.ndarray[Any, Any]:
    if hasattr(loads, "detach"):  # a tensor, on whatever device, with or without a gradient
        loads = loads.detach().cpu()
        if str(getattr(loads, "dtype", "")) in ("torch.bfloat16", "torch.float16"):  # NumPy has no bfloat16
            loads = loads.float()
    try:
        array = np.asarray(loads)
    except (ValueError, TypeError, OverflowError) as error:
        raise LoadsError(f"{what}: not an array of numbers [layers, experts]: {error}") from error
    if array.dtype == object:  # whole numbers beyond int64 arrive as Python's own
        try:
            array = array.astype(np.float64)
        except (ValueError, TypeError, OverflowError) as error:
            raise LoadsError(f"{what}: not an array of numbers [layers, experts]: {error}") from error
    if array.dtype.kind not in "biuf":
        raise LoadsError(f"{what}: loads must be numbers; these are {array.dtype}")
    return array


def _refuse(wrong_LN: np.ndarray[Any, Any], load_LN: Floats, what: str, fault: str) -> None:
    """Raise for the first marked value."""
    if wrong_LN.any():
        layer, expert = (int(i) for i in np.argwhere(wrong_LN)[0])
        count = int(wrong_LN.sum())
        others = "" if count == 1 else f" (and {count - 1:,} more)"
        raise LoadsError(
            f"{what}: the load of expert {expert} in layer {layer} {fault}: {load_LN[layer, expert]}{others}"
        )

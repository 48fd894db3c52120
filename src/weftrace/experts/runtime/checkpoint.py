"""A file that `torch.save` wrote, as plain Python values and NumPy arrays. Data only: nothing in it is executed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weftrace.errors import LoadsError
from weftrace.installing import install_command

if TYPE_CHECKING:
    import torch


def checkpoint_values(data: bytes, path: str) -> Any:
    """The dicts, lists, numbers and texts of a checkpoint, each tensor a NumPy array; path is what errors name.

    Read with `weights_only=True`, which refuses to unpickle anything but data. Raises `LoadsError` where that fails, or
    torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise LoadsError(
            f"{path}: a .pt file is read by torch, which is not installed: {install_command('torch')}; or save the "
            "counts as .npz or JSON"
        ) from error
    try:
        loaded = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or hostile pickle can make torch raise anything
        raise LoadsError(
            f"{path}: torch.load(weights_only=True) refuses it: {_first_line(error)} "
            "Save a dict of tensors, lists and numbers."
        ) from error
    return _plain(loaded)


def _plain(value: Any) -> Any:
    if hasattr(value, "is_quantized"):  # a tensor; weights_only lets no other object through
        return _array(value)
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    tensor = tensor.detach().cpu()
    if tensor.is_sparse or tensor.is_quantized:
        tensor = tensor.to_dense() if tensor.is_sparse else tensor.dequantize()
    if tensor.is_floating_point():  # NumPy has no bfloat16
        tensor = tensor.double()
    return np.asarray(tensor.numpy())


def _first_line(error: Exception) -> str:
    text = (str(error).splitlines() or [type(error).__name__])[0].strip()
    return text[:200] if text.endswith(".") else f"{text[:200]}."

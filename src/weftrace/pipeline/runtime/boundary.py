"""How a boundary value is told to who receives it: what stands where, of which shape and dtype, needing a gradient.

A value is a tensor, None, a number, a text, or tuples, lists and dicts of them. Its *description* is a line of JSON;
the tensors follow it in the order of `values.leaves_of`. Numbers and texts stand in the description itself.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime.split.values import leaves_of

_PLAIN = (bool, int, float, str)


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors in a value, in order."""
    return [leaf for leaf in leaves_of(value) if isinstance(leaf, Tensor)]


def describe(value: Any) -> str:
    """The value's description. Raises `ScheduleError` where it holds what cannot be sent."""
    return json.dumps(_described(value), separators=(",", ":"))


def received(description: str, device: torch.device) -> Any:
    """The described value with empty tensors on the device, to be received into."""
    return _built(json.loads(description), device)


def _described(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Tensor):
        return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape), value.requires_grad]}
    if type(value) in _PLAIN:
        return {"plain": value}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_described(part) for part in value]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: _described(part) for key, part in value.items()}}
    raise ScheduleError(
        f"a {type(value).__name__} cannot pass between stages; what can are tensors, None, numbers and texts, and "
        "tuples, lists and dicts (with texts as keys) of them."
    )


def _built(described: Any, device: torch.device) -> Any:
    if described is None:
        return None
    [(kind, told)] = described.items()
    if kind == "tensor":
        dtype, shape, requires_grad = told
        return torch.empty(shape, dtype=getattr(torch, dtype), device=device, requires_grad=requires_grad)
    if kind == "plain":
        return told
    if kind == "dict":
        return {key: _built(part, device) for key, part in told.items()}
    parts = [_built(part, device) for part in told]
    return tuple(parts) if kind == "tuple" else parts

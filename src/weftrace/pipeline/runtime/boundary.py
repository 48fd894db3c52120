"""How a boundary value is described to its receiver: what stands where, of which shape and dtype, needing a gradient.

A value is a tensor, None, a number, a text, or tuples, lists and dicts of them (a class of dicts arrives as a dict).
Its *description* is a line of JSON; the tensors follow it in the order of `values.leaves_of`. Numbers and texts stand
in the description itself. A tensor that fills its memory arrives with its dimensions in the order of memory that they
had (transposed, channels last): the last bits of sums over it depend on that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
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
    orders = [_order(tensor) for tensor in tensors_of(value)]
    return json.dumps([_described(value), orders if any(orders) else []], separators=(",", ":"))


def same_but_for_memory(one: str, other: str) -> bool:
    """Whether what one describes can be received where the other was described."""
    return one == other or json.loads(one)[0] == json.loads(other)[0]


def packed(value: Any, description: str, device: torch.device) -> list[Tensor]:
    """The tensors in a value as they travel: in the order of memory that the description tells, without gaps. Those of
    a value that `received` made are its own memory."""
    tensors = [tensor.detach().to(device) for tensor in tensors_of(value)]
    orders = _orders(json.loads(description)[1])
    return [(tensor.permute(order) if order else tensor).contiguous() for tensor, order in zip(tensors, orders)]  # noqa: B905


def _orders(given: Sequence[list[int] | None]) -> Iterator[list[int] | None]:
    """By tensor. None: as its dimensions are numbered."""
    return chain(given, repeat(None))


def _order(tensor: Tensor) -> list[int] | None:
    if tensor.is_contiguous():
        return None
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return order if tensor.permute(order).is_contiguous() else None


def received(description: str, device: torch.device) -> Any:
    """The described value with empty tensors on the device, to be received into."""
    described, orders = json.loads(description)
    return _built(described, device, _orders(orders))


def _described(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Tensor):
        return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape), value.requires_grad]}
    if type(value) in _PLAIN:
        return {"plain": value}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_described(part) for part in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _described(part) for key, part in value.items()}}
    raise ScheduleError(
        f"a {type(value).__name__} cannot pass between stages; what can are tensors, None, numbers and texts, and "
        "tuples, lists and dicts (with texts as keys) of them."
    )


def _built(described: Any, device: torch.device, orders: Iterator[list[int] | None]) -> Any:
    if described is None:
        return None
    [(kind, body)] = described.items()
    if kind == "tensor":
        dtype, shape, requires_grad = body
        order = next(orders) or range(len(shape))
        made = torch.empty([shape[dim] for dim in order], dtype=getattr(torch, dtype), device=device)
        return made.permute([*map(order.index, range(len(shape)))]).requires_grad_(requires_grad)
    if kind == "plain":
        return body
    if kind == "dict":
        return {key: _built(part, device, orders) for key, part in body.items()}
    parts = [_built(part, device, orders) for part in body]
    return tuple(parts) if kind == "tuple" else parts

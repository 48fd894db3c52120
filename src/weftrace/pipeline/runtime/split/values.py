"""What crosses a stage's boundary: a tensor, None, or tuples, lists and dicts of them, nested at will."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import torch
from torch import Tensor

from weftrace.errors import ScheduleError


def leaves_of(value: Any) -> list[Any]:
    """What stands in a value, in order: tensors, None, and whatever else is no tuple, list or dict."""
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves_of(part)]
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves_of(part)]
    return [value]


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with `change` applied to each leaf, in the same tuples, lists and dicts."""
    if isinstance(value, dict):
        changed = (
            {} if type(value) is dict else copy(value)
        )  # a class of its own has attributes that a loss may ask for
        for key, part in value.items():
            changed[key] = mapped(part, change)
        return changed
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple takes its fields one by one
        return type(value)(*(mapped(part, change) for part in value))
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(part, change) for part in value)
    return change(value)


def called(module: Callable[..., Any], inputs: Any) -> Any:
    """The module, or function, on its inputs: a tuple as positional arguments, a dict as keywords, else the one."""
    if isinstance(inputs, dict):
        return module(**inputs)
    if isinstance(inputs, (tuple, list)):
        return module(*inputs)
    return module(inputs)


def has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def leaf_of(value: Any) -> Any:
    """The tensor without the graph that made it; it asks for a gradient where it did before."""
    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


def backward_from(outputs: Any, grads: Any) -> None:
    """Autograd's backward from these outputs. grads: shaped as they are, None where an output has none.

    None alone: outputs that require a gradient are scalars, as a loss is, and get ones.
    """
    found = leaves_of(outputs)
    given = [None] * len(found) if grads is None else leaves_of(grads)
    if len(found) != len(given):
        raise ScheduleError(
            f"{len(found)} outputs got {len(given)} gradients: give None for an output without a gradient"
        )
    pairs = [(out, grad) for out, grad in zip(found, given, strict=True) if has_gradient(out)]
    pairs = [(out, grad) for out, grad in pairs if grad is not None or grads is None]
    if pairs:
        torch.autograd.backward([out for out, _ in pairs], [grad for _, grad in pairs])

"""What crosses a stage's boundary: a tensor, None, or tuples, lists and dicts of them, nested at will."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


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
        return {key: mapped(part, change) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple takes its fields one by one
        return type(value)(*(mapped(part, change) for part in value))
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(part, change) for part in value)
    return change(value)


def called(module: nn.Module, inputs: Any) -> Any:
    """The module on its inputs: a tuple or list as positional arguments, a dict as keywords, anything else as it is."""
    if isinstance(inputs, dict):
        return module(**inputs)
    if isinstance(inputs, (tuple, list)):
        return module(*inputs)
    return module(inputs)


def has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad

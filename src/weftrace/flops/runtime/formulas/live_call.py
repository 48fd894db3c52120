"""A call of an operator that has just run, for a formula to look at: torch's tensors, and their values where that is
free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from weftrace.costs.registry import Call
from weftrace.costs.tensors import take_for_tensors

Operator = OpOverload | HigherOrderOperator

take_for_tensors(torch.Tensor)


class LiveCall(Call):
    """op: the operator; a name where no operator shows the work. The rest as in `Call`."""

    __slots__ = ("op", "out")
    op: Operator
    out: Any

    def __init__(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        self.op = op
        self.args = args
        self.kwargs = kwargs
        self.out = out

    @property
    def name(self) -> str:
        schema = getattr(self.op, "_schema", None)
        return str(self.op) if schema is None else str(schema.name)

    def arg(self, name: str, default: Any = None) -> Any:
        """The argument of that name in the operator's schema, wherever it was given; its default where it was not."""
        if name in self.kwargs:
            return self.kwargs[name]
        schema = getattr(self.op, "_schema", None)
        if schema is not None:
            for index, argument in enumerate(schema.arguments):
                if argument.name == name:
                    if index < len(self.args) and not argument.kwarg_only:
                        return self.args[index]
                    return argument.default_value if argument.has_default_value() else default
        return default

    def named_arguments(self) -> Iterator[tuple[str, Any, bool]]:
        schema = getattr(self.op, "_schema", None)
        for argument in () if schema is None else schema.arguments:
            written = argument.alias_info is not None and argument.alias_info.is_write
            yield argument.name, self.arg(argument.name), written

    def integers(self, tensor: Any) -> list[int] | None:
        return tensor.tolist() if readable(tensor) else None

    def num_above(self, tensor: Any, limit: float, shape: Sequence[int]) -> int | None:
        if not readable(tensor):
            return None
        with torch.no_grad():
            whole = tensor.expand(shape)
            held = tuple(slice(0, 1) if not step else slice(None) for step in whole.stride())  # what repeats, once
            once = whole[held]
            below = ~once if once.dtype is torch.bool else once <= limit
            return (once.numel() - int(below.count_nonzero())) * (math.prod(shape) // max(once.numel(), 1))


def readable(tensor: object) -> bool:
    """Whether a formula may look at values: a tensor that lies in the CPU's memory and is not a stand-in for one.

    A look at a tensor on a GPU would stop the program until the GPU is done.
    """
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and getattr(tensor, "device", None) == torch.device("cpu")

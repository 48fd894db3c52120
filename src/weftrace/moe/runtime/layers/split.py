"""The backward in two: B gives the gradients of inputs, and leaves those of weights as tasks, for W.

A layer's weight is not on autograd's graph: when the backward comes through the layer, it leaves what the gradient is
made of, its input and the gradient of its output. So W makes nothing twice, as a second `torch.autograd.grad` for the
weights alone would. Weights of norms are small and stay on the graph: their gradients are made by B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from weftrace.moe.runtime.layers.streams import used_here

#: The grouped product, by the names that versions of torch have for it; None where it has none.
grouped_mm: Any = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
#: What it takes: under its first name BF16 alone.
_GROUPED_DTYPES = (torch.float32, torch.bfloat16, torch.float16) if hasattr(F, "grouped_mm") else (torch.bfloat16,)
_ALIGNED_BYTES = 16  # of each row


@dataclass(frozen=True, slots=True)
class WeightTask:
    """One weight's gradient, to be made and added. flops: its cost. held: what it is made of."""

    weight: Tensor
    make: Callable[[Tensor, Tensor], Tensor]
    held: tuple[Tensor, Tensor]
    flops: int

    def run(self) -> None:
        used_here(*self.held)
        made = self.make(*self.held)
        if self.weight.grad is None:
            self.weight.grad = made
        else:
            self.weight.grad += made


@dataclass(slots=True)
class WeightTasks:
    """What B left of one part of one layer and micro-batch, in the order in which it was left."""

    tasks: list[WeightTask] = field(default_factory=list)

    def run(self, start: float = 0.0, end: float = 1.0) -> None:
        """Runs the tasks whose middle, by FLOPs, lies in this part of all: two calls with 0, 0.5 and 0.5, 1 run all.

        Tasks stay in the list until the last part is run, so that parts may run in any order.
        """
        total, done = sum(task.flops for task in self.tasks) or 1, 0
        for task in self.tasks:
            middle, done = (done + task.flops / 2) / total, done + task.flops
            if start <= middle < end:
                task.run()


_COLLECTING: list[WeightTasks] = []


@contextmanager
def leaving_weights_to(tasks: WeightTasks) -> Iterator[None]:
    """While a backward runs in here, its weights' gradients become tasks; at any other time they are made at once."""
    _COLLECTING.append(tasks)
    try:
        yield
    finally:
        _COLLECTING.pop()


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x [..., i] times weight [o, i] -> [..., o]."""
    if not torch.is_grad_enabled():
        return F.linear(x, weight)
    out: Tensor = _Linear.apply(x, weight)  # type: ignore[no-untyped-call]
    return out


def grouped(x: Tensor, weight: Tensor, counts: Sequence[int]) -> Tensor:
    """Rows of x [N, i], sorted by expert, times their expert's weight [E, o, i] -> [N, o]. counts: rows an expert."""
    if not torch.is_grad_enabled():
        return _product(x, weight.transpose(1, 2), counts)
    out: Tensor = _Grouped.apply(x, weight, tuple(counts))  # type: ignore[no-untyped-call]
    return out


def has_grouped_product(dtype: torch.dtype, *widths: int) -> bool:
    """Whether torch multiplies rows of these widths for all experts at once."""
    aligned = all(width * dtype.itemsize % _ALIGNED_BYTES == 0 for width in widths)
    return grouped_mm is not None and dtype in _GROUPED_DTYPES and aligned


class _Linear(Function):
    """The weight is an input so that the output takes part in the backward; its gradient is never autograd's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        _leave(WeightTask(weight, _linear_weight_grad, (grad, x), 2 * x.numel() * weight.shape[0]))
        return _rows(grad).mm(weight).view(x.shape) if ctx.needs_input_grad[0] else None, None


class _Grouped(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, counts: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.counts = counts
        return _product(x, weight.transpose(1, 2), counts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        make = _GroupedWeightGrad(ctx.counts)
        _leave(WeightTask(weight, make, (grad, x), 2 * x.numel() * weight.shape[1]))
        return _product(grad, weight, ctx.counts) if ctx.needs_input_grad[0] else None, None, None


@dataclass(frozen=True, slots=True)
class _GroupedWeightGrad:
    counts: tuple[int, ...]

    def __call__(self, grad: Tensor, x: Tensor) -> Tensor:
        if has_grouped_product(x.dtype, x.shape[1], grad.shape[1]) and len(x):
            made: Tensor = grouped_mm(grad.t(), x, offs=_ends(self.counts, x.device))
            return made
        parts = zip(grad.split(self.counts), x.split(self.counts), strict=True)
        return torch.stack([part.t().mm(rows) for part, rows in parts])


def _product(x: Tensor, weight: Tensor, counts: Sequence[int]) -> Tensor:
    """x [N, a], weight [E, a, b] -> [N, b]."""
    if has_grouped_product(x.dtype, *weight.shape[1:]) and len(x):
        out: Tensor = grouped_mm(x, weight, offs=_ends(counts, x.device))
        return out
    return torch.cat([part.mm(of) for part, of in zip(x.split(list(counts)), weight.unbind(), strict=True)])


def _linear_weight_grad(grad: Tensor, x: Tensor) -> Tensor:
    return _rows(grad).t().mm(_rows(x))


def _leave(task: WeightTask) -> None:
    if _COLLECTING:
        _COLLECTING[-1].tasks.append(task)
    else:
        task.run()


def _ends(counts: Iterable[int], device: torch.device) -> Tensor:
    return torch.tensor(list(counts), dtype=torch.int32, device=device).cumsum(0, dtype=torch.int32)


def _rows(value: Tensor) -> Tensor:
    return value.reshape(-1, value.shape[-1])

"""`StageEngine`: one stage's actions F, I, W, B and F&B on torch's autograd.

Every boundary is detached: what a stage gets and gives are leaves, so that each stage is a graph of its own, and
gradients cross between stages as values, as they must between processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime.split.values import called, has_gradient, leaves_of, mapped


@dataclass(frozen=True, slots=True)
class _Graph:
    """Of a micro-batch between its F and its I: what went in, as leaves, and what came out, with its graph."""

    inputs: Any
    outputs: Any


class StageEngine:
    """Runs a module as one stage of a pipeline, action by action.

    An input takes part in the backward where it requires a gradient: the caller says so by `requires_grad_()`. Outputs
    are returned detached, and require a gradient where the graph does, so that they can be handed on as they are.

    unused_input_grad: what is returned for an input that requires a gradient and that the stage ignored: "none", or
    "zeros" of its shape.
    """

    def __init__(self, module: nn.Module, stage: int, *, unused_input_grad: Literal["none", "zeros"] = "none") -> None:
        self.module = module
        self.stage = stage
        self._zeros = unused_input_grad == "zeros"
        self._graphs: dict[int, _Graph] = {}

    def forward(self, micro_batch: int, inputs: Any) -> Any:
        """F. inputs: a tuple for positional arguments, a dict for keywords, or one tensor; entries may be None.

        Under `torch.no_grad()` nothing is kept, and no backward follows.
        """
        if not torch.is_grad_enabled():
            return called(self.module, inputs)
        self._must_be(micro_batch, held=False)
        inputs = mapped(inputs, _leaf)
        outputs = called(self.module, inputs)
        self._graphs[micro_batch] = _Graph(inputs, outputs)
        return mapped(outputs, _leaf)

    def backward(self, micro_batch: int, output_grads: Any = None) -> Any:
        """B: gradients of inputs, shaped as the inputs were, None where there is none; and of the weights, added.

        output_grads: shaped as the outputs; None where an output gets no gradient. None alone: the outputs that require
        a gradient are scalars, as a loss is, and get ones.
        """
        return self.input_grad(micro_batch, output_grads)

    def input_grad(self, micro_batch: int, output_grads: Any = None) -> Any:
        """I: as `backward`, and the gradients of the weights are left for W."""
        self._must_be(micro_batch, held=True)
        graph = self._graphs.pop(micro_batch)
        roots, grads = _roots(graph.outputs, output_grads)
        if roots:
            torch.autograd.backward(roots, grads)
        return mapped(graph.inputs, self._taken)

    def weight_grad(self, micro_batch: int) -> None:
        """W: what I left."""

    def forward_backward(self, forward: int, inputs: Any, backward: int, output_grads: Any = None) -> tuple[Any, Any]:
        """F&B: F of one micro-batch and B of another: (outputs of the first, input gradients of the second)."""
        return self.forward(forward, inputs), self.backward(backward, output_grads)

    def _taken(self, leaf: Any) -> Any:
        if not has_gradient(leaf):
            return None
        return torch.zeros_like(leaf) if leaf.grad is None and self._zeros else leaf.grad

    def _must_be(self, micro_batch: int, *, held: bool) -> None:
        if (micro_batch in self._graphs) != held:
            what = "no forward of it is held" if held else "its forward is held already"
            raise ScheduleError(f"stage {self.stage}, micro-batch {micro_batch}: {what}")


def _leaf(value: Any) -> Any:
    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


def _roots(outputs: Any, output_grads: Any) -> tuple[list[Tensor], list[Tensor | None]]:
    """Where the backward starts, and with which gradients."""
    found = leaves_of(outputs)
    given = [None] * len(found) if output_grads is None else leaves_of(output_grads)
    if len(found) != len(given):
        raise ScheduleError(f"{len(found)} outputs got {len(given)} gradients: give None where there is none")
    ones = output_grads is None
    pairs = [(out, grad) for out, grad in zip(found, given, strict=True) if has_gradient(out)]
    pairs = [(out, grad) for out, grad in pairs if grad is not None or ones]
    return [out for out, _ in pairs], [grad for _, grad in pairs]

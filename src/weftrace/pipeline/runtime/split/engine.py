"""`StageEngine`: one stage's actions F, I, W, B and F&B on torch's autograd.

Every boundary is detached: what a stage gets and gives are leaves, so that each stage is a graph of its own, and
gradients cross between stages as values, as they must between processes.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.profiler import record_function

from weftrace.errors import ScheduleError
from weftrace.pipeline.range_names import chunk_name
from weftrace.pipeline.runtime.data_parallel import is_sharded, need_no_hooks
from weftrace.pipeline.runtime.phases import (
    Computed,
    Exchange,
    PhasedModule,
    Run,
    Step,
    alone,
    interleaved,
    phases_of,
    run_backward,
    run_forward,
)  # fmt: skip
from weftrace.pipeline.runtime.split.instrument import Splitting
from weftrace.pipeline.runtime.split.store import WeightGradStore
from weftrace.pipeline.runtime.split.values import has_gradient, leaf_of, leaves_of, mapped

#: Of a module's class: (module0, inputs0, criterion0, labels0, module1, loss1, outputs1, output_grads1) -> (outputs0,
#: loss0), the forward of module0 and the backward of module1. From https://github.com/deepseek-ai/DualPipe.
_OVERLAPPED = "overlapped_forward_backward"


@dataclass(frozen=True, slots=True)
class _Graph:
    """Of a micro-batch between its F and its backward. inputs: as leaves. splitting: None where I and W are one."""

    inputs: Any
    steps: list[Step]
    splitting: Splitting | None


class StageEngine:
    """Runs a module as one stage of a pipeline, action by action.

    An input takes part in the backward where it requires a gradient: the caller says so by `requires_grad_()`. Outputs
    are returned detached, and require a gradient where the graph does, so that they can be handed on as they are.

    store: of the pipeline, shared by its stages. unused_input_grad: what is returned for an input that requires a
    gradient and that the stage ignored: "none", or "zeros" of its shape. A parameter that has `main_grad` when the
    engine is made gets its gradients added there, in that tensor's dtype, and its `grad` stays None.

    notes: what could not be done as a schedule says, each once.

    reduced_by_caller: whether the caller keeps hooks of FSDP from reducing until all backwards of a step are done.

    Raises `ScheduleError` for a module of DDP or FSDP, or with DTensors, unless reduced_by_caller. Its methods raise it
    where an action comes before what it needs, or twice; where gradients do not match the outputs in number; where a
    module cannot be split; and where a tensor that W needs was written to since I.
    """

    def __init__(
        self,
        module: nn.Module,
        stage: int,
        *,
        store: WeightGradStore | None = None,
        unused_input_grad: Literal["none", "zeros"] = "none",
        reduced_by_caller: bool = False,
    ) -> None:
        if not reduced_by_caller:
            need_no_hooks(module, f"stage {stage}")
        self.module = module
        self.stage = stage
        self.store = WeightGradStore() if store is None else store
        self.notes: tuple[str, ...] = ()
        self._gives_one = True  # and no tuple or list, as far as it was seen
        self._zeros = unused_input_grad == "zeros"
        self._graphs: dict[int, _Graph] = {}
        self._owed: set[int] = set()  # micro-batches whose W follows
        for parameter in module.parameters():
            if hasattr(parameter, "main_grad"):
                parameter.register_post_accumulate_grad_hook(_into_main_grad)

    @property
    def interleaves(self) -> bool:
        """Whether the module offers phases that communicate, so that F&B really overlaps."""
        return any(isinstance(phase, Exchange) for phase in phases_of(self.module))

    def forward(self, micro_batch: int, inputs: Any, *, split: bool = True) -> Any:
        """F. inputs: a tuple for positional arguments, a dict for keywords, or one tensor; entries may be None.

        split: whether the backward may come in two, as I and W; where a schedule says B, False runs the module as it
        is. Under `torch.no_grad()` nothing is kept, and no backward follows.
        """
        return alone(self._forward(micro_batch, inputs, split))

    def backward(self, micro_batch: int, output_grads: Any = None) -> Any:
        """B: gradients of inputs, shaped as the inputs were, None where there is none; those of weights are added.

        output_grads: shaped as the outputs; None where an output gets no gradient. None alone: the outputs that require
        a gradient are scalars, as a loss is, and get ones.
        """
        return alone(self._backward(micro_batch, output_grads, "B"))

    def input_grad(self, micro_batch: int, output_grads: Any = None) -> Any:
        """I: as `backward`, and the gradients of the weights are left for W, where `verify_split` says so."""
        return alone(self._backward(micro_batch, output_grads, "I"))

    def weight_grad(self, micro_batch: int) -> None:
        """W: the gradients that I left are made and added, and the parameters' hooks are called."""
        if micro_batch not in self._owed:
            raise ScheduleError(
                f"stage {self.stage}, micro-batch {micro_batch}: W before its I, or for the second time"
            )
        self._owed.remove(micro_batch)
        key = (self.stage, micro_batch)
        if not self.store.holds(key) and any(each.requires_grad for each in self.module.parameters()):
            self._note(
                f"stage {self.stage}: I leaves nothing to W, because none of its weights can be separated from it"
            )
        self.store.accumulate(key)

    def forward_backward(
        self, forward: int, inputs: Any, backward: int, output_grads: Any = None, *,
        of: StageEngine | None = None, split: bool = True,
    ) -> tuple[Any, Any]:  # fmt: skip
        """F&B: F of one micro-batch and B of another: (outputs of the first, input gradients of the second).

        of: the stage of the backward, where it is another one of this rank. Where both stages offer phases, they
        alternate: the communication of one runs behind the computation of the other. Each turn is a range of the
        profiler, `stage3(F)` and `stage3(B)`. Where both are of one class with DualPipe's
        `overlapped_forward_backward`, that runs both. Else F runs, then B, and `notes` say so.
        """
        other = of or self
        if found := self._overlapped(forward, inputs, backward, output_grads, other, split):
            return found
        runs = other._backward(backward, output_grads, "B"), self._forward(forward, inputs, split)
        if self.interleaves and other.interleaves:
            grads, outputs = interleaved(*runs, (chunk_name(other.stage, "B"), chunk_name(self.stage, "F")))
            return outputs, grads
        mute = self if not self.interleaves else other
        self._note(f"stage {mute.stage} offers no phases that communicate: its F&B is F, then B")
        with record_function(chunk_name(self.stage, "F")):
            outputs = alone(runs[1])
        with record_function(chunk_name(other.stage, "B")):
            return outputs, alone(runs[0])

    def _overlapped(
        self, forward: int, inputs: Any, backward: int, output_grads: Any, other: StageEngine, split: bool
    ) -> tuple[Any, Any] | None:
        """F&B by the class's own function, as DualPipe calls it; None where it has none, or cannot be called so. Losses
        are made outside of it, so it gets none."""
        overlap = getattr(type(self.module), _OVERLAPPED, None)
        apart = type(self.module) is not type(other.module) or is_sharded(self.module)
        if overlap is None or apart or isinstance(self.module, PhasedModule) or isinstance(inputs, dict):
            return None
        self._must_be(forward, held=False)
        other._must_be(backward, held=True)
        graph = other._graphs[backward]
        (step,) = graph.steps
        assert isinstance(step, Computed), step
        outs, grads = leaves_of(step.outputs), leaves_of(output_grads)
        pairs = [(out, grad) for out, grad in zip(outs, grads, strict=False) if has_gradient(out) and grad is not None]
        if graph.splitting or len(outs) != len(grads) or not pairs:
            return None
        del other._graphs[backward]
        leaves = mapped(inputs, leaf_of)
        given = list(leaves) if isinstance(leaves, (tuple, list)) else [leaves]
        splitting = Splitting(self.store, (self.stage, forward)) if split else None
        with splitting.during("", backward=False) if splitting else nullcontext():
            found = overlap(
                self.module, given, None, [], other.module, None, [out for out, _ in pairs], [grad for _, grad in pairs]
            )
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise ScheduleError(
                f"{type(self.module).__name__}.{_OVERLAPPED} returns (outputs, loss), not {found!r:.60}"
            )
        outputs = found[0]
        if self._gives_one and isinstance(outputs, (tuple, list)) and len(outputs) == 1:
            outputs = outputs[0]  # DualPipe lists all outputs, a single one too
        self._graphs[forward] = _Graph(leaves, [Computed("", leaves, outputs)], splitting)
        return mapped(outputs, leaf_of), mapped(graph.inputs, other._taken)

    def _forward(self, micro_batch: int, inputs: Any, split: bool) -> Run[Any]:
        phases = phases_of(self.module)
        if not torch.is_grad_enabled():
            return (yield from run_forward(phases, inputs, None))[1]
        self._must_be(micro_batch, held=False)
        splitting = Splitting(self.store, (self.stage, micro_batch)) if split else None
        steps, outputs = yield from run_forward(phases, inputs, splitting)
        first = next(step for step in steps if isinstance(step, Computed))
        self._graphs[micro_batch] = _Graph(first.inputs, steps, splitting)
        self._gives_one = not isinstance(outputs, (tuple, list))
        return mapped(outputs, leaf_of)

    def _backward(self, micro_batch: int, output_grads: Any, letter: Literal["I", "B"]) -> Run[Any]:
        self._must_be(micro_batch, held=True)
        graph = self._graphs.pop(micro_batch)
        if letter == "I" and graph.splitting is None:
            raise ScheduleError(f"stage {self.stage}, micro-batch {micro_batch}: its F was run as if no I followed")
        key = (self.stage, micro_batch)
        then = partial(self.store.accumulate, key) if letter == "B" else lambda: None
        yield from run_backward(graph.steps, output_grads, graph.splitting, letter, then)
        if letter == "I":
            self._owed.add(micro_batch)
        return mapped(graph.inputs, self._taken)

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes += (note,)

    def _taken(self, leaf: Any) -> Any:
        if not has_gradient(leaf):
            return None
        return torch.zeros_like(leaf) if leaf.grad is None and self._zeros else leaf.grad

    def _must_be(self, micro_batch: int, *, held: bool) -> None:
        if (micro_batch in self._graphs) != held:
            what = "no forward of it is held" if held else "its forward is held already"
            raise ScheduleError(f"stage {self.stage}, micro-batch {micro_batch}: {what}")


def _into_main_grad(parameter: Tensor) -> None:
    if parameter.grad is not None:
        parameter.main_grad.add_(parameter.grad)  # type: ignore[attr-defined]
        parameter.grad = None

"""What an action does: the chunks of a rank's stages, from what comes in to what goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn
from torch.profiler import record_function

from weftrace.alphabet import DIRECTIONS
from weftrace.errors import PipelineRunError, ScheduleError
from weftrace.pipeline.dependencies import chunk_rows
from weftrace.pipeline.range_names import action_name, chunk_name
from weftrace.pipeline.runtime.activations import Carried
from weftrace.pipeline.runtime.p2p import Mailbox
from weftrace.pipeline.runtime.split.engine import StageEngine
from weftrace.pipeline.runtime.split.store import WeightGradStore
from weftrace.pipeline.runtime.split.values import mapped
from weftrace.pipeline.schedule import Action, Schedule, stages_on

Values = Sequence[Any] | Mapping[int, Any]
Loss = Callable[[Any, Any], Tensor]


@dataclass(slots=True)
class StepState:
    """A step under way. inputs, targets: by micro-batch. ends: outputs and losses of the last stage, until their
    backward; losses, outputs: the same detached, to be returned."""

    inputs: Values
    targets: Values | None
    keeps_outputs: bool
    ends: dict[int, tuple[Any, Tensor]] = field(default_factory=dict)
    losses: dict[int, Tensor] = field(default_factory=dict)
    outputs: dict[int, Any] = field(default_factory=dict)


class RankChunks:
    """The stages of one rank, and what connects them with others."""

    def __init__(
        self, schedule: Schedule, modules: Mapping[int, nn.Module], rank: int, loss: Loss | None, mail: Mailbox
    ) -> None:
        self.rank = rank
        self.modules = modules
        self._last = schedule.num_stages - 1
        store = WeightGradStore()
        self._engines = {
            stage: StageEngine(module, stage, store=store, reduced_by_caller=True) for stage, module in modules.items()
        }
        split = schedule.on_rank(rank).filter(pl.col("kind") == "I")
        self._split = set(split.select("stage", "micro_batch").rows())  # chunks whose backward comes in two
        self._carried = Carried(schedule, modules)
        self._loss = loss
        self._mail = mail
        starts = schedule.actions.get_column("rank").gather(chunk_rows(schedule, "F")[0][0]).to_numpy()
        replicas = schedule.replica_of_rank_stage[starts, 0]
        self._ranks_of = [schedule.rank_of[replica] for replica in replicas]  # by micro-batch, then stage

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be done as the schedule says, each once."""
        return tuple(dict.fromkeys(note for engine in self._engines.values() for note in engine.notes))

    @property
    def switches(self) -> list[bool]:
        """What may change, from step to step, which boundary values need a gradient."""
        parameters = (parameter for module in self.modules.values() for parameter in module.parameters())
        parts = (part for module in self.modules.values() for part in module.modules())
        return [*(parameter.requires_grad for parameter in parameters), *(part.training for part in parts)]

    def run(self, action: Action, step: StepState) -> None:
        """Raises `PipelineRunError` that names the action for whatever its stage raises."""
        try:
            with record_function(action_name(action)):
                if action.kind == "F&B":
                    self._forward_backward(action, step)
                elif action.kind == "F":
                    self._forward(action, step)
                elif action.kind == "W":
                    with record_function(chunk_name(action.stage, "W")):
                        self._engines[action.stage].weight_grad(action.micro_batch)
                else:
                    self._backward(action.kind, action.stage, action.micro_batch, step)
        except Exception as error:
            told = self._mail.link.because(error)
            raise PipelineRunError(
                f"rank {self.rank} failed at {action}, {_in_words(action)}: {type(error).__name__}: {error}"
                + (f" ({told})" if told else "")
            ) from error

    def _forward(self, action: Action, step: StepState) -> None:
        stage, micro_batch = action.stage, action.micro_batch
        with record_function(chunk_name(stage, "F")), _offloading(action.offload, self.modules[stage]):
            inputs = self._inputs(stage, micro_batch, step)
            outputs = self._engines[stage].forward(micro_batch, inputs, split=(stage, micro_batch) in self._split)
            self._hand_on(stage, micro_batch, outputs, step)

    def _backward(self, kind: str, stage: int, micro_batch: int, step: StepState) -> None:
        engine = self._engines[stage]
        with record_function(chunk_name(stage, kind)):
            grads = self._output_grads(stage, micro_batch, step)
            found = engine.input_grad(micro_batch, grads) if kind == "I" else engine.backward(micro_batch, grads)
            self._hand_back(stage, micro_batch, found)

    def _forward_backward(self, action: Action, step: StepState) -> None:
        """The engines name the chunks' ranges, or those of their phases; here is what comes before and after."""
        stage, micro_batch, back, back_micro_batch = _pair(action)
        engine = self._engines[stage]
        with record_function(chunk_name(back, "B")):
            grads = self._output_grads(back, back_micro_batch, step)
        inputs = self._inputs(stage, micro_batch, step)
        with _offloading(action.offload, self.modules[stage]):
            outputs, found = engine.forward_backward(
                micro_batch, inputs, back_micro_batch, grads,
                of=self._engines[back], split=(stage, micro_batch) in self._split,
            )  # fmt: skip
        with record_function(chunk_name(stage, "F")):
            self._hand_on(stage, micro_batch, outputs, step)
        self._hand_back(back, back_micro_batch, found)

    def _inputs(self, stage: int, micro_batch: int, step: StepState) -> Any:
        value = step.inputs[micro_batch] if stage == 0 else self._mail.take((False, stage, micro_batch))
        return self._carried.with_state(stage, micro_batch, value)

    def _hand_on(self, stage: int, micro_batch: int, returned: Any, step: StepState) -> None:
        """A forward's end: its outputs go to the next stage, or to the loss."""
        outputs = self._carried.without_state(stage, micro_batch, returned)
        if stage < self._last:
            self._mail.put((False, stage + 1, micro_batch), outputs, self._ranks_of[micro_batch][stage + 1])
            return
        if torch.is_grad_enabled():
            assert self._loss is not None
            loss = self._loss(outputs, value_of(step.targets, micro_batch, "target"))
            step.ends[micro_batch] = (outputs, loss)
            step.losses[micro_batch] = loss.detach()
        if step.keeps_outputs:
            step.outputs[micro_batch] = mapped(outputs, _detached)

    def _output_grads(self, stage: int, micro_batch: int, step: StepState) -> Any:
        if stage < self._last:
            grads = self._mail.take((True, stage, micro_batch))
        else:
            outputs, loss = step.ends.pop(micro_batch)
            if loss.requires_grad:
                loss.backward()
            grads = mapped(outputs, _grad_of)
        if grads is None:
            grads = (None,)  # one output that nobody used; None alone would mean a gradient of one
        return self._carried.with_state_grads(stage, micro_batch, grads)

    def _hand_back(self, stage: int, micro_batch: int, found: Any) -> None:
        grads = self._carried.without_state_grads(stage, micro_batch, found)
        if stage > 0:
            self._mail.put((True, stage - 1, micro_batch), grads, self._ranks_of[micro_batch][stage - 1])


def need_stages(schedule: Schedule, given: Mapping[int, nn.Module], rank: int) -> None:
    """Raises `ScheduleError` where a rank was given other stages than the schedule has on it."""
    held = stages_on(schedule, rank)
    if sorted(given) != held:
        raise ScheduleError(
            f"rank {rank} holds stages {held} in schedule {schedule.name!r}, and was given {sorted(given)}."
        )


def value_of(values: Values | None, micro_batch: int, what: str) -> Any:
    """A micro-batch's input or target. Raises `ScheduleError` where it was not given; no targets at all are None."""
    try:
        return None if values is None else values[micro_batch]
    except (KeyError, IndexError):
        raise ScheduleError(f"this rank needs the {what} of micro-batch {micro_batch}, and it was not given.") from None


def need_no_more(values: Values | None, num_micro_batches: int, what: str) -> None:
    """Raises `ScheduleError` where a list holds more than the schedule runs, as one whole batch does: the rest would be
    left out in silence."""
    if values is not None and not isinstance(values, Mapping) and len(values) > num_micro_batches:
        raise ScheduleError(
            f"{len(values)} {what}s were given, and the schedule runs {num_micro_batches} micro-batches: give a list "
            "with one for each, or a dict by their numbers."
        )


def _pair(action: Action) -> tuple[int, int, int, int]:
    back, back_micro_batch = action.back_stage, action.back_micro_batch
    assert back is not None and back_micro_batch is not None, action
    return action.stage, action.micro_batch, back, back_micro_batch


def _in_words(action: Action) -> str:
    first = "F" if action.kind == "F&B" else action.kind
    words = f"{DIRECTIONS[first]} of stage {action.stage}, micro-batch {action.micro_batch}"
    if action.kind != "F&B":
        return f"the {words}"
    return f"the {words}, with the backward of stage {action.back_stage}, micro-batch {action.back_micro_batch}"


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


def _grad_of(leaf: Any) -> Any:
    return leaf.grad if isinstance(leaf, Tensor) else None


def _offloading(wanted: bool, module: nn.Module) -> AbstractContextManager[object]:
    """Around a forward. What autograd keeps then waits in the host's memory, except the module's own parameters and
    what is there anyway; it comes back when the backward asks for it."""
    if not wanted:
        return nullcontext()
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}

    def pack(kept: Tensor) -> tuple[torch.device, Tensor]:
        if kept.device.type == "cpu" or kept.untyped_storage().data_ptr() in own:
            return kept.device, kept
        host = torch.empty(kept.shape, dtype=kept.dtype, pin_memory=True)
        host.copy_(kept, non_blocking=True)
        return kept.device, host

    def unpack(packed: tuple[torch.device, Tensor]) -> Tensor:
        device, kept = packed
        return kept.to(device, non_blocking=True)

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

"""The same model in one process, without a pipeline: what every schedule must come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tests.pipeline.runtime.models import Loss
from weftrace.pipeline.runtime.split.values import called
from weftrace.pipeline.schedule import Schedule

Grads = list[Tensor | None]


@dataclass(frozen=True)
class OneProcess:
    """outputs, losses: by micro-batch. grads_of: by micro-batch, then stage: each parameter's gradient."""

    outputs: list[Any]
    losses: list[Tensor]
    grads_of: list[list[Grads]]

    def summed(self, stage: int) -> Grads:
        """One micro-batch after the other, in their order: what a plain loop leaves."""
        return added([grads[stage] for grads in self.grads_of])

    def summed_as(self, schedule: Schedule, stage: int) -> Grads:
        """In the schedule's order: each replica's micro-batches as their gradients are made, then the replicas."""
        found = []
        for ranks in schedule.rank_of:
            order = [
                action.back_micro_batch if action.kind == "F&B" else action.micro_batch
                for action in schedule.listed()
                if action.rank == ranks[stage]
                and (
                    action.back_stage == stage
                    if action.kind == "F&B"
                    else action.kind in "WB" and action.stage == stage
                )
            ]
            found.append(added([self.grads_of[number][stage] for number in order if number is not None]))
        return added(found)


def run_alone(stages: Sequence[nn.Module], loss: Loss, inputs: Sequence[Any], targets: Sequence[Any]) -> OneProcess:
    outputs, losses, grads_of = [], [], []
    for value, target in zip(inputs, targets, strict=True):
        for stage in stages:
            stage.zero_grad()
            value = called(stage, value)
        found = loss(value, target)
        found.backward()
        outputs.append(value)
        losses.append(found.detach())
        grads_of.append([[parameter.grad for parameter in stage.parameters()] for stage in stages])
    return OneProcess(outputs, losses, grads_of)


def same(first: Grads, second: Grads) -> bool:
    """Bit by bit; no gradient is like none only."""
    return all(
        (a is None) == (b is None) and (a is None or torch.equal(a, b))  # type: ignore[arg-type]
        for a, b in zip(first, second, strict=True)
    )


def apart(first: Grads, second: Grads) -> float:
    """The greatest difference."""
    return max(
        (float((a - b).abs().max()) for a, b in zip(first, second, strict=True) if a is not None and b is not None),
        default=0.0,
    )


def added(parts: Sequence[Grads]) -> Grads:
    total: Grads = list(parts[0])
    for part in parts[1:]:
        total = [
            old if new is None else new if old is None else old + new for old, new in zip(total, part, strict=True)
        ]
    return total

"""What the processes of a living set do. Each function is called on all ranks that take part, with their group."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from tests.pipeline.runtime.models import batch, model
from tests.pipeline.runtime.one_process import apart, run_alone, same
from weftrace.pipeline.notation import from_text
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.runtime.split.values import leaves_of
from weftrace.pipeline.schedule import stages_on


def trains(group: dist.ProcessGroup | None, schedule: str, kinds: list[str]) -> dict[str, Any]:
    """A step and a forward of each model, two of the first, compared with one process: what was equal, by model."""
    return {kind: _trains(group, schedule, kind, steps=2 if kind == kinds[0] else 1) for kind in kinds}


def _trains(group: dist.ProcessGroup | None, text: str, kind: str, steps: int) -> dict[str, Any]:
    schedule = from_text(text)
    stages, loss = model(kind, schedule.num_stages)
    alone, _ = model(kind, schedule.num_stages)
    rank = dist.get_rank(group)
    held = stages_on(schedule, rank)
    pipeline = PipelineRuntime(schedule, {s: stages[s] for s in held}, loss=loss, group=group)
    for seed in range(steps):
        inputs, targets = batch(kind, schedule.num_micro_batches, seed)
        for stage in held:
            stages[stage].zero_grad()
        result = pipeline.step(inputs, targets)
        evaluated = pipeline.forward(inputs)
    want = run_alone(alone, loss, inputs, targets)
    mine = {stage: [parameter.grad for parameter in stages[stage].parameters()] for stage in held}
    assert sorted(result.losses) == sorted(result.outputs) == list(pipeline.target_micro_batches)
    for micro_batch, found in result.losses.items():
        assert torch.equal(found, want.losses[micro_batch])
    for outputs in (result.outputs, evaluated.outputs):
        for micro_batch, value in outputs.items():
            for a, b in zip(leaves_of(value), leaves_of(want.outputs[micro_batch]), strict=True):
                assert torch.equal(a, b)
    return {
        "losses": len(result.losses),
        "as one process": all(same(grads, want.summed(stage)) for stage, grads in mine.items()),
        "as its order": all(same(grads, want.summed_as(schedule, stage)) for stage, grads in mine.items()),
        "apart": max(apart(grads, want.summed(stage)) for stage, grads in mine.items()),
        "received": [result.peak_received, pipeline._programs["step"].peak_received],
    }

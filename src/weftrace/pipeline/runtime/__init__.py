"""Schedules that run: stages on torch.distributed, their backward in I and W, their phases in turns.

    from weftrace.pipeline.runtime import PipelineRuntime, verify_split
    print(verify_split(module, example_inputs).in_lines())      # what I leaves to W, and what it cannot
    result = PipelineRuntime(schedule, {stage: module}, loss=loss).step(inputs, targets)

Needs torch, the extra `torch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.errors import PipelineRunError
from weftrace.lazy import lazily, without_torch

if TYPE_CHECKING:
    from weftrace.pipeline.runtime.blocks import ExpertBlock as ExpertBlock
    from weftrace.pipeline.runtime.blocks import TransformerBlock as TransformerBlock
    from weftrace.pipeline.runtime.checkpoints import PipelineState as PipelineState
    from weftrace.pipeline.runtime.doors.dualpipe import DualPipe as DualPipe
    from weftrace.pipeline.runtime.doors.dualpipe import DualPipeV as DualPipeV
    from weftrace.pipeline.runtime.doors.torch_pipelining import from_torch as from_torch
    from weftrace.pipeline.runtime.doors.torch_pipelining import to_torch as to_torch
    from weftrace.pipeline.runtime.doors.torch_pipelining import to_torch_actions as to_torch_actions
    from weftrace.pipeline.runtime.executor import PipelineRuntime as PipelineRuntime
    from weftrace.pipeline.runtime.executor import StepResult as StepResult
    from weftrace.pipeline.runtime.phases import Compute as Compute
    from weftrace.pipeline.runtime.phases import Exchange as Exchange
    from weftrace.pipeline.runtime.phases import PhasedModule as PhasedModule
    from weftrace.pipeline.runtime.phases import PhasedSequential as PhasedSequential
    from weftrace.pipeline.runtime.phases import Transfer as Transfer
    from weftrace.pipeline.runtime.split.engine import StageEngine as StageEngine
    from weftrace.pipeline.runtime.split.instrument import defer_weight_grad as defer_weight_grad
    from weftrace.pipeline.runtime.split.store import WeightGradStore as WeightGradStore
    from weftrace.pipeline.runtime.split.verify import SplitCheck as SplitCheck
    from weftrace.pipeline.runtime.split.verify import verify_split as verify_split

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(
        __name__, on_missing=without_torch(PipelineRunError, "weftrace.pipeline.runtime.{name} runs models, with torch")
    )

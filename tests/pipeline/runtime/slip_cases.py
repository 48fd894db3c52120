"""A run of a pipeline whose chunks take about as long as they are told to, recorded."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from weftrace.pipeline.notation import from_text
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.schedule import stages_on

WIDTH = 16


class _Takes(torch.autograd.Function):
    """What it is given, after a while; as long in the backward. A rank that sleeps takes no processor from others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return grad.clone(), None


class Chunk(nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        taken: Tensor = _Takes.apply(self.linear(x), self.seconds)  # type: ignore[no-untyped-call]
        return taken


def recorded(group: dist.ProcessGroup | None, schedule: str, folder: str, seconds: list[float], steps: int) -> None:
    """Traces of each rank, in the folder. seconds: of a chunk's forward, and as long of its backward, by stage."""
    order = from_text(schedule)
    rank = dist.get_rank(group)
    held = stages_on(order, rank)
    torch.manual_seed(0)
    stages = {stage: Chunk(seconds[stage]) for stage in held}
    pipeline = PipelineRuntime(order, stages, loss=nn.functional.mse_loss, group=group)
    inputs = [torch.randn(4, WIDTH) for _ in range(order.num_micro_batches)]
    pipeline.step(inputs, inputs)  # what happens but once: descriptions of messages, the first backward
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            pipeline.step(inputs, inputs)
            pipeline.forward(inputs)
    profiler.export_chrome_trace(str(Path(folder) / f"rank{rank}.json"))

"""A stage's actions against torch's plain backward: the same bits in float64."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import distribute_module
from torch.nn.parallel import DistributedDataParallel

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime.split.engine import StageEngine


class Boundaries(nn.Module):
    """Two inputs, of which one is ignored and one may be None; a dict with an integer and an unused output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor, ignored: Tensor | None = None) -> dict[str, Tensor | None]:
        hidden = torch.tanh(self.first(x))
        return {"out": self.second(hidden), "nothing": None, "count": torch.tensor(3), "hidden": hidden}


def test_backward_of_stages_equals_the_backward_of_the_whole() -> None:
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    parts = copy.deepcopy(whole)
    first, second = StageEngine(parts[:2], 0), StageEngine(parts[2:], 1)
    for micro_batch in range(3):
        x = torch.randn(3, 4, dtype=torch.float64)
        whole(x).square().sum().backward()
        hidden = first.forward(micro_batch, x)
        assert hidden.requires_grad
        assert hidden.is_leaf
        out = second.forward(micro_batch, hidden)
        grads = second.backward(micro_batch, 2 * out.detach())
        assert first.backward(micro_batch, grads) is None
    for mine, theirs in zip(parts.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize("zeros", [False, True])
def test_none_unused_and_gradientless_boundaries(zeros: bool) -> None:
    engine = StageEngine(Boundaries(), 0, unused_input_grad="zeros" if zeros else "none")
    x, ignored = torch.randn(2, 5, requires_grad=True), torch.randn(2, requires_grad=True)
    outputs = engine.forward(0, {"x": x, "ignored": ignored})
    assert outputs["nothing"] is None
    assert not outputs["count"].requires_grad
    grads = engine.backward(0, {"out": torch.ones(2, 3), "nothing": None, "count": None, "hidden": None})
    assert grads["x"].shape == x.shape
    assert x.grad is None
    assert torch.equal(grads["ignored"], torch.zeros(2)) if zeros else grads["ignored"] is None
    outputs = engine.forward(1, (x, None))
    grads = engine.backward(1, outputs | {"count": None})
    assert grads[1] is None


def test_a_micro_batch_out_of_order_is_told() -> None:
    engine = StageEngine(nn.Linear(2, 2), 3)
    with pytest.raises(ScheduleError, match="stage 3, micro-batch 7: no forward of it is held"):
        engine.backward(7)
    engine.forward(7, torch.ones(1, 2))
    with pytest.raises(ScheduleError, match="held already"):
        engine.forward(7, torch.ones(1, 2))
    with pytest.raises(ScheduleError, match="1 outputs got 2 gradients"):
        engine.backward(7, (None, None))


def test_nothing_is_kept_without_gradients() -> None:
    engine = StageEngine(nn.Linear(2, 2), 0)
    with torch.no_grad():
        engine.forward(0, torch.ones(1, 2))
        engine.forward(0, torch.ones(1, 2))


@pytest.mark.parametrize(
    "wrapper", ["DistributedDataParallel", "FullyShardedDataParallel", "fully_shard", "replicate", "DTensor"]
)
def test_modules_whose_gradients_hooks_shard_or_sum_are_refused(alone: DeviceMesh, wrapper: str) -> None:
    """Whether they are the stage itself or stand in it."""
    module: nn.Module = nn.Linear(4, 3)
    if wrapper == "DistributedDataParallel":
        module = DistributedDataParallel(module)
    elif wrapper == "FullyShardedDataParallel":
        module = FullyShardedDataParallel(module, device_id=torch.device("cpu"))
    elif wrapper == "replicate":
        replicate(module)
    elif wrapper == "fully_shard":
        fully_shard(module, mesh=alone)
    else:
        distribute_module(module, alone)
    for stage in (module, nn.Sequential(nn.Tanh(), module)):
        with pytest.raises(ScheduleError, match=r"stage 2: its? .*gradients would be wrong.*give the plain module"):
            StageEngine(stage, 2)

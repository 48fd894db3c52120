"""What the processes of a living set do with stages of DDP and fully_shard: pipelines side by side, each with its own
part of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from tests.pipeline.runtime.models import batch, model
from tests.pipeline.runtime.one_process import Grads, added, apart, run_alone, same
from weftrace.pipeline.notation import from_text
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.schedule import stages_on

#: Each once: torch makes a group's connections anew for each mesh.
_MESHES: dict[tuple[int, ...], DeviceMesh] = {}


def mesh_of(*shape: int) -> DeviceMesh:
    """[replicas, shards, pipeline]: the last says which rank of its pipeline a process is."""
    if shape not in _MESHES:
        _MESHES[shape] = init_device_mesh("cpu", shape, mesh_dim_names=("replicas", "shards", "pipeline"))
    return _MESHES[shape]


def wrapped(module: nn.Module, how: str, mesh: DeviceMesh) -> nn.Module:
    if how == "plain":
        return module
    if how == "ddp":
        return DistributedDataParallel(module, process_group=mesh["replicas"].get_group())
    dims = mesh["replicas", "shards"] if how == "hsdp" else mesh["replicas"]
    for part in module.children():
        if not isinstance(part, nn.ModuleList):  # has no forward with hooks
            fully_shard(part, mesh=dims, reshard_after_forward=how != "fsdp kept")
    fully_shard(module, mesh=dims, reshard_after_forward=how != "fsdp kept")
    return module


def whole(grad: Tensor | None) -> Tensor | None:
    return grad.full_tensor() if hasattr(grad, "full_tensor") else grad  # type: ignore[union-attr]


def trains(group: Any, schedule: str, kind: str, how: str, num_pipelines: int, num_shards: int = 1) -> dict[str, Any]:
    """A step of pipelines side by side, compared with one process over the whole batch: the mean of the pipelines'."""
    ours = from_text(schedule)
    mesh = mesh_of(num_pipelines // num_shards, num_shards, ours.num_ranks)
    replica, shard, rank = mesh.get_coordinate() or []
    number = replica * num_shards + shard
    held = stages_on(ours, rank)
    stages, loss = model(kind, ours.num_stages)
    given = {s: wrapped(stages[s], how, mesh) for s in held}
    pipeline = PipelineRuntime(ours, given, loss=loss, group=mesh["pipeline"])
    inputs, targets = batch(kind, ours.num_micro_batches * num_pipelines)
    size = ours.num_micro_batches
    for _ in range(2):
        for module in given.values():
            module.zero_grad()
        pipeline.step(inputs[number * size : (number + 1) * size], targets[number * size : (number + 1) * size])
    wants = [
        run_alone(model(kind, ours.num_stages)[0], loss, inputs[i : i + size], targets[i : i + size])
        for i in range(0, len(inputs), size)
    ]
    mine = {s: [whole(p.grad) for p in given[s].parameters()] for s in held}
    asked = {s: mean([want.summed_as(ours, s) for want in wants]) for s in held}
    return {
        "same": all(same(mine[s], asked[s]) for s in held),
        "apart": max(apart(mine[s], asked[s]) for s in held),
        "none": sum(grad is None for grads in mine.values() for grad in grads),
        "notes": pipeline.notes,
    }


def mean(parts: Sequence[Grads]) -> Grads:
    return [None if total is None else total / len(parts) for total in added(parts)]


def as_torch_does(group: Any, schedule: str, csv: str, how: str) -> float:
    """How far gradients are from those of torch's own runtime on the same stages, which reads the schedule from CSV."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    ours = from_text(schedule)
    mesh = mesh_of(2, 1, ours.num_ranks)
    number, _, rank = mesh.get_coordinate() or []
    held = stages_on(ours, rank)
    size = ours.num_micro_batches
    inputs, targets = (each[number * size : (number + 1) * size] for each in batch("mlp", 2 * size))
    mine, theirs = ({s: wrapped(model("mlp", ours.num_stages)[0][s], how, mesh) for s in held} for _ in range(2))
    loss = model("mlp", ours.num_stages)[1]
    PipelineRuntime(ours, mine, loss=loss, group=mesh["pipeline"]).step(inputs, targets)
    pipe = mesh["pipeline"].get_group()
    stages = [PipelineStage(theirs[s], s, ours.num_stages, torch.device("cpu"), group=pipe) for s in held]
    runtime = _PipelineScheduleRuntime(stages, size, loss_fn=loss, scale_grads=False)
    runtime._load_csv(csv, format="compute_only")
    last: dict[str, Any] = {"target": torch.cat(targets), "losses": []} if ours.num_stages - 1 in held else {}
    runtime.step(*([torch.cat(inputs)] if 0 in held else []), **last)
    grads = ([[whole(p.grad) for p in given[s].parameters()] for s in held] for given in (mine, theirs))
    return max(apart(a, b) for a, b in zip(*grads, strict=True))

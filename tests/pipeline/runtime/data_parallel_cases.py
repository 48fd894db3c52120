"""What the processes of a living set do with stages of DDP and fully_shard: pipelines side by side, each with its own
part of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from tests.pipeline.runtime.models import WORDS, Perceptrons, Phased, batch, model
from tests.pipeline.runtime.one_process import Grads, added, apart, run_alone, same
from weftrace.errors import PipelineRunError, ScheduleError
from weftrace.pipeline.notation import from_text
from weftrace.pipeline.runtime.checkpoints import PipelineState
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.runtime.split.values import called
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
    blocks = module.blocks.parts if isinstance(module, Phased) else ()
    for part in (*blocks, *module.children()):
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


class Weighted(nn.Module):
    """A loss that learns."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, WORDS, dtype=torch.float64))

    def forward(self, out: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy((out * self.scale).flatten(0, 1), target.flatten())


def tied_model(num_stages: int, *, share: bool = False) -> list[nn.Module]:
    """A transformer whose head has the weights of its embedding. share: as one parameter."""
    stages = model("transformer", num_stages)[0]
    first, last = stages[0].embed, stages[-1].head
    assert isinstance(first, nn.Embedding) and isinstance(last, nn.Linear)
    if share:
        last.weight = first.weight
    else:
        last.weight.data.copy_(first.weight.data)
    return stages


def ties_and_norms(group: Any, schedule: str, how: str, num_pipelines: int, share: bool = False) -> dict[str, Any]:
    """A step with a tie, a loss that learns and a clipped norm, beside one process with one parameter for both ends.

    share: the tied parameters of a rank that holds both are one.
    """
    ours = from_text(schedule)
    mesh = mesh_of(num_pipelines, 1, ours.num_ranks)
    number, _, rank = mesh.get_coordinate() or []
    held = stages_on(ours, rank)
    stages, last = tied_model(ours.num_stages, share=share), ours.num_stages - 1
    given = {s: wrapped(stages[s], how, mesh) for s in held}
    loss = wrapped(Weighted(), how, mesh) if last in held else Weighted()
    tied = [{0: "embed.weight", last: "head.weight"}]
    pipeline = PipelineRuntime(ours, given, loss=loss, group=mesh["pipeline"], tied=tied)
    size = ours.num_micro_batches
    inputs, targets = batch("transformer", size * num_pipelines)
    for _ in range(2):  # a second step adds the same again
        pipeline.step(inputs[number * size : (number + 1) * size], targets[number * size : (number + 1) * size])
    alone, alone_loss = tied_model(ours.num_stages, share=True), Weighted()
    for value, target in zip(inputs, targets, strict=True):
        for stage in alone:
            value = called(stage, value)
        (2 * alone_loss(value, target) / num_pipelines).backward()
    asked = nn.ModuleList([*alone, alone_loss])
    norms = []
    for kind in (1.0, 2.0, float("inf")):
        want = torch.nn.utils.get_total_norm([p.grad for p in asked.parameters() if p.grad is not None], kind)
        norms.append(abs(float(pipeline.grad_norm(kind) / want) - 1))
    pipeline.clip_grad_norm(0.1)
    torch.nn.utils.clip_grad_norm_(asked.parameters(), 0.1)
    pairs = [(given[s], alone[s]) for s in held] + ([(loss, alone_loss)] if last in held else [])
    grads = (([whole(p.grad) for p in each.parameters()] for each in pair) for pair in pairs)
    return {"apart": max(apart(*each) for each in grads), "norms": max(norms), "after": float(pipeline.grad_norm())}


def tensor_parallel(group: Any, schedule: str) -> dict[str, Any]:
    """Stages with an embedding, a block and a head whose weights are DTensors over two ranks."""
    ours = from_text(schedule)
    mesh = mesh_of(1, 2, ours.num_ranks)
    held = stages_on(ours, (mesh.get_coordinate() or [])[-1])
    stages, loss = model("transformer", ours.num_stages)
    alone = model("transformer", ours.num_stages)[0]
    plan = {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
    for s in held:
        parallelize_module(stages[s], mesh["shards"], plan)
    pipeline = PipelineRuntime(ours, {s: stages[s] for s in held}, loss=loss, group=mesh["pipeline"])
    inputs, targets = batch("transformer", ours.num_micro_batches)
    pipeline.step(inputs, targets)
    want = run_alone(alone, loss, inputs, targets)
    whole_norm = torch.nn.utils.get_total_norm([g for s in range(len(alone)) for g in want.summed(s) if g is not None])
    return {
        "apart": max(apart([whole(p.grad) for p in stages[s].parameters()], want.summed(s)) for s in held),
        "norm": abs(float(pipeline.grad_norm() / whole_norm) - 1),
        "notes": pipeline.notes,
    }


def reduces_behind_backwards(group: Any, folder: str) -> None:
    """Pipelines of one rank, side by side; rank 0 leaves a trace."""
    rank = dist.get_rank(group)
    stages = [DistributedDataParallel(nn.Linear(2, 2, bias=False), process_group=group) for _ in range(2)]
    store, key = dist.distributed_c10d._get_default_store(), f"{folder}: rank 0 is through"
    first, last = (stage.module.weight for stage in stages)
    if rank == 0:
        first.register_post_accumulate_grad_hook(lambda _: store.set(key, ""))
    else:
        last.register_post_accumulate_grad_hook(lambda _: store.wait([key], timedelta(seconds=30)))
    plan = from_text("replica 0: 0 0\nrank 0: 0F0 1F0 1I0 1W0 0I0 0W0")
    pipeline = PipelineRuntime(plan, dict(enumerate(stages)), loss=lambda out, _: out.sum())
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        pipeline.step([torch.ones(1, 2)])
    if rank == 0:
        profiler.export_chrome_trace(f"{folder}/rank0.json")


class Unused(nn.Module):
    """A part of a parameter on each rank, which only the first of them uses."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.part = nn.Parameter(torch.full((2, 3), dist.get_rank(group) + 1.0))
        self.shard_groups = {"part": group}

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.part.t() if float(self.part[0, 0]) == 1 else x * self.part.detach().sum()


def with_an_unused_part(group: Any, folder: str) -> dict[str, Any]:
    """A norm, and a checkpoint that a new optimizer loads."""
    plan = from_text("replica 0: 0\nrank 0: 0F0 0B0")
    found: dict[str, Any] = {}
    taken_for_one: nn.Module = Unused(group)
    fully_shard(taken_for_one, mesh=DeviceMesh.from_group(group, "cpu"))
    try:
        PipelineRuntime(plan, {0: taken_for_one})
    except ScheduleError as error:
        found["refused"] = str(error)
    for number, call in enumerate((save, load)):
        module = Unused(group)
        pipeline = PipelineRuntime(plan, {0: module}, loss=lambda out, _: out.sum())
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        if number == 0:
            pipeline.step([torch.ones(1, 3)])
            found["norm"] = float(pipeline.grad_norm())
            optimizer.step()
        call({"pipeline": PipelineState(pipeline, optimizer)}, checkpoint_id=folder, process_group=group)
        found[call.__name__] = optimizer.state[module.part]["exp_avg"].tolist()
    return found


def replicas_apart(group: Any, schedule: str) -> str:
    """Replicas that were drawn from other seeds: what the first step says."""
    ours = from_text(schedule)
    torch.manual_seed(torch.distributed.get_rank())
    stages = {s: Perceptrons().double() for s in range(ours.num_stages)}
    pipeline = PipelineRuntime(ours, stages, loss=model("mlp", 2)[1], group=group)
    try:
        pipeline.step(*batch("mlp", ours.num_micro_batches))
    except PipelineRunError as error:
        return str(error)
    return ""

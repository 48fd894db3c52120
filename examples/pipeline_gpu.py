"""Compare pipelines with one process on the devices of this machine, and write a table of the differences.

    python examples/pipeline_gpu.py                                         # four processes
    python examples/pipeline_gpu.py --processes 8 -o out/pipelines.md       # or .json
    python examples/pipeline_gpu.py --checks training --families zb1p dualpipe --ways fsdp

With NCCL, if each process has a GPU of its own. With gloo, if processes share a GPU, or there is none. All in float64.
A row per check:

    training   steps of AdamW, with tied embedding and head and a clipped norm: half of them, then a checkpoint, which
               another schedule with another number of ranks and another kind of data parallelism loads, and goes on
    experts    blocks whose experts lie on the data-parallel ranks, with F&B in phases
    tensor     weights as DTensors over the data-parallel ranks
    torch      PipelineStage objects in weftrace's runtime, and in torch's with the same schedule, beside each other
    dualpipe   DeepSeek's call: DualPipe(modules)(inputs, num_chunks=..., criterion=..., labels=...)

A check that fails is a row with its error; the others run in new processes then. Exits with status 1 if one fails.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from weftrace.pipeline import FAMILIES, Schedule, generate
from weftrace.pipeline.runtime import (
    DualPipe,
    ExpertBlock,
    PhasedSequential,
    PipelineRuntime,
    PipelineState,
    TransformerBlock,
    to_torch,
)
from weftrace.pipeline.schedule import stages_on

WIDTH, WORDS, LENGTH, LAYERS = 8, 17, 6, 8
WAYS = ("ddp", "fsdp", "fsdp kept", "hsdp")


@dataclass(frozen=True)
class Split:
    """A schedule of num_ranks pipeline ranks; what is left of the processes is data parallel, in this way."""

    family: str
    num_ranks: int
    way: str

    @property
    def schedule(self) -> Schedule:
        num = 2 * self.num_ranks // (4 if self.family == "seq1f1b" else 1)  # Seq1F1B cuts each in four
        return generate(self.family, num_ranks=self.num_ranks, num_micro_batches=num)


@dataclass(frozen=True)
class Check:
    kind: str
    split: Split
    then: Split | None = None  # what loads the checkpoint


@dataclass(frozen=True)
class Row:
    """A check's result. gradients, parameters: the greatest difference from one process; None where not compared."""

    check: str
    schedule: str
    pipeline: int
    data: int
    way: str
    then: str
    steps: int
    gradients: float | None
    parameters: float | None
    seconds: float
    error: str | None


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4, help="an even number (default: %(default)s)")
    parser.add_argument("--checks", nargs="+", choices=list(CHECKS), default=list(CHECKS), help="default: all")
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES), help="default: all")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="data parallelism (default: all)")
    parser.add_argument("--steps", type=int, default=20, help="of training (default: %(default)s)")
    parser.add_argument("--most-apart", type=float, default=1e-12, help="a row fails above it (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one check (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, help="file for the table, .md or .json")
    options = parser.parse_args()
    if options.processes < 2 or options.processes % 2:
        parser.error("--processes takes an even number, because half of them may be a pipeline")
    return options


def main() -> int:
    options = parsed()
    checks = list(checks_of(options))
    device, backend = device_and_backend(options.processes)
    print(f"{options.processes} processes, {backend} on {device}, torch {torch.__version__}", flush=True)
    rows: list[Row] = []
    while len(rows) < len(checks):  # a failed check ends its processes
        rows += run(options, checks[len(rows) :], device, backend)
    if options.output:
        facts = {"processes": options.processes, "backend": backend, "device": device, "torch": torch.__version__}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        as_json = json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=1)
        table = f"{', '.join(f'{key} {value}' for key, value in facts.items())}\n\n{markdown(rows)}"
        options.output.write_text(as_json if options.output.suffix == ".json" else table, encoding="utf-8")
    failed = sum(row.error is not None for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} checks passed")
    return int(failed > 0)


def checks_of(options: argparse.Namespace) -> Iterator[Check]:
    """Training: each family and way with 2 ranks and with 4, once before a checkpoint and once after it."""
    size = options.processes
    pairs = [(family, way) for family in options.families for way in options.ways]
    lengths = [(2, 4 if size % 4 == 0 else size)[:: (-1) ** (at + at // len(options.ways))] for at in range(len(pairs))]
    for at, (family, way) in enumerate(pairs if "training" in options.checks else ()):
        other = (at + len(options.ways) + 1) % len(pairs)
        then = Split(pairs[other][0], lengths[other][1], pairs[other][1])
        yield Check("training", Split(family, lengths[at][0], way), then)
    others = [
        *(("experts", family, 2, way) for family in ("dualpipe", "dualpipev", "zbv") for way in ("ddp", "fsdp")),
        *(("tensor", family, 2, "tensor parallel") for family in ("zb1p", "dualpipe")),
        *(("torch", *each) for each in (("1f1b", 2, "fsdp"), ("interleaved", 2, "ddp"), ("zbv", 2, "fsdp kept"))),
        ("dualpipe", "dualpipe", size, "plain"),
    ]
    for kind, family, length, way in others:
        if kind in options.checks and family in options.families and (way in options.ways or way not in WAYS):
            yield Check(kind, Split(family, length, way))


def device_and_backend(num_processes: int) -> tuple[str, str]:
    """NCCL takes one process per GPU."""
    gpus = torch.cuda.device_count()
    return "cuda" if gpus else "cpu", "nccl" if gpus >= num_processes else "gloo"


# --- the processes ----------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace, checks: Sequence[Check], device: str, backend: str) -> list[Row]:
    """The rows of these checks, up to the first that fails."""
    context: Any = multiprocessing.get_context("spawn" if device == "cuda" else "fork")
    answers = context.Queue()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        facts = (options.processes, device, backend, folder, options.steps, checks, answers)
        processes = [context.Process(target=rank_main, args=(rank, *facts)) for rank in range(options.processes)]
        for process in processes:
            process.start()
        while len(rows) < len(checks) and not any(row.error for row in rows):
            rows.append(answered(answers, checks[len(rows)], options))
            print(markdown(rows[-1:]).splitlines()[-1], flush=True)
        for process in processes:
            if rows[-1].error:
                process.terminate()
            process.join()
    return rows


def answered(answers: Any, check: Check, options: argparse.Namespace) -> Row:
    """The check's row, from the greatest differences of all ranks."""
    began = time.perf_counter()
    found: list[dict[str, float]] = []
    error = None
    try:
        while len(found) < options.processes and error is None:
            answer = answers.get(timeout=options.timeout)
            if isinstance(answer, str):
                error = answer
            else:
                found.append(answer)
    except queue.Empty:
        error = f"no answer from {options.processes - len(found)} ranks within {options.timeout:g} s"
    most = {key: max(each[key] for each in found) for key in found[0]} if found and error is None else {}
    if error is None and not max(most.values()) <= options.most_apart:
        error = f"more than {options.most_apart:g} apart"
    split, then = check.split, check.then
    return Row(
        check=check.kind,
        schedule=FAMILIES[split.family].title,
        pipeline=split.num_ranks,
        data=options.processes // split.num_ranks,
        way=split.way,
        then=f"{FAMILIES[then.family].title}, {then.num_ranks} ranks, {then.way}" if then else "",
        steps=options.steps if then else 1,
        gradients=most.get("gradients"),
        parameters=most.get("parameters"),
        seconds=round(time.perf_counter() - began, 1),
        error=error,
    )


def markdown(rows: Sequence[Row]) -> str:
    lines = [
        "| check | schedule | pipeline x data | way | goes on in | steps | gradients | parameters | s | |",
        "| --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        apart = [f"{each:.1e}" if each is not None else "" for each in (row.gradients, row.parameters)]
        told = row.error.strip().splitlines()[-1].replace("|", "/") if row.error else "as one process"
        cells = (row.check, row.schedule, f"{row.pipeline} x {row.data}", row.way, row.then, row.steps, *apart)
        lines.append(f"| {' | '.join(map(str, cells))} | {row.seconds} | {told} |")
    return "\n".join(lines) + "\n"


def rank_main(
    rank: int, size: int, device: str, backend: str, folder: str, steps: int, checks: Sequence[Check], answers: Any
) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    home = torch.device(device, rank % torch.cuda.device_count()) if device == "cuda" else torch.device("cpu")
    if device == "cuda":
        torch.cuda.set_device(home)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(backend, init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    for number, check in enumerate(checks):
        try:
            answers.put(CHECKS[check.kind](check, f"{folder}/{number}", steps, home))
        except Exception:
            answers.put(f"rank {rank}: {traceback.format_exc()}")
            return
    dist.barrier()
    dist.destroy_process_group()


# --- the model, and one process -------------------------------------------------------------------------------------


def layer_of(number: int) -> nn.Module:
    """The same numbers wherever it is made."""
    torch.manual_seed(number)
    if number == 0:
        return nn.Embedding(WORDS, WIDTH)
    if number == LAYERS - 1:
        head = nn.Linear(WIDTH, WORDS, bias=False)
        torch.manual_seed(0)
        head.weight.data.copy_(nn.Embedding(WORDS, WIDTH).weight)  # tied
        return head
    return TransformerBlock(WIDTH)


def loss_of(num_micro_batches: int, out: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(out.flatten(0, 1), target.flatten()) / num_micro_batches


def batch_of(step: int, num: int, device: torch.device) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and targets of the whole batch: [2 sequences, LENGTH] each, by micro-batch."""
    draw = torch.Generator().manual_seed(100 + step)
    words = torch.randint(WORDS, (num, 2, LENGTH + 1), generator=draw).to(device)
    return [*words[:, :, :-1]], [*words[:, :, 1:]]


@dataclass(frozen=True)
class Alone:
    """One process over the whole batch. grads: of the first step, before clipping. after: parameters, by steps made."""

    grads: dict[str, Tensor]
    after: dict[int, dict[str, Tensor]]


@cache
def alone(num_micro_batches: int, steps: int, device: torch.device) -> Alone:
    layers = nn.ModuleList(map(layer_of, range(LAYERS))).to(device)
    layers[-1].weight = layers[0].weight
    optimizer = adamw(layers.parameters(), 3e-3)
    grads: dict[str, Tensor] = {}
    after: dict[int, dict[str, Tensor]] = {}
    for step in range(steps):
        optimizer.zero_grad()
        for value, target in zip(*batch_of(step, num_micro_batches, device), strict=True):
            for layer in layers:
                value = layer(value)
            loss_of(num_micro_batches, value, target).backward()
        grads = grads or {name: p.grad.clone() for name, p in named(layers) if p.grad is not None}
        nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
        optimizer.step()
        if step + 1 in (half_of(steps), steps):
            after[step + 1] = {name: p.detach().clone() for name, p in named(layers)}
    return Alone(grads, after)


def adamw(parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.AdamW:
    """With an eps above rounding: the biases of keys have gradients of 0 but for rounding, and would move by it."""
    return torch.optim.AdamW(parameters, lr=rate, eps=1e-5)


def half_of(steps: int) -> int:
    return (steps + 1) // 2


def named(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return module.named_parameters(remove_duplicate=False)


def apart(mine: Tensor | None, theirs: Tensor) -> float:
    """The greatest difference; a missing gradient is infinitely far."""
    if mine is None:
        return float("inf")
    whole = mine.full_tensor() if hasattr(mine, "full_tensor") else mine
    return float((whole - theirs).abs().max())


# --- pipelines --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a process is. mesh: [pipeline, replicas, shards]. number: of its pipeline. held: its stages."""

    schedule: Schedule
    mesh: DeviceMesh
    number: int
    held: list[int]

    @property
    def data(self) -> DeviceMesh:
        return self.mesh["shards" if self.mesh["replicas"].size() == 1 else "replicas"]


def place_of(split: Split, device: torch.device) -> Place:
    """HSDP replicates over 2 ranks; every other way has all data-parallel ranks in one dimension."""
    schedule = split.schedule
    num_pipelines = dist.get_world_size() // split.num_ranks
    replicas = 2 if split.way == "hsdp" and num_pipelines % 2 == 0 else 1
    mesh = mesh_of(device.type, split.num_ranks, replicas, num_pipelines // replicas)
    rank, replica, shard = mesh.get_coordinate() or []
    return Place(schedule, mesh, replica * (num_pipelines // replicas) + shard, stages_on(schedule, rank))


@cache
def mesh_of(device: str, *shape: int) -> DeviceMesh:
    return init_device_mesh(device, shape, mesh_dim_names=("pipeline", "replicas", "shards"))


def wrapped(module: nn.Module, way: str, place: Place, experts: Sequence[str] = ()) -> nn.Module:
    """The stage with its data parallelism. experts: parameters of which each rank holds others."""
    if way == "ddp":
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, list(experts))
        return DistributedDataParallel(module, process_group=place.data.get_group())
    if way in WAYS:
        from torch.distributed.fsdp import fully_shard

        mesh = place.mesh["replicas", "shards"] if way == "hsdp" else place.data
        more: dict[str, Any] = {"ignored_params": {module.get_parameter(name) for name in experts}} if experts else {}
        blocks = [part for part in module.modules() if isinstance(part, TransformerBlock | ExpertBlock)]
        for part in (*blocks, module):
            fully_shard(part, mesh=mesh, reshard_after_forward=way != "fsdp kept", **more)
    return module


def stages_at(place: Place, device: torch.device) -> dict[int, nn.Module]:
    per = LAYERS // place.schedule.num_stages
    return {s: nn.Sequential(*map(layer_of, range(per * s, per * (s + 1)))).to(device) for s in place.held}


def by_layer(stages: dict[int, nn.Module], schedule: Schedule) -> list[tuple[str, nn.Parameter]]:
    """Parameters by their names in the whole model."""
    per = LAYERS // schedule.num_stages
    return [(layer_name(per, s, name), p) for s, module in stages.items() for name, p in named(module)]


def layer_name(per: int, stage: int, name: str) -> str:
    """The same in every split of the layers."""
    at, _, rest = name.partition(".")
    return f"{per * stage + int(at)}.{rest}"


def train(check: Check, folder: str, steps: int, device: torch.device) -> dict[str, float]:
    assert check.then is not None
    num = 2 * dist.get_world_size()
    want = alone(num, steps, device)
    found = {"gradients": 0.0, "parameters": 0.0}
    parts = ((check.split, range(half_of(steps))), (check.then, range(half_of(steps), steps)))
    for at, (split, part) in enumerate(parts):
        place = place_of(split, device)
        schedule, per = place.schedule, LAYERS // place.schedule.num_stages
        stages = stages_at(place, device)
        if at:  # what is loaded was not there before
            for parameter in nn.ModuleList(stages.values()).parameters():
                parameter.data.zero_()
        given = {s: wrapped(module, split.way, place) for s, module in stages.items()}
        tied = [{0: "0.weight", schedule.num_stages - 1: f"{per - 1}.weight"}]
        size = schedule.num_micro_batches
        pipeline = PipelineRuntime(
            schedule, given, loss=partial(loss_of, size), group=place.mesh["pipeline"], tied=tied, keep_outputs=False
        )
        optimizer = adamw(nn.ModuleList(stages.values()).parameters(), 1.0 if at else 3e-3)
        state = PipelineState(pipeline, optimizer, name=partial(layer_name, per))
        if at:
            load({"pipeline": state}, checkpoint_id=folder)
        mine = by_layer(stages, schedule)
        for step in part:
            inputs, targets = (each[place.number * size :][:size] for each in batch_of(step, num, device))
            optimizer.zero_grad()
            pipeline.step(inputs, targets)
            if step == 0:
                found["gradients"] = max(apart(p.grad, want.grads[name]) for name, p in mine)
            pipeline.clip_grad_norm(1.0)
            optimizer.step()
        if len(part):
            differences = [apart(p.detach(), want.after[part.stop][name]) for name, p in mine]
            found["parameters"] = max(found["parameters"], *differences)
        if at == 0:
            save({"pipeline": state}, checkpoint_id=folder)
    return found


def of_experts(check: Check, folder: str, steps: int, device: torch.device) -> dict[str, float]:
    place = place_of(check.split, device)
    num_stages, size = place.schedule.num_stages, place.schedule.num_micro_batches
    num_pipelines = place.data.size()
    whole = [PhasedSequential(expert_block(s), expert_block(s + 50)).to(device) for s in range(num_stages)]
    stages = {}
    for s in place.held:
        blocks = [expert_block(number, place.data.get_group()) for number in (s, s + 50)]
        stages[s] = PhasedSequential(*blocks).to(device)
    experts = [name for name, _ in whole[0].named_parameters() if name.endswith(("up", "down"))]
    given = {s: wrapped(module, check.split.way, place, experts) for s, module in stages.items()}
    loss = partial(F.mse_loss, reduction="sum")
    pipeline = PipelineRuntime(place.schedule, given, loss=loss, group=place.mesh["pipeline"])
    draw = torch.Generator().manual_seed(5)
    xs, ys = torch.randn(2, num_pipelines * size, 2, LENGTH, WIDTH, generator=draw).to(device)
    pipeline.step(*([*each[place.number * size :][:size]] for each in (xs, ys)))
    assert not pipeline.notes, pipeline.notes
    for x, y in zip(xs, ys, strict=True):
        (loss(nn.Sequential(*whole)(x), y) / num_pipelines).backward()
    found = 0.0
    for s, module in stages.items():
        for (name, parameter), theirs in zip(module.named_parameters(), whole[s].parameters(), strict=True):
            assert theirs.grad is not None
            wanted = theirs.grad.chunk(num_pipelines)[place.number] if name in experts else theirs.grad
            found = max(found, apart(parameter.grad, wanted))
    return {"gradients": found}


def expert_block(number: int, group: dist.ProcessGroup | None = None) -> ExpertBlock:
    """With all experts, or those of this rank."""
    torch.manual_seed(number)
    num_experts = 2 * dist.get_world_size()
    whole = ExpertBlock(WIDTH, num_experts=num_experts)
    if group is None:
        return whole
    block = ExpertBlock(WIDTH, num_experts=num_experts, group=group)
    state = whole.state_dict()
    for name in ("up", "down"):
        state[name] = state[name].chunk(dist.get_world_size(group))[dist.get_rank(group)]
    block.load_state_dict(state)
    return block


def of_tensors(check: Check, folder: str, steps: int, device: torch.device) -> dict[str, float]:
    """All pipelines have the same data; each rank of them holds a part of every block's network."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    place = place_of(check.split, device)
    stages, size = stages_at(place, device), place.schedule.num_micro_batches
    for part in nn.ModuleList(stages.values()).modules():
        if isinstance(part, TransformerBlock):
            parallelize_module(part, place.data, {"mlp.1": ColwiseParallel(), "mlp.3": RowwiseParallel()})
    inputs, targets = batch_of(0, size, device)
    PipelineRuntime(place.schedule, stages, loss=partial(loss_of, size), group=place.mesh["pipeline"]).step(
        inputs, targets
    )
    layers = nn.ModuleList(map(layer_of, range(LAYERS))).to(device)
    for value, target in zip(inputs, targets, strict=True):
        for layer in layers:
            value = layer(value)
        loss_of(size, value, target).backward()
    wanted = {name: p.grad for name, p in named(layers) if p.grad is not None}
    return {"gradients": max(apart(p.grad, wanted[name]) for name, p in by_layer(stages, place.schedule))}


def beside_torch(check: Check, folder: str, steps: int, device: torch.device) -> dict[str, float]:
    """The gradients of torch's runtime beside ours, of stages that are wrapped alike."""
    from torch.distributed.pipelining import PipelineStage

    place = place_of(check.split, device)
    group, num_stages = place.mesh["pipeline"].get_group(), place.schedule.num_stages
    size = place.schedule.num_micro_batches
    whole = batch_of(0, 2 * dist.get_world_size(), device)
    inputs, targets = (each[place.number * size :][:size] for each in whole)
    loss = partial(loss_of, size)
    grads: list[list[Tensor | None]] = []
    for ours in (True, False):
        stages = stages_at(place, device)
        given = {s: wrapped(module, check.split.way, place) for s, module in stages.items()}
        listed = [PipelineStage(module, s, num_stages, device, group=group) for s, module in given.items()]
        if ours:
            PipelineRuntime(place.schedule, listed, loss=loss).step(inputs, targets)
        else:
            runtime = to_torch(place.schedule, listed, loss_fn=loss, scale_grads=False)
            last = {"target": torch.cat(targets), "losses": []} if num_stages - 1 in place.held else {}
            runtime.step(*([torch.cat(inputs)] if 0 in place.held else []), **last)
        grads.append([p.grad for module in stages.values() for p in module.parameters()])
    assert all(theirs is not None for theirs in grads[1])
    pairs = zip(*grads, strict=True)
    return {"gradients": max(apart(mine, theirs.full_tensor() if hasattr(theirs, "full_tensor") else theirs)
                             for mine, theirs in pairs if theirs is not None)}  # fmt: skip


def by_dualpipe(check: Check, folder: str, steps: int, device: torch.device) -> dict[str, float]:
    """Each end of the pipeline puts in half of the batch, and has the labels of the other end's."""
    rank, size = dist.get_rank(), dist.get_world_size()
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in map(torch.manual_seed, range(size))]
    whole = nn.Sequential(*layers).to(device)
    held = (rank, size - 1 - rank)
    modules = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).to(device) for _ in held]
    for stage, module in zip(held, modules, strict=True):
        module.load_state_dict(whole[stage].state_dict())
    draw = torch.Generator().manual_seed(5)
    x, y = torch.randn(2, 2, size, 3, WIDTH, generator=draw).to(device)  # [direction, micro-batch, ...]
    end = {0: 0, size - 1: 1}.get(rank)
    ends = {} if end is None else {"criterion": F.mse_loss, "labels": (y[1 - end].flatten(0, 1),)}
    inputs = None if end is None else x[end].flatten(0, 1)
    DualPipe(modules, sums_replicas=True)(inputs, num_chunks=2 * size, **ends)
    for each, target in zip(x.flatten(0, 1), y.flatten(0, 1), strict=True):
        F.mse_loss(whole(each), target).backward()
    wanted = [p.grad for stage in held for p in whole[stage].parameters()]
    mine = [p.grad for module in modules for p in module.parameters()]
    return {"gradients": max(apart(a, b) for a, b in zip(mine, wanted, strict=True) if b is not None)}


CHECKS: dict[str, Callable[[Check, str, int, torch.device], dict[str, float]]] = {
    "training": train,
    "experts": of_experts,
    "tensor": of_tensors,
    "torch": beside_torch,
    "dualpipe": by_dualpipe,
}

if __name__ == "__main__":
    sys.exit(main())

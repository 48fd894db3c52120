"""What the processes of a living set do with phases. Each function is called on all ranks that take part."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

from weftrace.pipeline.notation import from_text
from weftrace.pipeline.runtime import StageEngine
from weftrace.pipeline.runtime.blocks import ExpertBlock
from weftrace.pipeline.runtime.checkpoints import PipelineState
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.runtime.phases import PhasedSequential
from weftrace.pipeline.schedule import stages_on


def experts_on_ranks(group: dist.ProcessGroup) -> dict[str, bool]:
    """Two blocks whose experts are shared out, in turns and not, beside plain autograd and one process."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    blocks = _blocks(group)
    draw = torch.Generator().manual_seed(5)
    batches = [torch.randn(size, 2, 6, 8, generator=draw, dtype=torch.float64) for _ in range(3)]
    mine = [batch[rank] for batch in batches]
    for x in mine:
        blocks(x).square().sum().backward()
    plain = _taken(blocks)
    summary = {}
    for name, turns in (("after one another", _sequential), ("in turns", _in_turns)):
        for split in (False, True):
            turns(StageEngine(blocks, 0), mine, lambda out: 2 * out, split)
            summary[f"{name}, {split=}"] = all(map(torch.equal, _taken(blocks), plain))
    whole = _blocks(None)
    for batch in batches:
        whole(batch.flatten(0, 1)).square().sum().backward()
    summary["as one process"] = _as_one(blocks, plain, whole, rank, size)
    return summary


def _blocks(group: dist.ProcessGroup | None) -> PhasedSequential:
    """The same weights everywhere; of the experts, each rank has its part."""
    torch.manual_seed(0)
    whole = PhasedSequential(*(ExpertBlock(8, num_experts=4) for _ in range(2))).double()
    return whole if group is None else PhasedSequential(*(_shared_out(block, group) for block in whole.parts))


def _shared_out(whole: nn.Module, group: dist.ProcessGroup) -> ExpertBlock:
    """The block with this rank's part of the experts."""
    block = ExpertBlock(8, num_experts=4, group=group).double()
    for name, parameter in block.named_parameters():
        all_of_it = whole.get_parameter(name).detach()
        parts = all_of_it.chunk(dist.get_world_size(group))
        parameter.data.copy_(all_of_it if parameter.shape == all_of_it.shape else parts[dist.get_rank(group)])
    return block


def _as_one(mine: nn.Module, grads: list[Tensor], whole: nn.Module, rank: int, size: int) -> bool:
    """Experts' gradients are of all ranks' tokens already; the others' are of a rank's own, so they are summed."""
    (group,) = {module.group for module in mine.modules() if isinstance(module, ExpertBlock)}
    for (name, parameter), grad in zip(mine.named_parameters(), grads, strict=True):
        want = whole.get_parameter(name).grad
        assert want is not None
        if parameter.shape == want.shape:
            total = grad.clone()
            dist.all_reduce(total, group=group)
        else:
            total, want = grad, want.chunk(size)[rank]
        if not torch.allclose(total, want, rtol=1e-12, atol=1e-12):
            return False
    return True


def _taken(module: nn.Module) -> list[Tensor]:
    grads = [parameter.grad for parameter in module.parameters()]
    module.zero_grad(set_to_none=True)
    return grads  # type: ignore[return-value]


def _sequential(engine: StageEngine, xs: list[Tensor], grad: Callable[[Tensor], Tensor], split: bool) -> None:
    for at, x in enumerate(xs):
        engine.backward(at, grad(engine.forward(at, x, split=split)))


def _in_turns(engine: StageEngine, xs: list[Tensor], grad: Callable[[Tensor], Tensor], split: bool) -> None:
    out = engine.forward(0, xs[0], split=split)
    for at in range(1, len(xs)):
        out, _ = engine.forward_backward(at, xs[at], at - 1, grad(out), split=split)
    engine.backward(len(xs) - 1, grad(out))


def pipelines_of_experts(group: dist.ProcessGroup, schedule: str, folder: str) -> dict[str, Any]:
    """Two pipelines of two ranks: the experts of a stage lie on a rank of either. DDP averages everything else."""
    plan = from_text(schedule)
    number, rank = divmod(dist.get_rank(group), 2)
    lines = [dist.new_group([first, first + 1]) for first in (0, 2)]
    across = [dist.new_group([first, first + 2]) for first in (0, 1)]
    held = stages_on(plan, rank)
    torch.manual_seed(0)
    whole = [ExpertBlock(8, num_experts=4).double() for _ in range(plan.num_stages)]
    mine = {stage: _shared_out(whole[stage], across[rank]) for stage in held}
    draw = torch.Generator().manual_seed(5)
    inputs, targets = torch.randn(2, 2, plan.num_micro_batches, 2, 6, 8, generator=draw, dtype=torch.float64)

    def runtime_of(stages: dict[int, nn.Module]) -> PipelineRuntime:
        return PipelineRuntime(
            plan, stages, loss=lambda out, target: (out - target).square().sum(), group=lines[number]
        )

    runtime = runtime_of({stage: without_experts(module, across[rank]) for stage, module in mine.items()})
    for _ in range(2):  # a second step adds the same again
        runtime.step([*inputs[number]], [*targets[number]])
    for x, target in zip(inputs.flatten(0, 1), targets.flatten(0, 1), strict=True):
        (nn.Sequential(*whole)(x) - target).square().sum().backward()
    found: dict[str, Any] = {"notes": list(runtime.notes), "apart": _apart(mine, whole, number)}
    norm = torch.nn.utils.get_total_norm([p.grad for p in nn.ModuleList(whole).parameters() if p.grad is not None])
    found["norm"] = abs(float(runtime.grad_norm() / norm) - 1)

    # another split: each rank has all experts of its stages; then back
    optimizer = torch.optim.AdamW([p for module in mine.values() for p in module.parameters()], lr=0.1)
    optimizer.step()
    save({"pipeline": PipelineState(runtime, optimizer)}, checkpoint_id=folder)
    entire = {stage: ExpertBlock(8, num_experts=4).double() for stage in held}
    theirs = torch.optim.AdamW([p for module in entire.values() for p in module.parameters()], lr=1.0)
    other = runtime_of({**entire})
    load({"pipeline": PipelineState(other, theirs)}, checkpoint_id=folder)
    before = copy.deepcopy([p.detach() for module in mine.values() for p in module.parameters()])
    for parameter in (p for module in mine.values() for p in module.parameters()):
        parameter.data.zero_()
    load({"pipeline": PipelineState(runtime, optimizer)}, checkpoint_id=folder)
    pairs = [(p, q) for s in held for p, q in zip(mine[s].parameters(), entire[s].parameters(), strict=True)]
    found["loaded"] = all(
        torch.equal(p, old) and torch.equal(p, _part(q, p, number))
        and torch.equal(optimizer.state[p]["exp_avg"], _part(theirs.state[q]["exp_avg"], p, number))
        for (p, q), old in zip(pairs, before, strict=True)
    )  # fmt: skip
    for made in (*lines, *across):
        dist.destroy_process_group(made)
    return found


def without_experts(module: nn.Module, group: dist.ProcessGroup) -> nn.Module:
    """DDP of all but the experts."""
    names = [name for name, _ in module.named_parameters() if name.endswith(("up", "down"))]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
    return DistributedDataParallel(module, process_group=group)


def _part(whole: Tensor, like: Tensor, number: int) -> Tensor:
    return whole if whole.shape == like.shape else whole.chunk(2)[number]


def _apart(mine: dict[int, ExpertBlock], whole: list[ExpertBlock], number: int) -> float:
    """How far gradients of two steps are from one process's, whose loss is the sum: the mean over both pipelines."""
    pairs = ((p, q) for s, m in mine.items() for p, q in zip(m.parameters(), whole[s].parameters(), strict=True))
    return max(float((p.grad - _part(q.grad, p, number)).abs().max()) for p, q in pairs)  # type: ignore[operator, arg-type]


def profiled(group: dist.ProcessGroup, folder: str, runs: int) -> None:
    """Traces of blocks that communicate much, `runs` times without overlap and with it: kind.run.rank.json."""
    rank = dist.get_rank(group)
    torch.manual_seed(rank)
    engine = StageEngine(ExpertBlock(256, num_experts=4, top_k=4, inner_width=64, group=group), 0)
    xs = [torch.randn(2, 256, 256) for _ in range(3)]
    turns: dict[str, Any] = {"without": _sequential, "with": _in_turns}
    for run in range(runs):
        for kind, each in turns.items():
            dist.barrier(group)
            with profile(activities=[ProfilerActivity.CPU]) as profiler:
                each(engine, xs, torch.ones_like, False)
            profiler.export_chrome_trace(str(Path(folder) / f"{kind}.{run}.rank{rank}.json"))

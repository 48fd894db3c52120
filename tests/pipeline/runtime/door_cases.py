"""What a rank does in the tests of doors: torch's pipelining and DualPipe's interface, held against one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.utils.checkpoint import checkpoint

from tests.pipeline.runtime.models import Perceptrons, batch, model
from tests.pipeline.runtime.one_process import apart, run_alone, same
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.notation import from_text
from weftrace.pipeline.runtime import DualPipe, DualPipeV, PipelineRuntime, from_torch, to_torch
from weftrace.pipeline.schedule import stages_on

CPU = torch.device("cpu")


def as_torch_does(group: dist.ProcessGroup | None, schedule: str) -> dict[str, bool]:
    """The same `PipelineStage`s in weftrace's runtime, with a mesh, and in torch's, with weftrace's schedule: whether
    the gradients have the same bits, and the order is read back from torch's."""
    ours = from_text(schedule)
    mine, loss = model("mlp", ours.num_stages)
    theirs, _ = model("mlp", ours.num_stages)
    inputs, targets = batch("mlp", ours.num_micro_batches)
    held = stages_on(ours, dist.get_rank(group))
    assert group is not None
    mesh = DeviceMesh.from_group(group, "cpu")
    given = [PipelineStage(mine[s], s, ours.num_stages, CPU, group=group) for s in held]
    for also in ({}, {"group": mesh}):  # the group of the stages, or a mesh
        for stage in held:
            mine[stage].zero_grad()
        PipelineRuntime(ours, given, loss=loss, **also).step(inputs, targets)  # type: ignore[arg-type]
    stages = [PipelineStage(theirs[s], s, ours.num_stages, CPU, group=group) for s in held]
    runtime = to_torch(ours, stages, loss_fn=loss, scale_grads=False)
    targets_of_last = {"target": torch.cat(targets), "losses": []} if ours.num_stages - 1 in held else {}
    runtime.step(*([torch.cat(inputs)] if 0 in held else []), **targets_of_last)
    return {
        "gradients": all(
            same([p.grad for p in mine[s].parameters()], [p.grad for p in theirs[s].parameters()]) for s in held
        ),
        "order": from_torch(runtime) == ours,
    }


class Overlapped(Perceptrons):
    """Runs an F&B by itself, as a class for DualPipe does. recomputes: a checkpoint of its middle."""

    calls = 0
    recomputes = False

    def forward(self, x: Tensor) -> Tensor:
        if type(self).recomputes:
            found: Tensor = checkpoint(super().forward, x, use_reentrant=False)
            return found
        return super().forward(x)

    @classmethod
    def overlapped_forward_backward(
        cls, module0: nn.Module, inputs0: list[Tensor], criterion0: Any, labels0: Any,
        module1: nn.Module, loss1: Tensor | None, outputs1: Sequence[Tensor], output_grads1: Sequence[Tensor],
    ) -> tuple[list[Tensor], Tensor | None]:  # fmt: skip
        cls.calls += 1
        assert type(inputs0) is list and criterion0 is None and loss1 is None
        value = module0(*inputs0)
        engine: Any = torch.autograd.Variable._execution_engine  # past every mode of Python, as DualPipe calls it
        engine.run_backward(tuple(outputs1), tuple(output_grads1), False, False, (), allow_unreachable=True,
                            accumulate_grad=True)  # fmt: skip
        return [value], None


def by_dualpipe(
    group: dist.ProcessGroup | None, family: str, *, mapping: list[int] | None = None, recomputes: bool = False,
    sums: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """A step and a forward by DualPipe's interface, each twice, compared with one process."""
    size = dist.get_world_size(group)
    num_chunks, num_stages = 2 * size, size * (2 if family == "dualpipev" else 1)
    place = (mapping or range(size))[dist.get_rank(group)]
    schedule = generate(family, num_ranks=size, num_micro_batches=num_chunks)
    alone, loss = model("mlp", num_stages)
    inputs, targets = batch("mlp", num_chunks)
    want = run_alone(alone, loss, inputs, targets)
    Overlapped.calls, Overlapped.recomputes = 0, recomputes
    held = (place, num_stages - 1 - place)
    modules = []
    for stage in held:
        modules.append(Overlapped().double())
        modules[-1].load_state_dict(alone[stage].state_dict())
    if family == "dualpipe":
        pipe: Any = DualPipe(modules, 0, group, mapping, sums_replicas=sums)
        half = num_chunks // 2
        first = {0: range(half), size - 1: range(half, num_chunks)}.get(place, range(0))
        last = {size - 1: range(half), 0: range(half, num_chunks)}.get(place, range(0))
    else:
        pipe = DualPipeV(modules, 0, group, mapping)
        first = last = range(num_chunks) if place == 0 else range(0)
    x = torch.cat([inputs[i] for i in first]) if first else None
    labels = torch.cat([targets[i] for i in last]) if last else None
    facts = {"num_chunks": num_chunks, "criterion": loss if last else None, "labels": (labels,)}
    for returns in (False, True):
        pipe.zero_grad()
        losses, outputs = pipe(x, **facts, return_outputs=returns)
    with torch.no_grad():
        evaluated, again = pipe.step(x, **facts, return_outputs=True)
    if last:
        told = torch.stack([want.losses[i] for i in last])
        result = torch.cat([want.outputs[i] for i in last])
        assert all(
            torch.equal(a, b) for a, b in ((losses, told), (evaluated, told), (outputs, result), (again, result))
        )
    else:
        assert losses is outputs is evaluated is again is None
    if family == "dualpipe" and not sums:  # as DeepSeek's example does it
        _sum_copies(modules, size, mapping or [*range(size)], place, group)
    grads = {stage: [p.grad for p in module.parameters()] for stage, module in zip(held, modules, strict=True)}
    pairs = sum(each.kind == "F&B" for each in schedule.listed() if each.rank == place)
    assert Overlapped.calls == 2 * pairs > 0
    return {
        "apart": max(apart(of, want.summed(stage)) for stage, of in grads.items()),
        "as its order": all(same(of, want.summed_as(schedule, stage)) for stage, of in grads.items()),
        "notes": pipe._runtime.notes,
    }


def _sum_copies(modules: list[Any], size: int, mapping: list[int], place: int, group: Any) -> None:
    opposite = mapping.index(size - 1 - place)
    for one, other in zip(modules[0].parameters(), modules[1].parameters(), strict=True):
        found = [[torch.empty_like(one) for _ in range(size)] for _ in range(2)]
        for parts, mine in zip(found, (one, other), strict=True):
            assert mine.grad is not None
            dist.all_gather(parts, mine.grad, group)
        one.grad += found[1][opposite]
        other.grad += found[0][opposite]

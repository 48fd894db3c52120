"""Stages whose boundaries are unusual, run on ranks and compared with one process. See `cases`."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.pipeline.runtime.models import WIDTH, Perceptrons
from tests.pipeline.runtime.one_process import run_alone, same
from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.schedule import stages_on


class Mixed(nn.Module):
    """Passes on a nest of a tensor with gradient, others of several dtypes without, None, a number and a text."""

    def __init__(self) -> None:
        super().__init__()
        self.work = Perceptrons()

    def forward(self, x: Tensor, beside: dict[str, Any] | None = None) -> tuple[Tensor, dict[str, Any]]:
        half = x.to(torch.bfloat16)
        if beside is not None:
            x = x + beside["single"].double().mean() + 0 * beside["half"].double().sum()
            assert beside["none"] is None and beside["list"][0] == 3 and beside["list"][1] == "three"
            assert not beside["mask"].requires_grad and beside["single"].requires_grad == x.requires_grad
        out = self.work(x)
        summary = {"half": half.detach(), "single": out.float(), "none": None, "mask": out > 0, "list": [3, "three"]}
        return out, summary


class NoGradient(nn.Module):
    """Passes on nothing that needs a gradient, unless it is the last: the stages before it get none."""

    def __init__(self, is_last: bool) -> None:
        super().__init__()
        self.work, self.is_last = Perceptrons(), is_last

    def forward(self, x: Tensor) -> Tensor:
        out = self.work(x)
        return out if self.is_last else out.detach()


class Ignores(nn.Module):
    """Ignores what it is given, and of what it passes on, the next stage may ignore all as well."""

    def __init__(self) -> None:
        super().__init__()
        self.work = Perceptrons()

    def forward(self, x: Tensor) -> Tensor:
        return self.work(torch.ones_like(x))


class IgnoresOne(nn.Module):
    """Uses the first of two entries, both of which need a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.work, self.aside = Perceptrons(), Perceptrons()

    def forward(self, x: Tensor, ignored: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.work(x), self.aside(x)


class Counting(nn.Module):
    """Checkpointed, and counts how often it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.work, self.runs = Perceptrons(), 0

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self._run, x, use_reentrant=False)

    def _run(self, x: Tensor) -> Tensor:
        self.runs += 1
        return self.work(x)


KINDS: dict[str, Any] = {
    "mixed": lambda is_last: Mixed(),
    "no gradient": NoGradient,
    "ignores": lambda is_last: Ignores(),
    "ignores one": lambda is_last: IgnoresOne(),
    "checkpointed": lambda is_last: Counting(),
}


def loss_of(out: Any, target: Tensor) -> Tensor:
    return ((out[0] if isinstance(out, tuple) else out) - target).square().mean()


def stages_of(kind: str, num_stages: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [KINDS[kind](stage == num_stages - 1).double() for stage in range(num_stages)]


def batch_of(num_micro_batches: int, seed: int, rows: int = 3) -> tuple[list[Tensor], list[Tensor]]:
    """The micro-batches differ in length."""
    draw = torch.Generator().manual_seed(seed)
    shapes = [(rows + number % 2, WIDTH) for number in range(num_micro_batches)]
    made = [[torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes] for _ in range(2)]
    return made[0], made[1]


def compares(group: dist.ProcessGroup | None, kind: str, family: str, num_ranks: int) -> dict[str, Any]:
    """Other shapes in the second step, a frozen stage in the third: gradients as of one process, bit by bit."""
    schedule = generate(family, num_ranks=num_ranks, num_micro_batches=2 * num_ranks)
    stages, alone = stages_of(kind, schedule.num_stages), stages_of(kind, schedule.num_stages)
    held = stages_on(schedule, dist.get_rank(group))
    pipeline = PipelineRuntime(schedule, {stage: stages[stage] for stage in held}, loss=loss_of, group=group)
    for seed, frozen in ((0, False), (1, False), (1, kind == "mixed"), (1, kind == "mixed")):
        for first in (alone[0], *(stages[stage] for stage in held if stage == 0)):
            first.requires_grad_(not frozen)
        for stage in held:
            stages[stage].zero_grad()
        inputs, targets = batch_of(schedule.num_micro_batches, seed, rows=3 + seed)
        pipeline.step(inputs, targets)
    want = run_alone(alone, loss_of, inputs, targets)
    for stage in held:
        mine = [parameter.grad for parameter in stages[stage].parameters()]
        assert same(mine, want.summed_as(schedule, stage)), stage
    runs = [stages[stage].runs for stage in held] if kind == "checkpointed" else []
    return {"runs": runs, "forwards": 4 * schedule.num_micro_batches // schedule.num_replicas}


def adds_to_gradients_of_earlier_steps(group: dist.ProcessGroup | None, in_main_grad: bool) -> None:
    """Replicas' sums of one step are not summed again in the next."""
    schedule = generate("dualpipe", num_ranks=2, num_micro_batches=4)
    stages, alone = stages_of("mixed", 2), stages_of("mixed", 2)
    for parameter in nn.ModuleList(stages).parameters() if in_main_grad else ():
        parameter.main_grad = torch.zeros_like(parameter)  # type: ignore[attr-defined]
    pipeline = PipelineRuntime(schedule, dict(enumerate(stages)), loss=loss_of, group=group)
    wants = []
    for seed in (0, 1):
        inputs, targets = batch_of(4, seed)
        pipeline.step(inputs, targets)
        wants.append(run_alone(alone, loss_of, inputs, targets))
    for stage, module in enumerate(stages):
        both = zip(*(want.summed_as(schedule, stage) for want in wants), strict=True)
        for parameter, (first, second) in zip(module.parameters(), both, strict=True):
            grad = getattr(parameter, "main_grad", parameter.grad)
            assert torch.equal(grad, first + second)  # type: ignore[arg-type]


class Tied(nn.Module):
    """The first stage of two looks words up in a table, the last one asks how much it speaks for each of them."""

    def __init__(self, table: nn.Parameter, is_last: bool) -> None:
        super().__init__()
        self.table, self.is_last = table, is_last

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.table.t() if self.is_last else torch.nn.functional.embedding(x, self.table)


def ties_weights(group: dist.ProcessGroup | None, in_main_grad: bool) -> bool:
    """Two steps of a stage and its replica's first on each rank, with one table: are gradients those of one process?"""
    schedule = generate("dualpipe", num_ranks=2, num_micro_batches=4)
    draw = torch.Generator().manual_seed(0)
    table, alone = (nn.Parameter(torch.ones(7, WIDTH, dtype=torch.float64).cumsum(0) / 9) for _ in range(2))
    if in_main_grad:
        table.main_grad = torch.zeros_like(table)  # type: ignore[attr-defined]
    stages = {stage: Tied(table, stage == 1) for stage in range(2)}
    pipeline = PipelineRuntime(schedule, stages, loss=torch.nn.functional.cross_entropy, group=group)
    for _ in range(2):
        words, targets = torch.randint(7, (2, 4, 5), generator=draw)
        pipeline.step([*words], [*targets])
        for some, target in zip(words, targets, strict=True):
            torch.nn.functional.cross_entropy(alone[some] @ alone.t(), target).backward()
    grad = getattr(table, "main_grad", table.grad)
    return torch.allclose(grad, alone.grad, rtol=0, atol=1e-12)  # type: ignore[arg-type]


def leaves_before_its_step(group: dist.ProcessGroup | None) -> str:
    """Rank 2 gives its group up between two steps. What this rank said."""
    own = dist.new_group(list(range(dist.get_world_size())))
    rank = dist.get_rank()
    schedule = generate("zb1p", num_ranks=4, num_micro_batches=6)
    pipeline = PipelineRuntime(schedule, {rank: Perceptrons().double()}, loss=loss_of, group=own)
    try:
        pipeline.step(*batch_of(6, 0))
        if rank != 2:
            pipeline.step(*batch_of(6, 0))
    except Exception as error:
        dist.destroy_process_group(own)
        return f"{type(error).__name__}: {error}"
    dist.destroy_process_group(own)
    return "left"


class Grows(nn.Module):
    """Passes on more rows at each call: shapes that do not follow from those of the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.work, self.calls = Perceptrons(), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.work(x).mean(0, keepdim=True).expand(self.calls, -1).contiguous()


def shapes_that_depend_on_data(group: dist.ProcessGroup | None, changing_shapes: bool) -> str:
    """Two steps with the same inputs; what a rank that failed said."""
    schedule = generate("1f1b", num_ranks=2, num_micro_batches=2)
    own, rank = dist.new_group([0, 1]), dist.get_rank()
    if rank > 1:
        return ""
    torch.manual_seed(0)
    module = [Grows(), Perceptrons()][rank].double()
    pipeline = PipelineRuntime(
        schedule, {rank: module}, group=own, changing_shapes=changing_shapes,
        loss=lambda out, target: (out - target[:1]).square().mean(),
    )  # fmt: skip
    try:
        for _ in range(2):
            pipeline.step(*batch_of(2, 0))
    except Exception as error:
        dist.destroy_process_group(own)
        return f"{type(error).__name__}: {error}"
    return ""


class Attends(nn.Module):
    """Each position takes the mean of those before it: slices of a sequence carry the sum and the number on."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.work = nn.Linear(WIDTH, WIDTH), Perceptrons()

    def initial_carry(self) -> Any:
        return None

    def forward(self, carry: tuple[Tensor, Tensor] | None, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        keys = torch.tanh(self.key(x))
        before, number = carry if carry is not None else (torch.zeros_like(keys[:, :1]), torch.zeros(1).long())
        sums = before + keys.cumsum(1)
        counts = number + torch.arange(1, x.shape[1] + 1).unsqueeze(-1)
        return self.work(x + sums / counts), (sums[:, -1:], counts[-1:, 0])


def slices_carry_state(group: dist.ProcessGroup | None) -> None:
    """Sequences in slices come to what whole sequences come to."""
    schedule = generate("seq1f1b", num_ranks=2, num_micro_batches=3, num_slices=3)
    torch.manual_seed(0)
    stages = [Attends().double() for _ in range(2)]
    torch.manual_seed(0)
    alone = [Attends().double() for _ in range(2)]
    rank = dist.get_rank(group)

    def loss(out: Tensor, target: Tensor) -> Tensor:
        return (out - target).square().sum()

    pipeline = PipelineRuntime(schedule, {rank: stages[rank]}, loss=loss, group=group)
    draw = torch.Generator().manual_seed(1)
    x, y = (torch.randn(3, 2, 6, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2))
    cut = [[part for sequence in whole for part in sequence.chunk(3, 1)] for whole in (x, y)]
    for _ in range(2):
        stages[rank].zero_grad()
        result = pipeline.step(cut[0], cut[1])
    for sequence, target in zip(x, y, strict=True):
        out = sequence
        for stage in alone:
            out, _ = stage(None, out)
        loss(out, target).backward()
    for mine, want in zip(stages[rank].parameters(), alone[rank].parameters(), strict=True):
        assert torch.allclose(mine.grad, want.grad, rtol=0, atol=1e-12)  # type: ignore[arg-type]
    if rank == 1:
        last = torch.cat([result.outputs[number] for number in (6, 7, 8)], 1)
        assert torch.allclose(last, out, rtol=0, atol=1e-12)


def refuses(group: dist.ProcessGroup | None) -> dict[str, str]:
    """What is said of wrong uses, none of which leaves a rank waiting."""
    rank = dist.get_rank(group)
    schedule = generate("1f1b", num_ranks=2, num_micro_batches=2)
    stages = {rank: stages_of("mixed", 2)[rank]}
    said = {}

    def attempt(what: str, use: Any) -> None:
        try:
            use()
        except Exception as error:
            said[what] = f"{type(error).__name__}: {error}"

    attempt("other stages", lambda: PipelineRuntime(schedule, {1 - rank: stages[rank]}, group=group))
    larger = generate("1f1b", num_ranks=4, num_micro_batches=4)
    attempt("size", lambda: PipelineRuntime(larger, stages, group=group))
    other = generate("gpipe", num_ranks=2, num_micro_batches=2)
    attempt("schedules", lambda: PipelineRuntime([schedule, other][rank], stages, group=group))
    pipeline = PipelineRuntime(schedule, stages, group=group)
    attempt("no loss", lambda: pipeline.step(*batch_of(2, 0)) if rank else None)
    attempt("calls", lambda: [pipeline.step, pipeline.forward][rank](batch_of(2, 0)[0]))
    attempt("after", lambda: pipeline.forward(batch_of(2, 0)[0]))
    missing = PipelineRuntime(schedule, stages, group=group)
    if not rank:
        attempt("inputs", lambda: missing.forward(batch_of(1, 0)[0]))
    return said


def fails(group: dist.ProcessGroup | None, dies: bool) -> str:
    """Rank 2 fails in a forward, or its process dies. What this rank said; its connections are closed after."""
    import os

    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if dies:
                os._exit(7)
            raise ValueError("a number that is none")

    own = dist.new_group(list(range(dist.get_world_size())))
    rank = dist.get_rank()
    schedule = generate("zb1p", num_ranks=4, num_micro_batches=6)
    module = Fails() if rank == 2 else Perceptrons().double()
    pipeline = PipelineRuntime(schedule, {rank: module}, loss=loss_of, group=own)
    try:
        pipeline.step(*batch_of(6, 0))
    except Exception as error:
        dist.destroy_process_group(own)
        return f"{type(error).__name__}: {error}"
    raise ScheduleError("nothing failed")

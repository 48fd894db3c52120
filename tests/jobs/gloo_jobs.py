"""Small trainings over gloo, recorded by torch.profiler on CPUs: DDP, and torch's own pipelines; a rank may be slow.

    python -m tests.jobs.gloo_jobs [FOLDER]     prints S of each job beside what it took with and without its slow rank

Layers sleep: a process that sleeps takes no processor from others, so that four of them fit on two cores.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

WIDTH, BATCH, STEPS, WARM = 16, 4, 4, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """What is planted: a rank that sleeps longer, or each rank (None) its share of that. where: "forward", of each
    layer; "backward"; or "loader"."""

    rank: int | None
    seconds: float
    where: str

    def of_all(self, size: int) -> Slow:
        """The same, evenly divided: what the study's ideal takes, the mean of all ranks."""
        return replace(self, rank=None, seconds=self.seconds / size)


#: torch's schedules: class, whether a rank holds two stages, and whether as a V.
TORCH = {
    "gpipe": ("ScheduleGPipe", False, False),
    "1f1b": ("Schedule1F1B", False, False),
    "interleaved": ("ScheduleInterleaved1F1B", True, False),
    "looped": ("ScheduleLoopedBFS", True, False),
    "interleaved-zb": ("ScheduleInterleavedZeroBubble", True, False),
    "zbv": ("ScheduleZBVZeroBubble", True, True),
    "dualpipev": ("ScheduleDualPipeV", True, True),
}

#: Of each job what is planted: a rank, or a rank that is a stage.
PLANTED: dict[str, tuple[str, Slow]] = {
    "ddp, forward": ("ddp", Slow(rank=2, seconds=0.004, where="forward")),
    "ddp, loader": ("ddp", Slow(rank=1, seconds=0.015, where="loader")),
    "1f1b, forward": ("1f1b", Slow(rank=2, seconds=0.006, where="forward")),
    "1f1b, backward": ("1f1b", Slow(rank=1, seconds=0.006, where="backward")),
    "gpipe, forward": ("gpipe", Slow(rank=1, seconds=0.006, where="forward")),
    "interleaved, forward": ("interleaved", Slow(rank=2, seconds=0.003, where="forward")),
}


def recorded(group: Any, kind: str, folder: str, slow: dict[str, Any] | None) -> list[float]:
    """Trains, and writes this rank's trace into the folder; seconds of each step that was recorded."""
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.manual_seed(0)
    rank = dist.get_rank(group)
    mine = Slow(**slow) if slow is not None and slow["rank"] in (None, rank) else None
    step = _ddp(mine) if kind == "ddp" else _pipeline(kind, rank, dist.get_world_size(group), mine, group)
    took = []
    path = str(Path(folder) / f"rank{rank}.json")

    def write(profiler: Any) -> None:
        dist.barrier(group)  # to write takes long, and is no part of the job
        profiler.export_chrome_trace(path)

    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=WARM, active=STEPS, repeat=1),
        on_trace_ready=write,
        record_shapes=True,
    ) as profiler:
        dist.barrier(group)
        for number in range(WARM + STEPS):
            began = time.perf_counter()
            step()
            if number >= WARM:
                took.append(time.perf_counter() - began)
            profiler.step()
    dist.barrier(group)
    return took


def _takes(seconds: float, slow: Slow | None) -> Any:
    """A linear layer whose forward takes that long, and its backward twice as long."""
    import torch
    from torch import Tensor, nn

    forward = seconds + (slow.seconds if slow and slow.where == "forward" else 0)
    backward = 2 * seconds + (slow.seconds if slow and slow.where == "backward" else 0)

    class Takes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            time.sleep(forward)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            time.sleep(backward)
            return grads[0].clone()

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(Takes.apply(self.linear(x)))  # type: ignore[no-untyped-call]

    return Layer()


def _ddp(slow: Slow | None) -> Any:
    """A step of data parallelism."""
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(nn.Sequential(*[_takes(0.004, slow) for _ in range(4)]), bucket_cap_mb=0.002)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        time.sleep(0.002 + (slow.seconds if slow and slow.where == "loader" else 0))
        x = torch.randn(BATCH, WIDTH)
        nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _pipeline(kind: str, rank: int, size: int, slow: Slow | None, group: Any) -> Any:
    """A step of torch's pipelines: a layer a stage, a stage or two a rank."""
    import torch
    from torch import nn
    from torch.distributed import pipelining
    from torch.distributed.pipelining import PipelineStage

    micro_batches = 8
    name, several, is_v = TORCH[kind]
    held = [rank, 2 * size - 1 - rank if is_v else rank + size] if several else [rank]
    layers = [_takes(0.005 / len(held), slow) for _ in held]
    number = size * len(held)
    stages: list[Any] = [
        PipelineStage(layer, at, number, torch.device("cpu"), group=group)
        for at, layer in zip(held, layers, strict=True)
    ]
    facts: dict[str, Any] = {"n_microbatches": micro_batches, "loss_fn": nn.functional.mse_loss}
    schedule = getattr(pipelining, name)(stages if several else stages[0], **facts)
    optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.01)
    x = torch.randn(BATCH * micro_batches, WIDTH)

    def step() -> None:
        if rank == 0 and number - 1 in held:
            schedule.step(x, target=x, losses=[])
        elif rank == 0:
            schedule.step(x)
        elif number - 1 in held:
            schedule.step(target=x, losses=[])
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()

    return step


def record(ranks: Any, kind: str, folder: Path, slow: Slow | None = None) -> float:
    """The traces of a job, in the folder; seconds of a step, of the rank that took longest."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = None if slow is None else asdict(slow)
    took = ranks.run("tests.jobs.gloo_jobs:recorded", kind=kind, folder=str(folder), slow=facts)
    return max(float(sum(each)) for each in took) / STEPS


def main(folder: Path, runs: int = 3) -> None:
    from tests.living import ROOT, SIZE, Ranks
    from weftrace.advice import infer_lanes_of, slowdown_of
    from weftrace.trace import open_trace

    os.environ["PYTHONPATH"] = str(ROOT)  # of the ranks
    ranks = Ranks(Path(sys.executable))
    print("job                    step ms: without       slow     evenly    slow/evenly  S             first cause")
    for name, (kind, slow) in PLANTED.items():
        steps: dict[str, list[float]] = {"without": [], "slow": [], "evenly": []}
        told: list[float] = []
        first: list[str] = []
        for run in range(runs):
            at = folder / name.replace(", ", "_") / str(run)
            for each, planted in (("without", None), ("slow", slow), ("evenly", slow.of_all(SIZE))):
                steps[each].append(1000 * record(ranks, kind, at / each, planted))
            answer = slowdown_of(infer_lanes_of(open_trace(at / "slow")))
            told.append(answer.slowdown)
            first += [f"{cause.kind} {cause.ranks or cause.stages}" for cause in answer.causes[:1]]
        ratios = [a / b for a, b in zip(steps["slow"], steps["evenly"], strict=True)]
        times = " ".join(_range(each) for each in steps.values())
        print(f"{name:22s} {times}  {_range(ratios, 3)}  {_range(told, 3)}  {', '.join(first)}", flush=True)
    ranks.end()


def _range(values: list[float], digits: int = 1) -> str:
    return f"{min(values):.{digits}f}-{max(values):.{digits}f}".rjust(12)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary))

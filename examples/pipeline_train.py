"""Train a small language model in a pipeline, with any of weftrace's schedules, on processors or GPUs.

    torchrun --nproc-per-node 4 examples/pipeline_train.py --schedule dualpipe
    torchrun --nproc-per-node 4 examples/pipeline_train.py --schedule zbv --model moe --check
    torchrun --nproc-per-node 4 examples/pipeline_train.py --schedule dualpipev --model moe --pipelines 2
    torchrun --nproc-per-node 4 examples/pipeline_train.py --schedule zb1p --pipelines 2 --data fsdp --check
    torchrun --nproc-per-node 4 examples/pipeline_train.py --schedule dualpipev --profile out/run
    weftrace report out/run
    weftrace pipeline slip out/run/schedule.txt out/run

Each process is one rank of the pipeline and holds the stages that the schedule gives it. The model learns to continue
the bytes of weftrace's own source: real data that is there without a download.

With --pipelines 2, half of the processes are one pipeline, half another with data of its own. DistributedDataParallel
or fully_shard average gradients over both, which the runtime lets them do once per step. Both share the experts of
--model moe: tokens travel to the rank of their expert, and an F&B hides that behind its other micro-batch.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile
from torch.profiler import schedule as profiler_schedule

import weftrace
from weftrace.errors import ScheduleError
from weftrace.pipeline import FAMILIES, Schedule, from_text, generate, to_text
from weftrace.pipeline.runtime import (
    Compute,
    ExpertBlock,
    PhasedModule,
    PhasedSequential,
    PipelineRuntime,
    TransformerBlock,
)
from weftrace.pipeline.runtime.phases import Phase

BYTES = 256  # the vocabulary
EXPERTS = ("up", "down")  # parameters of an `ExpertBlock` that are shared out, by their first dimension


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Schedules: " + ", ".join(FAMILIES) + "; or a file that weftrace.pipeline.to_text wrote.\n"
        "What seq1f1b takes for slices of a sequence are sequences of their own here.",
    )  # fmt: skip
    parser.add_argument(
        "--schedule", default="dualpipe", help="name of a schedule, or a file of one (default: %(default)s)"
    )
    parser.add_argument("--micro-batches", type=int, help="of a step, over both directions (default: twice the stages)")
    parser.add_argument(
        "--model",
        choices=["transformer", "moe"],
        default="transformer",
        help="blocks of a transformer, or blocks with experts, whose phases F&B interleaves",
    )
    parser.add_argument(
        "--pipelines", type=int, default=1, help="side by side, each with its own data (default: %(default)s)"
    )
    parser.add_argument(
        "--data",
        choices=["ddp", "fsdp"],
        default="ddp",
        help="what averages gradients over pipelines: DistributedDataParallel, or fully_shard (torch 2.7 or newer)",
    )
    parser.add_argument("--steps", type=int, default=10, help="optimizer steps (default: %(default)s)")
    parser.add_argument("--blocks", type=int, default=1, help="of each stage (default: %(default)s)")
    parser.add_argument("--width", type=int, default=64, help="of the hidden states (default: %(default)s)")
    parser.add_argument("--length", type=int, default=64, help="bytes of a sequence (default: %(default)s)")
    parser.add_argument("--sequences", type=int, default=4, help="of a micro-batch (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=3e-3, help="learning rate of AdamW (default: %(default)s)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="train in float64, and compare the gradients of the first step with those of one process",
    )
    parser.add_argument(
        "--profile",
        metavar="DIR",
        type=Path,
        help="record the last two steps: DIR/rank0.json.gz and so on, for `weftrace report DIR`",
    )
    parser.add_argument("--threads", type=int, default=1, help="of each process on processors (default: %(default)s)")
    return parser.parse_args()  # fmt: skip


def main() -> None:
    options = parsed()
    with process_group() as device:
        torch.set_num_threads(options.threads)
        mesh = mesh_of(options, device)
        number = mesh.get_local_rank("data")
        schedule = schedule_of(options, mesh["pipeline"].size())
        holds = schedule.replica_of_rank_stage[mesh.get_local_rank("pipeline")] >= 0
        stages = {
            stage: wrapped(
                options, stage_of(options, stage, schedule.num_stages, mesh["data"]).to(device), mesh["data"]
            )
            for stage in range(schedule.num_stages)
            if holds[stage]
        }
        parameters = [parameter for module in stages.values() for parameter in module.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=options.rate)
        loss = loss_of(schedule.num_micro_batches)
        pipeline = PipelineRuntime(schedule, stages, loss=loss, group=mesh["pipeline"], keep_outputs=False)
        tell(
            f"{schedule.name}: {schedule.num_stages} stages on {schedule.num_ranks} ranks, "
            f"{schedule.num_micro_batches} micro-batches a step, on {device.type}"
        )
        with recording(options, schedule) as step_is_over:
            for step in range(options.steps):
                inputs, targets = batch_of(options, schedule, step, number, device)
                began = time.perf_counter()
                losses = pipeline.step(inputs, targets).losses
                total = over_ranks(sum(map(float, losses.values())), device) / options.pipelines
                tell(f"step {step}: loss {total:.4f}, {1000 * (time.perf_counter() - began):.0f} ms")
                if options.check and step == 0:
                    tell(check(options, schedule, pipeline.modules, number, device))
                optimizer.step()
                optimizer.zero_grad()
                step_is_over()
        for note in pipeline.notes:
            tell(f"note: {note}")


def mesh_of(options: argparse.Namespace, device: torch.device) -> DeviceMesh:
    """[data, pipeline]: which pipeline a process belongs to, and which of its ranks it is."""
    length, left = divmod(dist.get_world_size(), options.pipelines)
    if left:
        raise SystemExit("--pipelines must divide the number of processes")
    return init_device_mesh(device.type, (options.pipelines, length), mesh_dim_names=("data", "pipeline"))


def wrapped(options: argparse.Namespace, stage: nn.Module, data: DeviceMesh) -> nn.Module:
    """The stage, so that its gradients are averaged over pipelines. Of an expert, each rank holds another one."""
    if data.size() == 1:
        return stage
    experts = {name: parameter for name, parameter in stage.named_parameters() if name.endswith(EXPERTS)}
    if options.data == "ddp":
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(stage, list(experts))
        return DistributedDataParallel(stage, process_group=data.get_group())
    from torch.distributed.fsdp import fully_shard

    blocks = [part for part in stage.modules() if isinstance(part, TransformerBlock | ExpertBlock)]
    for part in (*blocks, stage):
        fully_shard(part, mesh=data, ignored_params=set(experts.values()))
    return stage


def schedule_of(options: argparse.Namespace, num_ranks: int) -> Schedule:
    if Path(options.schedule).is_file():
        return from_text(Path(options.schedule).read_text(encoding="utf-8"), what=options.schedule)
    family = FAMILIES.get(options.schedule)
    stages = num_ranks * (family.stages_per_rank if family else 1)
    try:
        return generate(options.schedule, num_ranks=num_ranks, num_micro_batches=options.micro_batches or 2 * stages)
    except ScheduleError as error:
        raise SystemExit(f"--schedule {options.schedule}: {error}") from None


class Stage(PhasedModule):
    """Blocks; the first stage embeds before them, the last says after them which byte comes next.

    Its phases are those of its blocks, where they offer some: then F&B interleaves them. Its own have no names: in a
    profile they are the stage's.
    """

    def __init__(self, blocks: nn.Module, width: int, length: int, *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(BYTES, width) if is_first else None
        self.place = nn.Parameter(torch.randn(length, width) / 50) if is_first else None
        self.blocks = blocks
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, BYTES)) if is_last else None

    def phases(self) -> Sequence[Phase]:
        phased = self.blocks.phases() if isinstance(self.blocks, PhasedModule) else [Compute("", self.blocks)]
        first = [Compute("", self._embedded)] if self.embed is not None else []
        last = [Compute("", self.head)] if self.head is not None else []
        return [*first, *phased, *last]

    def _embedded(self, x: Tensor) -> Tensor:
        assert self.embed is not None and self.place is not None
        embedded: Tensor = self.embed(x) + self.place[: x.shape[1]]
        return embedded


def stage_of(options: argparse.Namespace, stage: int, num_stages: int, data: DeviceMesh | None = None) -> nn.Module:
    """The same numbers on every rank: replicas of a stage begin alike. data: the ranks that share its experts."""
    torch.manual_seed(stage)
    if options.model == "moe":
        whole = [ExpertBlock(options.width, num_experts=4) for _ in range(options.blocks)]
        blocks: nn.Module = PhasedSequential(*whole)
    else:
        blocks = nn.Sequential(*(TransformerBlock(options.width) for _ in range(options.blocks)))
    module = Stage(blocks, options.width, options.length, is_first=stage == 0, is_last=stage == num_stages - 1)
    if options.model == "moe" and data is not None and data.size() > 1:
        module.blocks = PhasedSequential(*(shared_out(block, data.get_group()) for block in whole))
    return module.double() if options.check else module


def shared_out(whole: ExpertBlock, group: dist.ProcessGroup) -> ExpertBlock:
    """The block with this rank's share of its experts."""
    block = ExpertBlock(whole.norm.weight.numel(), num_experts=whole.num_experts, group=group)
    block.load_state_dict(
        {
            name: share(name, value, dist.get_rank(group), dist.get_world_size(group))
            for name, value in whole.state_dict().items()
        }
    )
    return block


def share(name: str, value: Tensor, part: int, num_parts: int) -> Tensor:
    """A parameter of a whole block, or its gradient, as the part'th of the ranks that share the experts holds it."""
    return value.chunk(num_parts)[part] if name.endswith(EXPERTS) else value


def loss_of(num_micro_batches: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean over the step: each micro-batch has its share of it."""

    def loss(logits: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), target.flatten()) / num_micro_batches

    return loss


def batch_of(
    options: argparse.Namespace, schedule: Schedule, step: int, pipeline: int, device: torch.device
) -> tuple[list[Tensor], list[Tensor]]:
    """The same on every rank of a pipeline, of which each looks at what its stages need."""
    text = torch.frombuffer(bytearray(source()), dtype=torch.uint8)
    draw = torch.Generator().manual_seed(step * options.pipelines + pipeline)
    shape = (schedule.num_micro_batches, options.sequences)
    starts = torch.randint(len(text) - options.length - 1, shape, generator=draw)
    pieces = text[starts.unsqueeze(-1) + torch.arange(options.length + 1)].long().to(device)
    return list(pieces[..., :-1]), list(pieces[..., 1:])


def source() -> bytes:
    root = Path(weftrace.__file__).parent
    return b"".join(path.read_bytes() for path in sorted(root.glob("*/*.py")))


def check(
    options: argparse.Namespace, schedule: Schedule, stages: dict[int, nn.Module], pipeline: int, device: torch.device
) -> str:
    """The gradients of the first step beside those of the whole model in this process, without a pipeline."""
    alone = nn.Sequential(*(stage_of(options, stage, schedule.num_stages) for stage in range(schedule.num_stages)))
    alone.to(device)
    loss = loss_of(schedule.num_micro_batches)
    size = schedule.num_micro_batches // schedule.num_replicas
    found: list[list[Tensor]] = []  # of each direction, the mean over pipelines
    for first in range(schedule.num_replicas):
        sums = []
        for number in range(options.pipelines):
            inputs, targets = batch_of(options, schedule, 0, number, device)
            alone.zero_grad()
            for micro_batch in range(first * size, (first + 1) * size):
                loss(alone(inputs[micro_batch]), targets[micro_batch]).backward()
            sums.append([parameter.grad for parameter in alone.parameters() if parameter.grad is not None])
        found.append([sum(parts[1:], parts[0]) / options.pipelines for parts in zip(*sums, strict=True)])
    for parameter, *parts in zip(alone.parameters(), *found, strict=True):
        parameter.grad = sum(parts[1:], parts[0])
    apart, same = 0.0, True
    for stage, module in stages.items():
        for (name, mine), theirs in zip(module.named_parameters(), alone[stage].parameters(), strict=True):
            assert mine.grad is not None and theirs.grad is not None
            grad = mine.grad.full_tensor() if isinstance(mine.grad, DTensor) else mine.grad
            wanted = share(name, theirs.grad, pipeline, options.pipelines)
            same = same and torch.equal(grad, wanted)
            apart = max(apart, float((grad - wanted).abs().max()))
    if over_ranks(same, device, dist.ReduceOp.MIN):
        return "check: the gradients on all ranks are those of one process, bit by bit"
    if (apart := over_ranks(apart, device, dist.ReduceOp.MAX)) > 1e-12:
        raise SystemExit(f"check: gradients are up to {apart:.1e} off those of one process")
    return f"check: the gradients on all ranks are those of one process, but for {apart:.1e} at most"


def over_ranks(number: float, device: torch.device, how: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> float:
    value = torch.tensor(float(number), dtype=torch.float64, device=device)
    dist.all_reduce(value, how)
    return float(value)


def tell(line: str) -> None:
    """Once, not on every rank."""
    if dist.get_rank() == 0:
        print(line, flush=True)


@contextmanager
def process_group() -> Iterator[torch.device]:
    """NCCL with a GPU for each process of this machine, else gloo."""
    if "RANK" not in os.environ:
        raise SystemExit("start this with torchrun: torchrun --nproc-per-node 4 examples/pipeline_train.py")
    local = int(os.environ.get("LOCAL_RANK", 0))
    has_gpus = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if has_gpus:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if has_gpus else "gloo")
    yield torch.device("cuda", local) if has_gpus else torch.device("cpu")
    dist.destroy_process_group()


@contextmanager
def recording(options: argparse.Namespace, schedule: Schedule) -> Iterator[Callable[[], None]]:
    """The profiler, where one is wanted; gives what is called after each step."""
    if options.profile is None:
        yield lambda: None
        return
    folder: Path = options.profile
    folder.mkdir(parents=True, exist_ok=True)
    before = max(0, options.steps - 2)  # of these the last one, where there is one, warms the profiler up
    wanted = profiler_schedule(
        wait=max(0, before - 1), warmup=min(1, before), active=max(1, options.steps - before), repeat=1
    )
    with profile(schedule=wanted) as profiler:
        yield profiler.step
    profiler.export_chrome_trace(str(folder / f"rank{dist.get_rank()}.json.gz"))
    if dist.get_rank() == 0:
        (folder / "schedule.txt").write_text(to_text(schedule), encoding="utf-8")
    slip = f"; weftrace pipeline slip {folder}/schedule.txt {folder}" if options.pipelines == 1 else ""
    tell(f"weftrace report {folder}{slip}")


if __name__ == "__main__":
    main()

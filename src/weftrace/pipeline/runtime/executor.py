"""`PipelineRuntime`: runs any schedule that `check` accepts on torch.distributed, action by action.

What it leaves in a profile, range by range, stands at the top of `weftrace.pipeline.range_names`: `pipeline step`, in
it each action by its name, such as `3F5`, and in that each chunk by the name of its phase, such as `stage3(F)`.

Proved on gloo, on processors. On NCCL the same calls are made, in an order that needs no tags (`program`), with tensors
on each rank's device and waits that its streams feel, not its host; nobody has run it there yet.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.profiler import record_function

from weftrace.errors import PipelineRunError, ScheduleError
from weftrace.pipeline.notation import to_text
from weftrace.pipeline.passes.without_backward import forward_only
from weftrace.pipeline.range_names import MESSAGES, REDUCE, REPLICAS, STEP, WAIT
from weftrace.pipeline.runtime.boundary import tensors_of
from weftrace.pipeline.runtime.chunks import (
    Loss,
    RankChunks,
    StepState,
    Values,
    need_no_more,
    need_stages,
    value_of,
)
from weftrace.pipeline.runtime.doors.torch_pipelining import modules_of_stages
from weftrace.pipeline.runtime.failures import FirstFailure, reason_of
from weftrace.pipeline.runtime.gradients import Gradients
from weftrace.pipeline.runtime.link import Link
from weftrace.pipeline.runtime.p2p import Mailbox
from weftrace.pipeline.runtime.program import program_of
from weftrace.pipeline.runtime.tied import Tie
from weftrace.pipeline.schedule import Schedule

_Mode = Literal["step", "forward"]
_MODES: tuple[_Mode, ...] = ("step", "forward")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a step leaves on a rank; losses and outputs are empty where the rank holds no last stage.

    losses: micro-batch -> its loss, detached. outputs: micro-batch -> what the last stage returned, detached.
    peak_received: values of other ranks that were held at once, at most: received or being so, and not yet taken.
    """

    losses: dict[int, Tensor]
    outputs: dict[int, Any]
    peak_received: int


class PipelineRuntime:
    """A rank's part in a pipeline.

        pipeline = PipelineRuntime(schedule, {stage: module}, loss=cross_entropy)
        for inputs, targets in batches:                           # a list of values each, by micro-batch
            result = pipeline.step(inputs, targets)               # forward, backward, gradients of replicas summed
            optimizer.step()
            optimizer.zero_grad()

    schedule: the same on all ranks.
    stages: the modules that this rank holds, by stage, or a list of the `PipelineStage`s of torch, whose group is taken
        too. What a stage returns is what the next is called with: a tuple or list as
        positional arguments, a dict as keywords, anything else as the one argument. It holds tensors of any dtypes,
        with or without a gradient, None, numbers and texts, nested in tuples, lists and dicts; a stage may not write
        to an input that needs a gradient, as a ReLU(inplace=True) that comes first would. The modules lie on their
        device already, and each replica of a stage begins with the same parameters. Stages of one rank may share
        parameters; buffers, such as a BatchNorm's, are each rank's own.
        A stage may be of DistributedDataParallel, or one on which fully_shard was called: its gradients are reduced
        once in a step, after its last weight gradient, and averaged over its data-parallel ranks.
    loss: called with an output of the last stage and its target, gives a scalar. Gradients are of the sum of all
        micro-batches' losses: divide in it for a mean. Needed where a rank that holds the last stage calls `step`. The
        parameters of a loss that is a module learn as those of the last stage do.
    group: the ranks of the pipeline, in their order, as a group or a mesh of one dimension; None for all. Nobody else
        sends by it while a step runs. A schedule of one rank needs none, nor torch.distributed at all.
    tied: parameters of different stages that are one, such as an embedding and a head, by stage and name; the same on
        all ranks: `[{0: "embed.weight", 7: "head.weight"}]`. They begin alike, and each gets the sum of all gradients.
    device: of the stages; None for that of their first parameter.
    keep_outputs: whether results hold the outputs; where they are large, a training step need not keep them. It may
        be set between steps.
    sums_replicas: False leaves the gradients of a stage's replicas unsummed, to whoever sums them.
    changing_shapes: say so where the shapes that stages give to each other change from step to step although those of
        the model's inputs do not. Shapes are then sent with every message, and each waits for it.

    Raises `ScheduleError` where the schedule cannot run, stages are missing, or one shards or sums its gradients in
    another way, `PipelineRunError` where the group has
    another size, or other ranks another schedule. A failure while running is a `PipelineRunError` too: the rank that
    fails says which action failed. When its process ends, or destroys the group and holds it no longer, the ranks that
    wait for it fail as well, at once, and say what they waited for (on gloo; on NCCL that is up to torch's watchdog).
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: Mapping[int, nn.Module] | Sequence[Any],
        *,
        loss: Loss | None = None,
        group: dist.ProcessGroup | DeviceMesh | None = None,
        tied: Sequence[Mapping[int, str]] = (),
        device: torch.device | str | None = None,
        keep_outputs: bool = True,
        changing_shapes: bool = False,
        sums_replicas: bool = True,
    ) -> None:
        self.schedule = schedule
        if not isinstance(stages, Mapping):
            stages, of_stages = modules_of_stages(stages, schedule)
            group = of_stages if group is None else group
        group = _group_of(group) if isinstance(group, DeviceMesh) else group
        self.rank = _rank_in(schedule, group)
        self._programs = {
            "step": program_of(schedule, self.rank), "forward": program_of(forward_only(schedule), self.rank),
        }  # fmt: skip
        if schedule.num_ranks > 1 and group is None:
            group = dist.group.WORLD
        elif schedule.num_ranks == 1:
            group = None
        home = torch.device(device) if device is not None else _device_of(stages)
        self._link = Link(self.rank, group, _travels_on(group, home), FirstFailure.of(group, self.rank))
        self._mail = Mailbox(self._link, home)
        need_stages(schedule, stages, self.rank)
        ties = [Tie(dict(names)) for names in tied]
        self._gradients = Gradients(
            schedule, self._programs["step"], stages, loss, ties, self._link, sums_replicas=sums_replicas
        )
        self._chunks = RankChunks(schedule, self._gradients.modules, self.rank, self._gradients.loss, self._mail)
        self._has_loss = loss is not None
        self.keep_outputs = keep_outputs
        self._changing_shapes = changing_shapes
        self._signatures: dict[_Mode, object] = {}
        self._descriptions: dict[_Mode, dict[Any, str]] = {mode: {} for mode in _MODES}
        self._has_failed = False
        del group  # what the traceback of a failure holds keeps the group open
        with self._once_failed_always_failed():
            _require_same_schedule(schedule, self._link)
            self._gradients.check_ties()

    def step(self, inputs: Values | None = None, targets: Values | None = None) -> StepResult:
        """Forward and backward of all micro-batches; their gradients are added to what the parameters have.

        inputs, targets: a value for each micro-batch, a list by its number or a dict. Only those that this rank's first
        and last stages work on are looked at: `input_micro_batches` and `target_micro_batches`. Inputs get no
        gradients.
        """
        if not self._has_loss and self.target_micro_batches:
            raise ScheduleError("a rank that holds the last stage needs loss=... to step; forward() needs none.")
        if not torch.is_grad_enabled():
            raise ScheduleError(
                "step() makes gradients, and this is within torch.no_grad(): call forward(), or outside."
            )
        need_no_more(inputs, self.schedule.num_micro_batches, "input")
        need_no_more(targets, self.schedule.num_micro_batches, "target")
        with self._once_failed_always_failed(), self._gradients.of_this_step():
            result = self._run("step", inputs, targets)
            with _range(REDUCE, self._gradients.are_reduced):
                self._gradients.finish()
            with _range(REPLICAS, self._gradients.are_summed):
                self._gradients.sum()
        return result

    def forward(self, inputs: Values | None = None) -> StepResult:
        """The forwards of the schedule alone, without gradients or losses. For evaluation, call the modules' `eval()`
        first. inputs: as of `step`."""
        need_no_more(inputs, self.schedule.num_micro_batches, "input")
        with self._once_failed_always_failed(), torch.no_grad():
            result = self._run("forward", inputs, None)
            self._gradients.finish()
        return result

    def grad_norm(self, norm_type: float = 2.0) -> Tensor:
        """The norm of the gradients of the whole pipeline, the same on all ranks, which call it together.

        Each parameter counts once, though it be on several ranks, tied, shared by stages, or in parts (DTensor).
        """
        with self._once_failed_always_failed():
            return self._gradients.norm(norm_type)

    def clip_grad_norm(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients so that `grad_norm` is at most max_norm, as torch's `clip_grad_norm_` does. Returns the
        norm before."""
        norm = self.grad_norm(norm_type)
        self._gradients.scale((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    @property
    def modules(self) -> dict[int, nn.Module]:
        """The stages of this rank as they run: of DDP, the module in it."""
        return self._gradients.modules

    @property
    def loss(self) -> Loss | None:
        """The loss as it runs."""
        return self._gradients.loss

    @property
    def group(self) -> dist.ProcessGroup | None:
        """Of the pipeline's ranks; None where there is one rank."""
        return self._link.group

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not done as the schedule says: an F&B of modules that offer no phases is an F, then a B."""
        return self._chunks.notes

    @property
    def input_micro_batches(self) -> tuple[int, ...]:
        """Those whose inputs this rank needs."""
        return self._forwards_of(0)

    @property
    def target_micro_batches(self) -> tuple[int, ...]:
        """Those whose targets this rank needs, and whose losses and outputs it returns."""
        return self._forwards_of(self.schedule.num_stages - 1)

    def _forwards_of(self, stage: int) -> tuple[int, ...]:
        actions = (turn.action for turn in self._programs["forward"].turns)
        return tuple(sorted(action.micro_batch for action in actions if action and action.stage == stage))

    @contextmanager
    def _once_failed_always_failed(self) -> Iterator[None]:
        """After a failure nobody knows which messages are under way. What holds the group is let go, so that it can be
        destroyed, which closes the connections of this rank."""
        if self._has_failed:
            raise PipelineRunError(
                "this pipeline failed in an earlier step and cannot go on: make a new group and one of it."
            )
        try:
            yield
        except BaseException as error:
            self._has_failed = True
            who = "" if isinstance(error, PipelineRunError) else f"rank {self.rank} failed: {type(error).__name__}: "
            self._link.first_failure.tell(who + reason_of(error))
            self._mail.close()
            self._gradients.abandon()
            raise

    def _run(self, mode: _Mode, inputs: Values | None, targets: Values | None) -> StepResult:
        step = StepState(inputs if inputs is not None else {}, targets, self.keep_outputs)
        mail = self._mail
        with record_function(STEP):
            self._agree(mode, step)
            self._gradients.begin()
            reduces = mode == "step" and self._gradients.are_reduced
            for at, turn in enumerate(self._programs[mode].turns):
                with _range(MESSAGES, bool(turn.post or turn.done)):
                    mail.post(turn.post)
                    mail.finish(turn.done)
                with _range(WAIT, bool(turn.needs)):
                    mail.wait_for(turn.needs)
                if turn.action is not None:
                    self._chunks.run(turn.action, step)
                    if reduces:
                        self._gradients.after(at, turn.action)
        return StepResult(losses=step.losses, outputs=step.outputs, peak_received=mail.peak_received)

    def _agree(self, mode: _Mode, step: StepState) -> None:
        """Messages are described anew where, on some rank, the inputs have other shapes than in the step before, or
        modules were frozen or put into another mode."""
        inputs = [value_of(step.inputs, number, "input") for number in self.input_micro_batches]
        now = _shapes(inputs), self._chunks.switches
        changed = self._changing_shapes or self._signatures.get(mode) != now
        self._signatures[mode] = now
        telling = _any_changed(changed, mode, _MODES, self._link)
        self._mail.begin(self._descriptions[mode], telling=telling)


def _range(name: str, wanted: bool) -> Any:
    return record_function(name) if wanted else nullcontext()


def _group_of(mesh: DeviceMesh) -> dist.ProcessGroup:
    if mesh.ndim != 1:
        names = mesh.mesh_dim_names or ()
        raise ScheduleError(
            f"group is a mesh of {mesh.ndim} dimensions{f', {list(names)}' if names else ''}: give the one of the "
            "pipeline alone, such as mesh['pipeline']."
        )
    return mesh.get_group()


def _rank_in(schedule: Schedule, group: dist.ProcessGroup | None) -> int:
    if schedule.num_ranks == 1:
        return 0
    if not dist.is_available() or not dist.is_initialized():
        raise PipelineRunError(
            f"schedule {schedule.name!r} needs {schedule.num_ranks} ranks: start them with torchrun "
            f"--nproc-per-node {schedule.num_ranks}, and call torch.distributed.init_process_group first."
        )
    size = dist.get_world_size(group)
    if size != schedule.num_ranks or dist.get_rank(group) < 0:
        raise PipelineRunError(
            f"schedule {schedule.name!r} is for {schedule.num_ranks} ranks; this group has {size}, with this process "
            f"{'in it' if dist.get_rank(group) >= 0 else 'not among them'}."
        )
    return dist.get_rank(group)


def _shapes(inputs: list[Any]) -> list[list[tuple[Any, ...]]]:
    return [[(t.dtype, t.shape, t.requires_grad) for t in tensors_of(value)] for value in inputs]


def _device_of(stages: Mapping[int, nn.Module]) -> torch.device:
    found = (parameter.device for module in stages.values() for parameter in module.parameters())
    return next(found, torch.device("cpu"))


def _travels_on(group: dist.ProcessGroup | None, home: torch.device) -> torch.device:
    """Messages travel from device to device where the group can, else by the host's memory."""
    on_device = group is None or (home.type == "cuda" and "cuda:nccl" in dist.get_backend_config(group))
    return home if on_device else torch.device("cpu")


# --- before ranks rely on each other they agree, by a small reduction -------------------------------------------------


def _require_same_schedule(schedule: Schedule, link: Link) -> None:
    """Raises `PipelineRunError` on all ranks where they were given different ones."""
    least, most = link.least_and_most([zlib.crc32(to_text(schedule).encode())], "comparing the ranks' schedules")
    if least != most:
        raise PipelineRunError(f"the ranks were given different schedules; this one has {schedule.name!r}.")


def _any_changed(changed: bool, kind: str, kinds: Sequence[str], link: Link) -> bool:
    """Whether some rank says that shapes changed. Raises `PipelineRunError` where ranks run different kinds of step."""
    least, most = link.least_and_most([kinds.index(kind), int(changed)], f"beginning a {kind}")
    if least[0] != most[0]:
        raise PipelineRunError(f"this rank called {kind}() while another called something else: call the same on all.")
    return bool(most[1])

"""What becomes of a rank's gradients: reduced over data-parallel ranks, then summed over replicas and ties."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.profiler import record_function

from weftrace.errors import ScheduleError
from weftrace.pipeline.range_names import REDUCE
from weftrace.pipeline.runtime.data_parallel import Reduction, is_sharded, reductions_of, unwrapped
from weftrace.pipeline.runtime.link import Link
from weftrace.pipeline.runtime.program import Program
from weftrace.pipeline.runtime.replicas import (
    grad_of,
    gradients_of_this_step,
    local_grad,
    need_alike,
    parameters_by_stage,
    sum_over_replicas,
)
from weftrace.pipeline.runtime.shards import Groups, Parts, need_groups, shard_groups
from weftrace.pipeline.runtime.tied import Tie, check_ties, sum_over_ties
from weftrace.pipeline.schedule import Action, Schedule


class Gradients:
    """Of the stages of one rank, and of the loss where it is a module.

    modules, loss: as they run, without DDP's wrapper. sums_replicas: False leaves those of replicas to somebody else.
    """

    def __init__(
        self, schedule: Schedule, program: Program, given: Mapping[int, nn.Module], loss: Any, ties: Sequence[Tie],
        link: Link, *, sums_replicas: bool = True,
    ) -> None:  # fmt: skip
        self._schedule, self._link, self._ties = schedule, link, ties
        self._has_replicas = sums_replicas and schedule.num_replicas > 1  # to be summed
        self.modules = {stage: unwrapped(module, f"stage {stage}") for stage, module in given.items()}
        self.loss = unwrapped(loss, "the loss") if isinstance(loss, nn.Module) else loss
        ends = _ends(program)
        order = sorted(given, key=lambda stage: ends.get(stage, -1))
        last = schedule.num_stages - 1
        parts = [(stage, given[stage]) for stage in order]
        if isinstance(loss, nn.Module) and last in given:
            parts.insert(order.index(last) + 1, (last, loss))
        self._reductions: dict[int, list[Reduction]] = defaultdict(list)
        for (stage, _), found in zip(parts, reductions_of([module for _, module in parts]), strict=True):
            if found:
                self._reductions[stage] += found
        self._has_begun = False
        self._last_of = {turn: stage for stage, turn in ends.items() if stage in self._reductions}

    def check_ties(self) -> None:
        """Raises where the ranks' tied parameters differ."""
        check_ties(self._ties, self.modules, self._schedule, self._link)

    def begin(self) -> None:
        """A step or a forward begins. Raises `ScheduleError` if fully_shard was called since then."""
        if not self._has_begun:
            for stage, module in self.modules.items():
                if is_sharded(module) and not self._reductions.get(stage):
                    raise ScheduleError(
                        f"stage {stage}: fully_shard was called after PipelineRuntime was made, so its gradients would "
                        "be reduced too early: call it before."
                    )
            need_alike(self._copies(), self._link)
            self._has_begun = True
        for reduction in self._each():
            reduction.begin()

    def _copies(self) -> Iterator[tuple[str, list[list[nn.Parameter]]]]:
        """What begins alike: replicas of stages, and tied parameters. Of each, those that this rank has."""
        if self._schedule.num_replicas > 1:
            for stage in range(self._schedule.num_stages):
                own = [[*self.modules[stage].parameters()]] if stage in self.modules else []
                yield f"replicas of stage {stage}", own
        for tie in self._ties:
            yield f"tied: {tie}", [[tie.parameter(stage, self.modules)] for stage in tie.held(self.modules)]

    def after(self, turn: int, action: Action) -> None:
        """This turn of the program is over. Where it made a stage's last gradients, they are begun to be reduced."""
        stage = action.back_stage if action.kind == "F&B" else action.stage
        if action.kind not in ("F", "I"):
            for reduction in self._reductions.get(stage, ()):  # type: ignore[arg-type]
                reduction.weights_done()
        if turn in self._last_of:
            with record_function(REDUCE):
                for reduction in self._reductions[self._last_of[turn]]:
                    reduction.reduce()

    def finish(self) -> None:
        """What was begun is reduced; a forward's parameters are sharded again."""
        for reduction in self._each():
            reduction.finish()

    def abandon(self) -> None:
        """The step failed."""
        for reduction in self._each():
            reduction.abandon()

    @property
    def are_reduced(self) -> bool:
        return bool(self._reductions)

    @property
    def are_summed(self) -> bool:
        """Whether other ranks or stages hold what this rank holds too."""
        return self._has_replicas or bool(self._ties)

    def of_this_step(self) -> AbstractContextManager[None]:
        """Within it, what is summed or averaged has the gradients of this step alone: earlier ones are already."""
        parts = [each for reduction in self._each() if isinstance(reduction, Parts) for each in reduction.parameters]
        replicated = [each for _, own in self._that_learn() for each in own] if self._has_replicas else []
        tied = [tie.parameter(stage, self.modules) for tie in self._ties for stage in tie.held(self.modules)]
        return gradients_of_this_step([*dict.fromkeys([*parts, *replicated, *tied])])

    def sum(self) -> None:
        """Over replicas of stages, then over tied parameters."""
        if self._has_replicas:
            for stage, own in self._that_learn():
                sum_over_replicas(own, self._schedule, stage, self._link)
        for tie in self._ties:
            sum_over_ties(tie, self.modules, self._schedule, self._link)

    def norm(self, norm_type: float) -> Tensor:
        """Of all parameters of the pipeline, each counted once: of replicas, of tied parameters and of those that
        stages share the first; of sharded ones each part. Frozen ones too, as in torch, if they have a gradient of
        earlier steps. Raises `ScheduleError` where other parts are not named."""
        groups = shard_groups(self._all())
        for module in self._all():
            need_groups(module.named_parameters(), groups)
        later = set[nn.Parameter]().union(*(tie.later(self.modules) for tie in self._ties))
        counted = [
            parameter
            for stage, own in self._by_stage()
            for parameter in own
            if self._schedule.rank_of[0][stage] == self._link.rank and parameter not in later
        ]
        powers = _Powers(norm_type, self._link.device)
        with torch.no_grad():
            return powers.root(
                self._link.reduced(powers.of(counted, groups), powers.how, "adding up the norms of gradients")
            )

    def scale(self, factor: Tensor) -> None:
        """Multiply the gradients that this rank holds by it."""
        with torch.no_grad():
            for _, own in self._by_stage():
                for parameter in own:
                    if grad_of(parameter) is not None:
                        grad = local_grad(parameter)
                        grad.mul_(factor.to(grad.device, grad.dtype))

    def _all(self) -> list[nn.Module]:
        return [*self.modules.values(), *([self.loss] if isinstance(self.loss, nn.Module) else [])]

    def _each(self) -> Iterator[Reduction]:
        return (reduction for reductions in self._reductions.values() for reduction in reductions)

    def _by_stage(self) -> Iterator[tuple[int, list[nn.Parameter]]]:
        """Stages in order, with their parameters, each once; those of a loss are the last stage's."""
        stages, last = sorted(self.modules), self._schedule.num_stages - 1
        modules = [self.modules[stage] for stage in stages]
        if last in self.modules and isinstance(self.loss, nn.Module):
            modules[-1] = nn.ModuleList([modules[-1], self.loss])
        return zip(stages, parameters_by_stage(modules), strict=True)

    def _that_learn(self) -> Iterator[tuple[int, list[nn.Parameter]]]:
        return ((stage, [each for each in own if each.requires_grad]) for stage, own in self._by_stage())


def _ends(program: Program) -> dict[int, int]:
    """Of each stage of the rank: the turn after which it makes no more gradients."""
    found = {}
    for at, turn in enumerate(program.turns):
        if turn.action and turn.action.kind != "F":
            back = turn.action.back_stage if turn.action.kind == "F&B" else turn.action.stage
            found[back] = at
    return found  # type: ignore[return-value]


class _Powers:
    """A norm of many tensors as a sum of powers, or a maximum, which can be reduced over ranks."""

    def __init__(self, norm_type: float, device: torch.device) -> None:
        self._type, self._device = norm_type, device
        self.how = dist.ReduceOp.MAX if norm_type == float("inf") else dist.ReduceOp.SUM

    def of(self, parameters: Sequence[nn.Parameter], groups: Groups) -> Tensor:
        """Parameters that are sharded alike are reduced together over the ranks that share them, whichever of these
        ranks have gradients."""
        alike: dict[tuple[dist.ProcessGroup, ...], list[Tensor]] = defaultdict(list)
        for parameter in parameters:
            own = torch.zeros((), dtype=torch.float64, device=self._device)
            if grad_of(parameter) is not None:
                own = torch.linalg.vector_norm(local_grad(parameter), self._type).to(own)
            alike[_shared_over(parameter, groups)].append(own if self.how == dist.ReduceOp.MAX else own**self._type)
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        for shared_over, found in alike.items():
            part = self._together(torch.stack(found))
            for group in shared_over:
                dist.all_reduce(part, self.how, group)
            total = self._together(torch.stack([total, part]))
        return total

    def _together(self, powers: Tensor) -> Tensor:
        return powers.max() if self.how == dist.ReduceOp.MAX else powers.sum()

    def root(self, total: Tensor) -> Tensor:
        return total if self.how == dist.ReduceOp.MAX else total ** (1 / self._type)


def _shared_over(parameter: nn.Parameter, groups: Groups) -> tuple[dist.ProcessGroup, ...]:
    """The groups whose ranks hold a part each."""
    named = (groups[parameter],) if parameter in groups else ()
    if not hasattr(parameter, "placements"):
        return named
    mesh: DeviceMesh = parameter.device_mesh  # type: ignore[attr-defined]
    places = enumerate(parameter.placements)
    return (*(mesh.get_group(dim) for dim, place in places if not place.is_replicate()), *named)

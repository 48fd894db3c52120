"""Parameters of different stages that are one, such as an embedding and a head: their gradients are summed."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from weftrace.errors import PipelineRunError, ScheduleError
from weftrace.pipeline.runtime.link import Call, Link
from weftrace.pipeline.runtime.replicas import local, local_grad
from weftrace.pipeline.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Tie:
    """names: by stage, that of the parameter in its module, as `named_parameters` has it."""

    names: Mapping[int, str]

    def __str__(self) -> str:
        return " = ".join(f"stage {stage}'s {name}" for stage, name in sorted(self.names.items()))

    def held(self, modules: Mapping[int, nn.Module]) -> list[int]:
        """Its stages on this rank, in order."""
        return sorted(self.names.keys() & modules.keys())

    def later(self, modules: Mapping[int, nn.Module]) -> set[nn.Parameter]:
        """Its parameters on this rank, except that of the tie's first stage."""
        first = min(self.names)
        found = {self.parameter(stage, modules) for stage in self.held(modules)}
        return found - ({self.parameter(first, modules)} if first in modules else set())

    def parameter(self, stage: int, modules: Mapping[int, nn.Module]) -> nn.Parameter:
        return modules[stage].get_parameter(self.names[stage])


def check_ties(ties: Sequence[Tie], modules: Mapping[int, nn.Module], schedule: Schedule, link: Link) -> None:
    """Raises `ScheduleError` where a tie names what is not there, or one parameter is in two; `PipelineRunError`, on
    all ranks, where they were given different ties, or a tie's parameters differ in shape."""
    pairs = [pair for tie in ties for pair in tie.names.items()]
    if len(set(pairs)) < len(pairs):
        raise ScheduleError("tied: one parameter is named twice. List all stages that share it in one entry.")
    for tie in ties:
        if len(tie.names) < 2 or not all(0 <= stage < schedule.num_stages for stage in tie.names):
            raise ScheduleError(f"tied: {tie}: give two stages or more, from 0 to {schedule.num_stages - 1}.")
        for stage in tie.held(modules):
            try:
                tie.parameter(stage, modules)
            except AttributeError as error:
                raise ScheduleError(f"tied: {tie}: {error}") from None
    given = zlib.crc32(repr([sorted(tie.names.items()) for tie in ties]).encode())
    least, most = link.least_and_most([given], "comparing the ranks' tied parameters")
    if least != most:
        raise PipelineRunError("the ranks were given different tied parameters: give the same on all.")
    for tie in ties:
        shapes = {_shape(tie.parameter(stage, modules)) for stage in tie.held(modules)}
        codes = [zlib.crc32(shape.encode()) for shape in shapes]
        here = [max(codes), -min(codes)] if codes else [0, -(1 << 33)]
        _, (most_code, least_code) = link.least_and_most(here, f"comparing the shapes of {tie}")
        if most_code != -least_code:
            here_too = " and ".join(sorted(shapes)) or "none of them"
            raise PipelineRunError(f"tied: {tie} differ in shape or dtype; this rank has {here_too}.")


def _shape(parameter: nn.Parameter) -> str:
    parts = "" if parameter.shape == local(parameter).shape else f", here {list(local(parameter).shape)}"
    return f"{list(parameter.shape)}{parts} of {parameter.dtype}"


def sum_over_ties(tie: Tie, modules: Mapping[int, nn.Module], schedule: Schedule, link: Link) -> None:
    """Give each of its parameters the sum of the gradients of all, added up in the order of stages.

    Replicas of a stage have equal gradients by now, so each rank gets every stage's from one of them. A parameter
    object that two stages of a rank share has their sum already, and counts once.
    """
    held = tie.held(modules)
    if not held:
        return
    ranks = {replica[stage] for replica in schedule.rank_of for stage in tie.names}
    with torch.no_grad():
        found: dict[int, Tensor] = {}
        own: dict[int, Tensor] = {}
        for stage in held:
            parameter = tie.parameter(stage, modules)
            found[stage] = torch.zeros_like(local_grad(parameter)) if id(parameter) in own else local_grad(parameter)
            own.setdefault(id(parameter), found[stage])
        like = found[held[0]]
        calls: list[Call] = []
        for stage in sorted(tie.names):
            holders = {replica[stage] for replica in schedule.rank_of}
            source = schedule.rank_of[0][stage]
            if link.rank == source:
                sent = found[stage].to(link.device).contiguous()
                calls += [(dist.isend, sent, rank) for rank in sorted(ranks - holders)]
            elif stage not in found:
                found[stage] = torch.empty(like.shape, dtype=like.dtype, device=link.device)
                calls.append((dist.irecv, found[stage], source))
        doing = f"summing the gradients of {tie}"
        link.finish(link.begin(calls, doing), doing)
        first, *others = [found[stage].to(like.device) for stage in sorted(found)]
        total = first.clone()
        for other in others:
            total += other
        for grad in own.values():
            grad.copy_(total)

"""Plain tensors that are a rank's part of a larger parameter, such as the experts of a rank.

A module names them: `shard_groups = {"up": group, "down": group}` says that the ranks of the group hold equal parts of
its parameters up and down, along their first dimension, in the order of the ranks. DTensors say so themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch.distributed as dist
from torch import nn

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime.replicas import grad_of

Groups = dict[nn.Parameter, dist.ProcessGroup]


def shard_groups(modules: Iterable[nn.Module]) -> Groups:
    """Of each parameter that is a part: the group whose ranks hold all parts."""
    return {
        part.get_parameter(name): group
        for module in modules
        for part in module.modules()
        for name, group in getattr(part, "shard_groups", {}).items()
    }


def need_groups(named: Iterable[tuple[str, nn.Parameter]], groups: Groups) -> None:
    """Raises `ScheduleError` for experts that Megatron-LM or DeepSpeed marked and whose other parts nobody names."""
    for name, parameter in named:
        if getattr(parameter, "allreduce", True) is False and parameter not in groups:
            raise ScheduleError(
                f"parameter {name} has allreduce = False: other ranks hold other experts, which would not count. Name "
                "the group of these ranks in its module: shard_groups = {'name of the parameter': group}."
            )


class Parts:
    """The mean over data-parallel ranks of gradients that have the sum over their tokens already, as a `Reduction`."""

    def __init__(self, parameters: Groups) -> None:
        self.parameters = parameters

    def begin(self) -> None: ...

    def weights_done(self) -> None: ...

    def reduce(self) -> None:
        for parameter, group in self.parameters.items():
            grad = grad_of(parameter)
            if grad is not None:
                grad.div_(dist.get_world_size(group))

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


def need_mean_over_parts(parts: Groups, copies: Iterable[nn.Parameter], num_ranks: int) -> None:
    """Raises `ScheduleError` where data parallelism over num_ranks takes parts for copies, or has other ranks.

    copies: what it averages.
    """
    for each in copies:
        if each in parts:
            raise ScheduleError(
                f"DDP takes a parameter of shape {list(each.shape)} for a copy of rank 0's, and shard_groups says that "
                "it is one of several parts: name it to "
                "DistributedDataParallel._set_params_and_buffers_to_ignore_for_model before you wrap its module."
            )
    for each, group in parts.items():
        if dist.get_world_size(group) != num_ranks:
            raise ScheduleError(
                f"a parameter of shape {list(each.shape)} is one of {dist.get_world_size(group)} parts, and gradients "
                f"are the mean over {num_ranks} ranks: call fully_shard on its module, over the ranks that hold the "
                "same part."
            )

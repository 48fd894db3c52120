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


def need_mean_over_parts(parts: Groups, averaged: Iterable[nn.Parameter], ranks: Iterable[int]) -> None:
    """Raises `ScheduleError` where data parallelism takes parts for one parameter, or has other ranks than they.

    averaged: what DDP averages. ranks: of data parallelism.
    """
    copies, all_ranks = set(averaged), set(ranks)
    for each, group in parts.items():
        of_parts = set(dist.get_process_group_ranks(group))
        what = f"a parameter of shape {list(each.shape)} is one of {len(of_parts)} parts (shard_groups), and "
        if each in copies:
            raise ScheduleError(
                f"{what}DDP takes it for a copy of rank 0's: name it to "
                "DistributedDataParallel._set_params_and_buffers_to_ignore_for_model before you wrap its module."
            )
        if hasattr(each, "device_mesh"):
            if len(of_parts.intersection(each.device_mesh.mesh.flatten().tolist())) > 1:
                raise ScheduleError(f"{what}fully_shard takes all parts for one: call it with ignored_params={{...}}.")
        elif of_parts != all_ranks:
            raise ScheduleError(
                f"{what}ranks {sorted(of_parts)} hold them, but gradients are the mean over ranks {sorted(all_ranks)}. "
                "Call fully_shard on its module, over the ranks that hold the same part, and "
                f"set_gradient_divide_factor({len(all_ranks)}) on it."
            )

"""What torch.distributed.checkpoint saves and loads of a pipeline: parameters and the optimizer's state, by names.

    state = PipelineState(pipeline, optimizer, name=layer_name)
    torch.distributed.checkpoint.save({"pipeline": state}, checkpoint_id=folder)
    torch.distributed.checkpoint.load({"pipeline": state}, checkpoint_id=folder)

A name is saved once, although several ranks hold it: replicas of a stage, as in DualPipe, and data-parallel ranks write
one copy, and each loads it. So names must differ where parameters do, and are the same in another split of the model if
`name` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.optim import Optimizer

from weftrace.errors import PipelineRunError, ScheduleError
from weftrace.pipeline.runtime.data_parallel import is_dtensor
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.runtime.replicas import local
from weftrace.pipeline.runtime.shards import shard_groups

#: The name in a checkpoint of a parameter or buffer: of its stage, and of its name there.
Name = Callable[[int, str], str]


def _of_stage(stage: int, name: str) -> str:
    return f"stages.{stage}.{name}"


class PipelineState:
    """A `Stateful` of torch.distributed.checkpoint. All ranks of a pipeline make it together.

    optimizer: of parameters of this rank's stages. Hyperparameters are saved with each parameter, so that they can be
    loaded where parameters are grouped in another way. name: "stages.3.mlp.weight" by default, which fits the same
    split of the model alone; to load into another, give names that count layers over the whole model. Those of a loss
    that is a module are "loss.…". Parts that `shard_groups` names are saved as one tensor, and load into another number
    of parts. Buffers of replicas, such as BatchNorm's, are each rank's own; one rank's are saved.

    Raises `ScheduleError` where two parameters of a rank get one name, `PipelineRunError` where those of two stages on
    different ranks do.
    """

    def __init__(
        self, pipeline: PipelineRuntime, optimizer: Optimizer | None = None, *, name: Name = _of_stage
    ) -> None:
        self._optimizer = optimizer
        self._modules = sorted(pipeline.modules.items())
        self._names = {(stage, key): name(stage, key) for stage, module in self._modules for key in module.state_dict()}
        if isinstance(pipeline.loss, nn.Module):
            self._modules.append((_LOSS, pipeline.loss))
            self._names |= {(_LOSS, key): f"loss.{key}" for key in pipeline.loss.state_dict()}
        groups = shard_groups(module for _, module in self._modules)
        self._group_of = {
            (stage, key): groups[parameter]
            for stage, module in self._modules
            for key, parameter in module.named_parameters(remove_duplicate=False)
            if parameter in groups
        }
        self._meshes: dict[dist.ProcessGroup, DeviceMesh] = {}
        for stage, key in self._group_of:
            if is_dtensor(dict(self._modules)[stage].get_parameter(key)):
                raise ScheduleError(f"{self._names[stage, key]} is in shard_groups and a DTensor: let it be one alone.")
        twice = [name for name, count in Counter(self._names.values()).items() if count > 1]
        if twice:
            raise ScheduleError(
                f"two parameters of rank {pipeline.rank} would be saved as {twice[0]!r}: name={name!r}."
            )
        _need_own_names(self._names, pipeline)

    def state_dict(self) -> dict[str, Any]:
        """model: tensors by name. optimizer: states as "name:exp_avg", hyperparameters as "name:group:lr"."""
        found: dict[str, Any] = {"model": {}}
        for stage, module in self._modules:
            for key, value in module.state_dict().items():
                found["model"][self._names[stage, key]] = self._saved(value, self._group_of.get((stage, key)))
        if self._optimizer is not None:
            _make_states(self._optimizer)
            found["optimizer"] = {
                **{
                    f"{part.name}:{key}": self._saved(value, part.shared_over if _is_like(value, part) else None)
                    for part in self._parts()
                    for key, value in part.state.items()
                },
                **{f"{part.name}:group:{key}": value for part in self._parts() for key, value in _settings(part.group)},
            }
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for stage, module in self._modules:
            names = {key: self._names[stage, key] for key in module.state_dict()}
            module.load_state_dict(
                {key: _own(state["model"][name], (stage, key) in self._group_of) for key, name in names.items()}
            )
        if self._optimizer is None:
            return
        _make_states(self._optimizer)
        loaded = state["optimizer"]
        for part in self._parts():
            for key, value in part.state.items():
                found = loaded[f"{part.name}:{key}"]
                if isinstance(value, Tensor):
                    value.copy_(_own(found, part.shared_over is not None))
                else:
                    part.state[key] = found
            part.group.update({key: loaded[f"{part.name}:group:{key}"] for key, _ in _settings(part.group)})

    def _parts(self) -> Iterator[_Part]:
        """Those that the optimizer has. What stages share has several names."""
        assert self._optimizer is not None
        group_of = {parameter: group for group in self._optimizer.param_groups for parameter in group["params"]}
        for stage, module in self._modules:
            for key, parameter in module.named_parameters(remove_duplicate=False):
                if parameter in group_of:
                    state = self._optimizer.state.get(parameter, {})
                    shared_over = self._group_of.get((stage, key))
                    yield _Part(self._names[stage, key], parameter, state, group_of[parameter], shared_over)

    def _saved(self, value: Any, group: dist.ProcessGroup | None) -> Any:
        """Of a part: the whole, of which this rank holds a part."""
        if group is None:
            return value
        if group not in self._meshes:
            self._meshes[group] = DeviceMesh.from_group(group, value.device.type)
        return DTensor.from_local(value, self._meshes[group], [Shard(0)], run_check=False)


@dataclass(frozen=True, slots=True)
class _Part:
    """A parameter that an optimizer has. name: in the checkpoint. state, group: as the optimizer holds them.

    shared_over: where it is one of several parts, the group whose ranks hold them.
    """

    name: str
    parameter: nn.Parameter
    state: dict[str, Any]
    group: dict[str, Any]
    shared_over: dist.ProcessGroup | None


def _is_like(value: Any, part: _Part) -> bool:
    """Whether a state has a number for each of the parameter's."""
    return isinstance(value, Tensor) and value.shape == part.parameter.shape


def _own(value: Any, is_part: bool) -> Any:
    return local(value) if is_part and isinstance(value, Tensor) else value


_LOSS = -1


def _settings(group: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Hyperparameters of a group, except which parameters it has."""
    return ((key, value) for key, value in group.items() if key not in ("params", "param_names"))


def _make_states(optimizer: Optimizer) -> None:
    """Give parameters that had no gradient yet the states that they begin with: to be loaded into, or to be saved with
    the states of other parts."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    fresh = [parameter for parameter in parameters if not optimizer.state.get(parameter)]
    if not fresh:
        return
    grads = [parameter.grad for parameter in parameters]
    rates = [group["lr"] for group in optimizer.param_groups]
    try:
        for parameter in parameters:
            parameter.grad = None
        for parameter in fresh:
            parameter.grad = torch.zeros_like(parameter)
        for group in optimizer.param_groups:
            group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0
        optimizer.step()
    finally:
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
    for state in (optimizer.state[parameter] for parameter in fresh):
        if isinstance(state.get("step"), Tensor):
            state["step"].zero_()  # no step was made
        elif "step" in state:
            state["step"] = 0


def _need_own_names(names: dict[tuple[int, str], str], pipeline: PipelineRuntime) -> None:
    """Nothing would tell that of two parameters with one name only the first is saved."""
    own = {name: key for key, name in names.items()}
    found: list[Any] = [own]
    if pipeline.group is not None:
        found = [None] * pipeline.schedule.num_ranks
        dist.all_gather_object(found, own, pipeline.group)
    of_name: dict[str, tuple[int, str]] = {}
    for each in found:
        for name, (stage, key) in each.items():
            other = of_name.setdefault(name, (stage, key))
            if other != (stage, key):
                raise PipelineRunError(
                    f"stage {other[0]}'s {other[1]} and stage {stage}'s {key} would both be saved as {name!r}: give "
                    "name=... that differs."
                )

"""Data parallelism inside stages: torch's DDP and fully_shard, and when their gradients are reduced.

A pipeline runs several backwards per step, in parts. So within a step no wrapper reduces anything: gradients are added
up on the rank, and after the stage's last weight gradient of the step they are reduced once, as the wrapper would:
averaged over its group. Other stages' backwards go on meanwhile; `step` ends when all is reduced.

A module that fully_shard reshards after its forward is resharded after each backward too. One that it does not, as the
root, stays gathered from its first forward of the step until its stage's last weight gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._composable.contract import _get_registry
from torch.nn.parallel import DistributedDataParallel

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime.gathered import param_groups, stays_gathered, widen
from weftrace.pipeline.runtime.replicas import grad_of, pieces_of
from weftrace.pipeline.runtime.shards import Parts, need_mean_over_parts, shard_groups


class Reduction(Protocol):
    """How a module's gradients are reduced over its data-parallel ranks. All of them call these at the same places of
    the same program."""

    def begin(self) -> None:
        """A step or a forward begins: nothing is reduced until `reduce`."""

    def weights_done(self) -> None:
        """An action made gradients of weights."""

    def reduce(self) -> None:
        """Begin to reduce what the step added up. It makes no more gradients."""

    def finish(self) -> None:
        """All that was begun is done; between steps, parameters are sharded."""

    def abandon(self) -> None:
        """The step failed: let go of what it left."""


class DDP:
    """A stage of DistributedDataParallel. Its module runs without the wrapper, so the wrapper's hooks do nothing.

    A parameter without a gradient on some ranks counts as zero there; without one on all of them it keeps none.
    """

    def __init__(self, wrapper: DistributedDataParallel, parameters: Sequence[nn.Parameter]) -> None:
        """parameters: to reduce; those of the wrapper that no stage of this rank works on later."""
        self._wrapper = wrapper
        self._parameters = parameters
        self._under_way: list[tuple[list[nn.Parameter], Tensor, Any]] = []

    def begin(self) -> None:
        if self._wrapper.broadcast_buffers and self._wrapper.modules_buffers:
            self._wrapper._sync_buffers()

    def weights_done(self) -> None: ...

    def reduce(self) -> None:
        group = self._wrapper.process_group
        with torch.no_grad():
            for piece in pieces_of(self._parameters):
                grads = [grad_of(parameter) for parameter in piece]
                parts = [
                    parameter.new_zeros(parameter.numel()) if grad is None else grad.reshape(-1)
                    for parameter, grad in zip(piece, grads, strict=True)
                ]
                has = parts[0].new_tensor([grad is not None for grad in grads])
                flat = torch.cat([*parts, has]).div_(dist.get_world_size(group))
                self._under_way.append((piece, flat, dist.all_reduce(flat, group=group, async_op=True)))

    def finish(self) -> None:
        while self._under_way:
            piece, flat, work = self._under_way.pop(0)
            work.wait()
            *parts, some = flat.split([*(parameter.numel() for parameter in piece), len(piece)])
            with torch.no_grad():
                for parameter, part, has in zip(piece, parts, some, strict=True):
                    grad = grad_of(parameter)
                    if grad is not None:
                        grad.copy_(part.view_as(grad))
                    elif has > 0:
                        parameter.grad = part.view_as(parameter).clone()

    def abandon(self) -> None:
        self._under_way.clear()


class FullyShard:
    """A module in which fully_shard was called (FSDP2, HSDP), or torch's replicate() that is built on it."""

    def __init__(self, module: nn.Module) -> None:
        self._roots = list(_roots(module))

    @property
    def ranks(self) -> list[int]:
        """Those over which gradients are averaged."""
        states = (part._get_fsdp_state() for root in self._roots for part in _sharded(root))
        meshes = (group.mesh_info.mesh for state in states for group in param_groups(state))
        return next((mesh.mesh.flatten().tolist() for mesh in meshes), [])

    def begin(self) -> None:
        for root in self._roots:
            root._get_fsdp_state()._lazy_init()
            root.set_is_last_backward(False)
            root.set_requires_gradient_sync(False)
            for part in _sharded(root):
                part.set_reshard_after_backward(not stays_gathered(part), recurse=False)

    def weights_done(self) -> None:
        for root in self._roots:
            for group in _all_groups(root):
                widen(group)

    def reduce(self) -> None:
        for root in self._roots:
            _synchronize(root)
            for group in reversed(_all_groups(root)):
                group.post_backward()

    def finish(self) -> None:
        for root in self._roots:
            root._get_fsdp_state()._root_post_backward_final_callback()
            _synchronize(root)
            for part in _sharded(root):
                part.reshard()
                part._get_fsdp_state().holders = 0

    def abandon(self) -> None:
        """Gradients of gathered parameters are where no optimizer's zero_grad() would find them."""
        for each in self._parameters():
            each.unsharded_accumulated_grad = None
            if hasattr(each, "_unsharded_param"):
                each._unsharded_param.grad = None
        for root in self._roots:
            _synchronize(root)
            state = root._get_fsdp_state()
            for each in state._state_ctx.all_states:
                each.holders = 0
            if state._is_root and hasattr(state, "_reset_iter_state"):
                state._reset_iter_state()

    def _parameters(self) -> Iterator[Any]:
        return (each for root in self._roots for group in _all_groups(root) for each in group.fsdp_params)


def _synchronize(root: Any) -> None:
    """Let the next backward reduce gradients, as fully_shard leaves it, and as backwards outside of pipelines need."""
    root.set_is_last_backward(True)
    root.set_requires_gradient_sync(True)
    root.set_reshard_after_backward(True)


def _roots(module: nn.Module) -> Iterator[Any]:
    if _shards(module):
        yield module
    else:
        for part in module.children():
            yield from _roots(part)


def _sharded(root: nn.Module) -> Iterator[Any]:
    return (part for part in root.modules() if _shards(part))


def _all_groups(root: Any) -> list[Any]:
    return [group for state in root._get_fsdp_state()._state_ctx.all_states for group in param_groups(state)]


# --- which modules can be stages --------------------------------------------------------------------------------------


def unwrapped(module: nn.Module, what: str) -> nn.Module:
    """The module that runs: a wrapper's own. what: "stage 3".

    Raises `ScheduleError` where its data parallelism is none that the runtime can reduce as torch would.
    """
    if isinstance(module, DistributedDataParallel):
        _need_plain_reduction(module, what)
        module = module.module
        need_no_hooks(module, f"{what}, inside DDP")
        return module
    found = [why for why in hooks_of(module) if not why.endswith(_CAN_WAIT)]
    if found:
        raise ScheduleError(
            f"{what}: {found[0]}. Its gradients would be wrong, because a pipeline runs many backwards, in parts: wrap "
            "the whole stage in DistributedDataParallel, or call fully_shard on it and its parts."
        )
    roots = list(_roots(module))
    known = {*shard_groups([module]), *(parameter for root in roots for parameter in root.parameters())}
    left = [name for name, each in module.named_parameters() if each.requires_grad and each not in known]
    if roots and left:
        raise ScheduleError(
            f"{what}: its parameter {left[0]} is outside of all modules that fully_shard was called on, so its "
            "gradient would stay each rank's own: call fully_shard on the stage as well."
        )
    return module


#: What the runtime makes wait until a stage's last weight gradient.
_CAN_WAIT = ("FSDPModule", "ReplicateModule", "DTensor")
#: Classes whose hooks wait for one backward of the whole module; by name, so that none has to be imported.
_SYNCHRONIZE = ("DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "ReplicateModule")


def hooks_of(module: nn.Module) -> Iterator[str]:
    """Whatever makes a module's gradients be sharded, or summed by hooks of its own: "it is a …"."""
    for name, part in module.named_modules():
        it = f"its module {name}" if name else "it"
        yield from (f"{it} is a {kind}" for kind in _names(type(part)) if kind in _SYNCHRONIZE)
        if not _shards(part) and "replicate" in (_get_registry(part) or ()):
            yield f"{it} went through replicate()"
    yield from (f"its parameter {name} is a DTensor" for name, each in module.named_parameters() if is_dtensor(each))


def need_no_hooks(module: nn.Module, what: str) -> None:
    """Raises `ScheduleError` for a module whose gradients are sharded or summed by hooks of its own."""
    for why in hooks_of(module):
        raise ScheduleError(
            f"{what}: {why}. Its gradients would be wrong, because a pipeline runs many backwards, in "
            "parts: give the plain module, and sum its gradients over data-parallel ranks yourself after step()."
        )


def is_sharded(module: nn.Module) -> bool:
    """Whether fully_shard was called in it: its hooks gather parameters when modules are called."""
    return any(_shards(part) for part in module.modules())


def _shards(module: nn.Module) -> bool:
    return is_sharded_class(type(module))


def is_sharded_class(kind: type) -> bool:
    """Whether fully_shard made it, for a module of its own."""
    return "FSDPModule" in _names(kind)


def is_dtensor(tensor: Tensor) -> bool:
    return "DTensor" in _names(type(tensor.data))


def _names(kind: type) -> list[str]:
    """Of a class and those that it is derived from: what nobody has imported need not be."""
    return [each.__name__ for each in kind.__mro__]


def _need_plain_reduction(wrapper: DistributedDataParallel, what: str) -> None:
    """DDP in its ways that one sum over the group at a stage's end does not come to."""
    hook = wrapper._get_ddp_logging_data().get("comm_hook") or wrapper._comm_hooks
    for given, name in (
        (hook, "a communication hook"),
        (wrapper.mixed_precision, "mixed_precision"),
        (wrapper._delay_all_reduce_params, "delay_all_reduce_named_params"),
    ):
        if given:
            raise ScheduleError(f"{what}: a pipeline cannot run DDP with {name}. Use plain DDP, or fully_shard.")


def reductions_of(modules: Sequence[nn.Module]) -> list[list[Reduction]]:
    """How each is reduced; a plain module is not. modules: as given, in the order in which they are reduced; a
    parameter that several share is the last one's."""
    last = {id(parameter): at for at, module in enumerate(modules) for parameter in module.parameters()}
    return [
        _reductions_of(module, {id(each) for each in module.parameters() if last[id(each)] == at})
        for at, module in enumerate(modules)
    ]


def _reductions_of(module: nn.Module, own: set[int]) -> list[Reduction]:
    parts = {each: group for each, group in shard_groups([module]).items() if id(each) in own}
    if isinstance(module, DistributedDataParallel):
        inside = [each for name, each in module.module.named_parameters() if name not in module.parameters_to_ignore]
        need_mean_over_parts(parts, inside, dist.get_process_group_ranks(module.process_group))
        found: list[Reduction] = [DDP(module, [each for each in inside if each.requires_grad and id(each) in own])]
    elif is_sharded(module):
        sharded = FullyShard(module)
        need_mean_over_parts(parts, (), sharded.ranks)
        found = [sharded]
    else:
        return []
    plain = {each: group for each, group in parts.items() if not is_dtensor(each)}
    return [*found, Parts(plain)] if plain else found

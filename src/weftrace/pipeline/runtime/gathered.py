"""Parameters that fully_shard shards are gathered around the phases of a module, as its hooks do it around a call.

Phases are run one by one, so nobody calls the module, and its hooks see none of them. Modules that a phase calls have
hooks of their own, as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weftrace.pipeline.runtime.split.values import mapped


def gather(module: Any) -> None:
    """Phases of the module begin, forward or backward. Two micro-batches may be in them at once."""
    state = module._get_fsdp_state()
    holders = getattr(state, "holders", 0)
    if not holders:  # the backward of another module ends with this for all
        state.reshards = [group.reshard_after_backward for group in param_groups(state)]
        module.set_reshard_after_backward(False, recurse=False)
    state.holders = holders + 1
    unshard(module)


def release(module: Any) -> None:
    """They are over: the parameters are sharded again, unless the module keeps them."""
    state = module._get_fsdp_state()
    state.holders = max(0, state.holders - 1)
    for group in param_groups(state):
        widen(group)
    if state.holders:
        return
    for group, reshards in zip(param_groups(state), state.reshards, strict=True):
        group.reshard_after_backward = reshards
    reshard(module)


def unshard(module: Any) -> None:
    module.unshard()


def reshard(module: Any) -> None:
    if not stays_gathered(module):
        module.reshard()


def dtypes_of(module: Any) -> tuple[torch.dtype | None, torch.dtype | None]:
    """What the module's inputs and outputs are cast to; None: nothing."""
    policy = module._get_fsdp_state()._mp_policy
    return policy.param_dtype if policy.cast_forward_inputs else None, policy.output_dtype


def in_precision(run: Callable[..., Any], dtype: torch.dtype | None) -> Callable[..., Any]:
    """The function with its inputs cast."""
    return run if dtype is None else partial(_called_in, dtype, run)


def _called_in(dtype: torch.dtype, run: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    def cast(leaf: Any) -> Any:
        return leaf.to(dtype) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf

    return run(*mapped(args, cast), **mapped(kwargs, cast))


def param_groups(state: Any) -> list[Any]:
    """Of fully_shard's state of a module: one before torch 2.13, or none."""
    found = getattr(state, "_fsdp_param_groups", None)
    return list(found) if found is not None else [state._fsdp_param_group] if state._fsdp_param_group else []


def stays_gathered(module: Any) -> bool:
    """Whether it does from its first forward of a step until its stage's last weight gradient."""
    return not any(group._reshard_after_forward for group in param_groups(module._get_fsdp_state()))


def widen(group: Any) -> None:
    """Where gradients are reduced in a wider dtype, add them up in it."""
    for each in group.fsdp_params:
        if hasattr(each, "_unsharded_param"):
            each.accumulate_unsharded_grad_if_needed()
            each.to_accumulated_grad_if_needed()

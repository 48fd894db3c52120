"""Activations that a forward leaves for its backward go to the host's memory where a schedule says so."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn


def offloading(wanted: bool, module: nn.Module) -> AbstractContextManager[object]:
    """Around a forward. What autograd keeps then waits in the host's memory, except the module's own parameters and
    what is there anyway; it comes back when the backward asks for it."""
    if not wanted:
        return nullcontext()
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}

    def pack(kept: Tensor) -> tuple[torch.device, Tensor]:
        if kept.device.type == "cpu" or kept.untyped_storage().data_ptr() in own:
            return kept.device, kept
        host = torch.empty(kept.shape, dtype=kept.dtype, pin_memory=True)
        host.copy_(kept, non_blocking=True)
        return kept.device, host

    def unpack(packed: tuple[torch.device, Tensor]) -> Tensor:
        device, kept = packed
        return kept.to(device, non_blocking=True)

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

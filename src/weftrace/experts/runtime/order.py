"""The order that torch would put loads in, ties included: what bit-for-bit agreement with DeepSeek's balancer hangs on.

Its balancer takes `torch.sort(descending=True)`, which is free to reorder equal values and does so differently on
different processors, and it adds a group's loads in whatever order `torch.sum` adds. Neither can be written down, so
both are asked of torch itself, on tensors with the same strides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Ints
from weftrace.installing import install_command

if TYPE_CHECKING:
    import torch


def require_torch() -> None:
    """Raises `PlacementError`, saying what helps, where torch cannot be imported."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise PlacementError(
            f'order="torch" needs torch, which cannot be imported: {install_command("torch")}; or take order="stable"'
        ) from error


def as_float32(weight: Any) -> torch.Tensor:
    """A tensor or array as float32 on the CPU; a tensor keeps its strides, on which the order of summation hangs."""
    import torch

    tensor = weight.detach() if isinstance(weight, torch.Tensor) else torch.from_numpy(weight)
    return tensor.float().cpu()


def group_loads(load: torch.Tensor, num_groups: int) -> tuple[NDArray[np.float32], Ints]:
    """float32 [L, K] load of each group, and int64 [L, K] the groups from the heaviest down."""
    load_LK = load.view(len(load), num_groups, -1).sum(-1)  # splits the last dimension, so never a copy
    order_LK = load_LK.sort(-1, descending=True).indices
    return load_LK.contiguous().numpy(), order_LK.contiguous().numpy()


def descending(load_RK: NDArray[np.float32]) -> Ints:
    """int64 [R, K] positions of each row's values from the largest down, equal ones as torch leaves them."""
    import torch

    order_RK: Ints = torch.from_numpy(load_RK).sort(-1, descending=True).indices.numpy()
    return order_RK


def as_tensor(array: Ints) -> torch.Tensor:
    """The array as a tensor on the CPU, over the same memory."""
    import torch

    return torch.from_numpy(array)

"""What one multiply-accumulate of two tensors costs."""

from __future__ import annotations

import torch


def flops_per_mac(a: torch.Tensor, b: torch.Tensor) -> int:
    """2 for real numbers; 8 for complex ones: (a+bi)(c+di) is 4 multiplications and 2 additions, and summing it 2 more.

    4 where one of them is real.
    """
    return 2 * (2 if a.is_complex() else 1) * (2 if b.is_complex() else 1)


def additions(tensor: torch.Tensor) -> int:
    """Real additions that adding something to each element takes: 2 for a complex one."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def readable(tensor: object) -> bool:
    """Whether a formula may look at values: a tensor that lies in the CPU's memory and is not a stand-in for one.

    A look at a tensor on a GPU would stop the program until the GPU is done.
    """
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and getattr(tensor, "device", None) == torch.device("cpu")

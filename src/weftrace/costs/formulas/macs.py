"""What one multiply-accumulate of two tensors costs."""

from __future__ import annotations

from weftrace.costs.tensors import TensorLike


def flops_per_mac(a: TensorLike, b: TensorLike) -> int:
    """2 for real numbers; 8 for complex ones: (a+bi)(c+di) is 4 multiplications and 2 additions, and summing it 2 more.

    4 where one of them is real.
    """
    return 2 * (2 if a.is_complex() else 1) * (2 if b.is_complex() else 1)


def additions(tensor: TensorLike) -> int:
    """Real additions that adding something to each element takes: 2 for a complex one."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)

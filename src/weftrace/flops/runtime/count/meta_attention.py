"""On a meta device, attention as an accelerator would run it.

`scaled_dot_product_attention` chooses its kernel by device. For meta tensors it has none and falls apart into two
products and a softmax over all pairs, which no accelerator would run: neither the FLOPs under a causal mask nor the
bytes would be those of the kernel. While a model on the meta device is counted, the function calls the fused operators
instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from weftrace.flops.runtime.count.uncounted import Uncounted


class FusedAttentionOnMeta(TorchFunctionMode):
    """Within it, `scaled_dot_product_attention` of meta tensors is one fused operator. used: calls that were
    replaced."""

    def __init__(self, uncounted: Uncounted) -> None:
        super().__init__()
        self.used = 0
        self._uncounted = uncounted

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        failed = out = None
        try:
            out = _fused(*args, **(kwargs or {}))
        except Exception as error:
            failed = error
        if out is not None:
            self.used += 1
            return out
        out = func(*args, **(kwargs or {}))  # the program's own mistakes are told by torch
        if failed is not None:
            self._uncounted.note("attention on the meta device, as one kernel,", failed)
        return out


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor | None:
    """[B, H, S, D] -> [B, H, S, V]; None where no fused operator takes these (left to torch, and to its errors)."""
    if not (query.is_meta and key.is_meta and value.is_meta and query.ndim == key.ndim == value.ndim == 4):
        return None
    same_heads = query.shape[1] == key.shape[1]
    if not (same_heads or enable_gqa) or (attn_mask is not None and is_causal) or query.shape[0] != key.shape[0]:
        return None
    square = query.shape[2] == key.shape[2] or not is_causal
    if attn_mask is None and square and query.shape[-1] == value.shape[-1]:
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if not same_heads:  # the next operator wants a key head for each query head; expand copies nothing
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.empty_like(attn_mask, dtype=query.dtype)
        attn_mask = attn_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    return efficient(query, key, value, attn_mask, needs_grad, dropout_p, is_causal, scale=scale)[0]

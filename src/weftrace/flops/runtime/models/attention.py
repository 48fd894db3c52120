"""Attention between the projections: the same result from one fused operator ("sdpa") or from two products ("eager").

B batch, H query heads, G key and value heads, S new positions, L positions attended to, D and V the dimensions of a
head. Causal means that of S new positions the last one sees all L, the one before L - 1, and so on: S = L for a whole
sequence.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.errors import SpecError

BACKENDS = ("sdpa", "eager")


class Attention(nn.Module):
    """softmax(q k' scale) v for q [B, H, S, D], k [B, G, L, D], v [B, G, L, V] -> [B, H, S, V].

    "eager": two products over all S x L pairs and a mask. "sdpa": `scaled_dot_product_attention`. On a meta device that
    function falls apart into the eager products, though no accelerator would run it so; there the fused operators are
    called by name: flash attention, or cuDNN's where V differs from D, as CUDA would choose.
    """

    def __init__(self, backend: str = "sdpa", *, causal: bool = True, scale: float | None = None) -> None:
        super().__init__()
        if backend not in BACKENDS:
            raise SpecError(f"attention {backend!r} is unknown; choose from {', '.join(BACKENDS)}")
        self.backend = backend
        self.causal = causal
        self.scale = scale

    def extra_repr(self) -> str:
        return f"{self.backend}, causal={self.causal}"

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """mask: what `causal_mask` gave for this S, L and backend; made once for all layers."""
        if self.backend == "eager":
            return self._eager(q, k, v, mask)
        if q.is_meta:
            return self._fused(q, k, v)
        causal = self.causal and mask is None and q.shape[2] > 1
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, scale=self.scale, enable_gqa=grouped
        )

    def _fused(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        new, length = q.shape[2], k.shape[2]
        causal = self.causal and new > 1
        if v.shape[-1] == q.shape[-1]:  # its causal mask ends at the bottom right
            flash = torch.ops.aten._scaled_dot_product_flash_attention
            out: Tensor = flash(q, k, v, 0.0, causal, scale=self.scale)[0]
            return out
        if not causal or new == length:
            return self._cudnn(q, k, v, causal, torch.is_grad_enabled())[0]
        # cuDNN's mask begins at the top left: engines attend to the earlier positions apart and join the two by their
        # logarithms of sums, and so does this.
        earlier = length - new
        a, sum_a = self._cudnn(q, k[:, :, :earlier], v[:, :, :earlier], False, True)
        b, sum_b = self._cudnn(q, k[:, :, earlier:], v[:, :, earlier:], True, True)
        share = torch.sigmoid(sum_a - sum_b).view(*q.shape[:3], 1).to(a.dtype)
        return b + share * (a - b)

    def _cudnn(self, q: Tensor, k: Tensor, v: Tensor, causal: bool, sums: bool) -> tuple[Tensor, Tensor]:
        out = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, sums, 0.0, causal, scale=self.scale)
        return out[0], out[1]

    def _eager(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        batch, heads, new, _ = q.shape
        groups, length = k.shape[1], k.shape[2]
        scale = q.shape[-1] ** -0.5 if self.scale is None else self.scale
        # The query heads that share a key head stand one below the other: keys and values are never repeated.
        scores = q.reshape(batch, groups, -1, q.shape[-1]) @ k.transpose(-1, -2) * scale
        if mask is not None:
            scores = scores.view(batch, heads, new, length).masked_fill(~mask, float("-inf"))
            scores = scores.view(batch, groups, -1, length)
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(v.dtype)
        return (weights @ v).view(batch, heads, new, v.shape[-1])


def causal_mask(new: int, length: int, backend: str, device: torch.device) -> Tensor | None:
    """[S, L] bool, True where a new position may look; None where none is needed (one position; `is_causal`)."""
    if new == 1 or (backend == "sdpa" and (new == length or device.type == "meta")):
        return None
    return torch.ones(new, length, dtype=torch.bool, device=device).tril(length - new)


def rotary(start: int, count: int, dim: int, theta: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Cosines and sines of `count` positions from `start` on: [2, count, dim / 2] (RoFormer, arXiv:2104.09864)."""
    rates = theta ** (torch.arange(0, dim, 2, dtype=torch.float32, device=device) / -dim)
    angles = torch.arange(start, start + count, dtype=torch.float32, device=device)[:, None] * rates
    return torch.stack((angles.cos(), angles.sin())).to(dtype)


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """x [B, H, S, D] turned by its positions: pairs are (first half, second half). turns as `rotary` gives them."""
    first, second = x.chunk(2, -1)
    cos, sin = turns[0], turns[1]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

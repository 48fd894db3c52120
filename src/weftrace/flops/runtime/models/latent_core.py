"""Attention over the latents themselves, as decode with absorbed projections does it: one key head for all query heads.

The values are the first v_dim dimensions of the keys, so that a kernel reads a position once: kv_rank + rope_dim
elements. torch has no operator for that; "weftrace::latent_attention" stands for the one kernel that engines have
(FlashMLA and its kin); its formula stands with those of attention.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.flops.runtime.models.attention import causal_mask


@torch.library.custom_op("weftrace::latent_attention", mutates_args=())
def latent_attention(query: Tensor, latent: Tensor, v_dim: int, scale: float) -> Tensor:
    """query [B, H, S, D], latent [B, L, D] -> [B, H, S, v_dim]; causal, the last of the S positions seeing all L.

    Forward alone: nothing is trained through a cache.
    """
    mask = causal_mask(query.shape[2], latent.shape[1], "eager", query.device)
    keys = latent[:, None].expand(-1, query.shape[1], -1, -1)
    return F.scaled_dot_product_attention(query, keys, keys[..., :v_dim], attn_mask=mask, scale=scale).contiguous()


@latent_attention.register_fake
def _shape(query: Tensor, latent: Tensor, v_dim: int, scale: float) -> Tensor:
    return query.new_empty(*query.shape[:-1], v_dim)


class LatentCore(nn.Module):
    """`latent_attention` as one operator ("sdpa") or as two products ("eager")."""

    def __init__(self, backend: str, v_dim: int, scale: float) -> None:
        super().__init__()
        self.backend, self.v_dim, self.scale = backend, v_dim, scale

    def extra_repr(self) -> str:
        return f"{self.backend}, absorbed"

    def forward(self, query: Tensor, latent: Tensor, mask: Tensor | None) -> Tensor:
        """query [B, H, S, D], latent [B, L, D] -> [B, H, S, v_dim]. mask: [S, L] for "eager" where S > 1."""
        if self.backend == "sdpa":
            out: Tensor = latent_attention(query, latent, self.v_dim, self.scale)
            return out
        scores = (query.flatten(1, 2) @ latent.transpose(1, 2) * self.scale).view(*query.shape[:3], -1)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(latent.dtype)
        return (weights.flatten(1, 2) @ latent[..., : self.v_dim]).view(*query.shape[:3], -1)

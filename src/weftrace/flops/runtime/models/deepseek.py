"""DeepSeek-V3 (arXiv:2412.19437): multi-head latent attention, a sigmoid gate with limited groups, a shared expert.

Without the multi-token-prediction layer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from weftrace.facts.models import ModelConfig
from weftrace.flops.runtime.models.attention import Attention, rotate
from weftrace.flops.runtime.models.cache import Cache
from weftrace.flops.runtime.models.latent_core import LatentCore
from weftrace.flops.runtime.models.linear import RmsNorm, linear
from weftrace.flops.runtime.models.llama import Layer as LlamaLayer
from weftrace.flops.runtime.models.llama import Llama


class LatentAttention(nn.Module):
    """Multi-head latent attention (arXiv:2405.04434, section 2.1).

    Training and prefill expand the latents to keys and values of every head (kv_b). Decode absorbs that matrix instead:
    its key half into the query, its value half after the attention, which then runs over the latents themselves as one
    key head of kv_rank + rope_dim dimensions shared by all query heads.
    """

    def __init__(self, config: ModelConfig, backend: str, fp8: bool, **where: Any) -> None:
        super().__init__()
        assert config.latent is not None, config.name
        latent = self.latent = config.latent
        hidden, heads = config.hidden_size, config.num_heads
        self.num_heads = heads
        self.q_a = linear(hidden, latent.q_rank, fp8=fp8, **where)
        self.q_norm = RmsNorm(latent.q_rank, config.norm_eps, **where)
        self.q_b = linear(latent.q_rank, heads * latent.qk_dim, fp8=fp8, **where)
        self.kv_a = linear(hidden, latent.cache_dim, fp8=fp8, **where)
        self.kv_norm = RmsNorm(latent.kv_rank, config.norm_eps, **where)
        # Absorbed in decode, where engines keep it in BF16: so does this model, always.
        self.kv_b = nn.Linear(latent.kv_rank, heads * (latent.nope_dim + latent.v_dim), bias=False, **where)
        scale = latent.qk_dim**-0.5
        self.core = Attention(backend, scale=scale)
        self.latent_core = LatentCore(backend, latent.kv_rank, scale)
        self.output = linear(heads * latent.v_dim, hidden, fp8=fp8, **where)

    def forward(self, x: Tensor, turns: Tensor, mask: Tensor | None, cache: Cache | None, index: int) -> Tensor:
        latent = self.latent
        q = self.q_b(self.q_norm(self.q_a(x))).unflatten(-1, (self.num_heads, latent.qk_dim)).transpose(1, 2)
        q_nope, q_rope = q.split((latent.nope_dim, latent.rope_dim), -1)
        q_rope = rotate(q_rope, turns)
        compressed, k_rope = torch.split(self.kv_a(x), [latent.kv_rank, latent.rope_dim], -1)
        kept = torch.cat((self.kv_norm(compressed), rotate(k_rope[:, None], turns)[:, 0]), -1)
        absorbed = False
        if cache is not None:
            absorbed = cache.absorbed
            (kept,) = cache.update(index, kept)
        attend = self._absorbed if absorbed else self._expanded
        out: Tensor = self.output(attend(q_nope, q_rope, kept, mask).transpose(1, 2).flatten(2))
        return out

    def _expanded(self, q_nope: Tensor, q_rope: Tensor, kept: Tensor, mask: Tensor | None) -> Tensor:
        latent = self.latent
        compressed, k_rope = torch.split(kept, [latent.kv_rank, latent.rope_dim], -1)
        both = self.kv_b(compressed).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k_nope, v = torch.split(both, [latent.nope_dim, latent.v_dim], -1)
        k = torch.cat((k_nope, k_rope[:, None].expand(-1, self.num_heads, -1, -1)), -1)
        out: Tensor = self.core(torch.cat((q_nope, q_rope), -1), k, v, mask)
        return out

    def _absorbed(self, q_nope: Tensor, q_rope: Tensor, kept: Tensor, mask: Tensor | None) -> Tensor:
        latent = self.latent
        batch, heads, new, _ = q_nope.shape
        weight = self.kv_b.weight.view(heads, -1, latent.kv_rank)  # [H, nope + v, kv_rank]
        to_key, to_value = torch.split(weight, [latent.nope_dim, latent.v_dim], 1)
        rows = q_nope.transpose(0, 1).reshape(heads, batch * new, -1)
        query = torch.bmm(rows, to_key).view(heads, batch, new, -1).transpose(0, 1)
        seen = self.latent_core(torch.cat((query, q_rope), -1), kept, mask)
        rows = seen.transpose(0, 1).reshape(heads, batch * new, -1)
        return torch.bmm(rows, to_value.transpose(1, 2)).view(heads, batch, new, -1).transpose(0, 1)


class Layer(LlamaLayer):
    """As Llama's, with latent attention."""

    attention_class = LatentAttention


class DeepSeek(Llama):
    """See `CausalModel`."""

    layer_class = Layer

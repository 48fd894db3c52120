"""Llama and its kin: grouped-query attention, rotary positions, gated MLPs or experts (Mixtral, Qwen3-MoE)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from weftrace.facts.models import ModelConfig
from weftrace.flops.runtime.models.attention import Attention, rotary, rotate
from weftrace.flops.runtime.models.cache import Cache, CausalModel
from weftrace.flops.runtime.models.experts import MoeMlp
from weftrace.flops.runtime.models.linear import GatedMlp, RmsNorm, linear


class SelfAttention(nn.Module):
    """Projections without biases, norms of each head if the model has them, rotation, attention, output projection."""

    def __init__(self, config: ModelConfig, backend: str, fp8: bool, **where: Any) -> None:
        super().__init__()
        hidden, head = config.hidden_size, config.head_size
        self.head_size = head
        self.q_proj = linear(hidden, config.num_heads * head, fp8=fp8, **where)
        self.k_proj = linear(hidden, config.kv_heads * head, fp8=fp8, **where)
        self.v_proj = linear(hidden, config.kv_heads * head, fp8=fp8, **where)
        self.q_norm = RmsNorm(head, config.norm_eps, **where) if config.qk_norm else nn.Identity()
        self.k_norm = RmsNorm(head, config.norm_eps, **where) if config.qk_norm else nn.Identity()
        self.core = Attention(backend)
        self.o_proj = linear(config.num_heads * head, hidden, fp8=fp8, **where)

    def forward(self, x: Tensor, turns: Tensor, mask: Tensor | None, cache: Cache | None, index: int) -> Tensor:
        q = self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.head_size))).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).unflatten(-1, (-1, self.head_size))).transpose(1, 2)
        v = self.v_proj(x).unflatten(-1, (-1, self.head_size)).transpose(1, 2)
        q, k = rotate(q, turns), rotate(k, turns)
        if cache is not None:
            k, v = cache.update(index, k, v)
        out: Tensor = self.o_proj(self.core(q, k, v, mask).transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), the MLP gated or of experts."""

    attention_class: type[nn.Module] = SelfAttention

    def __init__(
        self, config: ModelConfig, index: int, backend: str, experts: str, routing: str, fp8: bool, **where: Any
    ) -> None:
        super().__init__()
        hidden, moe = config.hidden_size, config.experts
        self.attention_norm = RmsNorm(hidden, config.norm_eps, **where)
        self.attention = self.attention_class(config, backend, fp8, **where)
        self.mlp_norm = RmsNorm(hidden, config.norm_eps, **where)
        self.mlp: nn.Module
        if moe is not None and index >= moe.num_dense_layers:
            self.mlp = MoeMlp(moe, hidden, experts, routing, fp8=fp8, **where)
        else:
            self.mlp = GatedMlp(hidden, config.intermediate_size, fp8=fp8, **where)

    def forward(self, x: Tensor, turns: Tensor, mask: Tensor | None, cache: Cache | None, index: int) -> Tensor:
        x = x + self.attention(self.attention_norm(x), turns, mask, cache, index)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class Llama(CausalModel):
    """See `CausalModel`. experts, routing: of a model with experts. fp8: linear layers and experts; forward alone."""

    layer_class: type[nn.Module] = Layer

    def __init__(
        self,
        config: ModelConfig,
        attention: str = "sdpa",
        experts: str = "grouped_mm",
        routing: str = "balanced",
        fp8: bool = False,
        **where: Any,
    ) -> None:
        super().__init__()
        self.attention, self.rope_theta = attention, config.rope_theta
        self.rope_dim = config.latent.rope_dim if config.latent is not None else config.head_size
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size, **where)
        self.layers = nn.ModuleList(
            self.layer_class(config, index, attention, experts, routing, fp8, **where)
            for index in range(config.num_layers)
        )
        self.norm = RmsNorm(config.hidden_size, config.norm_eps, **where)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False, **where)
        if config.tied_head:
            self.lm_head.weight = self.tokens.weight

    def embed(self, tokens: Tensor, start: int) -> Tensor:
        out: Tensor = self.tokens(tokens)
        return out

    def turns(self, x: Tensor, start: int) -> Tensor | None:
        return rotary(start, x.shape[1], self.rope_dim, self.rope_theta, x.device, x.dtype)

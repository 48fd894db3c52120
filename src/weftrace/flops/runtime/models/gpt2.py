"""GPT-2 (Radford et al. 2019): learned positions, norms before, GELU, output head tied to the embedding."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.facts.models import ModelConfig
from weftrace.flops.runtime.models.attention import Attention
from weftrace.flops.runtime.models.cache import Cache, CausalModel


class SelfAttention(nn.Module):
    """One projection for queries, keys and values; causal attention; output projection."""

    def __init__(self, config: ModelConfig, backend: str, **where: Any) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(hidden, 3 * hidden, **where)
        self.core = Attention(backend)
        self.output = nn.Linear(hidden, hidden, **where)

    def forward(self, x: Tensor, mask: Tensor | None, cache: Cache | None, index: int) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if cache is not None:
            k, v = cache.update(index, k, v)
        out: Tensor = self.output(self.core(q, k, v, mask).transpose(1, 2).flatten(2))
        return out


class Mlp(nn.Module):
    """Two matrices with GELU between."""

    def __init__(self, config: ModelConfig, **where: Any) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_size, config.intermediate_size, **where)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, **where)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(x), approximate="tanh"))
        return out


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, config: ModelConfig, backend: str, **where: Any) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden_size, config.norm_eps, **where)
        self.attention = SelfAttention(config, backend, **where)
        self.mlp_norm = nn.LayerNorm(config.hidden_size, config.norm_eps, **where)
        self.mlp = Mlp(config, **where)

    def forward(self, x: Tensor, turns: Tensor | None, mask: Tensor | None, cache: Cache | None, index: int) -> Tensor:
        x = x + self.attention(self.attention_norm(x), mask, cache, index)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class Gpt2(CausalModel):
    """See `CausalModel`."""

    def __init__(self, config: ModelConfig, attention: str = "sdpa", **where: Any) -> None:
        super().__init__()
        self.attention = attention
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size, **where)
        self.positions = nn.Embedding(config.max_positions, config.hidden_size, **where)
        self.layers = nn.ModuleList(Layer(config, attention, **where) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(config.hidden_size, config.norm_eps, **where)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False, **where)
        self.lm_head.weight = self.tokens.weight

    def embed(self, tokens: Tensor, start: int) -> Tensor:
        positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        out: Tensor = self.tokens(tokens) + self.positions(positions)
        return out

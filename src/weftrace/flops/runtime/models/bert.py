"""BERT with both of its pre-training heads (arXiv:1810.04805)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.facts.models import ModelConfig
from weftrace.flops.runtime.models.attention import Attention


class SelfAttention(nn.Module):
    """Projections, attention over all pairs, output projection; add and norm after."""

    def __init__(self, config: ModelConfig, backend: str, **where: Any) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.num_heads = config.num_heads
        self.query = nn.Linear(hidden, hidden, **where)
        self.key = nn.Linear(hidden, hidden, **where)
        self.value = nn.Linear(hidden, hidden, **where)
        self.core = Attention(backend, causal=False)
        self.output = nn.Linear(hidden, hidden, **where)
        self.norm = nn.LayerNorm(hidden, config.norm_eps, **where)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            projection(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        out: Tensor = self.norm(x + self.output(self.core(q, k, v).transpose(1, 2).flatten(2)))
        return out


class Layer(nn.Module):
    """Attention and an MLP of two matrices, norms after."""

    def __init__(self, config: ModelConfig, backend: str, **where: Any) -> None:
        super().__init__()
        self.attention = SelfAttention(config, backend, **where)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size, **where)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size, **where)
        self.norm = nn.LayerNorm(config.hidden_size, config.norm_eps, **where)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(x)
        out: Tensor = self.norm(x + self.output(F.gelu(self.intermediate(x))))
        return out


class Bert(nn.Module):
    """Token ids [B, S] -> logits of masked tokens [n, vocabulary] and of the next sentence [B, 2].

    masked_positions: [n] indices into the B S positions whose tokens are predicted; None: all of them. The head's
    transform runs on every position either way, its decoder on those asked for: so does the code behind the published
    profile.
    """

    def __init__(self, config: ModelConfig, attention: str = "sdpa", **where: Any) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, hidden, **where)
        self.position_embeddings = nn.Embedding(config.max_positions, hidden, **where)
        self.token_type_embeddings = nn.Embedding(2, hidden, **where)
        self.embedding_norm = nn.LayerNorm(hidden, config.norm_eps, **where)
        self.layers = nn.ModuleList(Layer(config, attention, **where) for _ in range(config.num_layers))
        self.pooler = nn.Linear(hidden, hidden, **where)
        self.transform = nn.Linear(hidden, hidden, **where)
        self.transform_norm = nn.LayerNorm(hidden, config.norm_eps, **where)
        self.decoder = nn.Linear(hidden, config.vocab_size, **where)
        self.decoder.weight = self.word_embeddings.weight
        self.next_sentence = nn.Linear(hidden, 2, **where)

    def forward(self, tokens: Tensor, masked_positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.word_embeddings(tokens) + self.position_embeddings(positions)
        x = self.embedding_norm(x + self.token_type_embeddings(torch.zeros_like(tokens)))
        for layer in self.layers:
            x = layer(x)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        x = self.transform_norm(F.gelu(self.transform(x))).flatten(0, 1)
        if masked_positions is not None:
            x = x[masked_positions]
        return self.decoder(x), self.next_sentence(pooled)

    def loss(self, outputs: tuple[Tensor, Tensor]) -> Tensor:
        """Cross entropy of both heads against label 0: labels' values do not change the work."""
        tokens, sentences = outputs
        return _cross_entropy(tokens) + _cross_entropy(sentences)


def _cross_entropy(logits: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), torch.zeros(len(logits), dtype=torch.long, device=logits.device))

"""What the decoder-only models share: from token ids through the layers to logits, and their loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.flops.runtime.models.attention import causal_mask
from weftrace.flops.runtime.models.cache import Cache


class CausalModel(nn.Module):
    """Base of the decoder-only models: token ids [B, S] -> logits [B, n, vocabulary].

    cache: written and attended to; None in training. logits_to_keep: n, the last positions that get logits; 0: all S.
    """

    attention: str
    layers: nn.ModuleList
    norm: nn.Module
    lm_head: nn.Module

    def embed(self, tokens: Tensor, start: int) -> Tensor:
        """[B, S] ids of positions from `start` on -> [B, S, h]."""
        raise NotImplementedError

    def turns(self, x: Tensor, start: int) -> Tensor | None:
        """What rotates queries and keys at these positions, made once for all layers; None without rotary positions."""
        return None

    def forward(self, tokens: Tensor, cache: Cache | None = None, logits_to_keep: int = 0) -> Tensor:
        new = tokens.shape[1]
        start = cache.start if cache is not None else 0
        x = self.embed(tokens, start)
        turns = self.turns(x, start)
        mask = causal_mask(new, start + new, self.attention, x.device)
        for index, layer in enumerate(self.layers):
            x = layer(x, turns, mask, cache, index)
        if logits_to_keep:
            x = x[:, -logits_to_keep:]
        logits: Tensor = self.lm_head(self.norm(x))
        return logits

    def loss(self, logits: Tensor) -> Tensor:
        """Cross entropy of every position against label 0: labels' values do not change the work."""
        flat = logits.flatten(0, 1)
        return F.cross_entropy(flat.float(), torch.zeros(len(flat), dtype=torch.long, device=flat.device))

"""What decoder-only models share: the keys and values that earlier tokens left behind, and the way from token ids to
logits.

A cache is made full: room for every position that the step attends to, the step's own last. The step writes its own and
reads all, as engines with a cache set aside beforehand do; nothing is copied to make it longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.facts.models import ModelConfig
from weftrace.flops.runtime.models.attention import causal_mask


@dataclass(frozen=True, slots=True)
class Cache:
    """What a model remembers of the positions before.

    layers: for each layer keys and values, [B, G, length, D] each; for MLA one latent, [B, length, kv_rank + rope_dim].
    start: positions that were there before this step. length: those, and this step's own.
    absorbed: whether MLA attends to the latents themselves (decode) or expands them to keys and values first (prefill).
    """

    layers: tuple[tuple[Tensor, ...], ...]
    start: int
    length: int
    absorbed: bool = False

    def update(self, layer: int, *new: Tensor) -> tuple[Tensor, ...]:
        """Write this step's tensors, positions in the last dimension but one, and return all of the layer's."""
        kept = self.layers[layer]
        for whole, part in zip(kept, new, strict=True):
            whole[..., self.start : self.length, :].copy_(part)
        return kept


def make_cache(
    config: ModelConfig,
    batch: int,
    *,
    start: int,
    length: int,
    device: torch.device | str,
    dtype: torch.dtype,
    absorbed: bool = False,
) -> Cache:
    """An all-zero cache of `length` positions, `start` of them already there.

    On a meta device it is made without being filled, so that making it is no work of the step that is counted.
    """
    make = torch.empty if torch.device(device).type == "meta" else torch.zeros
    if config.latent is not None:
        shapes: tuple[tuple[int, ...], ...] = ((batch, length, config.latent.cache_dim),)
    else:
        shapes = ((batch, config.kv_heads, length, config.head_size),) * 2
    layers = tuple(tuple(make(shape, device=device, dtype=dtype) for shape in shapes) for _ in range(config.num_layers))
    return Cache(layers, start, length, absorbed)


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

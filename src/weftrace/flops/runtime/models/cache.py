"""The keys and values that earlier tokens left behind, a pair of tensors a layer.

A cache is made full: room for every position that the step attends to, the step's own last. The step writes its own and
reads all, as engines with a cache set aside beforehand do; nothing is copied to make it longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weftrace.facts.models import ModelConfig


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

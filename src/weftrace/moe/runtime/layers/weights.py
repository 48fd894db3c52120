"""Weights drawn by name, so that a rank that holds a part of the experts has the values that one process would have."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Of one layer. The seed of each tensor is a checksum of the run's seed, the layer, its name and its expert."""

    seed: int
    layer: int
    device: torch.device
    dtype: torch.dtype

    def parameter(self, name: str, *shape: int) -> nn.Parameter:
        """A matrix [out, in], normal with variance 1 / in."""
        return nn.Parameter(self._drawn(name, shape))

    def stacked(self, name: str, experts: Iterable[int], *shape: int) -> nn.Parameter:
        """A matrix for each of these experts: [experts, out, in]."""
        return nn.Parameter(torch.stack([self._drawn(f"{name} {expert}", shape) for expert in experts]))

    def norm(self, size: int) -> nn.Parameter:
        return nn.Parameter(torch.ones(size, device=self.device, dtype=self.dtype))

    def zeros(self, size: int) -> nn.Parameter:
        """Without a gradient."""
        return nn.Parameter(torch.zeros(size, device=self.device, dtype=self.dtype), requires_grad=False)

    def _drawn(self, name: str, shape: tuple[int, ...]) -> Tensor:
        seed = zlib.crc32(f"{self.seed} {self.layer} {name}".encode())
        draw = torch.Generator(self.device).manual_seed(seed)
        drawn = torch.empty(shape, device=self.device, dtype=self.dtype)
        return drawn.normal_(0, shape[-1] ** -0.5, generator=draw)

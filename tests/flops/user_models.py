"""Models as a user would write them; tests name them as `tests.flops.user_models:Name`."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Words(nn.Module):
    """Begins with an embedding: its input is ids. One product of 8 x 10 weights a token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 10, bias=False)

    def forward(self, ids: Tensor, scale: Tensor | None = None) -> Tensor:
        x = self.embed(ids)
        return self.head(x if scale is None else x * scale)


class NamesTheCpu(nn.Module):
    """Fails on meta, because it mixes devices; a fake tensor on the CPU is fine."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x) + torch.arange(4, device="cpu")[None]


class LooksAtValues(NamesTheCpu):
    """Runs on nothing but real tensors."""

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x) if x.sum() > 0 else self.line(-x)


class Remembers(nn.Module):
    """Writes down in which mode and how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)
        self.calls: list[tuple[bool, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append((self.training, torch.is_grad_enabled()))
        return self.line(x)


class Talks(Words):
    """Prints as it runs."""

    def forward(self, ids: Tensor, scale: Tensor | None = None) -> Tensor:
        print("here I am")
        return super().forward(ids, scale)


def build() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))


def broken() -> nn.Module:
    raise ValueError("two\nlines of trouble")


def text() -> str:
    return "no module"


instance = nn.Linear(3, 5)
number = 3

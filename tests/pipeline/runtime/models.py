"""Small models in stages, in float64: what passes between their stages differs in kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weftrace.pipeline.runtime.blocks import ExpertBlock
from weftrace.pipeline.runtime.phases import Compute, Phase, PhasedModule, PhasedSequential

WIDTH, WORDS, LENGTH = 8, 11, 6


class Perceptrons(nn.Module):
    """A tensor passes on."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        down: Tensor = self.down(torch.tanh(self.up(x)))
        return down


class Block(nn.Module):
    """A transformer's block. A tuple passes on: hidden states and a mask without gradient; None before the first."""

    def __init__(self, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH) if is_first else None
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = Perceptrons()
        self.head = nn.Linear(WIDTH, WORDS, bias=False) if is_last else None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if mask is None:
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if self.embed is not None:
            x = self.embed(x)
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        x = x + self.mlp(self.norms[1](x))
        return (x, mask) if self.head is None else self.head(x)


class Experts(nn.Module):
    """A mixture of experts, of which each token takes one. A dict passes on, with counts and a loss beside."""

    def __init__(self, num_experts: int = 3) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, num_experts)
        self.experts = nn.ModuleList(Perceptrons() for _ in range(num_experts))

    def forward(self, x: Tensor, balance: Tensor | None = None, counts: Tensor | None = None) -> dict[str, Tensor]:
        scores = torch.softmax(self.router(x), -1)
        best, expert = scores.max(-1)
        out = x
        for number, each in enumerate(self.experts):
            mine = (expert == number).nonzero(as_tuple=True)
            out = out.index_put(mine, x[mine] + best[mine].unsqueeze(-1) * each(x[mine]))
        loss = scores.flatten(0, -2).mean(0).square().sum()
        here = torch.bincount(expert.flatten(), minlength=len(self.experts))
        return {
            "x": out,
            "balance": loss if balance is None else balance + loss,
            "counts": here if counts is None else counts + here,
        }


class Phased(PhasedModule):
    """Blocks with experts between a layer and a weight of its own, as phases."""

    def __init__(self, group: Any = None) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, WIDTH))
        self.blocks = PhasedSequential(*(ExpertBlock(WIDTH, num_experts=4, group=group) for _ in range(2)))

    def phases(self) -> Sequence[Phase]:
        return [Compute("first", lambda x: self.first(x) * self.scale), *self.blocks.phases()]


Loss = Callable[[Any, Any], Tensor]


def model(kind: str, num_stages: int) -> tuple[list[nn.Module], Loss]:
    """The stages and the loss; the same each time."""
    torch.manual_seed(0)
    if kind == "mlp":
        return [Perceptrons().double() for _ in range(num_stages)], _square
    if kind == "transformer":
        return [Block(not s, s == num_stages - 1).double() for s in range(num_stages)], _cross_entropy
    if kind == "phased":
        return [Phased().double() for _ in range(num_stages)], _square
    assert kind == "moe", kind
    return [Experts().double() for _ in range(num_stages)], _balanced


def batch(kind: str, num_micro_batches: int, seed: int = 1) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and targets, by micro-batch."""
    draw = torch.Generator().manual_seed(seed)
    if kind == "transformer":
        words = torch.randint(WORDS, (num_micro_batches, 2, LENGTH + 1), generator=draw)
        return [*words[:, :, :-1]], [*words[:, :, 1:]]
    shape = (num_micro_batches, 3, WIDTH) if kind == "mlp" else (num_micro_batches, 2, LENGTH, WIDTH)
    x, y = (torch.randn(shape, generator=draw, dtype=torch.float64) for _ in range(2))
    return [*x], [*y]


def _square(out: Tensor, target: Tensor) -> Tensor:
    return (out - target).square().mean()


def _cross_entropy(out: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(out.flatten(0, 1), target.flatten())


def _balanced(out: dict[str, Tensor], target: Tensor) -> Tensor:
    return _square(out["x"], target) + 0.01 * out["balance"]

"""Which tokens a micro-batch holds: whole prompts and parts of them, or the newest of requests that decode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from weftrace.errors import ProfileError


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens start ... start + length - 1 of a prompt of `of` tokens. They attend to all tokens before them."""

    prompt: int
    start: int
    length: int
    of: int

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def num_pairs(self) -> int:
        """Pairs of a token and one that it attends to, itself included: what attention's core costs."""
        return self.length * self.start + self.length * (self.length + 1) // 2


def whole(lengths: Sequence[int]) -> tuple[Segment, ...]:
    """Prompts of these lengths, none of them split."""
    return tuple(Segment(prompt, 0, length, length) for prompt, length in enumerate(lengths))


def split_prompts(
    lengths: Sequence[int], *, token_cost: float = 0.0
) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Prompts of these lengths in two micro-batches whose attention costs the same but for one token's.

    The prompts stand in a row, and the row is cut at half of its cost; so at most one prompt is split, whose later part
    attends to the keys and values of the first: the first micro-batch's attention must run first in each layer. A token
    at position p costs p + 1 pairs, and token_cost besides (0: the core of attention alone counts).
    """
    segments = whole(lengths)
    if sum(lengths) < 2 or min(lengths, default=0) < 1:
        raise ProfileError(f"prompts of {list(lengths)} tokens cannot be split over two micro-batches")
    costs = torch.cat([torch.arange(1, length + 1, dtype=torch.float64) for length in lengths]) + token_cost
    before = costs.cumsum(0)
    # The cut after which both sides differ least; each side keeps a token.
    cut = int((2 * before[:-1] - before[-1]).abs().argmin()) + 1
    first: list[Segment] = []
    second: list[Segment] = []
    at = 0
    for segment in segments:
        mine = min(max(cut - at, 0), segment.length)
        if mine:
            first.append(Segment(segment.prompt, 0, mine, segment.of))
        if mine < segment.length:
            second.append(Segment(segment.prompt, mine, segment.length - mine, segment.of))
        at += segment.length
    return tuple(first), tuple(second)


@dataclass(slots=True, kw_only=True)
class Tokens:
    """The tokens of one micro-batch on this rank, one below the other: T rows.

    segments: of prompts, for training and prefill. Decode has none: requests x per_request tokens, the newest of each
    request, which attend to `cache` and to each other.
    earlier: (layer, prompt) -> what attention keeps of the prompt's earlier tokens; shared by the micro-batches of a
    run. caches: of each layer, [requests, positions, C]; filled: positions that hold something.
    """

    device: torch.device
    segments: tuple[Segment, ...] = ()
    earlier: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    requests: int = 0
    per_request: int = 0
    caches: list[Tensor] = field(default_factory=list)
    filled: int = 0
    _turns: dict[tuple[int, float, torch.dtype], Tensor] = field(default_factory=dict)

    @property
    def decodes(self) -> bool:
        return bool(self.requests)

    @property
    def count(self) -> int:
        return self.requests * self.per_request or sum(segment.length for segment in self.segments)

    def positions(self) -> Tensor:
        """Of each token in its prompt, [T]."""
        if self.decodes:
            return torch.arange(self.filled, self.filled + self.per_request, device=self.device).repeat(self.requests)
        return torch.cat([torch.arange(each.start, each.end, device=self.device) for each in self.segments])

    def turns(self, dim: int, theta: float, dtype: torch.dtype) -> Tensor:
        """Cosines and sines of the positions, [2, T, 1, dim / 2] (RoFormer, arXiv:2104.09864); made once a step."""
        key = dim, theta, dtype
        if key not in self._turns:
            exact = torch.float64 if dtype == torch.float64 else torch.float32
            rates = theta ** (torch.arange(0, dim, 2, dtype=exact, device=self.device) / -dim)
            angles = self.positions()[:, None, None] * rates
            self._turns[key] = torch.stack((angles.cos(), angles.sin())).to(dtype)
        return self._turns[key]


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """x [T, H, D] turned by its positions: pairs are (first half, second half)."""
    first, second = x.chunk(2, -1)
    cos, sin = turns[0], turns[1]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

"""A GPT of two blocks, small enough for a pencil: B 2, S 16, h 32, 4 heads, V 64, no bias in the head.

Forward, in MACs: each block QKV 3 B S h^2, scores and values 2 B S^2 h, output B S h^2, MLP 8 B S h^2; head B S h V.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

B, S, H, HEADS, V, LAYERS = 2, 16, 32, 4, 64, 2
BLOCK_MACS = 12 * B * S * H * H + 2 * B * S * S * H
MACS = LAYERS * BLOCK_MACS + B * S * H * V


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(H, 3 * H)
        self.out = nn.Linear(H, H)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(B, S, HEADS, H // HEADS).transpose(1, 2) for part in self.qkv(x).split(H, -1))
        y = F.scaled_dot_product_attention(query=q, key=k, value=v, is_causal=True)
        out: torch.Tensor = self.out(y.transpose(1, 2).reshape(B, S, H))
        return out


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(H), Attention()
        self.norm2, self.mlp = nn.LayerNorm(H), nn.Sequential(nn.Linear(H, 4 * H), nn.GELU(), nn.Linear(4 * H, H))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        out: torch.Tensor = x + self.mlp(self.norm2(x))
        return out


class GPT(nn.Module):
    """own_head: the head is a product in the root's own forward, not a module's."""

    def __init__(self, own_head: bool = False) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(V, H), nn.Embedding(S, H)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(H), nn.Linear(H, V, bias=False)
        self.own_head = own_head

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        out: torch.Tensor = x @ self.head.weight.t() if self.own_head else self.head(x)
        return out


def ids(device: str = "cpu") -> torch.Tensor:
    return torch.zeros(B, S, dtype=torch.long, device=device)

"""ResNet-50, MobileNetV2 and ViT written by hand from their papers' tables, for counting."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _conv(cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout))


class Bottleneck(nn.Module):
    def __init__(self, cin: int, width: int, stride: int, first: bool) -> None:
        super().__init__()
        self.reduce = _conv(cin, width, 1)
        self.middle = _conv(width, width, 3, stride)
        self.expand = _conv(width, 4 * width, 1)
        self.shortcut = _conv(cin, 4 * width, 1, stride) if first else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out = self.expand(F.relu(self.middle(F.relu(self.reduce(x)))))
        return F.relu(out + self.shortcut(x))


class ResNet50(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        cin = 64
        for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for block in range(count):
                blocks.append(Bottleneck(cin, width, 2 if stage and not block else 1, not block))
                cin = 4 * width
        self.stem = nn.Sequential(_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(2048, classes)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.blocks(self.stem(x)).mean((2, 3)))
        return out


class Inverted(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int, expand: int) -> None:
        super().__init__()
        wide = cin * expand
        self.add = stride == 1 and cin == cout
        self.expand = nn.Sequential(_conv(cin, wide, 1), nn.ReLU6()) if expand > 1 else nn.Identity()
        self.depth = nn.Sequential(_conv(wide, wide, 3, stride, groups=wide), nn.ReLU6())
        self.project = _conv(wide, cout, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.project(self.depth(self.expand(x)))
        return x + out if self.add else out


class MobileNetV2(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        table = (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        )
        blocks: list[nn.Module] = []
        cin = 32
        for expand, cout, count, stride in table:
            for block in range(count):
                blocks.append(Inverted(cin, cout, stride if not block else 1, expand))
                cin = cout
        self.stem = nn.Sequential(_conv(3, 32, 3, 2), nn.ReLU6())
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(_conv(320, 1280, 1), nn.ReLU6())
        self.fc = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.last(self.blocks(self.stem(x))).mean((2, 3)))
        return out


class VitLayer(nn.Module):
    def __init__(self, h: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm1, self.norm2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.qkv, self.output = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        if self.fused and not x.is_meta:
            seen = F.scaled_dot_product_attention(q, k, v)
        elif self.fused:
            seen = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)[0]
        else:
            seen = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v
        x = x + self.output(seen.transpose(1, 2).flatten(2))
        out: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return out


class Vit(nn.Module):
    def __init__(
        self, *, size: int, patch: int, h: int, layers: int, heads: int, fused: bool, classes: int = 1000
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, h, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, h))
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, h))
        self.layers = nn.Sequential(*(VitLayer(h, heads, fused) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(h), nn.Linear(h, classes)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat((self.token.expand(len(x), -1, -1), rows), 1) + self.positions
        out: Tensor = self.head(self.norm(self.layers(rows))[:, 0])
        return out

"""Ten small models, each with a step to run: what one of them does is counted live and read from its trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class Case:
    """step: a forward and a backward, or more. values: operators whose work depends on values that a trace lacks."""

    model: nn.Module
    step: Callable[[], object]
    values: frozenset[str] = frozenset()


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.each, self.causal = heads, kv_heads, width // heads, causal
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key = nn.Linear(width, kv_heads * self.each)
        self.value = nn.Linear(width, kv_heads * self.each)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        query = self.query(x).view(batch, length, self.heads, self.each).transpose(1, 2)
        key = self.key(x).view(batch, length, self.kv_heads, self.each).transpose(1, 2)
        value = self.value(x).view(batch, length, self.kv_heads, self.each).transpose(1, 2)
        grouped = self.heads != self.kv_heads
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=self.causal, enable_gqa=grouped
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class RMSNorm(nn.Module):
    """As Llama's in transformers: torch's own is one operator on a GPU and several on a CPU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Transformer(nn.Module):
    def __init__(self, *, kv_heads: int = 4, causal: bool = True, llama: bool = False) -> None:
        super().__init__()
        norm = RMSNorm if llama else nn.LayerNorm
        self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
        self.attention = Attention(32, 4, kv_heads, causal=causal)
        self.before, self.between = norm(32), norm(32)
        self.up, self.gate, self.down = nn.Linear(32, 64), nn.Linear(32, 64) if llama else None, nn.Linear(64, 32)
        self.head, self.drop = nn.Linear(32, 50, bias=False), nn.Dropout(0.1)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        x = x + self.drop(self.attention(self.before(x), mask))
        inner = self.between(x)
        inner = F.gelu(self.up(inner)) if self.gate is None else F.silu(self.gate(inner)) * self.up(inner)
        return self.head(x + self.down(inner))


class Experts(nn.Module):
    """Each row goes to two of four experts, in grouped products."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(4, 16, 32)), nn.Parameter(torch.randn(4, 32, 16))

    def forward(self, x: Tensor) -> Tensor:
        chances = self.router(x).softmax(-1)
        _, chosen = chances.detach().topk(2)
        flat = chosen.flatten()
        order = flat.argsort()
        ends = (flat[:, None] == torch.arange(4)).sum(0).cumsum(0).to(torch.int32)
        rows = x.repeat(2, 1).index_select(0, order)
        hidden = torch._grouped_mm(rows.bfloat16(), self.up.bfloat16(), offs=ends)
        mixed = torch._grouped_mm(F.silu(hidden), self.down.bfloat16(), offs=ends).float()
        back = torch.zeros_like(mixed).index_copy(0, order, mixed).view(-1, 2, 16)
        shares = (chances[:, None] * (chosen[..., None] == torch.arange(4))).sum(-1, keepdim=True)
        return (back * shares).sum(1)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.grouped = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.Conv2d(8, 8, 3, 1, 1, groups=4)
        self.down, self.head = nn.Conv2d(8, 16, 1, 2), nn.Linear(16, 5)
        self.first, self.second, self.last = nn.BatchNorm2d(8), nn.BatchNorm2d(8), nn.GroupNorm(4, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.first(self.stem(x)), inplace=True), 3, 2, 1)
        x = self.last(self.down(x + F.relu(self.second(self.grouped(x)))))
        return self.head(F.adaptive_avg_pool2d(F.avg_pool2d(x, 2), 1).flatten(1))


class Decoder(nn.Module):
    """Depthwise, dilated, transposed and one-dimensional convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(4, 4, 3, 1, 2, dilation=2, groups=4)
        self.up = nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2)
        self.along = nn.Conv1d(6, 3, 5, padding="same")

    def forward(self, x: Tensor) -> Tensor:
        x = F.interpolate(self.up(self.depthwise(x)), scale_factor=2, mode="bilinear")
        return self.along(F.pad(F.pixel_unshuffle(x, 2), (1, 1))[:, :6, 0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(20, 8), nn.Linear(32, 20)
        self.layers = nn.LSTM(8, 16, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.tokens(tokens))[0])


class StateSpace(nn.Module):
    """A selective scan, step by step (Gu and Dao, Mamba, 2023)."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.mix = nn.Linear(8, 16), nn.Conv1d(8, 8, 4, groups=8, padding=3)
        self.select, self.step, self.out = nn.Linear(8, 9), nn.Linear(1, 8), nn.Linear(8, 8)
        self.decay, self.skip = nn.Parameter(torch.randn(8, 4)), nn.Parameter(torch.ones(8))

    def forward(self, u: Tensor) -> Tensor:
        x, gate = self.into(u).chunk(2, -1)
        x = F.silu(self.mix(x.transpose(1, 2))[..., : u.shape[1]].transpose(1, 2))
        step, b, c = self.select(x).split([1, 4, 4], -1)
        step = F.softplus(self.step(step))
        keep = torch.exp(step[..., None] * -torch.exp(self.decay))
        add = step[..., None] * b[:, :, None] * x[..., None]
        state, outs = torch.zeros(u.shape[0], 8, 4), []
        for t in range(u.shape[1]):
            state = keep[:, t] * state + add[:, t]
            outs.append((state * c[:, t, None]).sum(-1))
        return self.out((torch.stack(outs, 1) + x * self.skip) * F.silu(gate))


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.gelu(self.norm(self.first(x))))


def _trained(model: nn.Module, *inputs: Tensor, target: Tensor | None = None, values: str = "") -> Case:
    def step() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        out = model(*inputs)
        loss = out.pow(2).mean() if target is None else F.cross_entropy(out.flatten(0, -2), target.flatten())
        loss.backward()

    return Case(model, step, frozenset(values.split()))


def _optimized(optimizer: Callable[..., torch.optim.Optimizer], *, mixed: bool = False, **options: object) -> Case:
    model = Perceptron()
    stepped = optimizer(model.parameters(), **options)
    x = torch.randn(3, 16)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = model(x).float().pow(2).mean()
        loss.backward()
        if mixed:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        stepped.step()
        stepped.zero_grad()

    step()  # the optimizer's state is there
    return Case(model, step)


def _masked() -> Case:
    tokens = torch.randint(0, 50, (2, 16))
    mask = torch.ones(2, 1, 1, 16, dtype=torch.bool)
    mask[1, ..., 9:] = False
    kernel = "_scaled_dot_product_flash_attention_for_cpu"
    return _trained(Transformer(causal=False), tokens, mask, target=tokens, values=f"{kernel} {kernel}_backward")


def _language(**options: object) -> Case:
    tokens = torch.randint(0, 50, (2, 16))
    return _trained(Transformer(**options), tokens, target=tokens)  # type: ignore[arg-type]


CASES: dict[str, Callable[[], Case]] = {
    "gpt": _language,
    "bert with padding": _masked,
    "llama, grouped queries": lambda: _language(kv_heads=2, llama=True),
    "mixture of experts": lambda: _trained(Experts(), torch.randn(16, 16), values="_grouped_mm"),
    "resnet": lambda: _trained(ResNet(), torch.randn(2, 3, 32, 32)),
    "decoder": lambda: _trained(Decoder(), torch.randn(2, 4, 8, 8)),
    "lstm": lambda: _trained(Recurrent(), torch.randint(0, 20, (2, 6)), values="mkldnn_rnn_layer"),
    "state space": lambda: _trained(StateSpace(), torch.randn(2, 5, 8)),
    "perceptron, foreach": lambda: _optimized(torch.optim.AdamW, foreach=True),
    "perceptron, fused, mixed": lambda: _optimized(torch.optim.AdamW, fused=True, mixed=True),
    "perceptron, sgd": lambda: _optimized(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, foreach=False),
}

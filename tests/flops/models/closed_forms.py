"""What models cost, from their numbers alone: integers, no torch, nothing of weftrace's counting.

B sequences or requests, S new tokens of each, L positions attended to, T = B S rows; h hidden. Every product of an [m,
k] with a [k, n] matrix is 2 m k n. A forward is a list of its products, so that each can be read off the architecture:

    Product("what", 2 m k n)             a linear layer: its backward has two products of the same size (dX and dW)
    Core("what", H pairs, d_qk, d_v)     attention: forward 2 pairs (d_qk + d_v), backward twice that; a fused kernel's
                                         backward executes Q K' once more
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weftrace.facts.models import ModelConfig


@dataclass(frozen=True, slots=True)
class Total:
    """Matrix FLOPs of one phase: with causal attention exact, with every pair, and as executed."""

    flops: int
    full: int
    executed: int


@dataclass(frozen=True, slots=True)
class Product:
    """A product with a weight. grads: products of the same size in the backward (1 where dX or dW is not wanted)."""

    what: str
    flops: int
    grads: int = 2


@dataclass(frozen=True, slots=True)
class Core:
    """Attention. seen, every: pairs of query and key, over batch and heads: unmasked, and all.

    fused: masked pairs are not executed, and the backward computes the scores again.
    grads: (d_qk-wide, d_v-wide) products wanted in the backward: dQ and dK; dV and dP.
    """

    what: str
    seen: int
    every: int
    d_qk: int
    d_v: int
    fused: bool
    grads: tuple[int, int] = (2, 2)


Step = Product | Core


def forward(steps: Iterable[Step]) -> Total:
    flops = full = executed = 0
    for step in steps:
        if isinstance(step, Product):
            flops, full, executed = flops + step.flops, full + step.flops, executed + step.flops
        else:
            wide = 2 * (step.d_qk + step.d_v)
            # The products of an eager attention are over all pairs, and nothing tells that some are thrown away.
            flops += wide * (step.seen if step.fused else step.every)
            full += wide * step.every
            executed += wide * (step.seen if step.fused else step.every)
    return Total(flops, full, executed)


def backward(steps: Iterable[Step]) -> Total:
    flops = full = executed = 0
    for step in steps:
        if isinstance(step, Product):
            each = step.grads * step.flops
            flops, full, executed = flops + each, full + each, executed + each
        else:
            wide = 2 * (step.grads[0] * step.d_qk + step.grads[1] * step.d_v)
            seen = step.seen if step.fused else step.every
            flops += wide * seen
            full += wide * step.every
            executed += (wide + 2 * step.d_qk) * seen if step.fused else wide * seen
    return Total(flops, full, executed)


def causal_pairs(new: int, length: int) -> int:
    """The last of `new` queries sees all `length` keys, the one before one fewer ..."""
    return sum(length - new + i + 1 for i in range(new))


def bert(c: ModelConfig, B: int, S: int, *, fused: bool, masked: int | None = None) -> list[Step]:
    h, i, T = c.hidden_size, c.intermediate_size, B * S
    steps: list[Step] = []
    for _ in range(c.num_layers):
        steps += [Product(name, 2 * T * h * h) for name in ("query", "key", "value", "output")]
        pairs = B * c.num_heads * S * S
        steps += [Core("attention", pairs, pairs, h // c.num_heads, h // c.num_heads, fused)]
        steps += [Product("intermediate", 2 * T * h * i), Product("output", 2 * T * i * h)]
    decoded = T if masked is None else masked
    return [
        *steps,
        Product("pooler, on the first position", 2 * B * h * h),
        Product("transform, on every position", 2 * T * h * h),
        Product("decoder", 2 * decoded * h * c.vocab_size),
        Product("next sentence", 2 * B * h * 2),
    ]


def gpt2(c: ModelConfig, B: int, S: int, *, fused: bool) -> list[Step]:
    h, T = c.hidden_size, B * S
    heads, d = c.num_heads, c.hidden_size // c.num_heads
    layer: list[Step] = [
        Product("qkv", 2 * T * h * 3 * h),
        Core("attention", B * heads * causal_pairs(S, S), B * heads * S * S, d, d, fused),
        Product("output", 2 * T * h * h),
        Product("up", 2 * T * h * 4 * h),
        Product("down", 2 * T * 4 * h * h),
    ]
    return [*layer * c.num_layers, Product("head", 2 * T * h * c.vocab_size)]


def experts(c: ModelConfig, T: int, *, backend: str) -> list[Step]:
    """Gate, T k rows through three matrices each, and the shared expert."""
    e = c.experts
    assert e is not None
    rows = T * e.top_k
    if backend == "bmm":  # every expert padded to the fullest one: balanced, ceil(rows / experts)
        rows = e.num_experts * -(-rows // e.num_experts)
    h, i = c.hidden_size, e.intermediate_size
    return [
        Product("gate", 2 * T * h * e.num_experts),
        Product("experts' gate and up", 2 * rows * h * 2 * i),
        Product("experts' down", 2 * rows * i * h),
        *[Product(f"shared {name}", 2 * T * h * i * e.num_shared) for name in ("gate", "up", "down") if e.num_shared],
    ]


def mlp(c: ModelConfig, T: int, layer: int, *, backend: str) -> list[Step]:
    if c.experts is not None and layer >= c.experts.num_dense_layers:
        return experts(c, T, backend=backend)
    return [Product(name, 2 * T * c.hidden_size * c.intermediate_size) for name in ("gate", "up", "down")]


def llama_layer(
    c: ModelConfig, B: int, S: int, layer: int, *, L: int, fused: bool, backend: str = "grouped_mm"
) -> list[Step]:
    h, T = c.hidden_size, B * S
    heads, kv, d = c.num_heads, c.num_kv_heads or c.num_heads, c.head_dim or c.hidden_size // c.num_heads
    return [
        Product("q", 2 * T * h * heads * d),
        Product("k", 2 * T * h * kv * d),
        Product("v", 2 * T * h * kv * d),
        Core("attention", B * heads * causal_pairs(S, L), B * heads * S * L, d, d, fused),
        Product("o", 2 * T * heads * d * h),
        *mlp(c, T, layer, backend=backend),
    ]


def deepseek_layer(
    c: ModelConfig,
    B: int,
    S: int,
    layer: int,
    *,
    L: int,
    fused: bool,
    backend: str = "grouped_mm",
    decode: bool = False,
) -> list[Step]:
    m = c.latent
    assert m is not None
    h, T, heads = c.hidden_size, B * S, c.num_heads
    expand = m.nope_dim + m.v_dim
    steps: list[Step] = [
        Product("q_a", 2 * T * h * m.q_rank),
        Product("q_b", 2 * T * m.q_rank * heads * (m.nope_dim + m.rope_dim)),
        Product("kv_a", 2 * T * h * (m.kv_rank + m.rope_dim)),
        Product("o", 2 * T * heads * m.v_dim * h),
    ]
    seen, every = B * heads * causal_pairs(S, L), B * heads * S * L
    if decode:  # kv_b's key half on the queries, its value half on what attention saw
        steps += [
            Product("kv_b absorbed", 2 * T * heads * m.kv_rank * expand),
            Core("attention over latents", seen, every, m.kv_rank + m.rope_dim, m.kv_rank, fused),
        ]
    else:
        steps += [
            Product("kv_b", 2 * B * L * m.kv_rank * heads * expand),
            Core("attention", seen, every, m.nope_dim + m.rope_dim, m.v_dim, fused),
        ]
    return [*steps, *mlp(c, T, layer, backend=backend)]


def causal_model(
    c: ModelConfig,
    B: int,
    S: int,
    *,
    phase: str = "train",
    context: int = 0,
    fused: bool = True,
    backend: str = "grouped_mm",
) -> list[Step]:
    """llama and deepseek, any phase. context: as weftrace's `model_inputs` has it."""
    L = context if phase == "decode" else context + S
    steps: list[Step] = []
    for layer in range(c.num_layers):
        if c.latent is not None:
            decode = phase == "decode"
            steps += deepseek_layer(c, B, S, layer, L=L, fused=fused, backend=backend, decode=decode)
        else:
            steps += llama_layer(c, B, S, layer, L=L, fused=fused, backend=backend)
    kept = B if phase == "prefill" else B * S
    return [*steps, Product("head", 2 * kept * c.hidden_size * c.vocab_size)]


# -- vision


def conv(cin: int, cout: int, kernel: int, out: int, *, batch: int, groups: int = 1, grads: int = 2) -> Product:
    """2 x outputs x (input channels of a group) x kernel area. out: height and width of the output."""
    return Product("conv", 2 * batch * cout * out * out * (cin // groups) * kernel * kernel, grads)


def resnet50(B: int, size: int = 224, classes: int = 1000) -> list[Step]:
    """He et al. 2015 (arXiv:1512.03385), table 1, the stride on the 3 x 3 (version 1.5). Images need no gradient."""
    side = size // 2
    steps: list[Step] = [conv(3, 64, 7, side, batch=B, grads=1)]
    side //= 2
    cin = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            before = side
            if stage and not block:
                side //= 2
            steps += [conv(cin, width, 1, before, batch=B), conv(width, width, 3, side, batch=B)]
            steps += [conv(width, 4 * width, 1, side, batch=B)]
            if not block:
                steps += [conv(cin, 4 * width, 1, side, batch=B)]
            cin = 4 * width
    return [*steps, Product("fc", 2 * B * 2048 * classes)]


def mobilenet_v2(B: int, size: int = 224, classes: int = 1000) -> list[Step]:
    """Sandler et al. 2018 (arXiv:1801.04381), table 2."""
    side = size // 2
    steps: list[Step] = [conv(3, 32, 3, side, batch=B, grads=1)]
    cin = 32
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for t, c, n, s in table:
        for block in range(n):
            wide = t * cin
            if t > 1:
                steps += [conv(cin, wide, 1, side, batch=B)]
            side //= s if not block else 1
            steps += [conv(wide, wide, 3, side, batch=B, groups=wide), conv(wide, c, 1, side, batch=B)]
            cin = c
    return [*steps, conv(cin, 1280, 1, side, batch=B), Product("fc", 2 * B * 1280 * classes)]


def vit(
    B: int, *, size: int, patch: int, h: int, layers: int, heads: int, fused: bool, classes: int = 1000
) -> list[Step]:
    """Dosovitskiy et al. 2020 (arXiv:2010.11929): patches and one class token, no mask."""
    side = size // patch
    S = side * side + 1
    T = B * S
    pairs = B * heads * S * S
    layer: list[Step] = [
        Product("qkv", 2 * T * h * 3 * h),
        Core("attention", pairs, pairs, h // heads, h // heads, fused),
        Product("output", 2 * T * h * h),
        Product("up", 2 * T * h * 4 * h),
        Product("down", 2 * T * 4 * h * h),
    ]
    return [conv(3, h, patch, side, batch=B, grads=1), *layer * layers, Product("head", 2 * B * h * classes)]


def total(steps: Sequence[Step]) -> int:
    """Model FLOPs of forward and backward."""
    return forward(steps).flops + backward(steps).flops

"""Small models in float64, micro-batches of them, and the same computed plainly: one graph, a loop over experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from weftrace.facts.models import ExpertsConfig, LatentConfig, ModelConfig
from weftrace.moe.runtime.layers.layer import LayerOptions, MoeLayer, build_layers
from weftrace.moe.runtime.layers.tokens import Segment, Tokens

CPU = torch.device("cpu")
EXPERTS = ExpertsConfig(
    num_experts=8, top_k=2, intermediate_size=8, num_shared=1, num_groups=4, top_groups=2, scoring="sigmoid",
    routed_scale=1.5,
)  # fmt: skip
LATENT = LatentConfig(q_rank=12, kv_rank=8, rope_dim=4, nope_dim=6, v_dim=5)
MLA = ModelConfig(
    name="small-mla", family="deepseek", vocab_size=8, hidden_size=16, num_layers=3, num_heads=2, intermediate_size=8,
    max_positions=64, experts=EXPERTS, latent=LATENT,
)  # fmt: skip
GQA = replace(
    MLA, name="small-gqa", family="llama", latent=None, num_heads=4, num_kv_heads=2, head_dim=4, qk_norm=True,
    experts=replace(EXPERTS, num_shared=0, num_groups=1, top_groups=1, scoring="softmax"),
)  # fmt: skip
MODELS = {"mla": MLA, "gqa": GQA}


def layers_of(
    config: ModelConfig, num_layers: int = 3, ranks: int = 1, rank: int = 0, routing: str = "learned",
    *, only: int | None = None,
) -> list[MoeLayer]:  # fmt: skip
    """only: every token goes to this many experts, the first ones, whatever the gate says."""
    options = LayerOptions(ranks=ranks, rank=rank, routing=routing, device=CPU, dtype=torch.float64)
    layers = build_layers(config, num_layers, options)
    for layer in layers:
        if only is not None and layer.gate.bias is not None:
            layer.gate.bias.data[:only] += 100
    return layers


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def prompts(segments: Sequence[Segment]) -> Tokens:
    return Tokens(device=CPU, segments=tuple(segments))


def plain_layer(layer: MoeLayer, x: Tensor, tokens: Tokens) -> Tensor:
    """One layer in one graph: each expert in turn, on the tokens that chose it."""
    after, normed, weights, experts = layer.attn_1(x, *layer.attn_0(x, tokens), tokens)
    out = after + layer.shared(normed)
    for expert, (up, down) in enumerate(zip(layer.experts.gate_up, layer.experts.down, strict=True)):
        token, choice = (experts == expert).nonzero(as_tuple=True)
        gate, value = F.linear(normed[token], up).chunk(2, -1)
        answer = F.linear(F.silu(gate) * value, down) * weights[token, choice, None]
        out = out.index_add(0, token, answer)
    return out


def plain(layers: Sequence[MoeLayer], x: Tensor, tokens: Tokens) -> Tensor:
    for layer in layers:
        x = plain_layer(layer, x, tokens)
    return x


def gradients(layers: Sequence[MoeLayer]) -> dict[str, Tensor]:
    """By layer and name; of weights that have one."""
    return {
        f"{number}.{name}": parameter.grad
        for number, layer in enumerate(layers)
        for name, parameter in layer.named_parameters()
        if parameter.grad is not None
    }


def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference, as a part of the largest number of its tensor."""
    assert one.keys() == other.keys(), one.keys() ^ other.keys()
    return max(
        float(((one[name] - other[name]).abs().max() / other[name].abs().max().clamp(min=1e-30)).detach())
        for name in one
    )

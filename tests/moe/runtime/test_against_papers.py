"""A whole layer written anew, from the papers, with no line of the runtime's: norms, attention, gate, experts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.moe.runtime.small import EXPERTS, GQA, LATENT, MLA, drawn, layers_of, prompts
from weftrace.facts.models import ModelConfig
from weftrace.moe import load_overlap
from weftrace.moe.runtime import MicroBatch, Payloads, execute
from weftrace.moe.runtime.layers.tokens import whole
from weftrace.moe.runtime.moving.transports import transport_of

Weights = dict[str, Tensor]
LENGTHS = [5, 9]
MODELS = {
    "mla": MLA,
    "v2-lite": replace(
        MLA, latent=replace(LATENT, q_rank=0), experts=replace(EXPERTS, scoring="softmax", num_groups=1)
    ),
    "gqa": GQA,
}


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def turned(x: Tensor, theta: float) -> Tensor:
    """x [T, H, D], the tokens of one prompt (arXiv:2104.09864, pairs of the first and the second half)."""
    half = x.shape[-1] // 2
    angles = torch.arange(len(x), dtype=x.dtype)[:, None, None] * theta ** (-torch.arange(half, dtype=x.dtype) / half)
    turn = torch.polar(torch.ones_like(angles), angles) * torch.complex(x[..., :half], x[..., half:])
    return torch.cat((turn.real, turn.imag), -1)


def attention(model: ModelConfig, of: Weights, x: Tensor) -> Tensor:
    """Of one prompt: queries, keys and values of each head, a softmax over what came before."""
    heads, eps, theta = model.num_heads, model.norm_eps, model.rope_theta
    if latent := model.latent:
        compressed = normed(x @ of["q_a"].T, of["q_norm"], eps) if latent.q_rank else x
        q = (compressed @ of["q_b"].T).view(len(x), heads, -1)
        q = torch.cat((q[..., : latent.nope_dim], turned(q[..., latent.nope_dim :], theta)), -1)
        kv = x @ of["kv_a"].T
        both = (normed(kv[:, : latent.kv_rank], of["kv_norm"], eps) @ of["kv_b"].T).view(len(x), heads, -1)
        rope = turned(kv[:, None, latent.kv_rank :], theta).expand(-1, heads, -1)
        k, v = torch.cat((both[..., : latent.nope_dim], rope), -1), both[..., latent.nope_dim :]
    else:
        q = turned(normed((x @ of["q"].T).view(len(x), heads, -1), of["q_norm"], eps), theta)
        k, v = (x @ of["kv"].T).view(len(x), 2 * model.kv_heads, -1).chunk(2, 1)
        k, v = (each.repeat_interleave(heads // model.kv_heads, 1)
                for each in (turned(normed(k, of["k_norm"], eps), theta), v))  # fmt: skip
    scores = torch.einsum("thd,shd->hts", q, k) / math.sqrt(q.shape[-1])
    later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    seen = torch.einsum("hts,shd->thd", scores.masked_fill(later, -math.inf).softmax(-1), v)
    return seen.flatten(1) @ of["output"].T


def experts_of(model: ModelConfig, scores: list[float]) -> list[int]:
    """The best experts of the best groups, of one token: a group is as good as its two best."""
    experts = model.experts
    assert experts is not None
    size = experts.num_experts // experts.num_groups
    groups = [range(start, start + size) for start in range(0, experts.num_experts, size)]
    groups.sort(key=lambda group: -sum(sorted(scores[each] for each in group)[-2:]))
    allowed = [each for group in groups[: experts.top_groups] for each in group]
    return sorted(allowed, key=lambda each: -scores[each])[: experts.top_k]


def gated(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = (x @ gate_up.T).chunk(2, -1)
    return (gate * gate.sigmoid() * up) @ down.T


def layer(model: ModelConfig, of: Weights, x: Tensor) -> Tensor:
    experts, eps = model.experts, model.norm_eps
    assert experts is not None
    own = {name.removeprefix("attention."): weight for name, weight in of.items()}
    x = x + torch.cat([attention(model, own, each) for each in normed(x, of["attention_norm"], eps).split(LENGTHS)])
    rows = normed(x, of["mlp_norm"], eps)
    logits = rows @ of["gate.weight"].T
    scores = logits.sigmoid() if experts.scoring == "sigmoid" else logits.softmax(-1)
    answers = []
    for row, score in zip(rows, scores, strict=True):
        chosen = experts_of(model, score.tolist())
        weights = score[chosen] / score[chosen].sum() * experts.routed_scale
        each = [gated(row, of["experts.gate_up"][expert], of["experts.down"][expert]) for expert in chosen]
        answers.append((torch.stack(each) * weights[:, None]).sum(0))
    shared = gated(rows, of["shared_expert.gate_up"], of["shared_expert.down"]) if experts.num_shared else 0
    return x + torch.stack(answers) + shared


@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_training_is_autograd_through_layers_written_anew(name: str) -> None:
    """Outputs, gradients of inputs and of every weight, to 1e-12 of the largest number of each."""
    model = MODELS[name]
    layers = layers_of(model, 2)
    anew: list[Any] = [
        {key: each.detach().clone().requires_grad_() for key, each in one.named_parameters()} for one in layers
    ]
    x = drawn(sum(LENGTHS), model.hidden_size)
    batch = MicroBatch(layers, prompts(whole(LENGTHS)), x, transport_of(None), Payloads())
    execute(load_overlap("training", "train"), {(0, "F"): batch})
    batch.output_grad = batch.output()
    execute(load_overlap("training", "train"), {(1, "B"): batch})

    leaf = x.clone().requires_grad_()
    out = leaf
    for weights in anew:
        out = layer(model, weights, out)
    (out.square().sum() / 2).backward()
    pairs: list[tuple[Tensor | None, Tensor | None]] = [(batch.output(), out.detach()), (batch.input_grad(), leaf.grad)]
    for one, weights in zip(layers, anew, strict=True):
        pairs += [(each.grad, weights[key].grad) for key, each in one.named_parameters() if each.requires_grad]
    for got, want in pairs:
        assert got is not None and want is not None
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12 * float(want.abs().max()))

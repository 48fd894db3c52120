"""One mixture-of-experts layer as the parts that operations name: attn-0, attn-1, shared, mlp.

T tokens of h dimensions, K experts a token. Between the parts nothing is on autograd's graph: see `flow`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.errors import ProfileError
from weftrace.facts.models import ModelConfig
from weftrace.moe.runtime.layers.attention import attention_of
from weftrace.moe.runtime.layers.experts import ROUTINGS, Experts, Gate, SharedExpert, check_groups
from weftrace.moe.runtime.layers.tokens import Tokens
from weftrace.moe.runtime.layers.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerOptions:
    """How layers are built. ranks, rank: of the group over which the experts are shared out; routing: see `Gate`."""

    device: torch.device
    dtype: torch.dtype
    ranks: int = 1
    rank: int = 0
    routing: str = "balanced"
    seed: int = 0


class MoeLayer(nn.Module):
    """x + attention, and of its norm: gate, routed experts of this rank, shared expert."""

    def __init__(self, config: ModelConfig, layer: int, options: LayerOptions) -> None:
        super().__init__()
        experts = config.experts
        assert experts is not None, config.name
        weights = Weights(seed=options.seed, layer=layer, device=options.device, dtype=options.dtype)
        hidden, each = config.hidden_size, experts.num_experts // options.ranks
        self.layer, self.eps, self.num_experts = layer, config.norm_eps, experts.num_experts
        self.attention_norm, self.mlp_norm = weights.norm(hidden), weights.norm(hidden)
        self.attention = attention_of(config, weights)
        self.gate = Gate(experts, hidden, options.routing, weights, options.rank)
        held = range(options.rank * each, (options.rank + 1) * each)
        self.experts = Experts(experts, hidden, held, weights)
        self.shared_expert = SharedExpert(experts, hidden, weights) if experts.num_shared else None

    def attn_0(self, x: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """x [T, h] -> queries [T, H, D], kept [T, C]."""
        return self.attention.project(F.rms_norm(x, (x.shape[-1],), self.attention_norm, self.eps), tokens)

    def attn_1(self, x: Tensor, query: Tensor, kept: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """-> x after attention [T, h], what the experts get [T, h], weights [T, K], experts [T, K]."""
        after = x + self.attention.attend(query, kept, tokens, self.layer)
        normed = F.rms_norm(after, (after.shape[-1],), self.mlp_norm, self.eps)
        weights, experts = self.gate(normed)
        return after, normed, weights, experts

    def shared(self, normed: Tensor) -> Tensor:
        """[T, h] -> [T, h]; zeros where the model has no shared expert."""
        if self.shared_expert is None:
            return torch.zeros_like(normed)
        out: Tensor = self.shared_expert(normed)
        return out

    def mlp(self, rows: Tensor, weights: Tensor, order: Tensor, counts: list[int]) -> Tensor:
        """Rows that came [N, h] -> the sum of what this rank's experts answer to each, by their weights [N, K].

        order: place (row K + choice) of what each expert gets, by expert; counts: how many it gets.
        """
        row = order // weights.shape[1]
        answers: Tensor = self.experts(rows.index_select(0, row), counts)
        weighted = answers * weights.flatten().index_select(0, order)[:, None]
        return torch.zeros_like(rows).index_add(0, row, weighted)


def build_layers(config: ModelConfig, num_layers: int, options: LayerOptions) -> list[MoeLayer]:
    """The same weights on every rank, but for the experts, of which a rank has its share.

    Raises `ProfileError` where the model has no experts, or where they cannot be shared out or chosen.
    """
    if config.experts is None:
        raise ProfileError(f"{config.name} has no experts: a profile is of mixture-of-experts layers")
    if options.routing not in ROUTINGS:
        raise ProfileError(f"routing {options.routing!r} is unknown; choose from {', '.join(ROUTINGS)}")
    if num_layers < 1:
        raise ProfileError(f"{num_layers} layers cannot be run; 1 is the fewest")
    if config.experts.num_experts % options.ranks:
        raise ProfileError(
            f"{config.experts.num_experts} experts cannot be shared out evenly over {options.ranks} ranks (EP)"
        )
    check_groups(config)
    return [MoeLayer(config, layer, options) for layer in range(num_layers)]

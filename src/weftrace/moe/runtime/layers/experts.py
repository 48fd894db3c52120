"""The gate, the routed experts that live on this rank, and the shared expert.

T tokens of h dimensions go to K of E experts each; a rank holds E / R of them, each a gated MLP of width i.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.errors import ProfileError
from weftrace.facts.models import ExpertsConfig, ModelConfig
from weftrace.moe.runtime.layers.split import grouped, linear
from weftrace.moe.runtime.layers.weights import Weights

ROUTINGS = ("balanced", "learned")


class Gate(nn.Module):
    """x [T, h] -> weights [T, K] and experts [T, K]: the K best by softmax or sigmoid.

    With groups, the best of a token's best groups: a group is as good as its two best experts together (DeepSeek-V3,
    arXiv:2412.19437, section 2.1.2). Routing "balanced" gives the rows to the experts in turn, whatever the gate says,
    as DeepSeek's published profiles do; a token still goes to `top_groups` groups. "learned" is the gate's choice.
    """

    def __init__(self, config: ExpertsConfig, hidden: int, routing: str, weights: Weights, rank: int) -> None:
        super().__init__()
        self.config, self.routing, self.rank = config, routing, rank
        self.weight = weights.parameter("gate", config.num_experts, hidden)
        # For balance: joins the choice, not the weights, and is trained without a gradient.
        self.bias = weights.zeros(config.num_experts) if config.scoring == "sigmoid" else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        config = self.config
        logits = linear(x, self.weight)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        scores = logits.sigmoid() if config.scoring == "sigmoid" else logits.softmax(-1)
        experts = balanced_experts(config, len(x), self.rank, x.device) if self.routing == "balanced" else None
        if experts is None:
            experts = self._best(scores.detach())
        weights = scores.gather(1, experts)
        weights = weights / weights.sum(-1, keepdim=True) * config.routed_scale
        return weights.to(x.dtype), experts

    def _best(self, choice: Tensor) -> Tensor:
        config = self.config
        if self.bias is not None:
            choice = choice + self.bias
        if config.num_groups > 1:
            groups = choice.view(len(choice), config.num_groups, -1)
            best = groups.topk(min(2, groups.shape[-1]), dim=-1).values.sum(-1).topk(config.top_groups, dim=-1).indices
            kept = torch.zeros(groups.shape[:2], dtype=torch.bool, device=choice.device).scatter(1, best, True)
            choice = groups.masked_fill(~kept[..., None], float("-inf")).flatten(1)
        return choice.topk(config.top_k, dim=-1).indices


def check_groups(model: ModelConfig) -> None:
    """Raises `ProfileError`, with both numbers, where a token cannot choose its experts."""
    config = model.experts
    assert config is not None, model.name
    experts, groups = config.num_experts, config.num_groups
    if experts % groups:
        raise ProfileError(f"{experts} experts cannot be cut into the {groups} equal groups of {model.name}")
    choice = experts // groups * config.top_groups
    if config.top_k > choice:
        of = f" in the {config.top_groups} groups of a token" if groups > 1 else ""
        raise ProfileError(f"a token of {model.name} goes to {config.top_k} experts, and there are {choice}{of}")


def balanced_experts(config: ExpertsConfig, num_tokens: int, rank: int, device: torch.device) -> Tensor:
    """Experts [T, K] of this rank's tokens: all equally often over E / K tokens, each token in `top_groups` groups.

    Token t goes to every (G / g)-th of the G groups from group t on, and there to K / g experts, which move on by K / g
    each time the group is used. Where g divides not K, or not G, the rows go to the experts one after the other.
    """
    experts, groups, top_groups, top_k = config.num_experts, config.num_groups, config.top_groups, config.top_k
    token = torch.arange(num_tokens, device=device)[:, None] + rank * num_tokens
    choice = torch.arange(top_k, device=device)[None]
    if groups == 1 or groups % top_groups or top_k % top_groups:
        return (token * top_k + choice) % experts
    apart, each, size = groups // top_groups, top_k // top_groups, experts // groups
    group = (token + choice // each * apart) % groups
    return group * size + (token // apart * each + choice % each) % size


class Experts(nn.Module):
    """The routed experts of one rank in two tensors: gate_up [E / R, 2 i, h] and down [E / R, h, i].

    One grouped product where torch has it for the dtype, else a loop over the experts.
    """

    def __init__(self, config: ExpertsConfig, hidden: int, held: range, weights: Weights) -> None:
        super().__init__()
        wide = config.intermediate_size
        self.gate_up = weights.stacked("gate_up", held, 2 * wide, hidden)
        self.down = weights.stacked("down", held, hidden, wide)

    def forward(self, rows: Tensor, counts: list[int]) -> Tensor:
        """rows [N, h], sorted by expert, and how many each gets -> [N, h]."""
        return grouped(_gated(grouped(rows, self.gate_up, counts)), self.down, counts)


class SharedExpert(nn.Module):
    """What every token goes to besides: one gated MLP, num_shared times as wide as an expert. x [T, h] -> [T, h]."""

    def __init__(self, config: ExpertsConfig, hidden: int, weights: Weights) -> None:
        super().__init__()
        wide = config.num_shared * config.intermediate_size
        self.gate_up = weights.parameter("shared_gate_up", 2 * wide, hidden)
        self.down = weights.parameter("shared_down", hidden, wide)

    def forward(self, x: Tensor) -> Tensor:
        return linear(_gated(linear(x, self.gate_up)), self.down)


def _gated(both: Tensor) -> Tensor:
    gate, up = both.chunk(2, -1)
    return F.silu(gate) * up

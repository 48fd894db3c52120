"""A mixture-of-experts MLP: a gate, routed experts in one of three backends, shared experts.

T tokens of h dimensions go to k of E experts each, T k rows in all. Every backend multiplies exactly T k rows, but
"bmm", which pads every expert to the fullest one's rows.

Routing "balanced" gives the rows to the experts in turn, whatever the gate says: no expert gets over one row more than
another. It is the routing of DeepSeek's published profiles. On a meta device it is the only one: there are no values to
read.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.errors import FlopsError, SpecError
from weftrace.facts.models import ExpertsConfig
from weftrace.flops.runtime.models.linear import GatedMlp, to_fp8

BACKENDS = ("grouped_mm", "bmm", "eager")
ROUTINGS = ("balanced", "learned")


class Gate(nn.Module):
    """x [T, h] -> weights [T, k] and experts [T, k], the k best by softmax or sigmoid.

    With groups, the k best of the best groups: a group is as good as its two best experts together (DeepSeek-V3,
    arXiv:2412.19437, section 2.1.2).
    """

    def __init__(self, config: ExpertsConfig, hidden: int, routing: str, **where: Any) -> None:
        super().__init__()
        self.config, self.routing = config, routing
        self.weight = nn.Parameter(torch.empty(config.num_experts, hidden, **where).normal_(0, hidden**-0.5))
        self.bias = None  # for balance: joins the choice, not the weights, and is trained without a gradient
        if config.scoring == "sigmoid":
            self.bias = nn.Parameter(torch.zeros(config.num_experts, **where), requires_grad=False)

    def extra_repr(self) -> str:
        return f"{self.config.num_experts} experts, top {self.config.top_k}, {self.config.scoring}, {self.routing}"

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        config = self.config
        logits = F.linear(x, self.weight).float()
        scores = logits.sigmoid() if config.scoring == "sigmoid" else logits.softmax(-1)
        choice = scores.detach() if self.bias is None else scores.detach() + self.bias
        if config.num_groups > 1:
            groups = choice.view(x.shape[0], config.num_groups, -1)
            best = groups.topk(2, dim=-1).values.sum(-1).topk(config.top_groups, dim=-1).indices
            kept = torch.zeros(groups.shape[:2], dtype=torch.bool, device=x.device).scatter(1, best, True)
            choice = groups.masked_fill(~kept[..., None], float("-inf")).flatten(1)
        experts = choice.topk(config.top_k, dim=-1).indices
        if self.routing == "balanced" and not x.is_meta:
            experts = (torch.arange(experts.numel(), device=x.device) % config.num_experts).view_as(experts)
        weights = scores.gather(1, experts)
        weights = weights / weights.sum(-1, keepdim=True) * config.routed_scale
        return weights.to(x.dtype), experts


class Experts(nn.Module):
    """Routed experts, all of one layer in two tensors: gate_up [E, 2 i, h] and down [E, h, i].

    backend "grouped_mm": one grouped product for all experts' rows. "bmm": rows padded to those of the fullest expert,
    then batched products. "eager": a loop over the experts that have rows.
    """

    def __init__(self, config: ExpertsConfig, hidden: int, backend: str, *, fp8: bool = False, **where: Any) -> None:
        super().__init__()
        if backend not in BACKENDS:
            raise SpecError(f"experts {backend!r} is unknown; choose from {', '.join(BACKENDS)}")
        if fp8 and backend != "grouped_mm":
            raise SpecError(f"FP8 experts need experts='grouped_mm', not {backend!r}")
        self.num_experts, self.top_k, self.backend, self.fp8 = config.num_experts, config.top_k, backend, fp8
        wide = config.intermediate_size
        if fp8:
            where = {**where, "dtype": torch.float8_e4m3fn}
        self.gate_up = nn.Parameter(torch.zeros(config.num_experts, 2 * wide, hidden, **where), requires_grad=not fp8)
        self.down = nn.Parameter(torch.zeros(config.num_experts, hidden, wide, **where), requires_grad=not fp8)
        if not fp8:
            nn.init.normal_(self.gate_up, 0, hidden**-0.5)
            nn.init.normal_(self.down, 0, wide**-0.5)

    def extra_repr(self) -> str:
        experts, wide, hidden = self.gate_up.shape
        return f"{experts} x ({hidden} -> {wide // 2} -> {hidden}), {self.backend}{', fp8' if self.fp8 else ''}"

    def forward(self, x: Tensor, weights: Tensor, experts: Tensor) -> Tensor:
        """x [T, h], weights and experts [T, k] -> [T, h]."""
        order = experts.flatten().argsort(stable=True)
        token = order // self.top_k
        rows = x[token]
        if self.backend == "grouped_mm":
            out = self._grouped(rows, experts)
        elif self.backend == "bmm":
            out = self._batched(rows, experts.flatten()[order])
        else:
            out = self._looped(rows, experts)
        out = out * weights.flatten()[order, None]
        return torch.zeros_like(x).index_add_(0, token, out)

    def _grouped(self, rows: Tensor, experts: Tensor) -> Tensor:
        gate_up: Tensor = self.gate_up
        down: Tensor = self.down
        num_rows = len(rows)
        if rows.is_meta and num_rows < self.num_experts and not torch.is_grad_enabled():
            gate_up, down = gate_up[:num_rows], down[:num_rows]  # the others' weights are never read
        ends = _counts(experts, self.num_experts)[: len(gate_up)].cumsum(0, dtype=torch.int32)
        hidden = _gated(_grouped_mm(rows, gate_up, ends))
        return _grouped_mm(hidden, down, ends)

    def _batched(self, rows: Tensor, expert: Tensor) -> Tensor:
        num_experts, width = self.num_experts, rows.shape[1]
        counts = _counts(expert, num_experts)
        capacity = -(-len(rows) // num_experts) if rows.is_meta else int(counts.max())
        starts = counts.cumsum(0) - counts
        slot = expert * capacity + torch.arange(len(rows), device=rows.device) - starts[expert]
        padded = rows.new_zeros(num_experts * capacity, width).index_copy(0, slot, rows)
        hidden = _gated(torch.bmm(padded.view(num_experts, capacity, width), self.gate_up.transpose(1, 2)))
        return torch.bmm(hidden, self.down.transpose(1, 2)).view(-1, width)[slot]

    def _looped(self, rows: Tensor, experts: Tensor) -> Tensor:
        if rows.is_meta:
            whole, more = divmod(len(rows), self.num_experts)
            counts = [whole + (expert < more) for expert in range(self.num_experts)]
        else:
            counts = _counts(experts, self.num_experts).tolist()
        # unbind, not one index an expert: its backward stacks the gradients once and does not add E tensors of full
        # size.
        parts = zip(torch.split(rows, counts), self.gate_up.unbind(), self.down.unbind(), strict=True)
        return torch.cat([F.linear(_gated(F.linear(part, up)), down) for part, up, down in parts if len(part)])


class MoeMlp(nn.Module):
    """gate, routed experts and, where the model has them, shared experts: x [B, S, h] -> [B, S, h]."""

    def __init__(
        self, config: ExpertsConfig, hidden: int, backend: str, routing: str, *, fp8: bool = False, **where: Any
    ) -> None:
        super().__init__()
        if routing not in ROUTINGS:
            raise SpecError(f"routing {routing!r} is unknown; choose from {', '.join(ROUTINGS)}")
        self.gate = Gate(config, hidden, routing, **where)
        self.experts = Experts(config, hidden, backend, fp8=fp8, **where)
        self.shared_experts = None
        if config.num_shared:
            self.shared_experts = GatedMlp(hidden, config.num_shared * config.intermediate_size, fp8=fp8, **where)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.view(-1, x.shape[-1])
        out: Tensor = self.experts(rows, *self.gate(rows))
        if self.shared_experts is not None:
            out = out + self.shared_experts(rows)
        return out.view_as(x)


def _counts(experts: Tensor, num_experts: int) -> Tensor:
    """Rows of each expert, [E]: without `bincount`, whose shape a meta device cannot know."""
    flat = experts.flatten()
    return torch.zeros(num_experts, dtype=flat.dtype, device=flat.device).scatter_add_(0, flat, torch.ones_like(flat))


def _gated(both: Tensor) -> Tensor:
    gate, up = both.chunk(2, -1)
    return F.silu(gate) * up


def _grouped_mm(rows: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """rows [R, a], sorted by expert, times weight [E, b, a] -> [R, b]; ends [E]: where each expert's rows end."""
    if weight.dtype == torch.float8_e4m3fn:
        small, scales = to_fp8(rows)
        ones = torch.ones(weight.shape[:2], device=rows.device)
        return torch._scaled_grouped_mm(
            small, weight.transpose(1, 2), scales.flatten(), ones, offs=ends, out_dtype=torch.bfloat16
        )
    if rows.is_meta and rows.dtype != torch.bfloat16:
        raise FlopsError(
            f"torch's grouped product takes bf16 alone on a meta device, not {rows.dtype}; build the model with "
            "dtype=torch.bfloat16, or with experts='bmm'"
        )
    if hasattr(F, "grouped_mm"):
        return F.grouped_mm(rows, weight.transpose(1, 2), offs=ends)
    if hasattr(torch, "_grouped_mm"):  # torch 2.8 and 2.9
        return torch._grouped_mm(rows, weight.transpose(1, 2), offs=ends)
    raise FlopsError(f"torch {torch.__version__} has no grouped product; build the model with experts='bmm' or 'eager'")

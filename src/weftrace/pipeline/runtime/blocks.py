"""Small real blocks to run pipelines with: a transformer's, and one whose experts live on several ranks.

Shapes: B batch, S sequence, H width, N = B S tokens, K experts of a token, E experts, R ranks of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from weftrace.pipeline.runtime.phases import Compute, Exchange, Phase, PhasedModule


class SelfAttention(nn.Module):
    """x + attention(norm(x)), causal. x: [B, S, H]."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Attention, then a network of two layers. It offers no phases, for it communicates nothing."""

    def __init__(self, width: int, *, num_heads: int = 2, inner_width: int | None = None) -> None:
        super().__init__()
        inner = inner_width or 4 * width
        self.attention = SelfAttention(width, num_heads)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(x)
        return x + self.mlp(x)


@dataclass(frozen=True, slots=True)
class RowRoute:
    """Where the rows of one micro-batch go: each token's K rows, ordered by expert, and so by rank.

    order: [N K], which row of (token, choice) is at each place. sent, received: rows to and from each rank. by_expert:
    the order of the received rows by local expert; num_rows: of each local expert.
    """

    order: Tensor
    sent: list[int]
    received: list[int]
    by_expert: Tensor
    num_rows: list[int]


class ExpertBlock(PhasedModule):
    """Attention and gate, dispatch to the ranks of the chosen experts, their networks, combine; as phases.

    The experts are shared out evenly over the ranks of `group`; None: this process has them all, and moves nothing.
    Every rank of the group runs the same phases in the same order, each on tokens of its own.
    """

    def __init__(
        self,
        width: int,
        *,
        num_experts: int,
        top_k: int = 2,
        num_heads: int = 2,
        inner_width: int | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        self.group, self.num_experts, self.top_k = group, num_experts, top_k
        self.num_ranks = dist.get_world_size(group) if group else 1
        if num_experts % self.num_ranks:
            raise ValueError(f"{num_experts} experts cannot be shared out evenly over {self.num_ranks} ranks")
        local, inner = num_experts // self.num_ranks, inner_width or 2 * width
        self.attention = SelfAttention(width, num_heads)
        self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, num_experts, bias=False)
        self.up = nn.Parameter(torch.randn(local, inner, width) / width**0.5)
        self.down = nn.Parameter(torch.randn(local, width, inner) / inner**0.5)
        self.shard_groups = {"up": group, "down": group} if group else {}

    def phases(self) -> Sequence[Phase]:
        return (
            Compute("attn", self._attend),
            Exchange("dispatch", lambda rows, route, *_: RowTransfer(rows, route.sent, route.received, self.group)),
            Compute("mlp", self._experts),
            Exchange("combine", lambda rows, route, *_: RowTransfer(rows, route.received, route.sent, self.group)),
            Compute("merge", self._merge),
        )

    def _attend(self, x: Tensor) -> tuple[Tensor, RowRoute, Tensor, Tensor]:
        """Rows to send [N K, H], where, with which weights [N, K], and what the experts' answers are added to."""
        x = self.attention(x)
        tokens = self.norm(x).flatten(0, -2)
        weights, chosen = self.gate(tokens).softmax(-1).topk(self.top_k, -1)
        route = self._routed(chosen.flatten())
        return tokens[route.order // self.top_k], route, weights / weights.sum(-1, keepdim=True), x

    @torch.no_grad()
    def _routed(self, expert_of_row: Tensor) -> RowRoute:
        counts_RE = expert_of_row.bincount(minlength=self.num_experts).view(self.num_ranks, -1)
        got_RE = torch.empty_like(counts_RE)
        if self.group:  # the others' counts: how many rows will come must be known before room is made for them
            dist.all_to_all_single(got_RE, counts_RE, group=self.group)
        else:
            got_RE.copy_(counts_RE)
        local = torch.arange(counts_RE.shape[1], device=counts_RE.device).expand_as(got_RE)
        expert_of_received = local.flatten().repeat_interleave(got_RE.flatten())
        return RowRoute(
            order=expert_of_row.argsort(stable=True),
            sent=counts_RE.sum(1).tolist(),
            received=got_RE.sum(1).tolist(),
            by_expert=expert_of_received.argsort(stable=True),
            num_rows=got_RE.sum(0).tolist(),
        )

    def _experts(
        self, rows: Tensor, route: RowRoute, weights: Tensor, x: Tensor
    ) -> tuple[Tensor, RowRoute, Tensor, Tensor]:
        parts = rows[route.by_expert].split(route.num_rows)
        made = [
            F.linear(F.silu(F.linear(part, up)), down) for part, up, down in zip(parts, self.up, self.down, strict=True)
        ]
        back = torch.empty_like(route.by_expert)
        back[route.by_expert] = torch.arange(len(back), device=back.device)
        return torch.cat(made)[back], route, weights, x

    def _merge(self, rows: Tensor, route: RowRoute, weights: Tensor, x: Tensor) -> Tensor:
        place = torch.empty_like(route.order)
        place[route.order] = torch.arange(len(place), device=place.device)
        answers = rows[place].unflatten(0, (-1, self.top_k))
        return x + (answers * weights.unsqueeze(-1)).sum(1).view_as(x)


class RowTransfer:
    """Rows on their way to other ranks, as a `Transfer`."""

    def __init__(self, rows: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup | None) -> None:
        self._sent, self._received, self._group = sent, received, group
        self._work: dist.Work | None = None
        self._rows, self._came = rows.contiguous(), rows
        if group:
            self._came = rows.new_empty(sum(received), *rows.shape[1:])
            self._work = dist.all_to_all_single(self._came, self._rows, received, sent, group=group, async_op=True)

    def wait(self) -> Tensor:
        came = self._came
        if self._work:
            self._work.wait()
        del self._work, self._rows, self._came  # what stays is how to send the gradient back
        return came

    def backward(self, grad: Tensor) -> RowTransfer:
        return RowTransfer(grad, self._received, self._sent, self._group)

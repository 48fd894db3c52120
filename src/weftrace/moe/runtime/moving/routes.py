"""Which tokens go to which ranks, and what is done with them there: the layout of dispatch and combine.

T tokens, K experts a token, E experts, R ranks. A token is sent once to each rank that has one of its experts: M rows
in all, which stand by rank, and tokens in their order. N rows come, by rank. There each row goes to one or more of the
rank's E / R experts; their answers, by their weights, add up to one row that goes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(slots=True, kw_only=True)
class Route:
    """Where the tokens of one micro-batch, or of a chunk of it, go in one layer.

    experts: [T, K]. token: [M], which token each sent row is. local: [M, K], which of the rank's experts each choice
    is, -1 for another rank's. sent, received: rows to and from each rank.

    Of the rows that came: counts: how many each expert here gets; order: place (row K + choice) of each of these, by
    expert. Both are known once the rows have come. of_transport: what a transport must know later.
    """

    experts: Tensor
    token: Tensor
    local: Tensor
    sent: list[int]
    received: list[int]
    counts: list[int]
    order: Tensor | None = None
    of_transport: dict[str, Any] = field(default_factory=dict, repr=False)

    def arrived(self, local: Tensor) -> None:
        """What came says for which experts: local [N, K], -1 for none here."""
        flat = local.flatten()
        by_expert = torch.where(flat < 0, len(self.counts), flat).argsort(stable=True)
        self.order = by_expert[: sum(self.counts)]

    def by_token(self, rows: Tensor) -> Tensor:
        """[M, ...], of each token from each rank -> their sums [T, ...], in the order of the ranks."""
        return rows.new_zeros(len(self.experts), *rows.shape[1:]).index_add_(0, self.token, rows)


@torch.no_grad()
def sent_by(experts: Tensor, num_experts: int, ranks: int) -> tuple[Tensor, Tensor, Tensor]:
    """experts [T, K] -> token [M], local [M, K] of `Route`; and rows for each rank and its experts [R, 1 + E / R]."""
    num_local = num_experts // ranks
    rank_of = experts // num_local
    goes_RT = torch.zeros(ranks, len(experts), dtype=torch.bool, device=experts.device)
    goes_RT[rank_of.t(), torch.arange(len(experts), device=experts.device)] = True
    rank, token = goes_RT.nonzero(as_tuple=True)
    local = torch.where(rank_of[token] == rank[:, None], experts[token] % num_local, -1)
    per_expert = torch.bincount(experts.flatten(), minlength=num_experts).view(ranks, num_local)
    return token, local, torch.cat((goes_RT.sum(1, keepdim=True), per_expert), 1)

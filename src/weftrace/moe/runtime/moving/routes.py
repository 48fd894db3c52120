"""Which rows go where, and in which order: the layout of dispatch and combine.

T tokens, K experts a token, E experts, R ranks; N rows that this rank's experts get. A row is one token for one of its
experts. Sent rows stand by rank and expert, and tokens in their order; received ones by rank and expert, and are then
sorted by expert, so that a grouped product can take them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor


class Counts(Protocol):
    """ranks: of the group."""

    ranks: int

    def counts(self, sent: Tensor) -> Tensor:
        """Rows to each expert of each rank [R, E / R] -> rows from each rank for each expert here [R, E / R]."""
        ...


@dataclass(frozen=True, slots=True)
class Route:
    """Where the rows of these tokens go.

    order: [T K], which row (token K + choice) stands at each place of what is sent; place: its inverse; expert: of each
    place. sent, received: rows to and from each rank. by_expert: [N], the received rows sorted by expert; back: its
    inverse. counts: rows of each expert here. of_transport: what a transport must know of it later.
    """

    top_k: int
    expert: Tensor
    order: Tensor
    place: Tensor
    sent: list[int]
    received: list[int]
    by_expert: Tensor
    back: Tensor
    counts: list[int]
    of_transport: dict[str, Any] = field(default_factory=dict, repr=False)


@torch.no_grad()
def route_of(experts: Tensor, num_experts: int, transport: Counts) -> Route:
    """experts [T, K]: the ranks tell each other how many rows they send, and this one waits for that."""
    flat, ranks = experts.flatten(), transport.ranks
    order = flat.argsort(stable=True)
    sent_RE = torch.bincount(flat, minlength=num_experts).view(ranks, -1)
    got_RE = transport.counts(sent_RE)
    local = torch.arange(num_experts // ranks, device=flat.device).expand_as(got_RE)
    by_expert = local.flatten().repeat_interleave(got_RE.flatten()).argsort(stable=True)
    told = torch.cat((sent_RE.sum(1), got_RE.sum(1), got_RE.sum(0))).tolist()  # one copy to the host
    return Route(
        top_k=experts.shape[1],
        expert=flat[order],
        order=order,
        place=_inverse(order),
        sent=told[:ranks],
        received=told[ranks : 2 * ranks],
        by_expert=by_expert,
        back=_inverse(by_expert),
        counts=told[2 * ranks :],
    )


def _inverse(order: Tensor) -> Tensor:
    out = torch.empty_like(order)
    out[order] = torch.arange(len(order), device=order.device)
    return out

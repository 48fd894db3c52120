"""Dispatch and combine: rows to their experts and back, each begun, on its way, and received.

T tokens, K experts a token, E experts, R ranks; N rows that this rank's experts get. A row is one token for one of its
experts. Sent rows stand by rank and expert, and tokens in their order; received ones by rank and expert, and are then
sorted by expert, so that a grouped product can take them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weftrace.moe.runtime.layers.streams import used_here
from weftrace.moe.runtime.moving.payload import Format, from_bytes, to_bytes
from weftrace.moe.runtime.moving.transports import Transport, Waitable


@dataclass(frozen=True, slots=True)
class Route:
    """Where the rows of these tokens go.

    order: [T K], which row (token K + choice) stands at each place of what is sent; place: its inverse. sent, received:
    rows to and from each rank. by_expert: [N], the received rows sorted by expert; back: its inverse. counts: rows of
    each expert here.
    """

    top_k: int
    order: Tensor
    place: Tensor
    sent: list[int]
    received: list[int]
    by_expert: Tensor
    back: Tensor
    counts: list[int]


@torch.no_grad()
def route_of(experts: Tensor, num_experts: int, transport: Transport) -> Route:
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
        order=order,
        place=_inverse(order),
        sent=told[:ranks],
        received=told[ranks : 2 * ranks],
        by_expert=by_expert,
        back=_inverse(by_expert),
        counts=told[2 * ranks :],
    )


@dataclass(slots=True)
class Exchange:
    """Rows on their way. Steps: packed when made, then `post`, then `receive`, which may be asked for again.

    to_experts: by a dispatch kernel, else by a combine kernel, the other way.
    """

    route: Route
    transport: Transport
    kind: Format
    to_experts: bool
    dtype: torch.dtype
    hidden: int
    _packed: Tensor | None = None
    _came: Tensor | None = None
    _work: Waitable | None = None
    _sending: Tensor | None = None
    _rows: Tensor | None = None

    @property
    def posted(self) -> bool:
        return self._packed is None

    @property
    def received(self) -> bool:
        return self._rows is not None

    @torch.no_grad()
    def post(self) -> None:
        """Sends what is packed; what arrives is not waited for."""
        assert self._packed is not None, "posted twice"
        route = self.route
        ways = (route.sent, route.received) if self.to_experts else (route.received, route.sent)
        used_here(self._packed, route.place)
        self._came, self._work = self.transport.start(self._packed, *ways)
        self._sending, self._packed = self._packed, None  # held until it has left

    @torch.no_grad()
    def receive(self) -> Tensor:
        """Waits for what arrives: to experts rows [N, h] sorted by expert; from them [T, K, h], by token and choice."""
        if self._rows is None:
            if not self.posted:
                self.post()
            if self._work is not None:
                self._work.wait()
            assert self._came is not None
            used_here(self._came, self.route.place, self.route.by_expert)
            rows = from_bytes(self._came, self.kind, self.dtype, self.hidden)
            if self.to_experts:
                self._rows = rows[self.route.by_expert]
            else:
                self._rows = rows[self.route.place].unflatten(0, (-1, self.route.top_k))
            self._came = self._work = self._sending = None
        used_here(self._rows)
        return self._rows


@torch.no_grad()
def to_experts(rows: Tensor, route: Route, transport: Transport, kind: Format) -> Exchange:
    """A dispatch kernel. rows: [T, h], each to all its experts, or [T, K, h], one for each."""
    at = route.order // route.top_k if rows.dim() == 2 else route.order
    packed = to_bytes(rows.view(-1, rows.shape[-1]), kind)[at]
    return Exchange(route, transport, kind, True, rows.dtype, rows.shape[-1], packed)


@torch.no_grad()
def from_experts(rows: Tensor, route: Route, transport: Transport, kind: Format) -> Exchange:
    """A combine kernel. rows [N, h], sorted by expert."""
    packed = to_bytes(rows, kind)[route.back]
    return Exchange(route, transport, kind, False, rows.dtype, rows.shape[-1], packed)


def _inverse(order: Tensor) -> Tensor:
    out = torch.empty_like(order)
    out[order] = torch.arange(len(order), device=order.device)
    return out

"""Dispatch and combine: rows to their experts and back, each begun, on its way, and received.

T tokens, K experts a token; N rows that this rank's experts get.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weftrace.moe.runtime.layers.streams import used_here
from weftrace.moe.runtime.moving.payload import Format, from_bytes, to_bytes
from weftrace.moe.runtime.moving.routes import Route
from weftrace.moe.runtime.moving.transports import Transport, Waitable


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
        used_here(self._packed, route.place)
        self._came, self._work = self.transport.start(self._packed, route, self.to_experts)
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

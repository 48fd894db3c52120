"""Dispatch and combine as bytes: packed, posted, received. How a micro-batch sees any transport, and the usual one.

T tokens of h dimensions, K experts a token; N rows that come to this rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from weftrace.moe.runtime.layers.streams import used_here
from weftrace.moe.runtime.moving.payload import Format, as_bytes, from_bytes, of_bytes, to_bytes
from weftrace.moe.runtime.moving.routes import Route

#: Rows, and what travels beside them, [rows, K]: weights of experts to these, and the gradients of weights back.
Moved = tuple[Tensor, Tensor | None]


class Waitable(Protocol):
    def wait(self) -> object: ...


class Exchange(Protocol):
    """Rows on their way: packed when made."""

    @property
    def received(self) -> bool:
        """Whether somebody has waited for what arrives."""
        ...

    def post(self) -> None:
        """Sends what is packed, once; what arrives is not waited for."""
        ...

    def receive(self) -> Moved:
        """Waits for what arrives; may be asked for again. To experts: N rows, by rank. Back from them: T sums."""
        ...


class Transport(Protocol):
    """Who carries rows. ranks, rank: of the group. note: what to know about its times; "" where nothing."""

    ranks: int
    rank: int
    note: str

    def route(self, experts: Tensor, num_experts: int) -> Route:
        """experts [T, K]: ranks tell each other how many rows they send, where they must know."""
        ...

    def dispatch(self, x: Tensor, weights: Tensor | None, route: Route, kind: Format) -> Exchange:
        """x [T, h], weights [T, K] or none: to the ranks of the tokens' experts."""
        ...

    def combine(self, rows: Tensor, weights: Tensor | None, route: Route, kind: Format) -> Exchange:
        """rows [N, h], weights [N, K] or none: back to their tokens, where they are summed."""
        ...


#: Carries bytes [rows, b], ordered by rank: (bytes, route, whether to experts) -> what comes, and what to wait for.
Carry = Callable[[Tensor, Route, bool], tuple[Tensor, Waitable | None]]


class ByteExchange:
    """Rows as bytes in one message: the row, weights beside it, and in a first dispatch which experts are meant."""

    def __init__(
        self, carry: Carry, rows: Tensor, weights: Tensor | None, route: Route, kind: Format, to_experts: bool
    ):
        self._carry, self._route, self._to_experts = carry, route, to_experts
        self._kind, self._dtype, self._hidden = kind, rows.dtype, rows.shape[-1]
        self._has_weights, self._tells_experts = weights is not None, to_experts and route.order is None
        self._work: Waitable | None = None
        self._came: Tensor | None = None
        self._moved: Moved | None = None
        self._posted = False
        self._packed: Tensor | None = self._pack(rows, weights)

    @property
    def received(self) -> bool:
        return self._moved is not None

    @torch.no_grad()
    def post(self) -> None:
        assert self._packed is not None and not self._posted, "posted twice"
        used_here(self._packed, self._route.token)
        # What is sent is held until what comes has come.
        self._came, self._work = self._carry(self._packed, self._route, self._to_experts)
        self._posted = True

    @torch.no_grad()
    def receive(self) -> Moved:
        if self._moved is None:
            if not self._posted:
                self.post()
            if self._work is not None:
                self._work.wait()
            assert self._came is not None
            used_here(self._came, self._route.token)
            self._moved = self._unpack(self._came)
            self._packed = self._came = self._work = None
        used_here(*self._moved)
        return self._moved

    @torch.no_grad()
    def _pack(self, rows: Tensor, weights: Tensor | None) -> Tensor:
        parts = [to_bytes(rows, self._kind)]
        if weights is not None:
            parts.append(as_bytes(weights))
        if self._to_experts:
            parts = [part[self._route.token] for part in parts]
        if self._tells_experts:
            parts.append(as_bytes(self._route.local.to(torch.int32)))
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]

    def _unpack(self, data: Tensor) -> Moved:
        top_k = self._route.experts.shape[1]
        tail = top_k * (self._dtype.itemsize * self._has_weights + 4 * self._tells_experts)
        rows = from_bytes(data[:, : data.shape[1] - tail], self._kind, self._dtype, self._hidden)
        weights = None
        if self._tells_experts:
            self._route.arrived(of_bytes(data[:, data.shape[1] - 4 * top_k :], torch.int32))
        if self._has_weights:
            at = data.shape[1] - tail
            weights = of_bytes(data[:, at : at + top_k * self._dtype.itemsize], self._dtype)
        if self._to_experts:
            return rows, weights
        return self._route.by_token(rows), None if weights is None else self._route.by_token(weights)

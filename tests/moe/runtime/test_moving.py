"""Rows travel as bytes, in the order of the published layout, and come back where they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.moe.runtime.small import drawn
from weftrace.errors import ProfileError
from weftrace.moe.runtime.moving.deepep import DeepEpTransport
from weftrace.moe.runtime.moving.exchanges import from_experts, to_experts
from weftrace.moe.runtime.moving.payload import PUBLISHED, Payloads, from_bytes, to_bytes
from weftrace.moe.runtime.moving.routes import route_of
from weftrace.moe.runtime.moving.transports import LocalTransport, transport_of


@pytest.mark.parametrize(
    ("kind", "num_bytes", "error"), [("exact", 2048, 0.0), ("bf16", 512, 2**-8), ("fp8", 264, 2**-4)]
)
def test_rows_as_bytes(kind: str, num_bytes: int, error: float) -> None:
    """256 numbers: 8 bytes each, 2, or 1 and two scales of 4. e4m3 has 3 bits behind the first, BF16 has 7."""
    rows = drawn(5, 256) * torch.tensor([[1e-3], [1.0], [50.0], [0.0], [1e4]])
    data = to_bytes(rows, kind)  # type: ignore[arg-type]
    assert (data.shape, data.dtype) == ((5, num_bytes), torch.uint8)
    back = from_bytes(data, kind, rows.dtype, 256)  # type: ignore[arg-type]
    scale = rows.unflatten(1, (2, 128)).abs().amax(-1, keepdim=True).expand(-1, -1, 128).flatten(1)
    assert ((back - rows).abs() <= error * rows.abs() + 2**-10 * scale * (kind == "fp8")).all()


def test_rows_stand_by_rank_and_expert_then_by_token() -> None:
    """3 tokens, 2 choices, 4 experts: token 0 to 3 and 0, token 1 to 1 and 3, token 2 to 0 and 1."""
    route = route_of(torch.tensor([[3, 0], [1, 3], [0, 1]]), 4, LocalTransport())
    assert (route.order // 2).tolist() == [0, 2, 1, 2, 0, 1]
    assert (route.sent, route.counts) == ([6], [2, 2, 0, 2])


def test_what_goes_to_experts_comes_back_by_token_and_choice() -> None:
    transport, x = LocalTransport(), drawn(6, 4)
    experts = torch.tensor([[3, 0], [1, 3], [0, 1], [2, 3], [1, 2], [0, 2]])
    route = route_of(experts, 4, transport)
    rows = to_experts(x, route, transport, "exact").receive()
    assert torch.equal(rows, x[[0, 2, 5, 1, 2, 4, 3, 4, 5, 0, 1, 3]])
    back = from_experts(rows * 2, route, transport, "exact").receive()
    assert torch.equal(back, 2 * x[:, None].expand(-1, 2, -1))
    assert torch.equal(to_experts(back, route, transport, "exact").receive(), 2 * rows)


def test_an_emulated_group_gets_the_rows_of_one_rank_and_says_so() -> None:
    """8 experts on 4 ranks: rows of experts 0, 2, 4, 6 come to the first expert here, in the order of their ranks."""
    transport = LocalTransport(4)
    route = route_of(torch.tensor([[0, 5], [2, 7], [4, 1]]), 8, transport)
    assert (route.sent, route.received, route.counts) == ([2, 1, 2, 1], [2, 1, 2, 1], [3, 3])
    rows = to_experts(drawn(3, 4), route, transport, "exact").receive()
    assert torch.equal(rows, drawn(3, 4)[[0, 1, 2, 2, 0, 1]])
    assert transport.note == "all-to-all of 4 ranks emulated on one device: copies of the same bytes, no network"


def test_what_cannot_travel_is_refused_with_both_numbers() -> None:
    with pytest.raises(ProfileError, match="a scale for each 128 numbers, and 96 are no multiple"):
        PUBLISHED.fit(96)
    with pytest.raises(ProfileError, match="payload 'fp4' is unknown; choose from exact, bf16, fp8"):
        Payloads("fp4")  # type: ignore[arg-type]
    with pytest.raises(ProfileError, match="0 ranks cannot be emulated; 1 is the fewest"):
        transport_of(None, 0)


class StandIn:
    """DeepEP's buffer on one rank: rows arrive in reverse, and combine gives them back in the order of dispatch."""

    def get_dispatch_layout(self, topk_idx: Tensor, num_experts: int) -> tuple[Any, ...]:
        return None, None, None, None, self

    def dispatch(self, x: Tensor, handle: Any = None, topk_idx: Tensor | None = None, **more: Any) -> tuple[Any, ...]:
        return x.flip(0), None if topk_idx is None else topk_idx.flip(0), None, [], "a handle", self

    def combine(self, x: Tensor, handle: str, async_finish: bool) -> tuple[Any, ...]:
        assert handle == "a handle"
        return x.flip(0), None, self

    def current_stream_wait(self) -> None:
        pass


class OneRank(DeepEpTransport):
    """Its group is this process, which has no torch.distributed."""

    def __init__(self) -> None:
        self.ranks, self.rank, self._buffer = 1, 0, StandIn()

    def counts(self, sent: Tensor) -> Tensor:
        return sent.clone()


def test_rows_that_deepep_brings_in_any_order_are_sorted_and_go_back_in_it() -> None:
    """Dispatch, its answers, the gradients of these by the handle that is known by then, and back."""
    x, transport = drawn(6, 8).to(torch.bfloat16), OneRank()
    route = route_of(torch.tensor([[3, 0], [1, 3], [0, 1], [2, 3], [1, 2], [0, 2]]), 4, transport)
    rows = to_experts(x, route, transport, "exact").receive()
    weights = torch.arange(4).repeat_interleave(torch.tensor(route.counts))[:, None].to(torch.bfloat16)
    back = from_experts(rows * weights, route, transport, "exact").receive()
    chosen = torch.tensor([[3, 0], [1, 3], [0, 1], [2, 3], [1, 2], [0, 2]])[..., None].to(torch.bfloat16)
    assert torch.equal(back, x[:, None] * chosen)
    again = to_experts(back, route, transport, "exact").receive()
    assert torch.equal(again, rows * weights)
    with pytest.raises(ProfileError, match="a multiple of 16 bytes, and these have 12"):
        to_experts(x[:, :6], route, transport, "exact").receive()
    with pytest.raises(ProfileError, match="it needs a process group"):
        transport_of(None, deepep=True)

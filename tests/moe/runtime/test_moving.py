"""Rows travel as bytes, in the order of the published layout, and come back where they were."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.moe.runtime.small import drawn
from weftrace.errors import ProfileError
from weftrace.moe.runtime.moving.payload import PUBLISHED, Payloads, from_bytes, to_bytes
from weftrace.moe.runtime.moving.routes import sent_by
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


EXPERTS = torch.tensor([[3, 0], [1, 3], [0, 1]])


def test_a_token_is_sent_once_to_each_rank_and_told_its_experts_there() -> None:
    """3 tokens, 2 choices, 4 experts on 2 ranks: token 0 to 1 and 0, token 1 to 0 and 1, token 2 to 0 for both."""
    token, local, sent = sent_by(EXPERTS, 4, 2)
    assert token.tolist() == [0, 1, 2, 0, 1]
    assert local.tolist() == [[-1, 0], [1, -1], [0, 1], [1, -1], [-1, 1]]
    assert sent.tolist() == [[3, 2, 2], [2, 0, 2]]  # rows, and of them for each expert


def test_rows_are_taken_by_expert_and_come_back_by_token() -> None:
    """All 4 experts are here: 3 rows come, each goes to two, expert 0's first, and within an expert tokens in order."""
    transport, x = LocalTransport(), drawn(3, 4)
    weights = torch.tensor([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]], dtype=x.dtype)
    route = transport.route(EXPERTS, 4)
    rows, summary = transport.dispatch(x, weights, route, "exact").receive()
    assert torch.equal(rows, x) and summary is not None and torch.equal(summary, weights)
    assert route.order is not None and (route.order // 2).tolist() == [0, 2, 1, 2, 0, 1]
    assert route.counts == [2, 2, 0, 2]
    back, gradients = transport.combine(3 * rows, summary + 1, route, "exact").receive()
    assert torch.equal(back, 3 * x) and gradients is not None and torch.equal(gradients, weights + 1)
    assert torch.equal(transport.dispatch(x, None, route, "exact").receive()[0], x)


@pytest.mark.parametrize("num_tokens", [0, 1, 2])
def test_few_rows_or_none_travel_too(num_tokens: int) -> None:
    """FP8 rows of 132 bytes, and weights of 8 beside them, which begin at no multiple of 8."""
    transport, x = LocalTransport(), drawn(3, 128)[:num_tokens]
    weights = drawn(3, 2, seed=2)[:num_tokens]
    route = transport.route(EXPERTS[:num_tokens], 4)
    rows, summary = transport.dispatch(x, weights, route, "fp8").receive()
    torch.testing.assert_close(rows, x, rtol=2**-4, atol=0.05)
    assert summary is not None and torch.equal(summary, weights)
    back, gradients = transport.combine(rows, summary, route, "bf16").receive()
    torch.testing.assert_close(back, rows, rtol=2**-7, atol=0.01)
    assert gradients is not None and torch.equal(gradients, weights)


def test_an_emulated_group_gets_the_rows_of_one_rank_and_says_so() -> None:
    """8 experts on 4 ranks. Token 0 goes to ranks 0 and 2, token 1 to 1 and 3, token 2 to 0 and 2: 6 rows come."""
    transport = LocalTransport(4)
    route = transport.route(torch.tensor([[0, 5], [2, 7], [4, 1]]), 8)
    assert (route.sent, route.received, route.counts) == ([2, 1, 2, 1], [2, 1, 2, 1], [3, 3])
    rows, _ = transport.dispatch(drawn(3, 4), torch.ones(3, 2, dtype=torch.float64), route, "exact").receive()
    assert torch.equal(rows, drawn(3, 4)[[0, 2, 1, 0, 2, 1]])
    assert torch.equal(transport.combine(rows, None, route, "exact").receive()[0], 2 * drawn(3, 4))
    assert transport.note == "all-to-all of 4 ranks emulated on one device: copies of the same bytes, no network"


class StandIn:
    """DeepEP's buffer on one rank: rows arrive in reverse, and combine gives them back as they were dispatched."""

    def __init__(self, *given: object) -> None:
        self.waited = 0

    def get_dispatch_layout(self, topk_idx: Tensor, num_experts: int) -> tuple[Any, ...]:
        return "by rank", None, "by expert", "in rank", self

    def dispatch(self, x: Any, handle: Any = None, topk_idx: Any = None, topk_weights: Any = None, **more: Any) -> Any:
        rows = tuple(part.flip(0) for part in x) if isinstance(x, tuple) else x.flip(0)
        if handle is not None:
            assert handle == "a handle" and topk_idx is None and topk_weights is None
            return rows, None, None, None, None, self
        assert more["is_token_in_rank"] == "in rank" and topk_weights.dtype == torch.float32
        counts = torch.bincount(topk_idx.flatten(), minlength=4).tolist()
        return rows, topk_idx.flip(0), topk_weights.flip(0), counts, "a handle", self

    def combine(self, x: Tensor, handle: str, topk_weights: Tensor | None, async_finish: bool) -> Any:
        assert handle == "a handle" and x.dtype == torch.bfloat16
        return x.flip(0), None if topk_weights is None else topk_weights.flip(0), self

    def current_stream_wait(self) -> None:
        self.waited += 1


@pytest.mark.parametrize("kind", ["bf16", "fp8"])
def test_deepep_is_handed_tokens_and_gives_rows_in_any_order(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deep_ep", SimpleNamespace(Buffer=StandIn))
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group: 1)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group: 0)
    transport = transport_of("a group", deepep=True)  # type: ignore[arg-type]
    x = drawn(3, 128).to(torch.bfloat16)
    weights = torch.tensor([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]], dtype=x.dtype)
    route = transport.route(EXPERTS, 4)
    rows, summary = transport.dispatch(x, weights, route, kind).receive()
    torch.testing.assert_close(rows, x.flip(0), rtol=2**-4, atol=0.05)
    assert summary is not None and torch.equal(summary, weights.flip(0)) and route.counts == [2, 2, 0, 2]
    assert route.order is not None and (route.order // 2).tolist() == [0, 2, 0, 1, 1, 2]  # token 2 came first
    back, gradients = transport.combine(rows, summary, route, "bf16").receive()
    assert torch.equal(back, rows.flip(0)) and gradients is not None and torch.equal(gradients, weights)
    assert transport.dispatch(x, None, route, kind).receive()[1] is None
    assert transport.buffer.waited == 3  # type: ignore[attr-defined]


def test_without_deepep_it_is_said() -> None:
    with pytest.raises(ProfileError, match="it needs a process group"):
        transport_of(None, deepep=True)
    with pytest.raises(ProfileError, match="DeepEP cannot be imported"):
        transport_of("a group", deepep=True)  # type: ignore[arg-type]


def test_what_cannot_travel_is_refused_with_both_numbers() -> None:
    with pytest.raises(ProfileError, match="a scale for each 128 numbers, and 96 are no multiple"):
        PUBLISHED.fit(96)
    with pytest.raises(ProfileError, match="payload 'fp4' is unknown; choose from exact, bf16, fp8"):
        Payloads("fp4")  # type: ignore[arg-type]
    with pytest.raises(ProfileError, match="0 ranks cannot be emulated; 1 is the fewest"):
        transport_of(None, 0)

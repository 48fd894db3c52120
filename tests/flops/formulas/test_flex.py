"""Flex attention: blocks of the mask, and nothing raised that the plain program would not raise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from weftrace.costs.cost import Cost, Status
from weftrace.flops.runtime.formulas.flex import flex_pairs
from weftrace.flops.runtime.formulas.live_call import LiveCall
from weftrace.flops.runtime.formulas.operators import rule_of
from weftrace.flops.runtime.profile import profile


def _causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def _mask(size: int, keys: int | None = None, *, batch: int | None = None) -> BlockMask:
    return create_block_mask(_causal, batch, None, size, size if keys is None else keys, device="cpu")


def _cost(op: Any, *args: Any) -> Cost:
    rule = rule_of(op)
    assert rule is not None
    return rule.formula(LiveCall(op, args, {}, None))


def test_blocks_of_a_causal_mask() -> None:
    # Blocks of 128 in 384 x 384, "o" partly masked:   o . .
    #                                                  X o .
    #                                                  X X o   6 of 9
    query = torch.randn(2, 4, 384, 16)
    pairs = flex_pairs(query, query, _mask(384).as_tuple())
    assert (pairs.seen, pairs.every) == (2 * 4 * 6 * 128 * 128, 2 * 4 * 384 * 384)
    assert pairs.status is Status.ESTIMATE and "3 of 6 blocks" in pairs.note


def test_a_mask_for_each_sequence_is_not_multiplied_by_the_batch() -> None:
    query = torch.randn(2, 4, 256, 16)
    assert flex_pairs(query, query, _mask(256, batch=2).as_tuple()).seen == 2 * 4 * 3 * 128 * 128


def test_without_a_mask_every_pair_is_seen() -> None:
    from torch.nn.attention.flex_attention import _create_empty_block_mask

    query, key = torch.randn(1, 2, 100, 16), torch.randn(1, 2, 70, 16)
    pairs = flex_pairs(query, key, _create_empty_block_mask(query, key).as_tuple())
    assert (pairs.seen, pairs.every, pairs.status) == (2 * 100 * 70, 2 * 100 * 70, Status.EXACT)


def test_values_that_cannot_be_read_give_an_upper_bound() -> None:
    query = torch.randn(1, 2, 256, 16)
    blocks = tuple(part.to("meta") if isinstance(part, Tensor) else part for part in _mask(256).as_tuple())
    pairs = flex_pairs(query, query, blocks)
    assert pairs.seen == pairs.every and pairs.status is Status.UPPER_BOUND


def test_forward_and_backward() -> None:
    query, value = torch.randn(1, 4, 256, 16), torch.randn(1, 2, 256, 8)
    key, blocks = torch.randn(1, 2, 256, 16), _mask(256).as_tuple()
    pairs = 4 * 3 * 128 * 128
    ops = torch.ops.higher_order
    cost = _cost(ops.flex_attention, query, key, value, None, blocks, 1.0, {})
    assert cost.flops == cost.executed_flops == 2 * pairs * 24 and cost.full_flops == 2 * 4 * 256 * 256 * 24
    back = _cost(ops.flex_attention_backward, query, key, value, *([None] * 6), blocks, 1.0, {})
    assert back.flops == 2 * cost.flops
    assert back.executed_flops == 2 * pairs * (4 * 16 + 3 * 8)  # blocks are worked through twice


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_runs_under_the_profiler() -> None:
    # test_cross_check.py calls flex_attention inside torch's counter. Dynamo skips its function from then on, and tries
    # to trace what that calls, which it cannot.
    torch._dynamo.reset()
    query = torch.randn(1, 2, 256, 16)
    mask = _mask(256)

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            out = flex_attention(x, x, x, block_mask=mask)
            assert isinstance(out, Tensor)
            return out

    model = Model()
    plain = model(query)
    with profile(model) as counted:
        out = model(query)
    assert torch.allclose(plain, out, atol=1e-6)
    found = [op for op in counted.report().ops if "flex_attention" in op.op]
    assert sum(op.calls for op in found) == 1
    assert found[0].cost.flops == 2 * (2 * 3 * 128 * 128) * 32


def test_a_block_longer_than_the_sequence_skips_nothing_and_is_an_upper_bound() -> None:
    """As transformers masks short prompts: one block of 128 x 128 for 64 x 64 pairs."""
    query = torch.randn(2, 4, 64, 16)
    pairs = flex_pairs(query, query, _mask(64).as_tuple())
    assert pairs.seen == pairs.every == 2 * 4 * 64 * 64
    assert pairs.status is Status.UPPER_BOUND and "1 of 1 blocks" in pairs.note


def test_blocks_that_are_all_listed_are_an_upper_bound() -> None:
    query, keys = torch.randn(1, 1, 128, 16), torch.randn(1, 1, 192, 16)
    partly = create_block_mask(lambda b, h, i, j: i + 64 >= j, None, None, 128, 192, device="cpu")
    assert flex_pairs(query, keys, partly.as_tuple()).status is Status.UPPER_BOUND

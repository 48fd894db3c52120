"""Attention by hand: pairs of a query and a key that it sees; 2 FLOPs x pairs x (d_qk + d_v), twice that back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.flops.formulas.single_op import Op, assert_same, count_op, forward_and_backward
from weftrace.costs.cost import Cost, Phase, Status
from weftrace.costs.formulas.pairs import pairs_seen
from weftrace.flops.runtime.formulas.live_call import LiveCall
from weftrace.flops.runtime.formulas.operators import operator, rule_of

META = torch.device("meta")


def _leaves(*shapes: tuple[int, ...], device: str = "cpu") -> list[Tensor]:
    return [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]


def cost_of(name: str, *args: object, **kwargs: object) -> Cost:
    """The cost of a call that nobody runs: some kernels exist on one device alone."""
    op = operator(name)
    assert op is not None
    rule = rule_of(op)
    assert rule is not None
    return rule.formula(LiveCall(op, args, kwargs, None))


def test_pairs_by_hand() -> None:
    # Four queries, four keys, causal:   X . . .     from the bottom right, two queries:   X X X .
    #                                    X X . .                                           X X X X
    #                                    X X X .
    #                                    X X X X
    assert pairs_seen(4, 4) == 16
    assert pairs_seen(4, 4, right=0) == 10
    assert pairs_seen(2, 4, right=0, offset=2) == 7
    assert pairs_seen(2, 4, right=0) == 3  # from the top left
    assert pairs_seen(4, 2, right=0) == 1 + 2 + 2 + 2
    assert pairs_seen(4, 2, right=0, offset=-2) == 0 + 0 + 1 + 2
    assert pairs_seen(4, 4, right=0, left=1) == 1 + 2 + 2 + 2  # a window: itself and the one before
    assert pairs_seen(4, 4, right=1, left=1) == 2 + 3 + 3 + 2
    assert pairs_seen(0, 4, right=0) == pairs_seen(4, 0, right=0) == 0


sizes = st.integers(0, 9)


@given(sizes, sizes, st.integers(-9, 9), st.integers(-1, 9), st.integers(-1, 9))
def test_pairs_are_those_of_the_mask(num_q: int, num_k: int, offset: int, left: int, right: int) -> None:
    seen = sum(
        1
        for i in range(num_q)
        for j in range(num_k)
        if (left < 0 or j >= i + offset - left) and (right < 0 or j <= i + offset + right)
    )
    assert pairs_seen(num_q, num_k, offset=offset, left=left, right=right) == seen


def _sdpa(shapes: tuple[tuple[int, ...], ...], **kwargs: object) -> tuple[Op, Op]:
    """The forward's and the backward's operator of SDPA on the CPU's flash kernel."""
    leaves = _leaves(*shapes)
    code = forward_and_backward(lambda: F.scaled_dot_product_attention(*leaves, **kwargs), leaves)  # type: ignore[arg-type]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert_same(code(), code())
        counted = count_op(code)
    forward = counted.op("flash_attention_for_cpu.default", Phase.FORWARD)
    return forward, counted.op("flash_attention_for_cpu_backward", Phase.BACKWARD)


def test_sdpa_on_the_cpu() -> None:
    forward, backward = _sdpa(((2, 3, 5, 8),) * 3)
    pairs = 2 * 3 * 5 * 5
    assert forward.cost.flops == forward.cost.full_flops == forward.cost.executed_flops == 2 * pairs * 16
    assert forward.cost.vector_flops == pairs * 6
    assert backward.cost.flops == 2 * forward.cost.flops
    assert backward.cost.executed_flops == 5 * pairs * 2 * 8  # five products to the forward's two
    assert backward.cost.vector_flops == pairs * 6 + 2 * 8 * 2 * 3 * 5
    assert forward.cost.status is backward.cost.status is Status.EXACT
    elements = 2 * 3 * 5 * 8
    assert forward.cost.read_bytes == 3 * elements * 4
    assert forward.cost.written_bytes == elements * 4 + 2 * 3 * 5 * 4  # and the log-sum-exp


def test_causal_sdpa_counts_the_pairs_below_the_diagonal() -> None:
    forward, backward = _sdpa(((2, 3, 5, 8),) * 3, is_causal=True)
    assert forward.cost.flops == forward.cost.executed_flops == 2 * (2 * 3 * 15) * 16
    assert forward.cost.full_flops == 2 * (2 * 3 * 25) * 16
    assert backward.cost.flops == 4 * (2 * 3 * 15) * 16 and backward.cost.full_flops == 4 * (2 * 3 * 25) * 16


def test_cross_attention_and_causal_from_the_top_left() -> None:
    forward, _ = _sdpa(((1, 2, 3, 8), (1, 2, 7, 8), (1, 2, 7, 8)))
    assert forward.cost.flops == 2 * (2 * 3 * 7) * 16
    forward, _ = _sdpa(((1, 2, 3, 8), (1, 2, 7, 8), (1, 2, 7, 8)), is_causal=True)
    assert forward.cost.flops == 2 * (2 * 6) * 16  # 1 + 2 + 3 pairs


def test_grouped_queries_cost_what_all_heads_cost() -> None:
    forward, _ = _sdpa(((1, 6, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)), enable_gqa=True)
    assert forward.cost.flops == 2 * (6 * 16) * 16


def _low(mask: Tensor) -> Tensor:
    """The same mask to be added: 0 where a pair is seen, the lowest number where it is not."""
    return torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)


# Four tokens, causal; the second sequence is padded by two on its left.    X . . .    . . . .
#                                                                           X X . .    . . . .
#                                                                           X X X .    . . X .
#                                                                           X X X X    . . X X
CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()
LEFT_PADDED = torch.stack([CAUSAL, CAUSAL & (torch.arange(4) >= 2) & (torch.arange(4) >= 2)[:, None]])[:, None]


@pytest.mark.parametrize(
    ("mask", "pairs"),
    [
        (CAUSAL, 2 * 2 * 10),  # both sequences, both heads
        (_low(CAUSAL), 2 * 2 * 10),
        (_low(CAUSAL).clamp(-1e9), 2 * 2 * 10),
        (LEFT_PADDED, 2 * (10 + 3)),
        (_low(LEFT_PADDED).expand(2, 2, 4, 4), 2 * (10 + 3)),
        (CAUSAL & ~CAUSAL.tril(-2), 2 * 2 * (1 + 2 + 2 + 2)),  # a window of two
        (torch.linspace(-8, 8, 16).view(4, 4), 2 * 2 * 16),  # a bias masks nothing
        (torch.stack([CAUSAL, torch.ones(4, 4, dtype=torch.bool)])[None], 2 * (10 + 16)),  # one for each head
    ],
)
def test_a_tensor_mask_is_counted_by_the_pairs_that_it_lets_through(mask: Tensor, pairs: int) -> None:
    forward, backward = _sdpa(((2, 2, 4, 8),) * 3, attn_mask=mask)
    every = 2 * 2 * 16
    assert backward.cost.flops == 2 * forward.cost.flops == 2 * 2 * pairs * 16
    assert backward.cost.full_flops == 2 * forward.cost.full_flops == 2 * 2 * every * 16
    assert forward.cost.executed_flops == 2 * every * 16  # the kernel skips nothing
    assert backward.cost.executed_flops == 5 * 2 * every * 8
    assert forward.cost.status is backward.cost.status is Status.EXACT
    assert forward.cost.vector_flops == 2 * 2 * 16 * 7  # and the mask is added


def test_two_masks_of_one_shape_are_two_costs() -> None:
    query = torch.randn(1, 2, 4, 8)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        counted = count_op(lambda: [F.scaled_dot_product_attention(query, query, query, m) for m in (CAUSAL, ~CAUSAL)])
    assert counted.forward == 2 * 2 * (10 + 6) * 16


@pytest.mark.parametrize("name", ["efficient_attention", "cudnn_attention"])
def test_a_mask_that_cannot_be_read_makes_an_upper_bound(name: str) -> None:
    query = torch.empty(2, 3, 5, 8, device=META)
    mask = torch.empty(2, 3, 5, 5, device=META)
    cost = cost_of(f"aten::_scaled_dot_product_{name}", query, query, query, mask, True, 0.0, False)
    assert cost.status is Status.UPPER_BOUND and "not read" in cost.note
    assert cost.flops == cost.full_flops == cost.executed_flops == 2 * (2 * 3 * 25) * 16


def test_a_bias_of_xformers_attention_is_a_mask() -> None:
    query = torch.empty(2, 5, 3, 8)
    seen = torch.ones(5, 5, dtype=torch.bool).tril()
    masks = _low(seen).expand(2, 3, 5, 5), torch.empty(2, 3, 5, 5, device=META)
    read, unread = (
        cost_of("aten::_efficient_attention_forward", query, query, query, mask, None, None, None, None, 0.0, 0)
        for mask in masks
    )
    assert (read.status, read.flops) == (Status.EXACT, 2 * (2 * 3 * 15) * 16)
    assert (unread.status, unread.flops) == (Status.UPPER_BOUND, 2 * (2 * 3 * 25) * 16)
    assert read.executed_flops == unread.executed_flops == unread.flops


def test_wider_values() -> None:
    query = torch.empty(1, 2, 4, 8, device=META)
    value = torch.empty(1, 2, 4, 32, device=META)
    cost = cost_of("aten::_scaled_dot_product_cudnn_attention", query, query, value, None, True, 0.0, False)
    assert cost.flops == 2 * (2 * 16) * (8 + 32)
    back = cost_of(
        "aten::_scaled_dot_product_cudnn_attention_backward",
        value,
        query,
        query,
        value,
        value,
        *([None] * 5),
        4,
        4,
        0.0,
        False,
    )
    assert back.flops == 2 * (2 * 16) * (2 * 8 + 2 * 32)
    assert back.executed_flops == 2 * (2 * 16) * (3 * 8 + 2 * 32)


def test_the_math_backend_executes_all_pairs() -> None:
    query, key, value = _leaves((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 6))
    with sdpa_kernel(SDPBackend.MATH):
        seen = count_op(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True))
        with torch.inference_mode():
            whole = count_op(lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True))
    assert seen.forward == 2 * (2 * 16) * 14  # decomposed before weftrace sees it: causality is in the mask's values
    cost = whole.op("attention_math").cost
    assert (cost.flops, cost.full_flops, cost.executed_flops) == (2 * 20 * 14, 2 * 32 * 14, 2 * 32 * 14)


@pytest.mark.parametrize("name", ["efficient", "cudnn", "fused_attention_overrideable"])
def test_sdpa_of_other_backends(name: str) -> None:
    query, key = torch.empty(2, 3, 5, 8, device=META), torch.empty(2, 3, 7, 8, device=META)
    after = () if name.startswith("fused") else (True,)
    name = name if name.startswith("fused") else f"{name}_attention"
    cost = cost_of(f"aten::_scaled_dot_product_{name}", query, key, key, None, *after, 0.0, True)
    assert cost.flops == 2 * (2 * 3 * 15) * 16 and cost.full_flops == 2 * (2 * 3 * 35) * 16


def test_efficient_backward_of_the_query_alone() -> None:
    """dP over d_v and dQ over d_qk; the kernel computes all five products whoever asks."""
    query = torch.empty(1, 2, 4, 8, device=META)
    cost = cost_of(
        "aten::_scaled_dot_product_efficient_attention_backward",
        query, query, query, query, None, query, None, None, None, 0.0, [True, False, False, False],
    )  # fmt: skip
    assert cost.flops == 2 * (2 * 16) * (8 + 8) and cost.executed_flops == 2 * (2 * 16) * 5 * 8


def test_flash_attention_has_heads_inside() -> None:
    """(B, S, H, D): 2 sequences of 16 tokens, 3 heads of 8; causal from the bottom right where lengths differ."""
    query = torch.empty(2, 16, 3, 8, device=META)
    cost = cost_of("aten::_flash_attention_forward", query, query, query, None, None, 16, 16, 0.0, False, False)
    assert cost.flops == 2 * (2 * 3 * 16 * 16) * 16
    short = query[:, :2]
    cost = cost_of("aten::_flash_attention_forward", short, query, query, None, None, 2, 16, 0.0, True, False)
    assert cost.flops == 2 * (2 * 3 * (15 + 16)) * 16
    cost = cost_of(
        "aten::_flash_attention_forward", query, query, query, None, None, 16, 16, 0.0, True, False, window_size_left=1
    )
    assert cost.flops == 2 * (2 * 3 * (1 + 15 * 2)) * 16 and cost.full_flops == 2 * (2 * 3 * 256) * 16


def test_packed_sequences_are_read_where_that_is_free() -> None:
    """Sequences of 3 and 5 tokens end to end: 9 + 25 pairs, 6 + 15 of them causal."""
    query = torch.empty(8, 2, 4)
    starts = torch.tensor([0, 3, 8], dtype=torch.int32)
    cost = cost_of("aten::_flash_attention_forward", query, query, query, starts, starts, 5, 5, 0.0, False, False)
    assert cost.flops == 2 * 2 * 34 * 8 and cost.status is Status.EXACT
    cost = cost_of("aten::_flash_attention_forward", query, query, query, starts, starts, 5, 5, 0.0, True, False)
    assert (cost.flops, cost.full_flops) == (2 * 2 * 21 * 8, 2 * 2 * 34 * 8)
    back = cost_of(
        "aten::_flash_attention_backward",
        query, query, query, query, query, None, starts, starts, 5, 5, 0.0, True, None, None,
    )  # fmt: skip
    assert back.flops == 2 * cost.flops and 2 * back.executed_flops == 5 * cost.flops


def test_packed_sequences_on_a_device_have_an_upper_bound() -> None:
    query, starts = torch.empty(8, 2, 4, device=META), torch.empty(3, dtype=torch.int32, device=META)
    other = torch.empty(3, dtype=torch.int32, device=META)
    cost = cost_of("aten::_flash_attention_forward", query, query, query, starts, other, 5, 5, 0.0, True, False)
    assert cost.flops == 2 * 2 * (8 * 5) * 8 and cost.status is Status.UPPER_BOUND
    cost = cost_of("aten::_flash_attention_forward", query, query, query, starts, starts, 5, 5, 0.0, True, False)
    assert cost.flops == 2 * 2 * (8 * 6 // 2) * 8  # the same sequences: (n + 1) / 2 keys for each query


def test_varlen_attention() -> None:
    import torch.nn.attention.varlen  # defines the operator

    query = torch.empty(8, 2, 4)
    starts = torch.tensor([0, 3, 8], dtype=torch.int32)
    cost = cost_of("torch_attn::_varlen_attn", query, query, query, starts, starts, 5, 5, True)
    assert cost.flops == 2 * 2 * 21 * 8
    cost = cost_of("torch_attn::_varlen_attn", query, query, query, starts, starts, 5, 5, False, None, [1, 0])
    assert cost.flops == 2 * 2 * (5 + 9) * 8


@pytest.mark.parametrize(("kind", "pairs"), [(0, 35), (1, 15), (2, 3 + 4 + 5 + 6 + 7)])
def test_efficient_attention_has_three_masks(kind: int, pairs: int) -> None:
    query, key = torch.empty(2, 5, 3, 8, device=META), torch.empty(2, 7, 3, 8, device=META)
    cost = cost_of("aten::_efficient_attention_forward", query, key, key, None, None, None, None, None, 0.0, kind)
    assert cost.flops == 2 * (2 * 3 * pairs) * 16 and cost.full_flops == 2 * (2 * 3 * 35) * 16


def test_dropout_is_vector_work() -> None:
    query = torch.empty(1, 1, 4, 8, device=META)
    cost = cost_of("aten::_scaled_dot_product_flash_attention", query, query, query, 0.1, False)
    assert cost.vector_flops == 16 * (6 + 2)

"""Attention: softmax(Q K^T) V in every fused kernel that torch has, forward and backward.

Here: the arithmetic, and the kernels that take (B, H, S, D). The others, packed ones too: `attention_packed`.

A pair is a query with a key that it may see. Forward: 2 FLOPs x pairs x (d_qk + d_v), of QK^T and PV. Backward: dV =
P^T dO and dP = dO V^T over d_v, dQ = dS K and dK = dS^T Q over d_qk: twice the forward; a fused kernel computes QK^T
once more (Dao, FlashAttention-2, 2023, section 3.1: 5 products to the forward's 2).

A mask that is a tensor: see `masks`. Causal: query i sees keys 0..i where the mask starts at the top left (SDPA's
is_causal), or the last query sees every key where it ends at the bottom right (flash attention's). Fused kernels skip
the blocks that are wholly masked; the masked half of the blocks on the diagonal is computed and thrown away, and is not
counted here, because the block sizes are the kernel's own affair.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weftrace.costs.cost import Cost, Kind
from weftrace.costs.formulas.masks import masked_pairs
from weftrace.costs.formulas.pairs import Pairs, pairs_seen
from weftrace.costs.formulas.softmax_and_loss import SOFTMAX
from weftrace.costs.registry import Call, Key, matrix_cost, rule

SKIPS = "blocks that the mask leaves partly filled are counted by their unmasked pairs"


def attention_cost(call: Call, pairs: Pairs, heads: int, d_qk: int, d_v: int, *, dtype: object, extra: int = 0) -> Cost:
    """A forward. heads: of the queries. extra: vector FLOPs for each score beside the scale and the softmax."""
    each = 2 * heads * (d_qk + d_v)
    return matrix_cost(
        call,
        pairs.seen * each,
        kind=Kind.ATTENTION,
        full_flops=pairs.every * each,
        executed_flops=pairs.done * each,
        vector_flops=heads * pairs.done * (1 + SOFTMAX + extra),
        dtype=dtype,
        status=pairs.status,
        note=pairs.note,
    )


def attention_backward_cost(
    call: Call,
    pairs: Pairs,
    heads: int,
    d_qk: int,
    d_v: int,
    *,
    dtype: object,
    extra: int = 0,
    wanted: tuple[bool, bool, bool] = (True, True, True),
    again: tuple[int, int] = (1, 0),
) -> Cost:
    """A backward. wanted: gradients of query, key, value. again: products the kernel repeats, over d_qk and over d_v.

    Vector work for each score: scale, subtract the log-sum-exp and exp give P again; dS = scale P (dP - delta) is 3
    more; delta, the row sums of dO * O, is 2 d_v for each query.
    """
    want_q, want_k, want_v = wanted
    widths = d_qk * (want_q + want_k) + d_v * (want_v + (want_q or want_k))
    every = 2 * d_qk + 2 * d_v + again[0] * d_qk + again[1] * d_v
    return matrix_cost(
        call,
        2 * heads * pairs.seen * widths,
        kind=Kind.ATTENTION,
        full_flops=2 * heads * pairs.every * widths,
        executed_flops=2 * heads * pairs.done * every,
        vector_flops=heads * (pairs.done * (6 + extra) + 2 * d_v * pairs.queries),
        dtype=dtype,
        status=pairs.status,
        note=pairs.note,
    )


def scores_extra(call: Call, mask: Any) -> int:
    """Vector FLOPs for each score beside the softmax: one to add a mask, two for dropout (compare, multiply)."""
    return (mask is not None and mask.numel() > 0) + 2 * (call.arg("dropout_p", 0.0) > 0)


def _dense_pairs(batch: int, heads: int, num_q: int, num_k: int, call: Call, *, bottom: bool) -> tuple[Pairs, int]:
    """Pairs, and of how many heads they are: of one where a mask tells them for each head."""
    left, right = window_of(call)
    if call.arg("is_causal", False):
        right = 0
    offset = num_k - num_q if bottom else 0
    seen = batch * pairs_seen(num_q, num_k, offset=offset, left=left, right=right)
    mask = mask_of(call)
    if mask is not None and mask.numel():
        return masked_pairs(call, mask, batch, heads, num_q, num_k, most=seen), 1
    note = SKIPS if left >= 0 or right >= 0 else ""
    return Pairs(seen=seen, every=batch * num_q * num_k, queries=batch * num_q, note=note), heads


def window_of(call: Call) -> tuple[int, int]:
    """Keys that a query sees to its left and right, -1 for no bound."""
    both = call.arg("window_size")
    if isinstance(both, (list, tuple)) and len(both) == 2:
        return int(both[0]), int(both[1])
    left, right = call.arg("window_size_left"), call.arg("window_size_right")
    return -1 if left is None else int(left), -1 if right is None else int(right)


def heads_first(call: Call, *, bottom: bool) -> tuple[Pairs, int, int, int]:
    """Pairs, heads that they are of, d_qk, d_v of query (B, H_q, S_q, d_qk), key (B, H_kv, S_k, d_qk), value (B, H_kv,
    S_k, d_v)."""
    query, key, value = call.arg("query"), call.arg("key"), call.arg("value")
    batch, heads, num_q, d_qk = query.shape
    pairs, heads = _dense_pairs(batch, heads, num_q, key.shape[2], call, bottom=bottom)
    return pairs, heads, d_qk, value.shape[3]


def mask_of(call: Call) -> Any:
    """The mask or bias that is added to the scores, None for none."""
    given = call.arg("attn_mask")
    return call.arg("attn_bias") if given is None else given


_TOP_LEFT = (
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_fused_attention_overrideable",
)


@rule(*_TOP_LEFT, key=Key.VALUES)
def _sdpa(call: Call) -> Cost:
    sizes = heads_first(call, bottom=False)
    return attention_cost(call, *sizes, dtype=call.arg("query").dtype, extra=scores_extra(call, mask_of(call)))


@rule("aten::_scaled_dot_product_flash_attention", key=Key.ARGUMENTS)
def _sdpa_flash(call: Call) -> Cost:
    return attention_cost(
        call, *heads_first(call, bottom=True), dtype=call.arg("query").dtype, extra=scores_extra(call, None)
    )


@rule(*(f"{name}_backward" for name in _TOP_LEFT), key=Key.VALUES)
def _sdpa_backward(call: Call) -> Cost:
    wanted = tuple(call.arg("grad_input_mask") or (True, True, True))[:3]
    return attention_backward_cost(
        call,
        *heads_first(call, bottom=False),
        dtype=call.arg("query").dtype,
        extra=scores_extra(call, mask_of(call)),
        wanted=wanted,
    )


@rule("aten::_scaled_dot_product_flash_attention_backward", key=Key.ARGUMENTS)
def _sdpa_flash_backward(call: Call) -> Cost:
    sizes = heads_first(call, bottom=True)
    return attention_backward_cost(call, *sizes, dtype=call.arg("query").dtype, extra=scores_extra(call, None))


@rule("aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_attention_math_for_mps", key=Key.VALUES)
def _sdpa_math(call: Call) -> Cost:
    """Two products over every pair, whatever the mask. Seen whole under inference_mode; else as bmm and softmax."""
    query, mask = call.arg("query"), mask_of(call)
    batch, heads = query.shape[0] if query.ndim > 3 else 1, query.shape[-3] if query.ndim > 2 else 1
    pairs, heads = _dense_pairs(batch, heads, query.shape[-2], call.arg("key").shape[-2], call, bottom=False)
    return attention_cost(
        call,
        replace(pairs, skips=False, note=pairs.note if mask is not None else ""),
        heads,
        query.shape[-1],
        call.arg("value").shape[-1],
        dtype=query.dtype,
        extra=scores_extra(call, mask) + bool(call.arg("is_causal", False)),
    )


@rule("aten::_triton_scaled_dot_attention", key=Key.ARGUMENTS)
def _triton(call: Call) -> Cost:
    query, key, value = call.args[:3]
    batch, heads, num_q, d_qk = query.shape
    every = batch * num_q * key.shape[2]
    pairs = Pairs(seen=every, every=every, queries=batch * num_q)
    return attention_cost(call, pairs, heads, d_qk, value.shape[3], dtype=query.dtype, extra=scores_extra(call, None))


@rule("weftrace::latent_attention")
def _latent(call: Call) -> Cost:
    """Query (B, H, S, D) over latents (B, L, D) that serve all heads; causal, the last query sees all L."""
    query, latent, out = call.args[0], call.args[1], call.out
    batch, heads, new, dim = query.shape
    length = latent.shape[1]
    pairs = Pairs(
        seen=batch * pairs_seen(new, length, offset=length - new, right=0),
        every=batch * new * length,
        queries=batch * new,
    )
    return attention_cost(call, pairs, heads, dim, out.shape[-1], dtype=query.dtype)

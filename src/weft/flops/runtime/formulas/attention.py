"""Attention: softmax(Q K^T) V in every fused kernel that torch has, forward and backward.

A pair is a query with a key that it may see. Forward: 2 FLOPs x pairs x (d_qk + d_v), of QK^T and PV. Backward: dV =
P^T dO and dP = dO V^T over d_v, dQ = dS K and dK = dS^T Q over d_qk: twice the forward; a fused kernel computes QK^T
once more (Dao, FlashAttention-2, 2023, section 3.1: 5 products to the forward's 2).

Causal: query i sees keys 0..i where the mask starts at the top left (SDPA's is_causal), or the last query sees every
key where it ends at the bottom right (flash attention's). Fused kernels skip the blocks that are wholly masked; the
masked half of the blocks on the diagonal is computed and thrown away, and is not counted here, because the block sizes
are the kernel's own affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from weft.flops.cost import Cost, Kind, Status
from weft.flops.runtime.formulas.softmax_and_loss import SOFTMAX
from weft.flops.runtime.registry import Call, Key, matrix_cost, register_formula, rule

_SKIPS = "blocks that the mask leaves partly filled are counted by their unmasked pairs"
_MASK = "all pairs: the values of the mask are not read"
_LENGTHS = "upper bound: the lengths of the sequences were not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of a query and a key, summed over the batch and not over heads.

    seen: those that the mask lets through, as far as it is known. every: all, masked or not. queries: rows.
    """

    seen: int
    every: int
    queries: int
    status: Status = Status.EXACT
    note: str = ""


def pairs_seen(num_q: int, num_k: int, *, offset: int = 0, left: int = -1, right: int = -1) -> int:
    """Pairs (i, j), i < num_q, j < num_k, with i + offset - left <= j <= i + offset + right; -1: no bound on that side.

    Causal from the top left: right=0. From the bottom right: right=0, offset=num_k - num_q.
    """
    upper = num_q * num_k if right < 0 else _clamped_sum(num_q, offset + right + 1, num_k)
    lower = 0 if left < 0 else _clamped_sum(num_q, offset - left, num_k)
    return max(upper - lower, 0)


def _clamped_sum(num: int, start: int, most: int) -> int:
    """Sum over i < num of start + i, each held within 0..most."""

    def below(end: int) -> int:  # sum over t < end of t, held within 0..most
        if end <= 0:
            return 0
        ramp = min(end, most + 1)
        return ramp * (ramp - 1) // 2 + (end - ramp) * most

    return below(start + num) - below(start)


def attention_cost(
    call: Call, pairs: Pairs, heads: int, d_qk: int, d_v: int, *, dtype: torch.dtype, extra: int = 0, fused: bool = True
) -> Cost:
    """A forward. heads: of the queries. extra: vector FLOPs for each score beside the scale and the softmax.

    fused: the kernel skips masked blocks; else it computes every pair.
    """
    each = 2 * heads * (d_qk + d_v)
    done = pairs.seen if fused else pairs.every
    return matrix_cost(
        call,
        pairs.seen * each,
        kind=Kind.ATTENTION,
        full_flops=pairs.every * each,
        executed_flops=done * each,
        vector_flops=heads * done * (1 + SOFTMAX + extra),
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
    dtype: torch.dtype,
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
        executed_flops=2 * heads * pairs.seen * every,
        vector_flops=heads * (pairs.seen * (6 + extra) + 2 * d_v * pairs.queries),
        dtype=dtype,
        status=pairs.status,
        note=pairs.note,
    )


def _scores_extra(call: Call, mask: Any) -> int:
    """Vector FLOPs for each score beside the softmax: one to add a mask, two for dropout (compare, multiply)."""
    return (mask is not None and mask.numel() > 0) + 2 * (call.arg("dropout_p", 0.0) > 0)


def _dense_pairs(batch: int, num_q: int, num_k: int, call: Call, *, bottom: bool, mask: Any = None) -> Pairs:
    causal = bool(call.arg("is_causal", False))
    left, right = _window(call)
    notes = [_MASK] if mask is not None and mask.numel() else []
    if causal:
        right = 0
    if left >= 0 or right >= 0:
        notes.append(_SKIPS)
    offset = num_k - num_q if bottom else 0
    return Pairs(
        seen=batch * pairs_seen(num_q, num_k, offset=offset, left=left, right=right),
        every=batch * num_q * num_k,
        queries=batch * num_q,
        note="; ".join(notes),
    )


def _window(call: Call) -> tuple[int, int]:
    """Keys that a query sees to its left and right, -1 for no bound."""
    both = call.arg("window_size")
    if isinstance(both, (list, tuple)) and len(both) == 2:
        return int(both[0]), int(both[1])
    left, right = call.arg("window_size_left"), call.arg("window_size_right")
    return -1 if left is None else int(left), -1 if right is None else int(right)


def _heads_first(call: Call, *, bottom: bool) -> tuple[Pairs, int, int, int]:
    """Pairs, heads, d_qk, d_v of query (B, H_q, S_q, d_qk), key (B, H_kv, S_k, d_qk), value (B, H_kv, S_k, d_v)."""
    query, key, value = call.arg("query"), call.arg("key"), call.arg("value")
    batch, heads, num_q, d_qk = query.shape
    pairs = _dense_pairs(batch, num_q, key.shape[2], call, bottom=bottom, mask=_mask(call))
    return pairs, heads, d_qk, value.shape[3]


def _mask(call: Call) -> Any:
    given = call.arg("attn_mask")
    return call.arg("attn_bias") if given is None else given


_TOP_LEFT = (
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_fused_attention_overrideable",
)


@rule(*_TOP_LEFT, key=Key.ARGUMENTS)
def _sdpa(call: Call) -> Cost:
    sizes = _heads_first(call, bottom=False)
    return attention_cost(call, *sizes, dtype=call.arg("query").dtype, extra=_scores_extra(call, _mask(call)))


@rule("aten::_scaled_dot_product_flash_attention", key=Key.ARGUMENTS)
def _sdpa_flash(call: Call) -> Cost:
    return attention_cost(
        call, *_heads_first(call, bottom=True), dtype=call.arg("query").dtype, extra=_scores_extra(call, None)
    )


@rule(*(f"{name}_backward" for name in _TOP_LEFT), key=Key.ARGUMENTS)
def _sdpa_backward(call: Call) -> Cost:
    wanted = tuple(call.arg("grad_input_mask") or (True, True, True))[:3]
    return attention_backward_cost(
        call,
        *_heads_first(call, bottom=False),
        dtype=call.arg("query").dtype,
        extra=_scores_extra(call, _mask(call)),
        wanted=wanted,
    )


@rule("aten::_scaled_dot_product_flash_attention_backward", key=Key.ARGUMENTS)
def _sdpa_flash_backward(call: Call) -> Cost:
    sizes = _heads_first(call, bottom=True)
    return attention_backward_cost(call, *sizes, dtype=call.arg("query").dtype, extra=_scores_extra(call, None))


@rule("aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_attention_math_for_mps", key=Key.ARGUMENTS)
def _sdpa_math(call: Call) -> Cost:
    """Two products over every pair, whatever the mask. Seen whole under inference_mode; else as bmm and softmax."""
    query, mask = call.arg("query"), _mask(call)
    batch, heads = query.shape[0] if query.ndim > 3 else 1, query.shape[-3] if query.ndim > 2 else 1
    pairs = _dense_pairs(batch, query.shape[-2], call.arg("key").shape[-2], call, bottom=False, mask=mask)
    pairs = Pairs(seen=pairs.seen, every=pairs.every, queries=pairs.queries, note=_MASK if mask is not None else "")
    return attention_cost(
        call,
        pairs,
        heads,
        query.shape[-1],
        call.arg("value").shape[-1],
        dtype=query.dtype,
        extra=_scores_extra(call, mask) + bool(call.arg("is_causal", False)),
        fused=False,
    )


@rule("aten::_triton_scaled_dot_attention", key=Key.ARGUMENTS)
def _triton(call: Call) -> Cost:
    query, key, value = call.args[:3]
    batch, heads, num_q, d_qk = query.shape
    every = batch * num_q * key.shape[2]
    pairs = Pairs(seen=every, every=every, queries=batch * num_q)
    return attention_cost(call, pairs, heads, d_qk, value.shape[3], dtype=query.dtype, extra=_scores_extra(call, None))


# -- kernels that take (B, S, H, D), or all sequences end to end as (T, H, D) with where each starts


@rule("aten::_flash_attention_forward", "aten::_flash_attention_forward_no_dropout_inplace", key=Key.VALUES)
def _flash(call: Call) -> Cost:
    sizes = _heads_inside(call, call.arg("cum_seq_q"), call.arg("cum_seq_k"))
    return attention_cost(call, *sizes, dtype=call.arg("query").dtype, extra=_scores_extra(call, None))


@rule("aten::_flash_attention_backward", key=Key.VALUES)
def _flash_backward(call: Call) -> Cost:
    sizes = _heads_inside(call, call.arg("cum_seq_q"), call.arg("cum_seq_k"))
    return attention_backward_cost(call, *sizes, dtype=call.arg("query").dtype, extra=_scores_extra(call, None))


def _varlen(call: Call) -> Cost:
    starts_q, starts_k = call.arg("cu_seq_q"), call.arg("cu_seq_k")
    sizes = _heads_inside(call, starts_q, starts_q if starts_k is None else starts_k)
    return attention_cost(call, *sizes, dtype=call.arg("query").dtype)


def _varlen_backward(call: Call) -> Cost:
    starts_q, starts_k = call.arg("cu_seq_q"), call.arg("cu_seq_k")
    sizes = _heads_inside(call, starts_q, starts_q if starts_k is None else starts_k)
    return attention_backward_cost(call, *sizes, dtype=call.arg("query").dtype)


# By name: torch.nn.attention.varlen defines them, and takes a second to import.
register_formula("torch_attn::_varlen_attn", _varlen, by_value=True)
register_formula("torch_attn::_varlen_attn_out", _varlen, by_value=True)
register_formula("torch_attn::_varlen_attn_backward", _varlen_backward, by_value=True)


@rule("aten::_cudnn_attention_forward", "aten::_cudnn_attention_backward", key=Key.VALUES)
def _cudnn(call: Call) -> Cost:
    """Heads first where dense; (T, H, D) where packed."""
    starts = call.arg("cum_seq_q")
    packed = call.arg("query").ndim == 3
    sizes = (
        _heads_inside(call, starts, call.arg("cum_seq_k"), bottom=False) if packed else _heads_first(call, bottom=False)
    )
    count = attention_backward_cost if "backward" in str(call.op) else attention_cost
    return count(call, *sizes, dtype=call.arg("query").dtype, extra=_scores_extra(call, _mask(call)))


@rule("aten::_efficient_attention_forward", "aten::_efficient_attention_backward", key=Key.VALUES)
def _efficient(call: Call) -> Cost:
    """custom_mask_type: 0 none, 1 causal from the top left, 2 causal from the bottom right.

    window_size: keys that a query sees, itself the last.
    """
    kind, window = int(call.arg("custom_mask_type", 0)), call.arg("window_size")
    sizes = _heads_inside(
        call,
        call.arg("cu_seqlens_q"),
        call.arg("cu_seqlens_k"),
        bottom=kind == 2,
        window=(int(window) - 1 if window else -1, 0 if kind else -1),
    )
    extra = _scores_extra(call, call.arg("bias"))
    count = attention_backward_cost if "backward" in str(call.op) else attention_cost
    return count(call, *sizes, dtype=call.arg("query").dtype, extra=extra)


def _heads_inside(
    call: Call, starts_q: Any, starts_k: Any, *, bottom: bool = True, window: tuple[int, int] | None = None
) -> tuple[Pairs, int, int, int]:
    """Pairs, heads, d_qk, d_v of query (B, S_q, H_q, d_qk) or (T_q, H_q, d_qk), key and value likewise.

    starts_q, starts_k: where each sequence starts in the packed tokens, and their end; None where nothing is packed.
    """
    query, key, value = call.arg("query"), call.arg("key"), call.arg("value")
    left, right = _window(call) if window is None else window
    if window is None and call.arg("is_causal", False):
        right = 0
    used, table = call.arg("seqused_k"), call.arg("block_table")
    used = call.arg("seqlen_k") if used is None else used
    masked = _SKIPS if left >= 0 or right >= 0 else ""
    if starts_q is not None and starts_q.numel() and not (query.ndim == 4 and query.shape[0] > 1):
        lengths_q, lengths_k = lengths(starts_q), lengths(starts_k)
        if used is not None:
            lengths_k = used.tolist() if readable(used) else None
        num_q = query.shape[-3]
        if lengths_q is not None and lengths_k is not None:
            seen, every = 0, 0
            for one_q, one_k in zip(lengths_q, lengths_k, strict=False):
                seen += pairs_seen(one_q, one_k, offset=one_k - one_q if bottom else 0, left=left, right=right)
                every += one_q * one_k
            pairs = Pairs(seen=seen, every=every, queries=num_q, note=masked)
        else:
            pairs = _most_pairs(call, num_q, right, itself=starts_q is starts_k and used is None and table is None)
    else:
        batch, num_q, num_k = query.shape[0], query.shape[1], key.shape[1]
        if table is not None:
            num_k = int(call.arg("max_k", num_k))
        seen = batch * pairs_seen(num_q, num_k, offset=num_k - num_q if bottom else 0, left=left, right=right)
        every = batch * num_q * num_k
        if used is not None or table is not None:
            pairs = Pairs(seen=seen, every=every, queries=batch * num_q, status=Status.UPPER_BOUND, note=_LENGTHS)
        else:
            pairs = Pairs(seen=seen, every=every, queries=batch * num_q, note=masked)
    return pairs, query.shape[-2], query.shape[-1], value.shape[-1]


def _most_pairs(call: Call, num_q: int, right: int, *, itself: bool) -> Pairs:
    """The most pairs that num_q packed queries can have when only the longest length of each side is known.

    itself: queries and keys are the same sequences; then a causal one of length n has n (n + 1) / 2.
    """
    longest_k = call.arg("max_k")
    if longest_k is None:
        longest_k = call.arg("max_seqlen_k")
    longest = int(longest_k) if longest_k is not None else int(call.arg("key").shape[-3])
    every = num_q * longest
    seen = -(-num_q * (longest + 1) // 2) if itself and right == 0 else every
    return Pairs(seen=seen, every=every, queries=num_q, status=Status.UPPER_BOUND, note=_LENGTHS)


def readable(tensor: torch.Tensor) -> bool:
    """Whether the values can be read for nothing: not on a device (that would wait for it), not meta, not fake."""
    return tensor.device.type == "cpu" and type(tensor) in (torch.Tensor, torch.nn.Parameter)


def lengths(starts: Any) -> list[int] | None:
    """Lengths of packed sequences from where each starts and the last ends; None where values cannot be read."""
    if starts is None or not readable(starts):
        return None
    values = starts.tolist()
    return [end - start for start, end in pairwise(values)]

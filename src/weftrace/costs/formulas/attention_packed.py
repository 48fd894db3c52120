"""Attention kernels that take (B, S, H, D), or sequences end to end as (T, H, D) with where each starts.

What packed sequences cost depends on their lengths. They are read where that is free, which is on the CPU; else an
upper bound counts, and says so.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from weftrace.costs.cost import Cost, Status
from weftrace.costs.formulas.attention import (
    SKIPS,
    attention_backward_cost,
    attention_cost,
    heads_first,
    mask_of,
    scores_extra,
    window_of,
)
from weftrace.costs.formulas.masks import UNREAD, masked_pairs
from weftrace.costs.formulas.pairs import Pairs, pairs_seen
from weftrace.costs.registry import Call, Key, rule

_LENGTHS = "upper bound: the lengths of the sequences were not read"


@rule("aten::_flash_attention_forward", "aten::_flash_attention_forward_no_dropout_inplace", key=Key.VALUES)
def _flash(call: Call) -> Cost:
    sizes = _heads_inside(call, call.arg("cum_seq_q"), call.arg("cum_seq_k"))
    return attention_cost(call, *sizes, dtype=call.arg("query").dtype, extra=scores_extra(call, None))


@rule("aten::_flash_attention_backward", key=Key.VALUES)
def _flash_backward(call: Call) -> Cost:
    sizes = _heads_inside(call, call.arg("cum_seq_q"), call.arg("cum_seq_k"))
    return attention_backward_cost(call, *sizes, dtype=call.arg("query").dtype, extra=scores_extra(call, None))


@rule("torch_attn::_varlen_attn", "torch_attn::_varlen_attn_out", key=Key.VALUES)
def _varlen(call: Call) -> Cost:
    starts_q, starts_k = call.arg("cu_seq_q"), call.arg("cu_seq_k")
    sizes = _heads_inside(call, starts_q, starts_q if starts_k is None else starts_k)
    return attention_cost(call, *sizes, dtype=call.arg("query").dtype)


@rule("torch_attn::_varlen_attn_backward", key=Key.VALUES)
def _varlen_backward(call: Call) -> Cost:
    starts_q, starts_k = call.arg("cu_seq_q"), call.arg("cu_seq_k")
    sizes = _heads_inside(call, starts_q, starts_q if starts_k is None else starts_k)
    return attention_backward_cost(call, *sizes, dtype=call.arg("query").dtype)


@rule("aten::_cudnn_attention_forward", "aten::_cudnn_attention_backward", key=Key.VALUES)
def _cudnn(call: Call) -> Cost:
    """Heads first where dense; (T, H, D) where packed."""
    starts = call.arg("cum_seq_q")
    packed = call.arg("query").ndim == 3
    sizes = (
        _heads_inside(call, starts, call.arg("cum_seq_k"), bottom=False) if packed else heads_first(call, bottom=False)
    )
    count = attention_backward_cost if "backward" in call.name else attention_cost
    return count(call, *sizes, dtype=call.arg("query").dtype, extra=scores_extra(call, mask_of(call)))


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
        mask=call.arg("bias"),
    )
    extra = scores_extra(call, call.arg("bias"))
    count = attention_backward_cost if "backward" in call.name else attention_cost
    return count(call, *sizes, dtype=call.arg("query").dtype, extra=extra)


def _heads_inside(
    call: Call,
    starts_q: Any,
    starts_k: Any,
    *,
    bottom: bool = True,
    window: tuple[int, int] | None = None,
    mask: Any = None,
) -> tuple[Pairs, int, int, int]:
    """Pairs, heads that they are of, d_qk, d_v of query (B, S_q, H_q, d_qk) or (T_q, H_q, d_qk), key, value likewise.

    starts_q, starts_k: where each sequence starts in the packed tokens, and their end; None where nothing is packed.
    """
    query, key, value = call.arg("query"), call.arg("key"), call.arg("value")
    left, right = window_of(call) if window is None else window
    if window is None and call.arg("is_causal", False):
        right = 0
    used, table = call.arg("seqused_k"), call.arg("block_table")
    used = call.arg("seqlen_k") if used is None else used
    masked = SKIPS if left >= 0 or right >= 0 else ""
    if starts_q is not None and starts_q.numel() and not (query.ndim == 4 and query.shape[0] > 1):
        lengths_q, lengths_k = lengths(call, starts_q), lengths(call, starts_k)
        if used is not None:
            lengths_k = call.integers(used)
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
    heads = query.shape[-2]
    if mask is not None and mask.numel():
        if starts_q is None and pairs.status is Status.EXACT:
            most, batch = pairs.seen, query.shape[0]
            pairs, heads = masked_pairs(call, mask, batch, heads, query.shape[1], key.shape[1], most=most), 1
        else:  # a bias for packed sequences has a layout of its own
            pairs = replace(pairs, skips=False, status=Status.UPPER_BOUND, note=UNREAD)
    return pairs, heads, query.shape[-1], value.shape[-1]


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


def lengths(call: Call, starts: Any) -> list[int] | None:
    """Lengths of packed sequences from where each starts and the last ends; None where values cannot be read."""
    values = None if starts is None else call.integers(starts)
    return None if values is None else [end - start for start, end in pairwise(values)]

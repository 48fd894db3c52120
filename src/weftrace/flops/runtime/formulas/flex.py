"""Flex attention: the two operators that `torch.nn.attention.flex_attention` becomes.

A block mask lists, for each block of queries, the blocks of keys to compute: those that are full, and those that a mask
function thins out further. The FLOPs are those of the fused kernel, which computes listed blocks whole. Without
torch.compile (and while weftrace counts, when torch.compile steps aside) torch computes every pair instead; the notes
say so.

The backward kernel works through the blocks twice, for dQ and for dK and dV, and computes QK^T and dO V^T each time: 7
products, of which 4 are the gradients'.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from weftrace.costs.cost import Cost, Status
from weftrace.costs.formulas.attention import attention_backward_cost, attention_cost
from weftrace.costs.formulas.pairs import Pairs
from weftrace.costs.registry import Call, Formula, Key, Rule
from weftrace.flops.runtime.formulas.live_call import readable
from weftrace.flops.runtime.formulas.operators import RULES

_blocks_of: Any = WeakTensorKeyDictionary()  # counts of blocks, read once for each mask: -> (version, sum)


def _count(blocks: torch.Tensor | None) -> int | None:
    """The sum of a block count; None where it cannot be read. On a device: read once, which waits for the device."""
    if blocks is None:
        return 0
    if blocks.is_meta or (blocks.device.type == "cpu" and not readable(blocks)) or type(blocks) is not torch.Tensor:
        return None
    if blocks.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    known = _blocks_of.get(blocks)
    version = blocks._version if not blocks.is_inference() else 0
    if known is None or known[0] != version:
        known = (version, int(blocks.sum().item()))
        _blocks_of[blocks] = known
    return int(known[1])


def flex_pairs(query: torch.Tensor, key: torch.Tensor, block_mask: tuple[Any, ...]) -> Pairs:
    """Pairs, summed over batch and heads, of query (B, H, S_q, d), key (B, H_kv, S_k, d) and `BlockMask.as_tuple()`.

    The tuple starts with the two lengths, counts (and indices) of partial and of full blocks, each count (B or 1, H or
    1, blocks of queries); it ends with the block sizes of queries and keys and the mask function.
    """
    batch, heads, num_q, _ = query.shape
    num_k = key.shape[2]
    every, queries = batch * heads * num_q * num_k, batch * heads * num_q
    partial, full = block_mask[2], block_mask[4]
    size_q, size_k = min(int(block_mask[-3]), num_q), min(int(block_mask[-2]), num_k)
    num_partial, num_full = _count(partial), _count(full)
    if num_partial is None or num_full is None:
        note = "upper bound, all pairs: the block mask was not read"
        return Pairs(seen=every, every=every, queries=queries, status=Status.UPPER_BOUND, note=note)
    times = batch * heads // max(math.prod(partial.shape[:2]), 1)  # a mask may be shared by batch or heads
    seen = min((num_partial + num_full) * times * size_q * size_k, every)
    if num_partial and seen and _has_mask(block_mask[-1]):
        note = f"{num_partial} of {num_partial + num_full} blocks are partly masked and counted whole, as fused"
        # Where no block is left out, nothing of the mask is in the number.
        status = Status.UPPER_BOUND if seen == every else Status.ESTIMATE
        return Pairs(seen=seen, every=every, queries=queries, status=status, note=note)
    return Pairs(seen=seen, every=every, queries=queries)


def _has_mask(mask_mod: Any) -> bool:
    return getattr(mask_mod, "__name__", "") != "noop_mask"


def _forward(call: Call) -> Cost:
    query, key, value = call.args[:3]
    pairs = flex_pairs(query, key, call.args[4])
    return attention_cost(call, pairs, 1, query.shape[3], value.shape[3], dtype=query.dtype)


def _backward(call: Call) -> Cost:
    query, key, value = call.args[:3]
    pairs = flex_pairs(query, key, call.args[9])
    return attention_backward_cost(call, pairs, 1, query.shape[3], value.shape[3], dtype=query.dtype, again=(2, 1))


def _register(name: str, formula: Formula) -> None:
    op = getattr(torch.ops.higher_order, name, None)
    if op is not None:
        RULES[op] = Rule(formula, Key.VALUES)


_register("flex_attention", _forward)
_register("flex_attention_backward", _backward)

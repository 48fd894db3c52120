"""The inference path of nn.TransformerEncoderLayer and nn.MultiheadAttention: a whole layer as one operator.

Tokens n with width e: the projections to query, key and value 6 n e^2, to the output 2 n e^2, the feed-forward with f
inner units 4 n e f, and attention 4 e S^2 for each sequence of S tokens (every pair: a mask does not save its kernel
anything). Nested tensors have the sum over their sequences, which is what torch's fast path is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weftrace.costs.cost import Cost, Status
from weftrace.costs.formulas.elementwise import GELU
from weftrace.costs.formulas.masks import UNREAD
from weftrace.costs.formulas.softmax_and_loss import SOFTMAX
from weftrace.costs.registry import Call, Key, matrix_cost, rule, vector_cost
from weftrace.costs.tensors import TensorLike

_NORM = 8  # of an element, as in `norms`: mean 1, variance 3, normalise 2, weight and bias 2
_PADDED = "sequences of a nested tensor; attention over their own lengths, though the kernel may pad"


def lengths(tensor: Any) -> list[int]:
    """Tokens of each sequence of [B, S, E], [S, E], or a nested tensor."""
    if tensor.is_nested:
        return [int(size[0]) for size in tensor._nested_tensor_size()]
    batch = tensor.shape[0] if tensor.dim() == 3 else 1
    return [tensor.shape[-2]] * batch


def _attention(queries: Sequence[int], keys: Sequence[int], width: int, heads: int) -> tuple[int, int]:
    """(matrix, vector) FLOPs of attention: two products; scores scaled, softmax."""
    pairs = sum(q * k for q, k in zip(queries, keys, strict=True))
    return 4 * pairs * width, pairs * heads * (SOFTMAX + 1)


def _trust(tokens: TensorLike, mask: TensorLike | None) -> dict[str, Any]:
    if tokens.is_nested:
        return {"status": Status.ESTIMATE, "note": _PADDED}
    if mask is not None and mask.numel():
        return {"status": Status.UPPER_BOUND, "note": UNREAD}
    return {"status": Status.EXACT, "note": ""}


@rule("aten::_transformer_encoder_layer_fwd", key=Key.VALUES)
def _encoder_layer(call: Call) -> Cost:
    x = call.arg("src")
    width, heads = call.arg("embed_dim"), call.arg("num_heads")
    inner = call.arg("ffn_weight_1").shape[0]
    sequences = lengths(x)
    tokens = sum(sequences)
    attention, softmax = _attention(sequences, sequences, width, heads)
    activation = GELU["none"][0] if call.arg("use_gelu") else 1
    biases_and_sums = tokens * (3 * width + width + width + inner + width + width)
    return matrix_cost(
        call,
        tokens * (8 * width * width + 4 * width * inner) + attention,
        vector_flops=softmax + tokens * (2 * _NORM * width + activation * inner) + biases_and_sums,
        dtype=call.arg("qkv_weight").dtype,
        **_trust(x, call.arg("mask")),
    )


@rule("aten::_native_multi_head_attention", "aten::_triton_multi_head_attention", key=Key.VALUES)
def _multi_head(call: Call) -> Cost:
    """Query [B, S, E], key and value [B, S_kv, E]. The weights, if asked for, are averaged over the heads."""
    query, key = call.arg("query"), call.arg("key")
    width, heads = call.arg("embed_dim"), call.arg("num_head")
    queries, keys = lengths(query), lengths(key)
    attention, softmax = _attention(queries, keys, width, heads)
    projected = 2 * sum(queries) + 2 * sum(keys)
    averaged = 0
    if call.arg("need_weights", True) and call.arg("average_attn_weights", True):
        averaged = heads * sum(q * k for q, k in zip(queries, keys, strict=True))
    return matrix_cost(
        call,
        2 * width * width * projected + attention,
        vector_flops=softmax + averaged + width * projected,
        dtype=call.arg("qkv_weight").dtype,
        **_trust(query, call.arg("mask")),
    )


@rule("aten::_transform_bias_rescale_qkv")
def _bias_and_scale(call: Call) -> Cost:
    """A bias for q, k and v, and a scale for q."""
    elements = sum(out.numel() for out in call.outputs())
    return vector_cost(call, elements + elements // 3)

"""Softmax and losses: vector FLOPs for each element of the input.

Softmax: 5 for each score: maximum, subtract, exp, sum, divide. Its gradient y (g - sum(g y)): multiply, sum, subtract,
multiply.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from weftrace.costs.cost import Cost, Status
from weftrace.costs.formulas.masks import MASKED
from weftrace.costs.registry import Call, Key, rule, vector_cost
from weftrace.costs.tensors import storage_bytes

SOFTMAX = 5
SOFTMAX_BACKWARD = 4

# For each element of the input (the scores, the predictions).
PER_ELEMENT: dict[str, int] = {
    "_softmax": SOFTMAX,
    "_masked_softmax": SOFTMAX + 1,
    "_softmax_backward_data": SOFTMAX_BACKWARD,
    "_masked_softmax_backward": SOFTMAX_BACKWARD,
    "_log_softmax": 5,  # maximum, subtract, exp, sum, subtract the log of the sum
    "_log_softmax_backward_data": 4,  # g - exp(y) sum(g): exp, sum, multiply, subtract
    "mse_loss": 3,  # subtract, multiply, sum
    "mse_loss_backward": 3,  # 2 (x - t) g / n: subtract, multiply twice
    "smooth_l1_loss": 6,  # subtract, absolute value, compare, square, multiply by 1/2 beta; sum
    "smooth_l1_loss_backward": 5,
    "huber_loss": 6,
    "huber_loss_backward": 5,
    "soft_margin_loss": 5,  # log(1 + exp(-t x)): multiply, negate, exp, log1p; sum
    "soft_margin_loss_backward": 6,
    "binary_cross_entropy": 9,  # log x, 1 - x, its log, 1 - t, two clamps, two products, a sum, the sign
    "binary_cross_entropy_backward": 6,  # g (x - t) / max((1 - x) x, eps)
    "binary_cross_entropy_with_logits": 8,  # (1 - t) x + max(-x, 0) + log1p(exp(-|x|)) and a sum
    "multi_margin_loss": 4,
    "multi_margin_loss_backward": 4,
    "multilabel_margin_loss_forward": 4,
    "multilabel_margin_loss_backward": 4,
}
_ESTIMATES = {
    "multilabel_margin_loss_forward",
    "multilabel_margin_loss_backward",
    "multi_margin_loss",
    "multi_margin_loss_backward",
}


def _per_element(name: str, flops: int) -> None:
    source = 1 if name in {"mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward"} else 0
    source = 1 if name.startswith(("soft_margin", "binary", "multi")) and name.endswith("backward") else source
    status = Status.ESTIMATE if name in _ESTIMATES else Status.EXACT

    @rule(f"aten::{name}")
    def formula(call: Call) -> Cost:
        note = "pairs of classes that the values select are not known" if status is Status.ESTIMATE else ""
        return vector_cost(call, flops * call.args[source].numel(), status=status, note=note)


for _name, _flops in PER_ELEMENT.items():
    _per_element(_name, _flops)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScoresCost(Cost):
    """Of the softmax of attention that torch takes apart. seen: pairs that its mask let through."""

    seen: int


def pairs_let_through(cost: Cost) -> int | None:
    """How many of the scores that a `_safe_softmax` of this cost took no mask held back; None if they were not read."""
    return cost.seen if isinstance(cost, _ScoresCost) else None


def without_pairs(cost: Cost) -> Cost:
    """The cost as any other operator's, to be reported and compared."""
    return Cost(**_fields_of(cost)) if isinstance(cost, _ScoresCost) else cost


def _fields_of(cost: Cost) -> dict[str, Any]:
    return {field.name: getattr(cost, field.name) for field in fields(Cost)}


@rule("aten::_safe_softmax", key=Key.VALUES)
def _safe_softmax(call: Call) -> Cost:
    """One more for each score than a softmax: it compares with -inf, for rows that are masked throughout."""
    scores = call.args[0]
    cost = vector_cost(call, (SOFTMAX + 1) * scores.numel())
    seen = call.num_above(scores, MASKED / 2, scores.shape)  # half of what a mask adds: the score itself is added to it
    return cost if seen is None else _ScoresCost(**_fields_of(cost), seen=seen)


@rule("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def _nll(call: Call) -> Cost:
    """One log-probability for each target is picked, weighted and added; the others are not read."""
    scores, target = call.args[0], call.args[1]
    picked = target.numel() * scores.element_size()
    return Cost(
        vector_flops=2 * target.numel(),
        read_bytes=storage_bytes(target) + picked,
        written_bytes=call.written_bytes,
        dtype=vector_cost(call, 0).dtype,
    )


@rule("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def _nll_backward(call: Call) -> Cost:
    """Zeros, and the gradient times a weight at each target; of the scores no value is needed."""
    grad, scores, target = call.args[:3]
    cost = vector_cost(call, 2 * target.numel())
    return Cost(
        vector_flops=cost.vector_flops,
        read_bytes=storage_bytes(target) + storage_bytes(grad),
        written_bytes=storage_bytes(scores),
        dtype=cost.dtype,
    )


@rule("aten::_ctc_loss", "aten::_cudnn_ctc_loss", "aten::_ctc_loss_backward", key=Key.ARGUMENTS)
def _ctc(call: Call) -> Cost:
    """The forward variable: T x N x (2 L + 1) states of 3 exp, 3 adds, a log and an add (Graves 2006, section 4.1)."""
    backward = "backward" in call.name
    scores, target = (call.args[1], call.args[2]) if backward else (call.args[0], call.args[1])
    steps, batch = (scores.shape[0], scores.shape[1]) if scores.ndim == 3 else (scores.shape[0], 1)
    longest = target.shape[-1] if target.ndim > 1 else -(-target.numel() // max(batch, 1))
    states = steps * batch * (2 * longest + 1)
    return vector_cost(
        call,
        8 * states + 4 * scores.numel() if backward else 8 * states,
        status=Status.ESTIMATE,
        note="every input and target is taken to be of the longest length",
    )

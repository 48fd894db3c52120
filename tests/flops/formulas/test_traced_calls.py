"""The same call, live and recorded in a trace: one formula, one cost; what only values tell is an upper bound."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.registry import NotRecorded, OutputUnknown
from weftrace.costs.tensors import DType, Tensor
from weftrace.costs.traced_call import UNRECORDED, TracedCall
from weftrace.flops.runtime.formulas.live_call import LiveCall
from weftrace.flops.runtime.formulas.operators import operator, rule_of


def _recorded(value: Any) -> Any:
    """What a trace has of an argument: of tensors shape, dtype and strides (none where they are sparse)."""
    if isinstance(value, torch.Tensor):
        strides = tuple(value.stride()) if value.layout is torch.strided else ()
        return Tensor(tuple(value.shape), DType(str(value.dtype).removeprefix("torch.")), strides)
    return [_recorded(item) for item in value] if isinstance(value, (list, tuple)) else value


def _both(name: str, *args: Any, **kwargs: Any) -> tuple[Cost, Cost]:
    """The cost of a call as it runs, and of the same call as recorded."""
    op: Any = operator(name)
    rule = rule_of(op)
    assert rule is not None
    out = op(*args, **kwargs)
    live = LiveCall(op, args, kwargs, out)
    names, values = [], []
    for argument, value, written in live.named_arguments():
        names.append(argument + "!" * written)
        values.append(_recorded(value))
    return rule.formula(live), rule.formula(TracedCall(live.name, values, names, _recorded(out)))


X, Q, IMAGE = torch.ones(4, 6), torch.ones(2, 3, 4, 8), torch.ones(2, 4, 9, 9)
CAUSAL = {"is_causal": True}
CPU_FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("aten::mm", (X, X.t()), {}),
        ("aten::addmm", (torch.ones(3), X, torch.ones(3, 6).t()), {"beta": 0}),
        ("aten::bmm", (Q[0], Q[0].transpose(1, 2)), {}),
        ("aten::convolution", (IMAGE, torch.ones(6, 2, 3, 3), None, [2, 2], [1, 1], [1, 1], False, [0, 0], 2), {}),
        (CPU_FLASH, (Q, Q, Q, 0.0, True), {}),
        ("aten::native_layer_norm", (X, [6], torch.ones(6), None, 1e-5), {}),
        ("aten::_softmax", (X, -1, False), {}),
        ("aten::_safe_softmax", (X, -1), {}),
        ("aten::add.Tensor", (X, X[0].expand(4, 6)), {"alpha": 2}),
        ("aten::_foreach_add_.Scalar", ([X.clone(), X.clone()], 1.0), {}),
        ("aten::index_put", (X, [None, torch.tensor([0, 2])], torch.ones(())), {"accumulate": True}),
        ("aten::embedding", (X, torch.tensor([[0, 1, 1]])), {}),
        ("aten::copy_", (X.clone(), X[0]), {}),
        ("aten::zeros_like", (X,), {}),
        ("aten::topk", (X, 2), {}),
    ],
)
def test_the_same_cost_live_and_recorded(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    live, recorded = _both(name, *args, **kwargs)
    if name == "aten::_safe_softmax":  # the live one also knows how many scores its mask let through
        assert (live.vector_flops, live.moved_bytes) == (recorded.vector_flops, recorded.moved_bytes)
    else:
        assert live == recorded


def test_a_mask_of_a_trace_is_not_read() -> None:
    live, recorded = _both(CPU_FLASH, Q, Q, Q, attn_mask=torch.ones(4, 4).tril().log())
    assert (live.flops, live.status) == (live.full_flops * 10 // 16, Status.EXACT)
    assert recorded.flops == live.full_flops == recorded.full_flops
    assert recorded.status is Status.UPPER_BOUND and "not read" in recorded.note
    assert (live.executed_flops, live.moved_bytes) == (recorded.executed_flops, recorded.moved_bytes)


def test_a_sparse_matrix_of_a_trace_is_counted_as_if_it_were_full() -> None:
    live, recorded = _both("aten::mm", torch.eye(4).to_sparse(), X)
    assert (live.flops, live.status) == (2 * 4 * 6, Status.EXACT)
    assert (recorded.flops, recorded.status) == (2 * 4 * 4 * 6, Status.UPPER_BOUND)


def test_groups_of_a_trace_are_taken_to_be_full() -> None:
    ends = torch.tensor([8, 12], dtype=torch.int32)  # 4 of 16 rows belong to no expert
    rows, experts = torch.ones(16, 32, dtype=torch.bfloat16), torch.ones(2, 32, 64, dtype=torch.bfloat16)
    live, recorded = _both("aten::_grouped_mm", rows, experts, ends)
    assert (live.flops, live.status) == (2 * 12 * 32 * 64, Status.EXACT)
    assert recorded.flops == 2 * 16 * 32 * 64 and recorded.status is not Status.EXACT and recorded.note


def test_packed_lengths_of_a_trace_are_at_most_the_longest() -> None:
    rule = rule_of(operator("aten::_flash_attention_forward"))  # type: ignore[arg-type]
    assert rule is not None
    tokens, starts = Tensor((12, 2, 8), DType("bfloat16")), Tensor((4,), DType("int32"))
    names = ("query", "key", "value", "cum_seq_q", "cum_seq_k", "max_q", "max_k", "dropout_p", "is_causal")
    call = TracedCall(
        "aten::_flash_attention_forward", (tokens, tokens, tokens, starts, starts, 6, 6, 0.0, False), names, (tokens,)
    )
    cost = rule.formula(call)
    assert (cost.flops, cost.kind, cost.status) == (2 * 2 * 12 * 6 * 16, Kind.ATTENTION, Status.UPPER_BOUND)
    assert "lengths" in cost.note


def test_what_was_not_recorded_is_said() -> None:
    x = Tensor((4, 6), DType("float32"))
    call = TracedCall("aten::mm", (x, UNRECORDED, 2), ("self", "alpha", "beta"))
    assert (call.arg("beta"), call.arg("alpha", 1), call.assumed) == (2, 1, ["alpha"])
    with pytest.raises(NotRecorded, match="alpha"):
        call.arg("alpha")
    with pytest.raises(OutputUnknown, match="aten::mm"):
        _ = call.out
    rule = rule_of(operator("quantized::conv2d"))  # type: ignore[arg-type]
    assert rule is not None
    with pytest.raises(NotRecorded, match="packed"):
        rule.formula(TracedCall("quantized::conv2d", (x, None), ("qx", "packed_weight"), x))

"""scaled_dot_product_attention that falls apart into two products: model FLOPs of the pairs that the mask lets through,
executed FLOPs of all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from weftrace.costs.cost import Cost, Status
from weftrace.flops import FlopsReport, profile, totals

S = 32
CAUSAL = S * (S + 1) // 2
TRIL = torch.ones(S, S, dtype=torch.bool).tril()


class Attention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return scaled_dot_product_attention(query, key, value, **self.options)


def _counted(
    lead: tuple[int, ...], d_v: int = 16, *, backward: bool = True, device: str = "cpu", **options: Any
) -> FlopsReport:
    sizes = [(*lead, S, 16), (*lead, S, 16), (*lead, S, d_v)]
    inputs = [torch.randn(size, device=device, requires_grad=backward) for size in sizes]
    model = Attention(**options)
    with profile(model, time=False) as run:
        out = model(*inputs)
        if backward:
            out.sum().backward()
    return run.report()


def _statuses(report: FlopsReport) -> set[Status]:
    return {op.cost.status for op in report.ops if op.cost.flops}


FLOAT = torch.zeros(S, S).masked_fill(~TRIL, float("-inf"))
FALLS_APART: dict[str, tuple[tuple[int, ...], int, dict[str, Any]]] = {
    "dropout": ((2, 4), 16, {"is_causal": True, "dropout_p": 0.1}),
    "dropout and mask": ((2, 4), 16, {"attn_mask": TRIL, "dropout_p": 0.1}),
    "a low number for minus infinity": ((2, 4), 16, {"attn_mask": -1e4 * (~TRIL).float(), "dropout_p": 0.1}),
    "narrower values": ((2, 4), 8, {"is_causal": True}),
    "2-D": ((), 16, {"is_causal": True}),
    "3-D": ((4,), 16, {"is_causal": True}),
    "5-D": ((2, 2, 4), 16, {"is_causal": True}),
    "as long as wide": ((2, 4), S, {"is_causal": True}),
    "mask that learns": ((2, 4), 16, {"attn_mask": FLOAT.clone().requires_grad_()}),
}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("case", FALLS_APART)
def test_products_of_masked_attention_count_the_pairs_that_may_look(case: str, backward: bool) -> None:
    lead, d_v, options = FALLS_APART[case]
    report = _counted(lead, d_v, backward=backward, **options)
    heads = torch.Size(lead).numel()
    each = 2 * heads * (16 + d_v) * (3 if backward else 1)
    found = totals(report)
    assert (found.flops, found.full_flops, found.executed_flops) == (each * CAUSAL, each * S * S, each * S * S)
    assert _statuses(report) == {Status.EXACT}
    assert {type(op.cost) for op in report.ops} == {Cost}


def test_products_of_attention_without_a_mask_count_all_pairs() -> None:
    for device in ("cpu", "meta"):
        report = _counted((4,), device=device)
        assert totals(report).flops == 3 * 2 * 4 * 32 * S * S
        assert _statuses(report) == {Status.EXACT}


def test_a_mask_that_cannot_be_read_makes_the_products_an_upper_bound() -> None:
    report = _counted((4,), device="meta", is_causal=True)
    assert totals(report).flops == 3 * 2 * 4 * 32 * S * S
    assert _statuses(report) == {Status.UPPER_BOUND}
    assert all("mask" in op.cost.note for op in report.ops if op.cost.flops)


def test_two_masks_in_one_module_are_each_counted() -> None:
    model = Attention(dropout_p=0.1)
    query = torch.randn(1, 2, S, 16, requires_grad=True)
    with profile(model, time=False) as run:
        for mask in (TRIL, TRIL | True, TRIL):
            model.options["attn_mask"] = mask
            model(query, query, query).sum().backward()
    report = run.report()
    assert totals(report).flops == 3 * 2 * 2 * 32 * (2 * CAUSAL + S * S)
    assert _statuses(report) == {Status.EXACT}


def test_another_product_of_the_same_shapes_makes_an_upper_bound() -> None:
    class More(Attention):
        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return super().forward(query, key, value) + query @ key.mT @ value

    model, query = More(is_causal=True, dropout_p=0.1), torch.randn(1, 2, S, 16)
    with profile(model, time=False) as run:
        model(query, query, query)
    report = run.report()
    assert totals(report).flops == 2 * (2 * 2 * 32 * S * S)
    assert _statuses(report) == {Status.UPPER_BOUND}


def test_an_encoder_layer_in_training_counts_its_mask() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    dropless = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    x, found = torch.randn(2, S, 64), []
    for model in (layer, dropless):
        with profile(model, time=False) as run:
            model(x, src_mask=~TRIL).sum().backward()
        found.append(totals(run.report()))
    assert found[0].flops == found[1].flops


@pytest.mark.parametrize("reentrant", [False, True])
def test_attention_that_a_checkpoint_runs_again_counts_its_pairs_each_time(reentrant: bool) -> None:
    class Checkpointed(Attention):
        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            out = checkpoint(super().forward, query, key, value, use_reentrant=reentrant)
            assert isinstance(out, Tensor)
            return out

    model, query = Checkpointed(is_causal=True, dropout_p=0.1), torch.randn(1, 2, S, 16, requires_grad=True)
    with profile(model, time=False) as run:
        model(query, query, query).sum().backward()
    report = run.report()
    assert totals(report).flops == 3 * 2 * 2 * 32 * CAUSAL
    assert _statuses(report) == {Status.EXACT}

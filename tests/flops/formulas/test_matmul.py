"""Products of matrices: every case's FLOPs are 2 x the multiply-adds that one writes down by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.flops.formulas.single_op import Case, check, check_under_inference, count_op, devices, leaf
from weftrace.costs.cost import Kind, Status

Built = tuple[Callable[[], Any], list[torch.Tensor]]
BF16, C64 = torch.bfloat16, torch.complex64


def of(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Any:
    """A case's code: the function of leaves of these shapes."""

    def build(device: str) -> Built:
        leaves = [leaf(device, *shape, dtype=dtype) for shape in shapes]
        return (lambda: function(*leaves)), leaves

    return build


def module(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Any:
    def build(device: str) -> Built:
        layer = make().to(device)
        leaves = [leaf(device, *shape) for shape in shapes]
        return (lambda: layer(*leaves)), [*leaves, *layer.parameters()]

    return build


class _Scripted(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y


def grouped(*shapes: tuple[int, ...], ends: tuple[int, ...] = ()) -> Any:
    def build(device: str) -> Built:
        leaves = [leaf(device, *shape, dtype=BF16) for shape in shapes]
        offs = torch.tensor(ends, dtype=torch.int32, device=device) if ends else None
        return (lambda: torch._grouped_mm(leaves[0], leaves[1], offs=offs)), leaves

    return build


MNK = 3 * 4 * 5  # [3, 4] x [4, 5]
CASES = [
    Case(name="mm", build=of(torch.mm, (3, 4), (4, 5)), forward=2 * MNK, backward=4 * MNK, op="aten.mm.default"),
    Case(name="bmm", build=of(torch.bmm, (2, 3, 4), (2, 4, 5)), forward=4 * MNK, backward=8 * MNK),
    Case(
        name="addmm", build=of(torch.addmm, (5,), (3, 4), (4, 5)), forward=2 * MNK, backward=4 * MNK,
        op="aten.addmm.default"
    ),
    Case(name="baddbmm", build=of(torch.baddbmm, (2, 3, 5), (2, 3, 4), (2, 4, 5)), forward=4 * MNK, backward=8 * MNK),
    Case(
        name="addbmm",
        build=of(torch.addbmm, (3, 5), (2, 3, 4), (2, 4, 5)),
        forward=4 * MNK,
        backward=8 * MNK,
        op="aten.addbmm.default",
    ),
    # grad of a matrix-vector product: the matrix's is an outer product (elementwise), the vector's another mv
    Case(name="mv", build=of(torch.mv, (3, 4), (4,)), forward=24, backward=24, op="aten.mv.default"),
    Case(name="addmv", build=of(torch.addmv, (3,), (3, 4), (4,)), forward=24, backward=24, op="aten.addmv.default"),
    Case(name="matrix-vector-matmul", build=of(torch.matmul, (3, 4), (4,)), forward=24, backward=24),
    Case(name="dot", build=of(torch.dot, (7,), (7,)), forward=14, op="aten.dot.default"),
    Case(name="vdot", build=of(torch.vdot, (7,), (7,)), forward=14, op="aten.vdot.default"),
    Case(name="addr", build=of(torch.addr, (3, 4), (3,), (4,)), forward=0, backward=48, op="aten.addr.default"),
    Case(name="outer", build=of(torch.outer, (3,), (4,)), forward=0),
    Case(
        name="broadcast-matmul",  # 2 x 5 products of [3, 4] and [4, 6]
        build=of(torch.matmul, (2, 3, 4), (5, 1, 4, 6)),
        forward=10 * 2 * 3 * 4 * 6,
        backward=20 * 2 * 3 * 4 * 6,
    ),
    Case(
        name="folded-matmul", build=of(torch.matmul, (6, 7, 3, 4), (4, 5)), forward=42 * 2 * MNK, backward=84 * 2 * MNK
    ),
    Case(name="vmap", build=of(torch.vmap(torch.matmul), (8, 3, 4), (8, 4, 5)), forward=16 * MNK, backward=32 * MNK),
    Case(
        name="vmap-shared",
        build=of(torch.vmap(torch.matmul, in_dims=(0, None)), (8, 3, 4), (4, 5)),
        forward=16 * MNK,
        backward=32 * MNK,
    ),
    Case(
        name="einsum",
        build=of(lambda a, b: torch.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5)),
        forward=4 * MNK,
        backward=8 * MNK,
    ),
    Case(
        name="einsum-list",
        build=of(lambda a, b: torch.einsum("bij,bjk->bik", [a, b]), (2, 3, 4), (2, 4, 5)),
        forward=4 * MNK,
        backward=8 * MNK,
    ),
    Case(
        name="tensordot",
        build=of(lambda a, b: torch.tensordot(a, b, ([0, 2], [0, 1])), (2, 3, 4), (2, 4, 5)),
        forward=2 * 3 * 8 * 5,
        backward=4 * 3 * 8 * 5,
    ),
    Case(name="inner", build=of(torch.inner, (3, 4), (5, 4)), forward=2 * MNK, backward=4 * MNK),
    Case(
        name="chain_matmul",  # (a b) c: 3 x 4 x 6 and 3 x 6 x 7 multiply-adds
        build=of(torch.chain_matmul, (3, 4), (4, 6), (6, 7)),
        forward=2 * (72 + 126),
        backward=4 * (72 + 126),
    ),
    Case(name="foreach_mm", build=of(lambda a, b: torch._foreach_mm([a, a], [b, b]), (3, 4), (4, 5)), forward=4 * MNK,
         grad=False, meta=False, op="aten._foreach_mm.default"),
    Case(name="complex-mm", build=of(torch.mm, (3, 4), (4, 5), dtype=C64), forward=8 * MNK, backward=16 * MNK),
    Case(name="complex-dot", build=of(torch.vdot, (7,), (7,), dtype=C64), forward=56),
    Case(name="complex-baddbmm", build=of(torch.baddbmm, (2, 3, 5), (2, 3, 4), (2, 4, 5), dtype=C64), forward=16 * MNK,
         backward=32 * MNK),
    Case(name="linear", build=module(lambda: nn.Linear(4, 5), (3, 4)), forward=2 * MNK, backward=4 * MNK),
    Case(name="linear-3d", build=module(lambda: nn.Linear(4, 5), (2, 3, 4)), forward=4 * MNK, backward=8 * MNK),
    Case(name="linear-one-row", build=module(lambda: nn.Linear(4, 5), (4,)), forward=40, backward=80),
    Case(name="scripted", build=module(lambda: torch.jit.script(_Scripted()), (3, 4), (4, 5)), forward=2 * MNK,
         backward=4 * MNK),
    Case(
        name="bilinear",  # x1' W x2 for each of 7 rows and 6 outputs: W x2 is 4 x 5 multiply-adds, x1' of that 5 more
        build=module(lambda: nn.Bilinear(4, 5, 6), (7, 4), (7, 5)),
        forward=2 * 7 * 6 * (4 * 5 + 5),
        backward=3 * 2 * 7 * 6 * 4 * 5,
        op="aten._trilinear.default",
    ),
    Case(
        name="addmm-activation",
        build=of(torch._addmm_activation, (5,), (3, 4), (4, 5)),
        forward=2 * MNK,
        grad=False,
        op="aten._addmm_activation.default",
    ),
    # 16 rows of 32 for 2 experts of [32, 64], whoever gets them; both gradients are grouped products as large
    Case(name="grouped-rows", build=grouped((16, 32), (2, 32, 64), ends=(8, 16)), forward=2 * 16 * 32 * 64,
         backward=4 * 16 * 32 * 64, op="aten._grouped_mm.default", meta_status=Status.ESTIMATE),
    Case(name="grouped-uneven", build=grouped((16, 32), (2, 32, 64), ends=(0, 16)), forward=2 * 16 * 32 * 64,
         backward=4 * 16 * 32 * 64, meta_status=Status.ESTIMATE),
    Case(name="grouped-columns", build=grouped((2, 8, 32), (32, 16), ends=(8, 16)), forward=2 * 8 * 32 * 16,
         backward=4 * 8 * 32 * 16, meta_status=Status.ESTIMATE),
    Case(name="grouped-sum", build=grouped((32, 16), (16, 64), ends=(8, 16)), forward=2 * 32 * 16 * 64,
         backward=4 * 32 * 16 * 64, meta_status=Status.ESTIMATE),
    Case(name="grouped-batch", build=grouped((2, 8, 32), (2, 32, 64)), forward=2 * 2 * 8 * 32 * 64,
         backward=4 * 2 * 8 * 32 * 64),
]  # fmt: skip


@pytest.mark.parametrize(("case", "device"), devices(CASES))
def test_products(case: Case, device: str) -> None:
    check(case, device)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_products_under_inference_mode(case: Case) -> None:
    check_under_inference(case)


def test_an_outer_product_adds_where_beta_is_not_0() -> None:
    out, x, y = torch.randn(3, 4), torch.randn(3), torch.randn(4)
    both = count_op(lambda: (torch.addr(out, x, y), torch.addr(out, x, y, beta=0)))
    assert sorted(op.cost.vector_flops for op in both.ops if "addr" in op.name) == [12, 24]


def test_a_bias_is_one_addition_for_each_element_and_beta_0_none() -> None:
    x, w, bias = torch.randn(3, 4), torch.randn(4, 5), torch.randn(3, 5)
    assert count_op(lambda: torch.addmm(bias, x, w)).op("addmm").cost.vector_flops == 15
    unbiased = count_op(lambda: torch.addmm(bias, x, w, beta=0)).op("addmm").cost
    assert unbiased.vector_flops == 0
    assert unbiased.read_bytes == 4 * (12 + 20)  # what is multiplied by nothing is not read


def test_beta_is_told_apart_in_one_program() -> None:
    x, w, bias = torch.randn(3, 4), torch.randn(4, 5), torch.randn(3, 5)

    def both() -> None:
        torch.addmm(bias, x, w)
        torch.addmm(bias, x, w, beta=0)

    assert count_op(both).total("vector_flops") == 15


def test_bytes_are_inputs_once_and_outputs_once() -> None:
    x, w, bias = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)
    cost = count_op(lambda: F.linear(x, w.t(), bias)).op("addmm").cost
    assert (cost.read_bytes, cost.written_bytes) == (4 * (12 + 20 + 5), 4 * 15)
    wide = torch.randn(1, 4).expand(1000, 4)
    assert count_op(lambda: wide @ w).op("mm").cost.read_bytes == 4 * (4 + 20)  # an expanded row is read once


def test_the_dtype_is_that_of_the_matrices() -> None:
    cost = count_op(lambda: torch.randn(3, 4, dtype=BF16) @ torch.randn(4, 5, dtype=BF16)).op("mm").cost
    assert (cost.dtype, cost.kind) == ("bf16", Kind.MATMUL)


def test_matrices_of_experts_without_a_row_are_not_read() -> None:
    rows, experts = torch.randn(16, 32, dtype=BF16), torch.randn(4, 32, 64, dtype=BF16)
    offs = torch.tensor([0, 16, 16, 16], dtype=torch.int32)  # all to the second
    cost = count_op(lambda: torch._grouped_mm(rows, experts, offs=offs)).op("_grouped_mm").cost
    assert cost.read_bytes == 2 * (16 * 32 + 32 * 64) + 4 * 4


def test_rows_beyond_the_last_group_are_not_computed() -> None:
    rows, experts = torch.randn(16, 32, dtype=BF16), torch.randn(2, 32, 64, dtype=BF16)
    offs = torch.tensor([4, 8], dtype=torch.int32)
    counted = count_op(lambda: torch._grouped_mm(rows, experts, offs=offs))
    assert counted.forward == 2 * 8 * 32 * 64


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_onednn_linear(dtype: torch.dtype) -> None:
    x, w, b = torch.randn(2, 8, dtype=dtype), torch.randn(16, 8, dtype=dtype), torch.randn(16, dtype=dtype)
    counted = count_op(lambda: torch.ops.mkldnn._linear_pointwise(x, w, b, "relu", [], ""))
    cost = counted.op("_linear_pointwise").cost
    assert (cost.flops, cost.vector_flops) == (2 * 2 * 8 * 16, 2 * 16 * 2)


def test_mkldnn_tensors() -> None:
    x, w, b = torch.randn(2, 8).to_mkldnn(), torch.randn(16, 8), torch.randn(16)
    counted = count_op(lambda: torch._C._nn.mkldnn_linear(x, w.to_mkldnn(), b.to_mkldnn()).to_dense())
    assert counted.op("mkldnn_linear").cost.flops == 2 * 2 * 8 * 16


B, S, E, INNER = 3, 5, 16, 32


@pytest.mark.parametrize("mode", ["train", "eval", "inference"])
def test_encoder_layer_fused_or_not(mode: str) -> None:
    """8 e^2 + 4 e f for each token and 4 S^2 e for each sequence, as one operator or as many."""
    layer = nn.TransformerEncoderLayer(E, 2, INNER, batch_first=True, dropout=0.0).train(mode == "train")
    x = torch.randn(B, S, E)
    with torch.inference_mode(mode == "inference"), torch.set_grad_enabled(mode == "train"):
        counted = count_op(lambda: layer(x))
    assert counted.forward == B * S * (8 * E * E + 4 * E * INNER) + B * 4 * S * S * E
    assert ("aten._transformer_encoder_layer_fwd.default" in counted.names()) is (mode != "train")


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_vector_work_of_the_fused_encoder_layer_is_that_of_its_parts(activation: str) -> None:
    layer = nn.TransformerEncoderLayer(E, 2, INNER, batch_first=True, activation=activation).eval()
    x = torch.randn(B, S, E)
    parts = count_op(lambda: layer(x))  # its parameters take gradients: no fast path
    with torch.no_grad():
        fused = count_op(lambda: layer(x))
    assert len(fused.ops) == 1
    assert fused.total("vector_flops") == parts.total("vector_flops")


@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head_attention_fused(need_weights: bool) -> None:
    attention = nn.MultiheadAttention(E, 2, batch_first=True).eval()
    x = torch.randn(B, S, E)
    with torch.inference_mode():
        counted = count_op(lambda: attention(x, x, x, need_weights=need_weights))
    assert counted.forward == B * S * 8 * E * E + B * 4 * S * S * E
    assert counted.op("_native_multi_head_attention").cost.status is Status.EXACT


def test_padded_encoder_counts_the_lengths_of_its_sequences() -> None:
    """With a padding mask torch goes through nested tensors: 3 and 5 tokens, not 2 x 5."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, 2, INNER, batch_first=True), 2).eval()
    padding = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)
    x = torch.randn(2, 5, E)
    with torch.no_grad():
        plain, counted = (
            encoder(x, src_key_padding_mask=padding),
            count_op(lambda: encoder(x, src_key_padding_mask=padding)),
        )
    assert torch.equal(plain, counted.out)
    assert counted.forward == 2 * (8 * (8 * E * E + 4 * E * INNER) + 4 * (9 + 25) * E)
    assert counted.op("_transformer_encoder_layer_fwd").cost.status is Status.ESTIMATE

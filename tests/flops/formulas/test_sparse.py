"""Sparse products: 2 nnz n, by the elements that are stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Kind, Phase, Status

# [4, 6], 5 stored elements
DENSE = torch.tensor([[1.0, 0, 2, 0, 0, 0], [0, 3, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [4, 0, 0, 0, 0, 5]])
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "coo": lambda x: x.to_sparse_coo(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
}


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_products_with_a_dense_matrix(layout: str) -> None:
    a, b = LAYOUTS[layout](DENSE), torch.randn(6, 7)
    codes: dict[str, Callable[[], torch.Tensor]] = {
        "mm": lambda: torch.mm(a, b),
        "matmul": lambda: a @ b,
        "sparse.mm": lambda: torch.sparse.mm(a, b),
        "sparse.addmm": lambda: torch.sparse.addmm(torch.ones(4, 7), a, b),
        "addmm": lambda: torch.addmm(torch.ones(4, 7), a, b),
    }
    for name, code in codes.items():
        counted = count_op(code)
        assert counted.forward == 2 * 5 * 7, name
        assert {op.cost.status for op in counted.ops if op.cost.kind is Kind.MATMUL} == {Status.EXACT}
        torch.testing.assert_close(counted.out, code())


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_the_sparse_matrix_on_the_right_and_with_a_vector(layout: str) -> None:
    a = LAYOUTS[layout](DENSE)
    left, vector = torch.randn(3, 4), torch.randn(6)
    assert count_op(lambda: left @ a).forward == 2 * 5 * 3
    assert count_op(lambda: a @ vector).forward == 2 * 5
    assert count_op(lambda: F.linear(torch.randn(3, 6), a)).forward == 2 * 5 * 3


def test_blocks_are_multiplied_whole() -> None:
    a = DENSE.to_sparse_bsr((2, 2))  # 2 x 3 blocks, 4 of them stored: [0, 0], [0, 1], [1, 0], [1, 2]
    assert count_op(lambda: a @ torch.randn(6)).forward == 2 * 16


def test_the_gradient_of_the_dense_operand_is_a_sparse_product() -> None:
    a, b = DENSE.to_sparse_csr(), torch.randn(6, 7, requires_grad=True)
    counted = count_op(lambda: torch.mm(a, b).sum().backward())
    assert (counted.forward, counted.backward) == (2 * 5 * 7, 2 * 5 * 7)


def test_sampled_products_compute_the_stored_elements() -> None:
    pattern, a, b = DENSE.to_sparse_csr(), torch.randn(4, 3), torch.randn(3, 6)
    cost = count_op(lambda: torch.sparse.sampled_addmm(pattern, a, b)).op("sparse_sampled_addmm").cost
    assert (cost.flops, cost.vector_flops) == (2 * 5 * 3, 5)


def test_reduced_products() -> None:
    counted = count_op(lambda: torch.sparse.mm(DENSE.to_sparse_csr(), torch.randn(6, 7), reduce="sum"))
    assert counted.op("_sparse_mm_reduce_impl").cost.flops == 2 * 5 * 7


def test_two_sparse_operands_are_an_estimate() -> None:
    a = torch.eye(6).to_sparse_coo()
    cost = count_op(lambda: torch.sparse.mm(a, a)).op("_sparse_sparse_matmul").cost
    assert (cost.flops, cost.status) == (2 * 6, Status.ESTIMATE)  # right here: one element in each row
    assert "evenly" in cost.note


def test_hybrid_products() -> None:
    a, b = DENSE.to_sparse_coo(), torch.randn(6, 7)
    assert count_op(lambda: torch.hspmm(a, b)).forward == 2 * 5 * 7
    square = DENSE[:, :4].to_sparse_coo()  # 4 stored
    assert count_op(lambda: torch.sspaddmm(square, square, torch.randn(4, 4))).forward == 2 * 4 * 4


def test_batches() -> None:
    a = torch.stack([DENSE, DENSE]).to_sparse_coo()
    assert count_op(lambda: torch.bmm(a, torch.randn(2, 6, 7))).forward == 2 * 10 * 7


def test_semi_structured_is_half_of_the_dense_product() -> None:
    """2:4 kernels need a GPU: the formula is asked with tensors on meta."""
    from weftrace.flops.runtime.formulas.live_call import LiveCall
    from weftrace.flops.runtime.formulas.operators import operator, rule_of

    half = torch.empty(64, 64, dtype=torch.bfloat16, device="meta")  # of [64, 128]
    meta = torch.empty(64, 8, dtype=torch.int16, device="meta")
    dense, out = torch.empty(128, 32, dtype=torch.bfloat16, device="meta"), torch.empty(64, 32, device="meta")
    op = operator("aten::_sparse_semi_structured_mm")
    assert op is not None
    found = rule_of(op)
    assert found is not None
    assert found.formula(LiveCall(op, (half, meta, dense), {}, out)).flops == 64 * 128 * 32


def test_dense_and_sparse_of_the_same_shape_in_one_program() -> None:
    a, sparser, b = DENSE.to_sparse_csr(), torch.eye(4, 6).to_sparse_csr(), torch.randn(6, 7)

    def program() -> None:
        for left in (DENSE, a, sparser, DENSE, sparser):
            torch.mm(left, b)

    counted = count_op(program)
    assert counted.forward == 2 * 7 * (24 + 5 + 4 + 24 + 4)
    assert len([op for op in counted.ops if op.phase is Phase.FORWARD]) == 3

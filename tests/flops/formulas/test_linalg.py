"""Factorizations and solvers: the leading terms that textbooks have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.flops.formulas.single_op import count_op, tensors
from weftrace.costs.cost import Kind, Status

N = 6
L = torch.linalg
SVD, EIGH = torch.ops.aten._linalg_svd, torch.ops.aten._linalg_eigh


def matrix(n: int = N) -> torch.Tensor:
    torch.manual_seed(0)
    a = torch.randn(n, n)
    return a @ a.t() + n * torch.eye(n)


A, TALL, B = matrix(), torch.randn(9, N), torch.randn(N, 2)
CASES: list[tuple[str, Callable[[], Any], str, float]] = [
    ("cholesky", lambda: L.cholesky(A), "linalg_cholesky_ex", N**3 / 3),
    ("lu_factor", lambda: L.lu_factor(A), "linalg_lu_factor_ex", 2 * N**3 / 3),
    ("lu", lambda: L.lu(A), "linalg_lu.default", 2 * N**3 / 3),
    ("lu of tall", lambda: L.lu_factor(TALL), "linalg_lu_factor_ex", 9 * N**2 - N**3 / 3),
    ("qr, R alone", lambda: L.qr(TALL, "r"), "linalg_qr", 2 * 9 * N**2 - 2 * N**3 / 3),
    ("qr", lambda: L.qr(TALL), "linalg_qr", 2 * (2 * 9 * N**2 - 2 * N**3 / 3)),
    # svdvals and eigvalsh ask for the vectors too while any dispatch mode is on, so their operators are called here
    ("singular values", lambda: SVD(TALL, False, False), "_linalg_svd", 4 * 9 * N**2 - 4 * N**3 / 3),
    ("svd", lambda: L.svd(TALL, full_matrices=False), "_linalg_svd", 14 * 9 * N**2 + 8 * N**3),
    ("eigenvalues", lambda: EIGH(A, "L", False), "_linalg_eigh", 4 * N**3 / 3),
    ("eigh", lambda: L.eigh(A), "_linalg_eigh", 9 * N**3),
    ("eig", lambda: L.eig(A), "linalg_eig", 25 * N**3),
    ("inv", lambda: L.inv(A), "linalg_inv_ex", 2 * N**3),
    ("det", lambda: L.det(A), "_linalg_det", 2 * N**3 / 3),
    ("slogdet", lambda: L.slogdet(A), "_linalg_slogdet", 2 * N**3 / 3),
    ("solve", lambda: L.solve(A, B), "_linalg_solve_ex", 2 * N**3 / 3 + 2 * N**2 * 2),
    ("solve a vector", lambda: L.solve(A, B[:, 0]), "_linalg_solve_ex", 2 * N**3 / 3 + 2 * N**2),
    ("solve_triangular", lambda: L.solve_triangular(A, B, upper=True), "linalg_solve_triangular", N**2 * 2),
    ("cholesky_solve", lambda: torch.cholesky_solve(B, A), "cholesky_solve", 2 * N**2 * 2),
    ("cholesky_inverse", lambda: torch.cholesky_inverse(A), "cholesky_inverse", 2 * N**3 / 3),
    ("matrix_exp", lambda: L.matrix_exp(A / 50), "linalg_matrix_exp", 10 * N**3),
    ("batch", lambda: L.cholesky(torch.stack([A] * 5)), "linalg_cholesky_ex", 5 * N**3 / 3),
    ("complex", lambda: L.cholesky(A.to(torch.complex64)), "linalg_cholesky_ex", 4 * N**3 / 3),
]


@pytest.mark.parametrize(("name", "code", "op", "flops"), CASES, ids=[case[0] for case in CASES])
def test_leading_terms(name: str, code: Callable[[], Any], op: str, flops: float) -> None:
    plain, counted = code(), count_op(code)
    cost = counted.op(op).cost
    assert (cost.flops, cost.kind, cost.status) == (round(flops), Kind.MATMUL, Status.ESTIMATE)
    assert cost.note
    assert counted.failures == {}
    for one, other in zip(tensors([counted.out]), tensors([plain]), strict=True):
        torch.testing.assert_close(one, other)


def test_matrix_power_is_products() -> None:
    assert count_op(lambda: L.matrix_power(A, 5)).forward == 3 * 2 * N**3  # a^2, a^4, a^5

"""Factorizations and solvers of dense matrices: the leading terms of their operation counts, all of them estimates.

Sources: LAPACK Working Note 41 (LU, Cholesky, QR, their solves and inverses); Golub and Van Loan, Matrix
Computations, 4th ed., 7.5.6, 8.3.3 and figure 8.6.1 (eigenvalues, singular values; iterative, so usual figures).
Everything is times the batch, and times 4 for complex numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.registry import Call, Key, matrix_cost, rule, vector_cost
from weftrace.costs.tensors import TensorLike

_NOTE = "leading terms of LAPACK's operation count"
_ITERATIVE = "iterative: a usual count of operations"


def _estimate(call: Call, matrix: TensorLike, flops: float, note: str = _NOTE) -> Cost:
    """flops: of one real matrix of the batch."""
    batch = math.prod(matrix.shape[:-2])
    times = 4 if any(tensor.is_complex() for tensor in call.inputs()) else 1
    return matrix_cost(call, round(flops * batch * times), dtype=matrix.dtype, status=Status.ESTIMATE, note=note)


def _sizes(matrix: TensorLike) -> tuple[int, int]:
    """(larger, smaller) of a matrix's sides."""
    rows, columns = matrix.shape[-2:]
    return max(rows, columns), min(rows, columns)


def lu_flops(p: int, k: int) -> float:
    """p x k, p >= k, or its transpose; 2/3 n^3 if square."""
    return p * k**2 - k**3 / 3


def qr_flops(p: int, k: int) -> float:
    """The factor R, and Q as reflections: 4/3 n^3 if square."""
    return 2 * p * k**2 - 2 * k**3 / 3


def q_flops(m: int, n: int, k: int) -> float:
    """Q itself, [m, n], from k reflections."""
    return 4 * m * n * k - 2 * (m + n) * k**2 + 4 * k**3 / 3


def svd_flops(p: int, k: int, vectors: bool, full: bool) -> float:
    if not vectors:
        return 4 * p * k**2 - 4 * k**3 / 3
    return 4 * p**2 * k + 8 * p * k**2 + 9 * k**3 if full else 14 * p * k**2 + 8 * k**3


def _square(count: Callable[[int], float], *names: str, note: str = _NOTE) -> None:
    @rule(*names)
    def counted(call: Call) -> Cost:
        matrix = call.args[0]
        return _estimate(call, matrix, count(matrix.shape[-1]), note)


_square(lambda n: n**3 / 3, "aten::linalg_cholesky_ex", "aten::cholesky", "aten::linalg_ldl_factor_ex")
_square(lambda n: 2 * n**3 / 3, "aten::cholesky_inverse", "aten::_linalg_det", "aten::_linalg_slogdet")
_square(lambda n: 2 * n**3, "aten::linalg_inv_ex")
_square(lambda n: 25 * n**3, "aten::linalg_eig", note=_ITERATIVE)
_square(lambda n: 10 * n**3, "aten::_linalg_eigvals", note=_ITERATIVE)
_square(lambda n: 5 * 2 * n**3, "aten::linalg_matrix_exp", note="5 products, squarings not known")


@rule("aten::linalg_lu_factor_ex", "aten::linalg_lu")
def _lu(call: Call) -> Cost:
    return _estimate(call, call.args[0], lu_flops(*_sizes(call.args[0])))


@rule("aten::geqrf")
def _geqrf(call: Call) -> Cost:
    return _estimate(call, call.args[0], qr_flops(*_sizes(call.args[0])))


@rule("aten::linalg_qr", key=Key.ARGUMENTS)
def _qr(call: Call) -> Cost:
    matrix, mode = call.args[0], call.arg("mode", "reduced")
    p, k = _sizes(matrix)
    rows = matrix.shape[-2]
    making_q = 0.0 if mode == "r" else q_flops(rows, rows if mode == "complete" else k, k)
    return _estimate(call, matrix, qr_flops(p, k) + making_q)


@rule("aten::linalg_householder_product")
def _householder(call: Call) -> Cost:
    matrix, tau = call.args[:2]
    return _estimate(call, matrix, q_flops(matrix.shape[-2], matrix.shape[-1], tau.shape[-1]))


@rule("aten::ormqr", key=Key.ARGUMENTS)
def _ormqr(call: Call) -> Cost:
    tau, other = call.args[1], call.args[2]
    m, n = other.shape[-2:]
    k, side = tau.shape[-1], m if call.arg("left", True) else n
    return _estimate(call, other, 4 * m * n * k - 2 * (n if side == m else m) * k**2)


@rule("aten::_linalg_svd", key=Key.ARGUMENTS)
def _svd(call: Call) -> Cost:
    matrix = call.args[0]
    p, k = _sizes(matrix)
    flops = svd_flops(p, k, bool(call.arg("compute_uv", True)), bool(call.arg("full_matrices", False)))
    return _estimate(call, matrix, flops, _ITERATIVE)


@rule("aten::_linalg_eigh", key=Key.ARGUMENTS)
def _eigh(call: Call) -> Cost:
    n = call.args[0].shape[-1]
    return _estimate(call, call.args[0], 9 * n**3 if call.arg("compute_v", True) else 4 * n**3 / 3, _ITERATIVE)


@rule("aten::linalg_pinv", key=Key.ARGUMENTS)
def _pinv(call: Call) -> Cost:
    """From the singular values (of a Hermitian matrix: the eigenvalues), and the product of what is left."""
    matrix = call.args[0]
    p, k = _sizes(matrix)
    factors = 9 * k**3 if call.arg("hermitian", False) else svd_flops(p, k, True, False)
    return _estimate(call, matrix, factors + 2 * p * k**2, _ITERATIVE)


def _solving(call: Call, matrix: TensorLike, right: TensorLike, factor: float, each: float) -> Cost:
    """factor: FLOPs of the factorization; each: of one right-hand side."""
    n = matrix.shape[-1]
    columns = right.numel() // max(1, n * math.prod(matrix.shape[:-2]))  # a vector is one column
    return _estimate(call, matrix, factor + each * columns)


@rule("aten::_linalg_solve_ex")
def _solve(call: Call) -> Cost:
    a, b = call.args[:2]
    n = a.shape[-1]
    return _solving(call, a, b, 2 * n**3 / 3, 2 * n**2)


@rule("aten::linalg_lu_solve", "aten::linalg_ldl_solve")
def _factored_solve(call: Call) -> Cost:
    a, b = call.args[0], call.args[2]
    return _solving(call, a, b, 0, 2 * a.shape[-1] ** 2)


@rule("aten::cholesky_solve", "aten::_cholesky_solve_helper")
def _cholesky_solve(call: Call) -> Cost:
    b, a = call.args[:2]
    return _solving(call, a, b, 0, 2 * a.shape[-1] ** 2)


@rule("aten::linalg_solve_triangular")
def _solve_triangular(call: Call) -> Cost:
    a = call.args[0]
    return _solving(call, a, call.out, 0, a.shape[-1] ** 2)


@rule("aten::triangular_solve")
def _triangular_solve(call: Call) -> Cost:
    b, a = call.args[:2]
    return _solving(call, a, b, 0, a.shape[-1] ** 2)


@rule("aten::linalg_lstsq")
def _lstsq(call: Call) -> Cost:
    """By QR: factor, apply Q^T to the right-hand sides, solve with R."""
    a, b = call.args[:2]
    p, k = _sizes(a)
    columns = b.shape[-1] if b.dim() == a.dim() else 1
    return _estimate(call, a, qr_flops(p, k) + columns * (4 * p * k - 2 * k**2 + k**2))


@rule("aten::lu_unpack")
def _lu_unpack(call: Call) -> Cost:
    return vector_cost(call, 0, kind=Kind.MOVE)

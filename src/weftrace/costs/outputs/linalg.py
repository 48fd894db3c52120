"""Results of linear algebra, Fourier transforms and distances."""

from __future__ import annotations

from typing import Any

from weftrace.costs.outputs.dtypes import INT32, as_complex, as_real
from weftrace.costs.outputs.elementwise import broadcast, like
from weftrace.costs.outputs.registry import output
from weftrace.costs.tensors import Tensor
from weftrace.costs.traced_call import TracedCall


def _matrix(call: TracedCall, rows: int, columns: int) -> Tensor:
    a = call.args[0]
    return Tensor((*a.shape[:-2], rows, columns), a.dtype)


def _info(call: TracedCall) -> Tensor:
    return Tensor(call.args[0].shape[:-2], INT32)


def _pivots(call: TracedCall) -> Tensor:
    a = call.args[0]
    return Tensor((*a.shape[:-2], min(a.shape[-2:])), INT32)


@output("cholesky cholesky_inverse linalg_matrix_exp linalg_householder_product linalg_pinv")
def _same(call: TracedCall) -> Any:
    a = call.args[0]
    return _matrix(call, a.shape[-1], a.shape[-2]) if call.name == "aten::linalg_pinv" else like(a)


@output("linalg_cholesky_ex linalg_inv_ex")
def _with_info(call: TracedCall) -> Any:
    return like(call.args[0]), _info(call)


@output("linalg_lu_factor_ex linalg_ldl_factor_ex")
def _factored(call: TracedCall) -> Any:
    return like(call.args[0]), _pivots(call), _info(call)


@output("linalg_lu")
def _lu(call: TracedCall) -> Any:
    rows, columns = call.args[0].shape[-2:]
    inner = min(rows, columns)
    return _matrix(call, rows, rows), _matrix(call, rows, inner), _matrix(call, inner, columns)


@output("lu_unpack")
def _lu_unpack(call: TracedCall) -> Any:
    """P, L and U, those that are asked for."""
    p, *factors = _lu(call)
    data = call.arg("unpack_data", True)
    return p if call.arg("unpack_pivots", True) else None, *(factors if data else ())


@output("linalg_qr")
def _qr(call: TracedCall) -> Any:
    """Its mode, a text, is not recorded: the reduced one."""
    rows, columns = call.args[0].shape[-2:]
    call.arg("mode", "reduced")
    inner = min(rows, columns)
    return _matrix(call, rows, inner), _matrix(call, inner, columns)


@output("geqrf")
def _geqrf(call: TracedCall) -> Any:
    a = call.args[0]
    return like(a), Tensor((*a.shape[:-2], min(a.shape[-2:])), a.dtype)


@output("_linalg_svd")
def _svd(call: TracedCall) -> Any:
    a = call.args[0]
    rows, columns = a.shape[-2:]
    inner = min(rows, columns)
    values = Tensor((*a.shape[:-2], inner), as_real(a.dtype))
    if not call.arg("compute_uv", True):
        return values
    full = call.arg("full_matrices", False)
    return _matrix(call, rows, rows if full else inner), values, _matrix(call, columns if full else inner, columns)


@output("_linalg_eigh")
def _eigh(call: TracedCall) -> Any:
    a = call.args[0]
    return Tensor(a.shape[:-1], as_real(a.dtype)), like(a) if call.arg("compute_v", True) else None


@output("linalg_eig")
def _eig(call: TracedCall) -> Any:
    a = call.args[0]
    return Tensor(a.shape[:-1], as_complex(a.dtype)), like(a, as_complex(a.dtype))


@output("_linalg_det _linalg_slogdet")
def _det(call: TracedCall) -> Any:
    a = call.args[0]
    value = Tensor(a.shape[:-2], a.dtype)
    values = (value, like(value, as_real(a.dtype))) if call.name.endswith("slogdet") else (value,)
    return *values, like(a), _pivots(call)


@output("linalg_solve_triangular linalg_lu_solve linalg_ldl_solve ormqr cholesky_solve _cholesky_solve_helper")
def _solved(call: TracedCall) -> Any:
    name = call.name.removeprefix("aten::")
    b = call.args[{"linalg_solve_triangular": 1, "linalg_lu_solve": 2, "linalg_ldl_solve": 2, "ormqr": 2}.get(name, 0)]
    a = call.args[1] if name.endswith(("cholesky_solve", "helper")) else call.args[0]
    return Tensor((*broadcast([a.shape[:-2], b.shape[:-2]]), *b.shape[-2:]), b.dtype)


@output("triangular_solve")
def _triangular_solved(call: TracedCall) -> Any:
    b, a = call.args[:2]
    lead = broadcast([a.shape[:-2], b.shape[:-2]])
    return Tensor((*lead, *b.shape[-2:]), b.dtype), Tensor((*lead, *a.shape[-2:]), a.dtype)


@output("_linalg_solve_ex")
def _solve(call: TracedCall) -> Any:
    """The solution, the factors, the pivots, whether it went well."""
    return like(call.args[1]), like(call.args[0]), _pivots(call), _info(call)


# -- Fourier transforms


@output("_fft_c2c _fft_r2c _fft_c2r")
def _transformed(call: TracedCall) -> Any:
    x = call.args[0]
    if call.name == "aten::_fft_c2c":
        return like(x)
    shape, last = list(x.shape), call.arg("dim")[-1]
    if call.name == "aten::_fft_c2r":
        shape[last] = call.arg("last_dim_size")
        return Tensor(tuple(shape), as_real(x.dtype))
    if call.arg("onesided"):
        shape[last] = shape[last] // 2 + 1
    return Tensor(tuple(shape), as_complex(x.dtype))


# -- distances


@output("_cdist_forward _euclidean_dist")
def _cdist(call: TracedCall) -> Any:
    a, b = call.args[:2]
    return Tensor((*broadcast([a.shape[:-2], b.shape[:-2]]), a.shape[-2], b.shape[-2]), a.dtype)


@output("_cdist_backward _pdist_backward")
def _distances_backward(call: TracedCall) -> Any:
    return like(call.args[1])


@output("_pdist_forward")
def _pdist(call: TracedCall) -> Any:
    rows = call.args[0].shape[0]
    return Tensor((rows * (rows - 1) // 2,), call.args[0].dtype)

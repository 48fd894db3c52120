"""Distances between all pairs of rows: cdist, pdist."""

from __future__ import annotations

import math

from weftrace.costs.cost import Cost, Status
from weftrace.costs.registry import Call, Key, matrix_cost, rule, vector_cost

_POWERS = "a power counts as one operation"


def _euclidean(call: Call) -> Cost:
    """|x - y|^2 = |x|^2 - 2 x y + |y|^2 as one product over m + 2 columns, 2 p r (m + 2); then max(0, .) and a root.

    The columns beside -2 x are the squared norms (2 m for each row, and m for the factor -2).
    """
    x, y, out = call.args[0], call.args[1], call.out
    vector = 3 * x.numel() + 2 * y.numel() + 2 * out.numel()
    return matrix_cost(call, 2 * out.numel() * (x.shape[-1] + 2), vector_flops=vector)


@rule("aten::_euclidean_dist")
def _euclidean_dist(call: Call) -> Cost:
    return _euclidean(call)


@rule("aten::_cdist_forward", key=Key.ARGUMENTS)
def _cdist(call: Call) -> Cost:
    """[.., p, m], [.., r, m] -> [.., p, r]: a difference, a norm's step and an addition for each of p r m; see `_step`.

    p = 2 with more than 25 rows on either side (or where `compute_mode` says so) goes through a product of matrices.
    """
    x, y = call.args[0], call.args[1]
    norm, mode = call.arg("p"), call.arg("compute_mode") or 0
    if norm == 2 and (mode == 1 or (mode == 0 and max(x.shape[-2], y.shape[-2]) > 25)):
        return _euclidean(call)
    return _pairs(call, call.out.numel(), x.shape[-1], norm)


@rule("aten::_pdist_forward", key=Key.ARGUMENTS)
def _pdist(call: Call) -> Cost:
    """The n (n - 1) / 2 pairs of the rows of [n, m]."""
    return _pairs(call, call.out.numel(), call.args[0].shape[-1], call.arg("p", 2.0))


@rule("aten::_cdist_backward", "aten::_pdist_backward", key=Key.ARGUMENTS)
def _backward(call: Call) -> Cost:
    """For each pair and column: the difference, times the slope of the norm, added to a row (to both rows: pdist)."""
    pdist = "_pdist" in call.name
    distances = call.arg("pdist") if pdist else call.arg("cdist")
    columns = call.arg("self").shape[-1] if pdist else call.arg("x1").shape[-1]
    norm = call.arg("p")
    usual = norm in (1, 2)
    steps = (4 if usual else 5 if math.isinf(norm) else 0 if norm == 0 else 7) + int(pdist)
    return vector_cost(
        call,
        distances.numel() * columns * steps,
        status=Status.EXACT if usual else Status.ESTIMATE,
        note="" if usual else _POWERS,
    )


def _pairs(call: Call, pairs: int, columns: int, norm: float) -> Cost:
    """|x - y|, its square, or whether it is not 0, and a sum (or a maximum): 3 each; 4 with a power. Then the root."""
    plain = norm in (0, 1, 2) or math.isinf(norm)
    root = 0 if norm in (0, 1) or math.isinf(norm) else 1
    return vector_cost(
        call,
        pairs * (columns * (3 if plain else 4) + root),
        status=Status.EXACT if plain else Status.ESTIMATE,
        note="" if plain else _POWERS,
    )

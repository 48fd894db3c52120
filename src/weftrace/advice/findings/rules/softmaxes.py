"""Which kernels are attention that is not fused: a softmax between two batched products, and what stands there too."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.rules.kernels import GEMMS, device_kernels
from weftrace.analysis.intervals import Array

#: What may stand between: masks, scales, casts, dropout.
_BETWEEN = ("elementwise", "activation", "copy", "memcpy_d2d", "memset", "rng", "reduction", "index", "quantize")
_MOST_BETWEEN = 12
_BATCHED = r"(?i)bmm|matmul|einsum"
#: Kernels of attention that is fused.
_FUSED = "attention"
_OF_LOSS = r"(?i)log_?softmax|cross_?entropy"


def attention_parts(evidence: Evidence) -> pl.DataFrame:
    """Kernels of attention that is not fused, with part: softmax, product or between; and is_backward.

    A softmax counts where the nearest kernels of another sort before and after it on its stream are products, batched
    ones where operators are recorded, that share the last size of what it is of: a router's softmax is over experts.
    Without sizes none counts beside fused attention. The forward has one product on each side, the backward two.
    """
    return evidence.once(_attention_parts)


def _attention_parts(evidence: Evidence) -> pl.DataFrame:
    kernels = device_kernels(evidence)
    family, operator = pl.col("family"), pl.col("operator_name")
    of_loss = operator.str.contains(_OF_LOSS).fill_null(False) | pl.col("name").str.contains(_OF_LOSS)
    product = family.is_in(GEMMS) & operator.str.contains(_BATCHED).fill_null(True)
    softmax = (family == "softmax") & ~of_loss
    role = (
        pl.when(softmax).then(pl.lit("softmax")).when(product).then(pl.lit("product"))
        .when(family.is_in(_BETWEEN)).then(pl.lit("between")).otherwise(pl.lit("other"))
    )  # fmt: skip
    backward = (pl.col("name") + operator.fill_null("")).str.contains("(?i)backward|_bwd|grad")
    rows = kernels.sort("stream", "start_ns", maintain_order=True).with_columns(role.alias("part"))
    part, stream = rows.get_column("part").to_numpy(), rows.get_column("stream").to_numpy()
    solid = np.flatnonzero(part != "between")
    found = np.flatnonzero(part[solid] == "softmax")
    before, far_before, after, far_after = (_next_product(part, stream, solid, found, by) for by in (-1, -2, 1, 2))
    is_backward = rows.select(backward).to_series().to_numpy()[solid[found]]
    in_any, in_backward = np.zeros((2, len(rows) + 1), np.int64)
    between = (before >= 0) & (after >= 0) & _shares_size(rows, solid[found], before, after)
    first = np.where(is_backward & (far_before >= 0), far_before, before)
    last = np.where(is_backward & (far_after >= 0), far_after, after)
    for chosen, inside in ((between, in_any), (between & is_backward, in_backward)):
        np.add.at(inside, first[chosen], 1)
        np.add.at(inside, last[chosen] + 1, -1)
    mine, of_backward = (pl.Series(np.cumsum(inside)[:-1] > 0) for inside in (in_any, in_backward))
    return rows.with_columns(of_backward.alias("is_backward")).filter(mine, pl.col("part") != "other")


def _next_product(part: NDArray[np.object_], stream: Array, solid: Array, found: Array, by: int) -> Array:
    """Of each softmax (a place in `solid`) the row of the product that is the by-th of `solid` from it, -1 where that
    is none, of another stream, or far."""
    at = found + by
    inside = (at >= 0) & (at < len(solid))
    row, own = solid[np.where(inside, at, 0)], solid[found]
    near = (stream[row] == stream[own]) & (abs(row - own) <= _MOST_BETWEEN + abs(by))
    return np.where(inside & near & (part[row] == "product"), row, -1)


def _shares_size(kernels: pl.DataFrame, softmax: Array, before: Array, after: Array) -> NDArray[np.bool_]:
    """Of each softmax whether its last size is one of the last two of a matrix of both products, or one more than that,
    by a sink. Without sizes: whether there is no fused attention."""
    sizes = kernels.get_column("sizes")
    told = pl.DataFrame({"of": sizes[softmax], "before": sizes[before], "after": sizes[after]})
    last = pl.col("of").str.extract(r"(\d+)\s*\]").cast(pl.Int64)
    pattern = pl.format(r"\b(?:{}|{})(?:\s*,\s*\d+)?\s*\]", last, last - 1)
    both = pl.col("before").str.contains(pattern) & pl.col("after").str.contains(pattern)
    is_eager = not (kernels.get_column("family") == _FUSED).any()
    return told.select(both.fill_null(is_eager)).to_series().to_numpy()

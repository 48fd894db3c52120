"""How fast are the products of a layer? DeepGEMM's published rates on H800, by shape and rows: `gemm_table.toml`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from weftrace.errors import WeftraceError
from weftrace.facts.tables import read_tables

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

BUILT_IN = Path(__file__).with_name("gemm_table.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmRate:
    """Rates in TFLOP/s of a product [rows, inner] x [inner, columns] in FP8, with all 132 SMs of an H800.

    rows, tflops: of so many rows the rate; in a grouped product rows of one group. source: who published them.
    """

    name: str
    inner: int
    columns: int
    rows: tuple[int, ...]
    tflops: tuple[float, ...]
    source: str
    grouped: bool = False

    def seconds(self, rows: ArrayLike, inner: int, columns: int, groups: int = 1) -> NDArray[np.float64]:
        """Time of a product of that many rows, of one group each, at the published rate.

        Between published numbers of rows the rate is interpolated, both as logarithms; below the fewest a product takes
        as long as that (the matrix is read all the same); above the most the rate stays.
        """
        import numpy as np

        many = np.asarray(rows, np.float64)
        least = np.maximum(many, self.rows[0])
        rate = np.exp(np.interp(np.log(least), np.log(self.rows), np.log(self.tflops))) * 1e12
        found: NDArray[np.float64] = np.where(many > 0, 2.0 * groups * least * inner * columns / rate, 0.0)
        return found

    @property
    def best_flops_per_s(self) -> float:
        """The rate of the most rows, in FLOP/s."""
        return self.tflops[-1] * 1e12


def gemm_rate(inner: int, columns: int, *, grouped: bool = False) -> GemmRate:
    """The published product of that shape, or the nearest: least |log of the ratio| of both widths together."""
    return min(
        (rate for rate in gemm_rates() if rate.grouped == grouped),
        key=lambda rate: abs(math.log(rate.inner / inner)) + abs(math.log(rate.columns / columns)),
    )


@cache
def gemm_rates() -> tuple[GemmRate, ...]:
    """All products whose rates are published by rows."""
    entries = read_tables(BUILT_IN, "gemm", what="rates of products", error=WeftraceError)
    return tuple(
        GemmRate(**{**entry, "rows": tuple(entry["rows"]), "tflops": tuple(map(float, entry["tflops"]))})
        for entry in entries
    )

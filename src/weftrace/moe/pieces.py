"""What one operation consists of, priced: kernels one after another on its lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weftrace.notebook import InNotebook
from weftrace.plan.ops import Kind

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece(InNotebook):
    """`num_kernels` equal kernels back to back. L layers, R ranks.

    name: as a kernel is called, so that weftrace's rules find its family. duration_ns, flops, moved_bytes: of all its
    kernels together; a number, or an array that broadcasts to [L, R]. num_sms: SMs that it holds; None for none.
    meets: whether the ranks of a group of experts wait for each other in it. basis: where the duration comes from.
    """

    name: str
    kind: Kind = "compute"
    duration_ns: float | Floats
    num_kernels: int = 1
    num_sms: int | None = None
    meets: bool = False
    flops: float | Floats = 0.0
    moved_bytes: float | Floats = 0.0
    basis: str

    @property
    def mean_ns(self) -> float:
        """Mean duration over layers and ranks."""
        return float(np.mean(self.duration_ns))

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "kernel", self.name
        yield "time", f"{self.mean_ns / 1000:,.1f} µs"
        yield "basis", self.basis


#: Name of an operation -> its pieces, in order; one at least.
Prices = Mapping[str, tuple[Piece, ...]]


def assumptions(prices: Prices) -> tuple[str, ...]:
    """What prices assume, each once: the parts of their bases that say so."""
    parts = (part.strip() for own in prices.values() for piece in own for part in piece.basis.split(";"))
    return tuple(dict.fromkeys(part for part in parts if "assumed" in part))

"""What one operation consists of, priced: kernels one after another on its lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, TypedDict

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.files.schemas import Positive
from weftrace.files.values import As
from weftrace.notebook import InNotebook
from weftrace.plan.ops import Kind
from weftrace.units import duration

Floats = NDArray[np.float64]


class Numbers(TypedDict):
    """One number, or an array that broadcasts to [layers, ranks]."""

    shape: list[Positive]
    values: Annotated[list[float], Meta(description="Row by row.")]


def _numbers(given: float | Floats) -> Numbers:
    array = np.asarray(given, np.float64)
    return Numbers(shape=list(array.shape), values=array.ravel().tolist())


def _array(saved: Numbers) -> float | Floats:
    array = np.array(saved["values"], np.float64).reshape(saved["shape"])
    return array if array.ndim else float(array)


_SAVED = As(Numbers, save=_numbers, read=_array)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece(InNotebook):
    """Equal kernels back to back. L layers, R ranks.

    name: as a kernel is called, so that weftrace's rules find its family. duration_ns, flops, moved_bytes: of all its
    kernels together; a number, or an array that broadcasts to [L, R].
    """

    name: str
    kind: Kind = "compute"
    duration_ns: Annotated[float | Floats, _SAVED, Meta(description="Of all its kernels together.")]
    num_kernels: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    num_sms: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None, Meta(description="That it holds; null for none.")
    ] = None
    meets: Annotated[bool, Meta(description="Whether the ranks of a group of experts wait for each other in it.")] = (
        False
    )
    flops: Annotated[float | Floats, _SAVED] = 0.0
    moved_bytes: Annotated[float | Floats, _SAVED] = 0.0
    basis: Annotated[str, Meta(description="Where the duration comes from.")]

    @property
    def mean_ns(self) -> float:
        """Mean duration over layers and ranks."""
        return float(np.mean(self.duration_ns))

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "kernel", self.name
        yield "time", duration(self.mean_ns)
        yield "basis", self.basis


#: Name of an operation -> its pieces, in order; one at least.
Prices = Mapping[str, tuple[Piece, ...]]


def assumptions(prices: Prices) -> tuple[str, ...]:
    """What prices assume, each once: the parts of their bases that say so."""
    parts = (part.strip() for own in prices.values() for piece in own for part in piece.basis.split(";"))
    return tuple(dict.fromkeys(part for part in parts if "assumed" in part))

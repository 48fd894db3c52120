"""Rows as the bytes in which they travel. gloo knows neither FP8 nor BF16; it does know bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from weftrace.errors import ProfileError

#: exact: as they are. bf16: two bytes a number. fp8: one byte (e4m3), and a scale of FP32 for each 128 numbers.
Format = Literal["exact", "bf16", "fp8"]
FORMATS: tuple[Format, ...] = get_args(Format)
BLOCK = 128
_LARGEST = 448.0  # of e4m3


@dataclass(frozen=True, slots=True)
class Payloads:
    """How rows travel in a dispatch kernel and in a combine kernel. The backward of each is a kernel of the other kind.

    Raises `ProfileError` for a format that does not exist.
    """

    dispatch: Format = "exact"
    combine: Format = "exact"

    def __post_init__(self) -> None:
        for kind in (self.dispatch, self.combine):
            if kind not in FORMATS:
                raise ProfileError(f"payload {kind!r} is unknown; choose from {', '.join(FORMATS)}")

    def fit(self, hidden: int) -> None:
        """Raises `ProfileError` where rows of this width cannot travel so."""
        if "fp8" in (self.dispatch, self.combine) and hidden % BLOCK:
            raise ProfileError(f"FP8 rows have a scale for each {BLOCK} numbers, and {hidden} are no multiple of it")


#: As DeepSeek-V3 does: dispatch in FP8, combine in BF16.
PUBLISHED = Payloads("fp8", "bf16")


def to_fp8(rows: Tensor) -> tuple[Tensor, Tensor]:
    """rows [N, h] -> e4m3 [N, h], and what to multiply each block of them with again, [N, h / 128] FP32."""
    blocks = rows.unflatten(-1, (-1, BLOCK)).float()
    scales = blocks.abs().amax(-1, keepdim=True).clamp(min=1e-12) / _LARGEST
    return (blocks / scales).to(torch.float8_e4m3fn).flatten(1), scales.squeeze(-1)


def from_fp8(small: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    rows: Tensor = small.to(torch.float32).unflatten(-1, (-1, BLOCK)) * scales[..., None]
    return rows.flatten(1).to(dtype)


def to_bytes(rows: Tensor, kind: Format) -> Tensor:
    """rows [N, h] -> [N, bytes of a row], uint8."""
    if kind == "fp8":
        return torch.cat([as_bytes(part) for part in to_fp8(rows)], -1)
    return as_bytes(rows.to(torch.bfloat16) if kind == "bf16" else rows)


def from_bytes(data: Tensor, kind: Format, dtype: torch.dtype, hidden: int) -> Tensor:
    """[N, bytes of a row] -> rows [N, h] of this dtype."""
    if kind == "fp8":
        small, scales = data[:, :hidden], data[:, hidden:]
        return from_fp8(of_bytes(small, torch.float8_e4m3fn), of_bytes(scales, torch.float32), dtype)
    return of_bytes(data, torch.bfloat16).to(dtype) if kind == "bf16" else of_bytes(data, dtype)


# One row or none may count as contiguous, and yet begin at an odd byte or have a stride of 0: such are copied.


def as_bytes(rows: Tensor) -> Tensor:
    """[N, n] -> [N, bytes], without a copy where rows stand as torch wants them."""
    plain = rows.is_contiguous() and rows.stride(-1) == 1
    return (rows if plain else rows.clone(memory_format=torch.contiguous_format)).view(torch.uint8)


def of_bytes(data: Tensor, dtype: torch.dtype) -> Tensor:
    """[N, bytes] -> [N, n]."""
    plain = data.is_contiguous() and data.stride(-1) == 1 and data.storage_offset() % dtype.itemsize == 0
    return (data if plain else data.clone(memory_format=torch.contiguous_format)).view(dtype)

"""Can torch use this device here, and has it room for an input of this size?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from weftrace.errors import SpecError
from weftrace.units import size


def check_room(batch: int, seq: int, device: torch.device) -> None:
    """Raises `SpecError` where the device has no room for so many token ids."""
    with room_for(f"{batch}x{seq}", (batch, seq), torch.int64, device):
        torch.empty(batch, seq, dtype=torch.int64, device=device)


@contextmanager
def room_for(summary: str, shape: Sequence[int], dtype: torch.dtype, device: torch.device | str) -> Iterator[None]:
    """For the lines that make a tensor of `--input told`: a `SpecError` with its size in bytes where there is no room.

    What is not about memory passes unchanged. No cause is kept: on fake tensors it would be no smaller.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch has no class of its own for the CPU's
        text = str(error).lower()
        if not isinstance(error, MemoryError) and "memory" not in text and "overflow" not in text:
            raise
        num_bytes = math.prod(shape) * dtype.itemsize
        kind = torch.device(device).type
        helps = (
            "--device meta needs no memory for it"
            if kind != "meta" and "overflow" not in text
            else "give a smaller one"
        )
        raise SpecError(f"--input {summary} takes {size(num_bytes)}, more than {kind} has room for; {helps}") from None


def usable_device(name: str) -> torch.device:
    """The device of that name. Raises `SpecError` where torch does not know it, or cannot make a tensor on it here."""
    try:
        with warnings.catch_warnings(action="ignore"):  # names that were devices once
            device = torch.device(name)
    except RuntimeError as error:
        raise SpecError(f"no device {name!r}; meta, cpu, cuda, cuda:1 are some") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SpecError("torch finds no CUDA device here; --device meta needs none")
    try:
        torch.empty(1, device=device)
    except Exception as error:  # each backend has its own way to say no
        raise SpecError(f"torch cannot use the device {name!r} here; --device meta needs none") from error
    return device

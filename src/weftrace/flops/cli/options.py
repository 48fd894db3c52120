"""What commands of `weftrace flops` share: torch where it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weftrace.flops import FlopsReport


def needs_torch() -> Callable[..., FlopsReport]:
    """`run_model`. Raises `FlopsError` where torch is missing."""
    from weftrace.flops import run_model

    return run_model

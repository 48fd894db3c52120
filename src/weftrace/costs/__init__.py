"""What one call of an operator costs, from shapes and dtypes alone: FLOPs, bytes, and how sure we are. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:  # what a type checker sees
    from weftrace.costs.custom_ops import CustomOp as CustomOp
    from weftrace.costs.custom_ops import load_custom_ops as load_custom_ops

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazily(__name__)

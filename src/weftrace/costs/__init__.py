"""What one call of an operator costs, from shapes and dtypes alone: FLOPs, bytes, and how sure we are. No torch."""

from weftrace.costs.custom_ops import CustomOp, load_custom_ops

__all__ = ["CustomOp", "load_custom_ops"]

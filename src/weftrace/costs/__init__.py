"""What one call of an operator costs, from shapes and dtypes alone: FLOPs, bytes, and how sure we are. No torch."""

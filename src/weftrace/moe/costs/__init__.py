"""What operations cost: `compute` and `communication` answer for theirs, at a level that every piece names."""

"""FLOP/s, bytes/s and part of the peak of every operator and shape, from the shapes that a trace recorded."""

from weftrace.analysis.efficiency.rating import efficiency_of, efficiency_or_none
from weftrace.analysis.efficiency.values import Efficiency, OperatorRateRow, PartRow, ShapeRow, WindowRateRow

__all__ = [
    "Efficiency",
    "OperatorRateRow",
    "PartRow",
    "ShapeRow",
    "WindowRateRow",
    "efficiency_of",
    "efficiency_or_none",
]

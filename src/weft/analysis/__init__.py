"""Analyses: each answers one question about one device's work, and none prints or draws.

Each takes a `Trace` of one device or a `Work`, and returns a frozen value whose docstring says how to compute
it by hand.
"""

from weft.analysis.breakdown import Breakdown, breakdown
from weft.analysis.clocks import ClockOffset, clock_offsets, collective_ends
from weft.analysis.headroom import Headroom, headroom
from weft.analysis.idle import IdleCauses, idle
from weft.analysis.intervals import Intervals, union
from weft.analysis.kernel_table import KernelTable, kernel_table
from weft.analysis.lanes import Lane, lanes
from weft.analysis.operators import Operators, operators
from weft.analysis.overlap import Overlap, OverlapMatrix, overlap
from weft.analysis.phases import phase_means, phases
from weft.analysis.quality import Quality, quality
from weft.analysis.queueing import Queueing, host_stalls, queue_length, queueing
from weft.analysis.rank import Analysis, RankAnalysis, analyze, analyze_rank
from weft.analysis.steps import Step, steps

__all__ = [
    "Analysis",
    "Breakdown",
    "ClockOffset",
    "Headroom",
    "IdleCauses",
    "Intervals",
    "KernelTable",
    "Lane",
    "Operators",
    "Overlap",
    "OverlapMatrix",
    "Quality",
    "Queueing",
    "RankAnalysis",
    "Step",
    "analyze",
    "analyze_rank",
    "breakdown",
    "clock_offsets",
    "collective_ends",
    "headroom",
    "host_stalls",
    "idle",
    "kernel_table",
    "lanes",
    "operators",
    "overlap",
    "phase_means",
    "phases",
    "quality",
    "queue_length",
    "queueing",
    "steps",
    "union",
]

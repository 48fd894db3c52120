"""Analyses: each answers one question about one device's work, and none prints or draws.

Each takes a `Trace` of one device or a `Work`, and returns a frozen value whose docstring says how to compute it by
hand:

    import weftrace as wt

    wt.analysis.breakdown(trace)          # where the time went
    work = wt.trace.work_of(trace)        # classed and linked once, for several questions
    wt.analysis.overlap(work), wt.analysis.idle(work), wt.analysis.kernel_table(work)

`analyze_rank` asks all of them. `account_of(work)` holds what several share: unions, hidden and exposed time.
"""

from weftrace.analysis.arrival_times import arrivals
from weftrace.analysis.clocks import ClockOffset
from weftrace.analysis.copy_rates import copies
from weftrace.analysis.data_quality import Quality, quality
from weftrace.analysis.efficiency import Efficiency, efficiency_of
from weftrace.analysis.headroom_bound import Headroom, headroom
from weftrace.analysis.hidden_communication import Overlap, OverlapMatrix, overlap
from weftrace.analysis.host_self_times import HostTimes, host_times
from weftrace.analysis.idle_causes import IdleCauses, idle
from weftrace.analysis.intervals import Intervals, union
from weftrace.analysis.kernel_times import KernelTable, kernel_table
from weftrace.analysis.lane_boxes import Lane, lanes
from weftrace.analysis.launch_delays import Queueing, host_stalls, queue_length, queueing
from weftrace.analysis.module_times import CodeTimes, code_times
from weftrace.analysis.operator_times import Operators, operators
from weftrace.analysis.phase_times import phase_means, phases
from weftrace.analysis.rank import Analysis, RankAnalysis, analyze_rank
from weftrace.analysis.serving_steps import engine_kinds, engine_steps
from weftrace.analysis.step_times import OutsideSteps, Step, outside_steps, steps
from weftrace.analysis.stragglers import Lateness, clock_offsets, lateness
from weftrace.analysis.time_account import Account, Breakdown, account_of, breakdown
from weftrace.analysis.time_owners import own_times
from weftrace.analysis.transfer_bandwidth import Bandwidth, bandwidth
from weftrace.analysis.waiting.idle_account import IdleAccount, idle_account, unrecorded_holes

__all__ = [
    "Account",
    "Analysis",
    "Bandwidth",
    "Breakdown",
    "ClockOffset",
    "CodeTimes",
    "Efficiency",
    "Headroom",
    "HostTimes",
    "IdleAccount",
    "IdleCauses",
    "Intervals",
    "KernelTable",
    "Lane",
    "Lateness",
    "Operators",
    "OutsideSteps",
    "Overlap",
    "OverlapMatrix",
    "Quality",
    "Queueing",
    "RankAnalysis",
    "Step",
    "account_of",
    "analyze_rank",
    "arrivals",
    "bandwidth",
    "breakdown",
    "clock_offsets",
    "code_times",
    "copies",
    "efficiency_of",
    "engine_kinds",
    "engine_steps",
    "headroom",
    "host_stalls",
    "host_times",
    "idle",
    "idle_account",
    "kernel_table",
    "lanes",
    "lateness",
    "operators",
    "outside_steps",
    "overlap",
    "own_times",
    "phase_means",
    "phases",
    "quality",
    "queue_length",
    "queueing",
    "steps",
    "union",
    "unrecorded_holes",
]

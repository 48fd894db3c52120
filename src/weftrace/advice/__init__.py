"""What to do about a measured run, what decides how long it takes, what a change would do.

inferred = wt.plan.infer(trace)                       # the plan that the run followed, with how far its replay is off
wt.advice.advise(trace).findings                      # what costs time, what to do, what that saves
wt.advice.critical_path_of(inferred).by_class         # what the span is made of
wt.advice.what_if(inferred, [parse_change("communication=0.5")])
wt.advice.sensitivity(inferred).table                 # 1 % faster of each class, family, phase
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.advice.changed_plans import changed as changed
    from weftrace.advice.changes import Change as Change
    from weftrace.advice.changes import FreeStreams as FreeStreams
    from weftrace.advice.changes import NoBarrierWait as NoBarrierWait
    from weftrace.advice.changes import NoBlocking as NoBlocking
    from weftrace.advice.changes import NoHostGaps as NoHostGaps
    from weftrace.advice.changes import PerfectOverlap as PerfectOverlap
    from weftrace.advice.changes import Remove as Remove
    from weftrace.advice.changes import Scale as Scale
    from weftrace.advice.changes import SmSplit as SmSplit
    from weftrace.advice.changes import parse_change as parse_change
    from weftrace.advice.critical_paths import CriticalPath as CriticalPath
    from weftrace.advice.critical_paths import critical_path_of as critical_path_of
    from weftrace.advice.deciding_ranks import decided_steps as decided_steps
    from weftrace.advice.document import CriticalPathReport as CriticalPathReport
    from weftrace.advice.document import critical_path_report as critical_path_report
    from weftrace.advice.findings.advising import advise as advise
    from weftrace.advice.jobs import infer_job as infer_job
    from weftrace.advice.jobs import infer_lanes_of as infer_lanes_of
    from weftrace.advice.kernel_times import at_efficiency as at_efficiency
    from weftrace.advice.kernel_times import fused as fused
    from weftrace.advice.message_times import messages_of as messages_of
    from weftrace.advice.op_times import OpTimes as OpTimes
    from weftrace.advice.replay_checks import ReplayChecks as ReplayChecks
    from weftrace.advice.replay_checks import check_replays as check_replays
    from weftrace.advice.sensitivities import Curve as Curve
    from weftrace.advice.sensitivities import Sensitivity as Sensitivity
    from weftrace.advice.sensitivities import curve as curve
    from weftrace.advice.sensitivities import sensitivity as sensitivity
    from weftrace.advice.slowdown.answers import slowdown_of as slowdown_of
    from weftrace.advice.swaps.placements import PlacementSwap as PlacementSwap
    from weftrace.advice.swaps.placements import placement_swap as placement_swap
    from weftrace.advice.swaps.schedules import ScheduleSwap as ScheduleSwap
    from weftrace.advice.swaps.schedules import swap_schedule as swap_schedule
    from weftrace.advice.waterfalls import Waterfall as Waterfall
    from weftrace.advice.waterfalls import waterfall as waterfall
    from weftrace.advice.whatif_document import SensitivityReport as SensitivityReport
    from weftrace.advice.whatif_document import WhatIfReport as WhatIfReport
    from weftrace.advice.whatif_document import sensitivity_report as sensitivity_report
    from weftrace.advice.whatif_document import what_if_report as what_if_report
    from weftrace.advice.whatifs import WhatIf as WhatIf
    from weftrace.advice.whatifs import what_if as what_if
    from weftrace.analysis.findings import AdviceReport as AdviceReport
    from weftrace.analysis.findings import Finding as Finding
    from weftrace.analysis.job_slowdown import JobSlowdown as JobSlowdown

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(__name__)

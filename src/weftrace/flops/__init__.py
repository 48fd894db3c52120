"""What a model costs: parameters, MACs, FLOPs, bytes and time of each module, forward and backward.

    import weftrace as wt

    with wt.flops.profile(model) as p:
        loss(model(x)).backward()
    report = p.report()                                 # a FlopsReport: a value to compare and keep
    wt.show(report)                                     # its tables; wt.save(report, "page.html") its page
    account = wt.flops.account_of(report, "h100")       # what follows from it, worked out once: totals, bounds, MFU

Counting needs torch (the extra `torch`, or `hf` for models of Hugging Face); reading, comparing and drawing reports
does not, and torch is imported when a name that needs it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.errors import FlopsError as FlopsError
from weftrace.lazy import lazily, without_torch

if TYPE_CHECKING:  # what a type checker sees
    from weftrace.costs.cost import Cost as Cost
    from weftrace.costs.cost import Kind as Kind
    from weftrace.costs.cost import Phase as Phase
    from weftrace.costs.cost import Status as Status
    from weftrace.costs.cost import Tally as Tally
    from weftrace.facts.models import known_models as known_models
    from weftrace.facts.models import model_config as model_config
    from weftrace.flops.deepspeed.runtime.model_profile import get_model_profile as get_model_profile
    from weftrace.flops.deepspeed.runtime.profiler import FlopsProfiler as FlopsProfiler
    from weftrace.flops.derived.account import Account as Account
    from weftrace.flops.derived.account import account_of as account_of
    from weftrace.flops.derived.coverage import Coverage as Coverage
    from weftrace.flops.derived.coverage import UnknownOp as UnknownOp
    from weftrace.flops.derived.coverage import coverage as coverage
    from weftrace.flops.derived.device import device_of as device_of
    from weftrace.flops.derived.findings import findings as findings
    from weftrace.flops.derived.params import Params as Params
    from weftrace.flops.derived.params import module_params as module_params
    from weftrace.flops.derived.params import params as params
    from weftrace.flops.derived.predict import Prediction as Prediction
    from weftrace.flops.derived.predict import predict as predict
    from weftrace.flops.derived.predict import published_errors as published_errors
    from weftrace.flops.derived.roofline import Roofline as Roofline
    from weftrace.flops.derived.roofline import RooflineRow as RooflineRow
    from weftrace.flops.derived.roofline import roofline as roofline
    from weftrace.flops.derived.tally import Totals as Totals
    from weftrace.flops.derived.tally import inclusive as inclusive
    from weftrace.flops.derived.tally import totals as totals
    from weftrace.flops.derived.throughput import Throughput as Throughput
    from weftrace.flops.derived.throughput import throughput as throughput
    from weftrace.flops.derived.utilization import PhaseUtilization as PhaseUtilization
    from weftrace.flops.derived.utilization import Utilization as Utilization
    from weftrace.flops.derived.utilization import utilization as utilization
    from weftrace.flops.document import flops_document as flops_document
    from weftrace.flops.document import read_flops as read_flops
    from weftrace.flops.document import report_of as report_of
    from weftrace.flops.join.counters import annotate_flops as annotate_flops
    from weftrace.flops.join.counters import write_counters as write_counters
    from weftrace.flops.join.join import PhaseWork as PhaseWork
    from weftrace.flops.join.join import RangeWork as RangeWork
    from weftrace.flops.join.join import TraceJoin as TraceJoin
    from weftrace.flops.join.join import join as _join
    from weftrace.flops.run_spec import InputSpec as InputSpec
    from weftrace.flops.run_spec import RunSpec as RunSpec
    from weftrace.flops.run_spec import parse_input as parse_input
    from weftrace.flops.run_spec import parse_parallel as parse_parallel
    from weftrace.flops.runtime.formulas.user import register_formula as register_formula
    from weftrace.flops.runtime.models.build import build_model as build_model
    from weftrace.flops.runtime.models.build import model_inputs as model_inputs
    from weftrace.flops.runtime.models.build import run_phase as run_phase
    from weftrace.flops.runtime.models.hf import hf_model as hf_model
    from weftrace.flops.runtime.models.hf import hf_run_phase as hf_run_phase
    from weftrace.flops.runtime.profile import Profile as Profile
    from weftrace.flops.runtime.profile import add_cost as add_cost
    from weftrace.flops.runtime.profile import count as count
    from weftrace.flops.runtime.profile import profile as profile
    from weftrace.flops.runtime.run.run_model import run_model as run_model
    from weftrace.flops.several.diff import Change as Change
    from weftrace.flops.several.diff import FlopsDiff as FlopsDiff
    from weftrace.flops.several.diff import diff as diff
    from weftrace.flops.several.diff import parse_fraction as parse_fraction
    from weftrace.flops.several.merge import merge as merge
    from weftrace.flops.several.sweep import Sweep as Sweep
    from weftrace.flops.several.sweep import SweepPoint as SweepPoint
    from weftrace.flops.several.sweep import sweep as sweep
    from weftrace.flops.tables import to_csv as to_csv
    from weftrace.flops.tables import to_markdown as to_markdown
    from weftrace.flops.values import Clock as Clock
    from weftrace.flops.values import FlopsReport as FlopsReport
    from weftrace.flops.values import Module as Module
    from weftrace.flops.values import OpCount as OpCount
    from weftrace.flops.values import Parallel as Parallel
    from weftrace.flops.values import Timing as Timing

    join_trace = _join

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        renamed={"join_trace": ("weftrace.flops.join.join", "join")},
        eager=("FlopsError",),
        on_missing=without_torch(FlopsError, "weftrace.flops.{name} runs models and needs torch"),
    )

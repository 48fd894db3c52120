"""What a model costs: parameters, MACs, FLOPs, bytes and time of each module, forward and backward.

    from weftrace.flops import profile

    with profile(model) as p:
        loss(model(x)).backward()
    p.report()                                          # a FlopsReport: a value to print, compare, draw, save

Counting needs torch (`pip install 'weftrace[torch]'`); reading, comparing and drawing reports does not, and torch is
imported when a name that needs it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weftrace.errors import FlopsError
from weftrace.facts.models import known_models, model_config
from weftrace.flops.cost import Cost, Kind, Phase, Status, Tally
from weftrace.flops.derived.coverage import Coverage, UnknownOp, coverage
from weftrace.flops.derived.device import device_of
from weftrace.flops.derived.diff import Change, FlopsDiff, diff, parse_fraction
from weftrace.flops.derived.findings import findings
from weftrace.flops.derived.merge import merge
from weftrace.flops.derived.params import Params, module_params, params
from weftrace.flops.derived.predict import Prediction, predict, published_errors
from weftrace.flops.derived.roofline import Roofline, RooflineRow, roofline
from weftrace.flops.derived.sweep import Sweep, SweepPoint, sweep
from weftrace.flops.derived.tally import Totals, inclusive, totals
from weftrace.flops.derived.throughput import Throughput, throughput
from weftrace.flops.derived.utilization import PhaseUtilization, Utilization, utilization
from weftrace.flops.document import flops_document, read_flops, report_of
from weftrace.flops.join.counters import annotate_flops, write_counters
from weftrace.flops.join.join import PhaseWork, RangeWork, TraceJoin
from weftrace.flops.join.join import join as join_trace
from weftrace.flops.run_spec import InputSpec, RunSpec, parse_input, parse_parallel
from weftrace.flops.tables import to_csv, to_markdown
from weftrace.flops.values import Clock, FlopsReport, Module, OpCount, Parallel, Timing

if TYPE_CHECKING:
    from weftrace.flops.deepspeed.runtime.model_profile import get_model_profile
    from weftrace.flops.deepspeed.runtime.profiler import FlopsProfiler
    from weftrace.flops.runtime.formulas.user import register_formula
    from weftrace.flops.runtime.models.build import build_model, model_inputs, run_phase
    from weftrace.flops.runtime.models.hf import hf_model, hf_run_phase
    from weftrace.flops.runtime.profile import Profile, add_cost, count, profile
    from weftrace.flops.runtime.run.run_model import run_model

_NEEDS_TORCH = {
    "FlopsProfiler": "weftrace.flops.deepspeed.runtime.profiler",
    "Profile": "weftrace.flops.runtime.profile",
    "add_cost": "weftrace.flops.runtime.profile",
    "build_model": "weftrace.flops.runtime.models.build",
    "count": "weftrace.flops.runtime.profile",
    "get_model_profile": "weftrace.flops.deepspeed.runtime.model_profile",
    "hf_model": "weftrace.flops.runtime.models.hf",
    "hf_run_phase": "weftrace.flops.runtime.models.hf",
    "model_inputs": "weftrace.flops.runtime.models.build",
    "profile": "weftrace.flops.runtime.profile",
    "register_formula": "weftrace.flops.runtime.formulas.user",
    "run_model": "weftrace.flops.runtime.run.run_model",
    "run_phase": "weftrace.flops.runtime.models.build",
}

__all__ = [
    "Change",
    "Clock",
    "Cost",
    "Coverage",
    "FlopsDiff",
    "FlopsError",
    "FlopsProfiler",
    "FlopsReport",
    "InputSpec",
    "Kind",
    "Module",
    "OpCount",
    "Parallel",
    "Params",
    "Phase",
    "PhaseUtilization",
    "PhaseWork",
    "Prediction",
    "Profile",
    "RangeWork",
    "Roofline",
    "RooflineRow",
    "RunSpec",
    "Status",
    "Sweep",
    "SweepPoint",
    "Tally",
    "Throughput",
    "Timing",
    "Totals",
    "TraceJoin",
    "UnknownOp",
    "Utilization",
    "add_cost",
    "annotate_flops",
    "build_model",
    "count",
    "coverage",
    "device_of",
    "diff",
    "findings",
    "flops_document",
    "get_model_profile",
    "hf_model",
    "hf_run_phase",
    "inclusive",
    "join_trace",
    "known_models",
    "merge",
    "model_config",
    "model_inputs",
    "module_params",
    "params",
    "parse_fraction",
    "parse_input",
    "parse_parallel",
    "predict",
    "profile",
    "published_errors",
    "read_flops",
    "register_formula",
    "report_of",
    "roofline",
    "run_model",
    "run_phase",
    "sweep",
    "throughput",
    "to_csv",
    "to_markdown",
    "totals",
    "utilization",
    "write_counters",
]


def __getattr__(name: str) -> Any:
    if name not in _NEEDS_TORCH:
        raise AttributeError(f"module 'weftrace.flops' has no attribute {name!r}")
    try:
        value = getattr(import_module(_NEEDS_TORCH[name]), name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise FlopsError(
            f"weftrace.flops.{name} runs models and needs torch: pip install 'weftrace[torch]'"
        ) from missing
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

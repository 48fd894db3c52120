"""What a model costs: parameters, MACs, FLOPs, bytes and time of each module, forward and backward.

    from weft.flops import profile

    with profile(model) as p:
        loss(model(x)).backward()
    p.report()                                          # a FlopsReport: a value to print, compare, draw, save

Counting needs torch (`pip install 'weft[torch]'`); reading, comparing and drawing reports does not, and torch is
imported when a name that needs it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.errors import FlopsError
from weft.flops.cost import Cost, Kind, Phase, Status, Tally
from weft.flops.coverage import Coverage, UnknownOp, coverage
from weft.flops.device import device_of
from weft.flops.diff import Change, FlopsDiff, diff, parse_fraction
from weft.flops.document import flops_document, read_flops, report_of
from weft.flops.findings import findings
from weft.flops.merge import merge
from weft.flops.model_configs import known_models, model_config
from weft.flops.params import Params, module_params, params
from weft.flops.predict import Prediction, predict, published_errors
from weft.flops.roofline import Roofline, RooflineRow, roofline
from weft.flops.run_spec import InputSpec, RunSpec, parse_input, parse_parallel
from weft.flops.sweep import Sweep, SweepPoint, sweep
from weft.flops.tables import to_csv, to_markdown
from weft.flops.tally import Totals, inclusive, totals
from weft.flops.throughput import Throughput, throughput
from weft.flops.trace_counters import annotate_flops, write_counters
from weft.flops.trace_join import PhaseWork, RangeWork, TraceJoin
from weft.flops.trace_join import join as join_trace
from weft.flops.utilization import PhaseUtilization, Utilization, utilization
from weft.flops.values import Clock, FlopsReport, Module, OpCount, Parallel, Timing

if TYPE_CHECKING:
    from weft.flops.runtime.deepspeed_model_profile import get_model_profile
    from weft.flops.runtime.deepspeed_profiler import FlopsProfiler
    from weft.flops.runtime.models.build import build_model, model_inputs, run_phase
    from weft.flops.runtime.models.hf import hf_model, hf_run_phase
    from weft.flops.runtime.profile import Profile, add_cost, count, profile
    from weft.flops.runtime.registry import register_formula
    from weft.flops.runtime.run_model import run_model

_NEEDS_TORCH = {
    "FlopsProfiler": "weft.flops.runtime.deepspeed_profiler",
    "Profile": "weft.flops.runtime.profile",
    "add_cost": "weft.flops.runtime.profile",
    "build_model": "weft.flops.runtime.models.build",
    "count": "weft.flops.runtime.profile",
    "get_model_profile": "weft.flops.runtime.deepspeed_model_profile",
    "hf_model": "weft.flops.runtime.models.hf",
    "hf_run_phase": "weft.flops.runtime.models.hf",
    "model_inputs": "weft.flops.runtime.models.build",
    "profile": "weft.flops.runtime.profile",
    "register_formula": "weft.flops.runtime.registry",
    "run_model": "weft.flops.runtime.run_model",
    "run_phase": "weft.flops.runtime.models.build",
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
        raise AttributeError(f"module 'weft.flops' has no attribute {name!r}")
    try:
        value = getattr(import_module(_NEEDS_TORCH[name]), name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise FlopsError(f"weft.flops.{name} runs models and needs torch: pip install 'weft[torch]'") from missing
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

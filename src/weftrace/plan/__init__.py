"""What must happen, in which order, on which resource: plans, and what running them gives."""

from weftrace.plan.as_traces import simulate, simulate_ranks, trace_of
from weftrace.plan.contention import Contended, Slowdown, load_slowdowns, with_contention
from weftrace.plan.deepseek import deepseek_training_layers
from weftrace.plan.document import from_json, load_parquet, plan_of, save_parquet, to_json
from weftrace.plan.drawing import drawn
from weftrace.plan.graph import check
from weftrace.plan.inference.inferring import infer
from weftrace.plan.inference.joining import joined
from weftrace.plan.inference.phase_level import by_phase
from weftrace.plan.inference.replaying import Replay
from weftrace.plan.inference.values import EDGE_SCHEMA, MEASURED_SCHEMA, Inferred, Kept
from weftrace.plan.model import Plan
from weftrace.plan.ops import OP_SCHEMA, WAIT_SCHEMA, Kind, Op, Resource, Since, Wait, Why
from weftrace.plan.times import (
    Chain,
    Timetable,
    critical_path,
    longest_chain,
    memory_curve,
    memory_peaks,
    slack_ns,
    timetable,
)

__all__ = [
    "EDGE_SCHEMA",
    "MEASURED_SCHEMA",
    "OP_SCHEMA",
    "WAIT_SCHEMA",
    "Chain",
    "Contended",
    "Inferred",
    "Kept",
    "Kind",
    "Op",
    "Plan",
    "Replay",
    "Resource",
    "Since",
    "Slowdown",
    "Timetable",
    "Wait",
    "Why",
    "by_phase",
    "check",
    "critical_path",
    "deepseek_training_layers",
    "drawn",
    "from_json",
    "infer",
    "joined",
    "load_parquet",
    "load_slowdowns",
    "longest_chain",
    "memory_curve",
    "memory_peaks",
    "plan_of",
    "save_parquet",
    "simulate",
    "simulate_ranks",
    "slack_ns",
    "timetable",
    "to_json",
    "trace_of",
    "with_contention",
]

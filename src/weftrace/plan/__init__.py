"""What must happen, in which order, on which resource: plans, and what running them gives."""

from weftrace.plan.deepseek import deepseek_training_layers
from weftrace.plan.document import from_json, plan_of, to_json
from weftrace.plan.engine import simulate, simulate_ranks
from weftrace.plan.graph import check
from weftrace.plan.model import Kind, Op, Plan, Resource
from weftrace.plan.times import Chain, CriticalStep, Timetable, critical_path, longest_chain, timetable

__all__ = [
    "Chain",
    "CriticalStep",
    "Kind",
    "Op",
    "Plan",
    "Resource",
    "Timetable",
    "check",
    "critical_path",
    "deepseek_training_layers",
    "from_json",
    "longest_chain",
    "plan_of",
    "simulate",
    "simulate_ranks",
    "timetable",
    "to_json",
]

"""What must happen, in which order, on which resource: plans, and what running them gives."""

from weft.plan.deepseek import deepseek_training_layers
from weft.plan.graph import check
from weft.plan.model import Kind, Op, Plan, Resource
from weft.plan.simulate import simulate, simulate_ranks
from weft.plan.text import from_json, to_json
from weft.plan.timetable import Chain, CriticalStep, Timetable, critical_path, longest_chain, timetable

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
    "simulate",
    "simulate_ranks",
    "timetable",
    "to_json",
]

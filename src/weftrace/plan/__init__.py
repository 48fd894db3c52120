"""What must happen, in which order, on which resource: plans, and what running them gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.plan.as_traces import simulate as simulate
    from weftrace.plan.as_traces import simulate_ranks as simulate_ranks
    from weftrace.plan.as_traces import trace_of as trace_of
    from weftrace.plan.contention import Contended as Contended
    from weftrace.plan.contention import Slowdown as Slowdown
    from weftrace.plan.contention import load_slowdowns as load_slowdowns
    from weftrace.plan.contention import with_contention as with_contention
    from weftrace.plan.deepseek import deepseek_training_layers as deepseek_training_layers
    from weftrace.plan.document import from_json as from_json
    from weftrace.plan.document import load_parquet as load_parquet
    from weftrace.plan.document import plan_of as plan_of
    from weftrace.plan.document import save_parquet as save_parquet
    from weftrace.plan.document import to_json as to_json
    from weftrace.plan.drawing import drawn as drawn
    from weftrace.plan.graph import check as check
    from weftrace.plan.inference.inferring import infer as infer
    from weftrace.plan.inference.joining import joined as joined
    from weftrace.plan.inference.phase_level import by_phase as by_phase
    from weftrace.plan.inference.replaying import Replay as Replay
    from weftrace.plan.inference.values import EDGE_SCHEMA as EDGE_SCHEMA
    from weftrace.plan.inference.values import MEASURED_SCHEMA as MEASURED_SCHEMA
    from weftrace.plan.inference.values import Inferred as Inferred
    from weftrace.plan.inference.values import Kept as Kept
    from weftrace.plan.model import Plan as Plan
    from weftrace.plan.ops import OP_SCHEMA as OP_SCHEMA
    from weftrace.plan.ops import WAIT_SCHEMA as WAIT_SCHEMA
    from weftrace.plan.ops import Kind as Kind
    from weftrace.plan.ops import Op as Op
    from weftrace.plan.ops import Resource as Resource
    from weftrace.plan.ops import Since as Since
    from weftrace.plan.ops import Wait as Wait
    from weftrace.plan.ops import Why as Why
    from weftrace.plan.times import Chain as Chain
    from weftrace.plan.times import Timetable as Timetable
    from weftrace.plan.times import critical_path as critical_path
    from weftrace.plan.times import longest_chain as longest_chain
    from weftrace.plan.times import memory_curve as memory_curve
    from weftrace.plan.times import memory_peaks as memory_peaks
    from weftrace.plan.times import slack_ns as slack_ns
    from weftrace.plan.times import timetable as timetable

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(__name__)

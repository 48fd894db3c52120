"""weftrace shows which communication is hidden behind which computation, and plans a better weave.

    import weftrace

    trace = weftrace.open("train.json.gz")      # a Trace; a folder or glob of ranks gives a Job
    weftrace.breakdown(trace)                   # compute + exposed communication + exposed memory + idle = span
    weftrace.overlap(trace).matrix              # which communication phase hides behind which compute phase
    weftrace.analyze(trace)                     # all of it
    weftrace.build_report(trace).document       # the same as JSON-able values, for the renderers

Importing weftrace is quick: what a name needs is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weftrace.errors import (
    FlopsError,
    LoadsError,
    OutputError,
    PlacementError,
    PlanError,
    RulesError,
    TraceError,
    TraceTooLarge,
    WeftraceError,
)
from weftrace.version import __version__

if TYPE_CHECKING:
    from weftrace.analysis import (
        analyze,
        analyze_rank,
        breakdown,
        clock_offsets,
        headroom,
        idle,
        kernel_table,
        lanes,
        operators,
        overlap,
        phases,
        queueing,
        steps,
    )
    from weftrace.experts import (
        Placement,
        balance,
        generate_loads,
        make_placement,
        placement_document,
        read_loads,
        read_placement,
        rebalance_experts,
        recommend,
        replan,
        replay,
        replay_document,
        resplit,
    )
    from weftrace.plan import Op, Plan, simulate
    from weftrace.report import (
        annotate_trace,
        build_report,
        document_of,
        print_lanes,
        print_placement,
        print_replay,
        print_report,
        render_html,
        render_placement_html,
        render_replay_html,
    )
    from weftrace.trace import (
        Job,
        Trace,
        Work,
        load_parquet,
        load_rules,
        save_parquet,
        work_of,
        works_of,
        write_chrome,
    )
    from weftrace.trace import open_trace as open

_HOME = {
    "Trace": "weftrace.trace",
    "Job": "weftrace.trace",
    "Work": "weftrace.trace",
    "work_of": "weftrace.trace",
    "works_of": "weftrace.trace",
    "load_rules": "weftrace.trace",
    "write_chrome": "weftrace.trace",
    "load_parquet": "weftrace.trace",
    "save_parquet": "weftrace.trace",
    "Op": "weftrace.plan",
    "Plan": "weftrace.plan",
    "simulate": "weftrace.plan",
    "analyze": "weftrace.analysis",
    "analyze_rank": "weftrace.analysis",
    "breakdown": "weftrace.analysis",
    "overlap": "weftrace.analysis",
    "lanes": "weftrace.analysis",
    "operators": "weftrace.analysis",
    "phases": "weftrace.analysis",
    "kernel_table": "weftrace.analysis",
    "idle": "weftrace.analysis",
    "queueing": "weftrace.analysis",
    "headroom": "weftrace.analysis",
    "steps": "weftrace.analysis",
    "clock_offsets": "weftrace.analysis",
    "Placement": "weftrace.experts",
    "balance": "weftrace.experts",
    "generate_loads": "weftrace.experts",
    "make_placement": "weftrace.experts",
    "placement_document": "weftrace.experts",
    "read_loads": "weftrace.experts",
    "read_placement": "weftrace.experts",
    "rebalance_experts": "weftrace.experts",
    "recommend": "weftrace.experts",
    "replan": "weftrace.experts",
    "replay": "weftrace.experts",
    "replay_document": "weftrace.experts",
    "resplit": "weftrace.experts",
    "annotate_trace": "weftrace.report",
    "build_report": "weftrace.report",
    "document_of": "weftrace.report",
    "print_lanes": "weftrace.report",
    "print_placement": "weftrace.report",
    "print_replay": "weftrace.report",
    "print_report": "weftrace.report",
    "render_html": "weftrace.report",
    "render_placement_html": "weftrace.report",
    "render_replay_html": "weftrace.report",
}

__all__ = [
    "FlopsError",
    "Job",
    "LoadsError",
    "Op",
    "OutputError",
    "Placement",
    "PlacementError",
    "Plan",
    "PlanError",
    "RulesError",
    "Trace",
    "TraceError",
    "TraceTooLarge",
    "WeftraceError",
    "Work",
    "__version__",
    "analyze",
    "analyze_rank",
    "annotate_trace",
    "balance",
    "breakdown",
    "build_report",
    "clock_offsets",
    "document_of",
    "generate_loads",
    "headroom",
    "idle",
    "kernel_table",
    "lanes",
    "load_parquet",
    "load_rules",
    "make_placement",
    "open",
    "operators",
    "overlap",
    "phases",
    "placement_document",
    "print_lanes",
    "print_placement",
    "print_replay",
    "print_report",
    "queueing",
    "read_loads",
    "read_placement",
    "rebalance_experts",
    "recommend",
    "render_html",
    "render_placement_html",
    "render_replay_html",
    "replan",
    "replay",
    "replay_document",
    "resplit",
    "save_parquet",
    "simulate",
    "steps",
    "work_of",
    "works_of",
    "write_chrome",
]


def __getattr__(name: str) -> Any:
    if name == "open":
        value = import_module("weftrace.trace").open_trace
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'weftrace' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

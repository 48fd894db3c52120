"""weft shows which communication is hidden behind which computation, and plans a better weave.

    import weft

    trace = weft.open("train.json.gz")      # a Trace; a folder or glob of ranks gives a Job
    weft.breakdown(trace)                   # compute + exposed communication + exposed memory + idle = span
    weft.overlap(trace).matrix              # which communication phase hides behind which compute phase
    weft.analyze(trace)                     # all of it
    weft.build_report(trace).document       # the same as JSON-able values, for the renderers

Importing weft is quick: what a name needs is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.errors import (
    FlopsError,
    LoadsError,
    OutputError,
    PlacementError,
    PlanError,
    RulesError,
    TraceError,
    TraceTooLarge,
    WeftError,
)
from weft.version import __version__

if TYPE_CHECKING:
    from weft.analysis import (
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
    from weft.experts import (
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
    from weft.plan import Op, Plan, simulate
    from weft.report import (
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
    from weft.trace import (
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
    from weft.trace import open_trace as open

_HOME = {
    "Trace": "weft.trace",
    "Job": "weft.trace",
    "Work": "weft.trace",
    "work_of": "weft.trace",
    "works_of": "weft.trace",
    "load_rules": "weft.trace",
    "write_chrome": "weft.trace",
    "load_parquet": "weft.trace",
    "save_parquet": "weft.trace",
    "Op": "weft.plan",
    "Plan": "weft.plan",
    "simulate": "weft.plan",
    "analyze": "weft.analysis",
    "analyze_rank": "weft.analysis",
    "breakdown": "weft.analysis",
    "overlap": "weft.analysis",
    "lanes": "weft.analysis",
    "operators": "weft.analysis",
    "phases": "weft.analysis",
    "kernel_table": "weft.analysis",
    "idle": "weft.analysis",
    "queueing": "weft.analysis",
    "headroom": "weft.analysis",
    "steps": "weft.analysis",
    "clock_offsets": "weft.analysis",
    "Placement": "weft.experts",
    "balance": "weft.experts",
    "generate_loads": "weft.experts",
    "make_placement": "weft.experts",
    "placement_document": "weft.experts",
    "read_loads": "weft.experts",
    "read_placement": "weft.experts",
    "rebalance_experts": "weft.experts",
    "recommend": "weft.experts",
    "replan": "weft.experts",
    "replay": "weft.experts",
    "replay_document": "weft.experts",
    "resplit": "weft.experts",
    "annotate_trace": "weft.report",
    "build_report": "weft.report",
    "document_of": "weft.report",
    "print_lanes": "weft.report",
    "print_placement": "weft.report",
    "print_replay": "weft.report",
    "print_report": "weft.report",
    "render_html": "weft.report",
    "render_placement_html": "weft.report",
    "render_replay_html": "weft.report",
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
    "WeftError",
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
        value = import_module("weft.trace").open_trace
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

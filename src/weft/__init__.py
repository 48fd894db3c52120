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

from weft.errors import OutputError, PlanError, RulesError, TraceError, TraceTooLarge, WeftError
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
    from weft.plan import Op, Plan, simulate
    from weft.report import annotate_trace, build_report, document_of, print_lanes, print_report, render_html
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
    "annotate_trace": "weft.report",
    "build_report": "weft.report",
    "document_of": "weft.report",
    "print_lanes": "weft.report",
    "print_report": "weft.report",
    "render_html": "weft.report",
}

__all__ = [
    "Job",
    "Op",
    "OutputError",
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
    "breakdown",
    "build_report",
    "clock_offsets",
    "document_of",
    "headroom",
    "idle",
    "kernel_table",
    "lanes",
    "load_parquet",
    "load_rules",
    "open",
    "operators",
    "overlap",
    "phases",
    "print_lanes",
    "print_report",
    "queueing",
    "render_html",
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

"""weftrace shows which communication is hidden behind which computation, and plans a better weave.

    import weftrace as wt

    trace = wt.open("train.json.gz")        # a Trace; a folder, a glob or several files of ranks give a Job
    report = wt.analyze(trace)              # everything about it, as a Report
    wt.show(report)                         # in the terminal or the notebook
    wt.save(report, "report.html")          # one page that opens offline; .json for its numbers
    wt.figure(report, "overlap")            # a plotly figure
    wt.page(report)                         # the interactive page, in a notebook's cell
    wt.analysis.overlap(trace)              # one question at a time

Few names stand here; each capability has the rest in its wing: `wt.analysis`, `wt.plan`, `wt.experts`, `wt.flops`,
`wt.pipeline`.
Importing weftrace is quick: what a name needs is imported when the name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.errors import WeftraceError as WeftraceError
from weftrace.lazy import lazily
from weftrace.version import __version__ as __version__
from weftrace.wings import WINGS, public_names

if TYPE_CHECKING:  # what a type checker sees; wings.py names the wings' own
    from weftrace import analysis as analysis
    from weftrace import capture as capture
    from weftrace import comparison as comparison
    from weftrace import experts as experts
    from weftrace import facts as facts
    from weftrace import flops as flops
    from weftrace import pipeline as pipeline
    from weftrace import plan as plan
    from weftrace import questions as questions
    from weftrace import report as report
    from weftrace import trace as trace
    from weftrace import workers as workers
    from weftrace.api import figure as figure
    from weftrace.api import load as load
    from weftrace.api import page as page
    from weftrace.api import save as save
    from weftrace.api import show as show
    from weftrace.comparison import Diff as Diff
    from weftrace.comparison import diff as diff
    from weftrace.experts import Placement as Placement
    from weftrace.experts import balance as balance
    from weftrace.experts import replan as replan
    from weftrace.experts import replay as replay
    from weftrace.flops import FlopsReport as FlopsReport
    from weftrace.flops import count as count
    from weftrace.flops import profile as profile
    from weftrace.plan import Plan as Plan
    from weftrace.plan import simulate as simulate
    from weftrace.questions import query as query
    from weftrace.report import Report as Report
    from weftrace.report import analyze as analyze
    from weftrace.trace import Job as Job
    from weftrace.trace import Trace as Trace
    from weftrace.trace import open_trace

    open = open_trace

    __all__: list[str]

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "weftrace.trace": ("Job", "Trace"),
            "weftrace.plan": ("Plan", "simulate"),
            "weftrace.api": ("figure", "load", "page", "save", "show"),
            **public_names(),
        },
        renamed={"open": ("weftrace.trace", "open_trace")},
        packages=("analysis", "facts", "plan", "render", "trace", "workers", *(wing.name for wing in WINGS)),
        eager=("WeftraceError", "__version__"),
    )

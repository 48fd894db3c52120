"""The report of a trace or a job: one document, and what draws it in the terminal, on a page and in notebooks.

    report = wt.analyze("train.json.gz")                     # or wt.report.analyze
    wt.report.print_rank(report.document["ranks"][0], console)
    wt.report.lanes_figure(report.document["ranks"][0])      # plotly figures, one function a picture
    wt.report.annotate_trace(trace, "annotated.json.gz")     # the original, with weftrace's lanes added

`Report.document` is what every renderer draws from, docs/report-json.md explains it; `Report.analysis` holds the same
as typed values and frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:  # what a type checker sees
    from weftrace.render.lanes_text import print_lanes as print_lanes
    from weftrace.report.added_lanes import annotate_trace as annotate_trace
    from weftrace.report.added_lanes import overlay as overlay
    from weftrace.report.build import RankReport as RankReport
    from weftrace.report.build import Report as Report
    from weftrace.report.build import ReportOptions as ReportOptions
    from weftrace.report.build import analyze as analyze
    from weftrace.report.document import document_of as document_of
    from weftrace.report.render.figures import breakdown_figure as breakdown_figure
    from weftrace.report.render.figures import idle_figure as idle_figure
    from weftrace.report.render.figures import kernels_figure as kernels_figure
    from weftrace.report.render.figures import lanes_figure as lanes_figure
    from weftrace.report.render.figures import overlap_figure as overlap_figure
    from weftrace.report.render.figures import ranks_figure as ranks_figure
    from weftrace.report.render.figures_bandwidth import bandwidth_figure as bandwidth_figure
    from weftrace.report.render.figures_job import job_figure as job_figure
    from weftrace.report.render.figures_job import lateness_figure as lateness_figure
    from weftrace.report.render.figures_job import steps_figure as steps_figure
    from weftrace.report.render.page import render_html as render_html
    from weftrace.report.render.terminal import print_rank as print_rank
    from weftrace.report.render.terminal import print_report as print_report

if not TYPE_CHECKING:  # so that `weftrace --help`, which names this wing's commands, stays quick
    __getattr__, __dir__, __all__ = lazily(__name__, packages=("render",))

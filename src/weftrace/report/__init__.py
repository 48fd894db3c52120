"""The report of a trace or a job: one document, and what draws it in the terminal, on a page and in notebooks."""

from weftrace.report.added_lanes import annotate_trace, overlay
from weftrace.report.build import RankReport, Report, analyze
from weftrace.report.document import document_of
from weftrace.report.render.figures import (
    breakdown_figure,
    idle_figure,
    kernels_figure,
    lanes_figure,
    overlap_figure,
    ranks_figure,
)
from weftrace.report.render.page import render_html
from weftrace.report.render.terminal import print_rank, print_report

__all__ = [
    "RankReport",
    "Report",
    "analyze",
    "annotate_trace",
    "breakdown_figure",
    "document_of",
    "idle_figure",
    "kernels_figure",
    "lanes_figure",
    "overlap_figure",
    "overlay",
    "print_rank",
    "print_report",
    "ranks_figure",
    "render_html",
]

"""Reports: the document of an analysis, and what draws it in the terminal, in the browser and in notebooks."""

from weftrace.experts.render.figures import figure_balancedness, figure_gpu_load, figure_moves, figure_replay
from weftrace.experts.render.page import render_placement_html, render_replay_html
from weftrace.experts.render.terminal import print_placement, print_replay
from weftrace.flops.render.diff_terminal import print_flops_diff
from weftrace.flops.render.figures import flops_phases_figure, flops_roofline_figure, flops_treemap_figure
from weftrace.flops.render.page import render_flops_html
from weftrace.flops.render.terminal import print_flops
from weftrace.render.lanes_text import print_lanes
from weftrace.report.added_lanes import annotate_trace, overlay
from weftrace.report.build import Report, build_report
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
    "Report",
    "annotate_trace",
    "breakdown_figure",
    "build_report",
    "document_of",
    "figure_balancedness",
    "figure_gpu_load",
    "figure_moves",
    "figure_replay",
    "flops_phases_figure",
    "flops_roofline_figure",
    "flops_treemap_figure",
    "idle_figure",
    "kernels_figure",
    "lanes_figure",
    "overlap_figure",
    "overlay",
    "print_flops",
    "print_flops_diff",
    "print_lanes",
    "print_placement",
    "print_rank",
    "print_replay",
    "print_report",
    "ranks_figure",
    "render_flops_html",
    "render_html",
    "render_placement_html",
    "render_replay_html",
]

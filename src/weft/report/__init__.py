"""Reports: the document of an analysis, and what draws it in the terminal, in the browser and in notebooks."""

from weft.report.build import Report, build_report
from weft.report.document import document_of
from weft.report.experts_figures import figure_balancedness, figure_gpu_load, figure_moves, figure_replay
from weft.report.experts_html import render_placement_html, render_replay_html
from weft.report.experts_terminal import print_placement, print_replay
from weft.report.figures import (
    breakdown_figure,
    idle_figure,
    kernels_figure,
    lanes_figure,
    overlap_figure,
    ranks_figure,
)
from weft.report.flops_diff_terminal import print_flops_diff
from weft.report.flops_figures import flops_phases_figure, flops_roofline_figure, flops_treemap_figure
from weft.report.flops_html import render_flops_html
from weft.report.flops_terminal import print_flops
from weft.report.html import render_html
from weft.report.lanes_text import print_lanes
from weft.report.overlay import annotate_trace, overlay
from weft.report.terminal import print_rank, print_report

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

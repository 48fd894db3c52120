"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from weftrace.comparison.diffs import Diff
from weftrace.comparison.document import DiffReport, diff_report
from weftrace.comparison.render.figures import movers_figure, steps_figure, waterfall_figure
from weftrace.comparison.render.markdown import diff_markdown, movers_table
from weftrace.comparison.render.page import render_diff_html
from weftrace.comparison.render.terminal import print_diff
from weftrace.outputs import Output, adapter_for

REPORT = Output(
    value=DiffReport,
    schema="weftrace.diff/1",
    title="What changed in a step, from one run to another",
    show=print_diff,
    table=movers_table,
    markdown=diff_markdown,
    page=render_diff_html,
    figures={"waterfall": waterfall_figure, "movers": movers_figure, "steps": steps_figure},
)
#: What Python works with; the command's document is made of it.
DIFF = adapter_for(Diff, REPORT, diff_report)

OUTPUTS: tuple[Output, ...] = (REPORT, DIFF)

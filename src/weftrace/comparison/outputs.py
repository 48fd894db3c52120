"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from dataclasses import replace

from weftrace.comparison.diffs import Diff
from weftrace.comparison.document import DIFF_SCHEMA, DiffReport, diff_report
from weftrace.comparison.render.figures import movers_figure, steps_figure, waterfall_figure
from weftrace.comparison.render.markdown import diff_markdown, movers_table
from weftrace.comparison.render.page import render_diff_html
from weftrace.comparison.render.terminal import print_diff
from weftrace.files.reports import report_kind
from weftrace.outputs import Output, adapter_for

SCHEMAS = (DIFF_SCHEMA,)

_FROM_DOCUMENT = report_kind(
    DiffReport, DIFF_SCHEMA, show=print_diff, table=movers_table, markdown=diff_markdown, page=render_diff_html
)
REPORT = replace(
    _FROM_DOCUMENT, figures={"waterfall": waterfall_figure, "movers": movers_figure, "steps": steps_figure}
)
#: What Python works with; the command's document is made of it.
DIFF = adapter_for(Diff, REPORT, diff_report)

OUTPUTS: tuple[Output, ...] = (REPORT, DIFF)

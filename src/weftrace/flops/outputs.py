"""What can be done with what a model costs: see `weftrace.outputs`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rich.console import Console

from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.document import SCHEMA, TITLE, FlopsDocument, flops_document, report_of
from weftrace.flops.join.counters import write_counters
from weftrace.flops.render.diff_terminal import print_flops_diff
from weftrace.flops.render.page import render_flops_html
from weftrace.flops.render.predictions import print_sweep
from weftrace.flops.render.terminal import print_flops
from weftrace.flops.several.diff import FlopsDiff
from weftrace.flops.several.sweep import Sweep
from weftrace.flops.tables import sweep_csv, to_csv, to_markdown
from weftrace.flops.values import FlopsReport
from weftrace.outputs import Output

#: Endings of the median step as a Chrome trace.
TRACE_SUFFIXES = (".trace.json", ".trace.json.gz", ".trace.json.zst")


def _figure(name: str) -> Callable[[FlopsReport | Account], Any]:
    def draw(report: FlopsReport | Account) -> Any:
        from weftrace.flops.render import figures

        return getattr(figures, name)(report)

    return draw


def _show(report: FlopsReport | Account, console: Console) -> None:
    print_flops(report, console)


#: An account is what a report becomes: what is made of either is the same.
ACCOUNT = Output(
    value=Account,
    document=flops_document,
    show=_show,
    page=render_flops_html,
    csv=to_csv,
    markdown=to_markdown,
    save=dict.fromkeys(TRACE_SUFFIXES, write_counters),
    figures={
        "tree": _figure("flops_treemap_figure"),
        "roofline": _figure("flops_roofline_figure"),
        "phases": _figure("flops_phases_figure"),
    },
)
REPORT = replace(
    ACCOUNT,
    value=FlopsReport,
    schema=SCHEMA,
    title=TITLE,
    kind=FlopsDocument,
    load=report_of,
    derived=account_of,
)
DIFF = Output(
    value=FlopsDiff,
    schema="weftrace.flops.diff/1",
    title="What changed between two reports of a model's costs",
    show=print_flops_diff,
)
SWEEP = Output(
    value=Sweep,
    schema="weftrace.flops.sweep/1",
    title="What a model costs at each batch, sequence length and context",
    show=print_sweep,
    csv=sweep_csv,
)

OUTPUTS = (ACCOUNT, REPORT, DIFF, SWEEP)

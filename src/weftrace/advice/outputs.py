"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from weftrace.advice.critical_paths import CriticalPath
from weftrace.advice.document import CriticalPathReport
from weftrace.advice.render.advice_terminal import advice_markdown, advice_rows, print_advice
from weftrace.advice.render.checks_terminal import checks_markdown, print_checks
from weftrace.advice.render.figures import curve_figure, gains_figure, path_figure, sensitivity_figure, waterfall_figure
from weftrace.advice.render.overlay import annotate_path
from weftrace.advice.render.page import (
    render_advice_html,
    render_path_html,
    render_sensitivity_html,
    render_stragglers_html,
    render_what_if_html,
)
from weftrace.advice.render.schedule_terminal import print_schedule_swap, schedule_swap_markdown, schedule_swap_table
from weftrace.advice.render.stragglers_terminal import (
    origin_figure,
    print_stragglers,
    ranks_figure,
    stragglers_markdown,
)
from weftrace.advice.render.tables import path_markdown, sensitivity_markdown, what_if_markdown
from weftrace.advice.render.terminal import print_critical_path
from weftrace.advice.render.whatif_terminal import print_sensitivity, print_what_if
from weftrace.advice.replay_checks import ReplayChecks, checks_table
from weftrace.advice.sensitivities import Curve, GainRow, Sensitivity
from weftrace.advice.swaps.schedules import ScheduleSwap
from weftrace.advice.waterfalls import Waterfall, waterfall
from weftrace.advice.whatif_document import SensitivityReport, WhatIfReport, what_if_table, worth_of
from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.errors import OutputError
from weftrace.files.columns import frame_of
from weftrace.outputs import DOCUMENT_SUFFIXES, Output

if TYPE_CHECKING:
    from weftrace.plan import Inferred


def _annotate(report: CriticalPathReport, path: str) -> None:
    """The trace with its path; of several ranks, the trace of the rank that decides most."""
    inferred, found = _made_of(report)
    most = inferred.plan.ops.get_column("rank").eq(int(found.by_rank.item(0, "name"))).arg_max()
    annotate_path(inferred, found, path, at=int(inferred.measured.item(most, "at")))


def _made_of(report: CriticalPathReport) -> tuple[Inferred, CriticalPath]:
    """Raises `OutputError` for a report that was read from a file."""
    if report.inferred is None or report.path is None:
        raise OutputError("a critical path read from a file holds no ops to draw: make it again from its trace.")
    return report.inferred, report.path


def _page(report: CriticalPathReport) -> str:
    return render_path_html(report, None if report.inferred is None else worth_of(report.inferred))


CRITICAL_PATH = Output(
    value=CriticalPathReport,
    schema="weftrace.critical_path/1",
    title="What decided how long a measured run took",
    show=print_critical_path,
    table=lambda report: report.parts,
    markdown=path_markdown,
    page=_page,
    save={f"annotated{suffix}": _annotate for suffix in DOCUMENT_SUFFIXES},
    figures={
        "path": lambda report: path_figure(_made_of(report)[1], report.headline),
        "waterfall": lambda report: waterfall_figure(waterfall(_made_of(report)[0])),
    },
)
WHAT_IF = Output(
    value=WhatIfReport,
    schema="weftrace.what_if/1",
    title="What a change would do to a measured run",
    show=print_what_if,
    table=what_if_table,
    markdown=what_if_markdown,
    page=render_what_if_html,
)
SENSITIVITY = Output(
    value=SensitivityReport,
    schema="weftrace.sensitivity/1",
    title="Where a little speed is worth most",
    show=print_sensitivity,
    table=lambda report: frame_of(GainRow, report.rows),
    markdown=sensitivity_markdown,
    page=render_sensitivity_html,
)
CHECKS = Output(
    value=ReplayChecks,
    schema="weftrace.replay_checks/1",
    title="How far traces are from replays of their plans",
    show=print_checks,
    table=checks_table,
    markdown=checks_markdown,
)
SCHEDULE_SWAP = Output(
    value=ScheduleSwap,
    schema="weftrace.schedule_swap/1",
    title="What a measured pipeline would take with another schedule",
    show=print_schedule_swap,
    table=schedule_swap_table,
    markdown=schedule_swap_markdown,
)
STRAGGLERS = Output(
    value=JobSlowdown,
    schema="weftrace.slowdown/1",
    title="How much slower a job is than at its ranks' common pace",
    show=print_stragglers,
    table=lambda found: found.workers,
    markdown=stragglers_markdown,
    page=render_stragglers_html,
    figures={"ranks": ranks_figure, "origin": origin_figure},
)
ADVICE = Output(
    value=AdviceReport,
    schema="weftrace.advice/1",
    title="What to do about a run, and how much that would save",
    show=print_advice,
    table=lambda report: pl.DataFrame(advice_rows(report.findings), infer_schema_length=None),
    markdown=advice_markdown,
    page=render_advice_html,
    figures={"gains": gains_figure},
)
#: What Python works with; the commands' reports are made of these.
VALUES = (
    Output(value=CriticalPath, figures={"path": path_figure}),
    Output(value=Waterfall, figures={"waterfall": waterfall_figure}),
    Output(value=Sensitivity, figures={"sensitivity": sensitivity_figure}),
    Output(value=Curve, figures={"curve": curve_figure}),
)

OUTPUTS: tuple[Output, ...] = (CRITICAL_PATH, WHAT_IF, SENSITIVITY, CHECKS, SCHEDULE_SWAP, STRAGGLERS, ADVICE, *VALUES)

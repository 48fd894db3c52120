"""What can be done with the values of the wing: see `weftrace.kinds`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weftrace.advice.critical_paths import CriticalPath
from weftrace.advice.document import PATH_SCHEMA, CriticalPathReport, parts_table
from weftrace.advice.render.checks_terminal import checks_markdown, print_checks
from weftrace.advice.render.figures import curve_figure, path_figure, sensitivity_figure, waterfall_figure
from weftrace.advice.render.overlay import annotate_path
from weftrace.advice.render.page import render_path_html, render_sensitivity_html, render_what_if_html
from weftrace.advice.render.schedule_terminal import print_schedule_swap, schedule_swap_markdown
from weftrace.advice.render.tables import path_markdown, sensitivity_markdown, what_if_markdown
from weftrace.advice.render.terminal import print_critical_path
from weftrace.advice.render.whatif_terminal import print_sensitivity, print_what_if
from weftrace.advice.replay_checks import CHECKS_SCHEMA, ReplayChecks, checks_table
from weftrace.advice.sensitivities import Curve, Sensitivity
from weftrace.advice.swaps.schedule_document import SCHEDULE_SWAP_SCHEMA, ScheduleSwapReport, schedule_swap_table
from weftrace.advice.waterfalls import Waterfall, waterfall
from weftrace.advice.whatif_document import (
    SENSITIVITY_SCHEMA,
    WHAT_IF_SCHEMA,
    SensitivityReport,
    WhatIfReport,
    sensitivity_table,
    what_if_table,
    worth_of,
)
from weftrace.errors import OutputError
from weftrace.files.documents import document_as
from weftrace.files.schemas import DocumentSchema
from weftrace.kinds import DOCUMENT_SUFFIXES, Kind, text_writer

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from weftrace.plan import Inferred

SCHEMAS = (PATH_SCHEMA, WHAT_IF_SCHEMA, SENSITIVITY_SCHEMA, CHECKS_SCHEMA, SCHEDULE_SWAP_SCHEMA)


def _kind(
    report: type[Any],
    schema: DocumentSchema,
    show: Callable[[Any, Console], None],
    table: Callable[[Any], pl.DataFrame],
    markdown: Callable[[Any], str],
    page: Callable[[Any], str] | None = None,
) -> Kind:
    """Of a report that can be made of its document alone."""

    def load(document: Mapping[str, Any], what: str) -> Any:
        return report(document=document_as(document, schema.document, schema=schema.schema, what=what))

    return Kind(
        value=report,
        schema=schema.schema,
        document=lambda value: value.document,
        load=load,
        show=lambda value, console: show(value.document, console),
        save={
            ".csv": text_writer(lambda value: table(value.document).write_csv()),
            ".md": text_writer(lambda value: markdown(value.document)),
            **({".html": text_writer(page)} if page is not None else {}),
        },
    )


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


_FROM_DOCUMENT = _kind(CriticalPathReport, PATH_SCHEMA, print_critical_path, parts_table, path_markdown, _page)
CRITICAL_PATH = replace(
    _FROM_DOCUMENT,
    save={**_FROM_DOCUMENT.save, **{f"annotated{suffix}": _annotate for suffix in DOCUMENT_SUFFIXES}},
    figures={
        "path": lambda report: path_figure(_made_of(report)[1]),
        "waterfall": lambda report: waterfall_figure(waterfall(_made_of(report)[0])),
    },
)
WHAT_IF = _kind(WhatIfReport, WHAT_IF_SCHEMA, print_what_if, what_if_table, what_if_markdown, render_what_if_html)
SENSITIVITY = _kind(
    SensitivityReport, SENSITIVITY_SCHEMA, print_sensitivity, sensitivity_table, sensitivity_markdown,
    render_sensitivity_html,
)  # fmt: skip
#: What Python works with; the commands' documents are made of these.
VALUES = (
    Kind(value=CriticalPath, figures={"path": path_figure}),
    Kind(value=Waterfall, figures={"waterfall": waterfall_figure}),
    Kind(value=Sensitivity, figures={"sensitivity": sensitivity_figure}),
    Kind(value=Curve, figures={"curve": curve_figure}),
)
CHECKS = _kind(ReplayChecks, CHECKS_SCHEMA, print_checks, checks_table, checks_markdown)
SCHEDULE_SWAP = _kind(
    ScheduleSwapReport, SCHEDULE_SWAP_SCHEMA, print_schedule_swap, schedule_swap_table, schedule_swap_markdown
)

KINDS: tuple[Kind, ...] = (CRITICAL_PATH, WHAT_IF, SENSITIVITY, CHECKS, SCHEDULE_SWAP, *VALUES)

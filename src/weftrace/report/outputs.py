"""What can be done with a report, and with the trace or the job that it is made of: see `weftrace.outputs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from rich.console import Console

from weftrace.outputs import Output, adapter_for
from weftrace.report.build import Report, analyze
from weftrace.report.document import report_document
from weftrace.report.document_types import SCHEMA, TITLE, ReportDocument
from weftrace.report.render.critical import path_blocks
from weftrace.report.render.page import render_html
from weftrace.report.render.tables import code_csv, has_code, kernels_csv, to_markdown
from weftrace.report.render.terminal import print_report
from weftrace.trace import Job, Trace


def _load(document: Mapping[str, Any], what: str) -> Report:
    return Report(document=report_document(document, what))


def _show(report: Report, console: Console) -> None:
    print_report(report.document, console)


def _sources(report: Report) -> list[str]:
    """The traces that a report was made of; of one that was loaded from its document, only names are known."""
    if report.analysis is None:
        return []
    ranks, failures = report.analysis.ranks, report.analysis.failures
    return [path for path in (*(rank.path for rank in ranks), *(failure.path for failure in failures)) if path]


def _figure(name: str, module: str = "figures", *, of_rank: bool = True) -> Callable[[Report], Any]:
    """A figure of the report's first rank, or of the whole report."""

    def draw(report: Report) -> Any:
        figures = import_module(f"weftrace.report.render.{module}")
        return getattr(figures, name)(report.document["ranks"][0] if of_rank else report.document)

    return draw


REPORT = Output(
    value=Report,
    schema=SCHEMA,
    title=TITLE,
    kind=ReportDocument,
    document=lambda report: report.document,
    load=_load,
    show=_show,
    page=lambda report: render_html(report.document, report.timelines, path_blocks(report)),
    markdown=lambda report: to_markdown(report.document),
    # Time by module or by function where it was asked for, else the kernels.
    csv=lambda report: (code_csv if has_code(report.document) else kernels_csv)(report.document),
    inputs=_sources,
    figures={
        "lanes": _figure("lanes_figure"),
        "breakdown": _figure("breakdown_figure", of_rank=False),
        "overlap": _figure("overlap_figure"),
        "kernels": _figure("kernels_figure"),
        "idle": _figure("idle_figure"),
        "ranks": _figure("ranks_figure", of_rank=False),
        "job": _figure("job_figure", "figures_job", of_rank=False),
        "lateness": _figure("lateness_figure", "figures_job", of_rank=False),
        "steps": _figure("steps_figure", "figures_job", of_rank=False),
        "bandwidth": _figure("bandwidth_figure", "figures_bandwidth", of_rank=False),
        "efficiency": _figure("efficiency_figure", "figures_efficiency"),
        "memory": _figure("memory_of_rank", "figures_memory"),
        "modules": _figure("modules_figure", "code_figures"),
        "functions": _figure("functions_figure", "code_figures"),
    },
)


def _analysed(value: type) -> Output:
    """A trace or a job: what its report can do, but for the document, which for these is the trace itself."""
    return replace(
        adapter_for(value, REPORT, analyze),
        document=None,
        inputs=lambda source: source.paths if isinstance(source, Job) else filter(None, [source.path]),
        show=lambda source, console: _show(analyze(source, timelines=False), console),
    )


OUTPUTS = (REPORT, _analysed(Trace), _analysed(Job))

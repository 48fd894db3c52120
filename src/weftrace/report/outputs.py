"""What can be done with a report, and with the trace or the job that it is made of: see `weftrace.outputs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from rich.console import Console

from weftrace.files.output import write_output
from weftrace.outputs import Output
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


def _save_page(report: Report, path: str) -> None:
    write_output(path, [render_html(report.document, report.timelines, path_blocks(report))])


def _save_markdown(report: Report, path: str) -> None:
    write_output(path, [to_markdown(report.document)])


def _save_table(report: Report, path: str) -> None:
    """Time by module or by function where it was asked for, else the kernels."""
    write_output(path, [(code_csv if has_code(report.document) else kernels_csv)(report.document)])


def _of_document(name: str) -> Callable[[Report], Any]:
    def draw(report: Report) -> Any:
        from weftrace.report.render import figures

        return getattr(figures, name)(report.document)

    return draw


def _of_job(name: str) -> Callable[[Report], Any]:
    def draw(report: Report) -> Any:
        from weftrace.report.render import figures_job

        return getattr(figures_job, name)(report.document)

    return draw


def _of_first_rank(name: str, module: str = "figures") -> Callable[[Report], Any]:
    def draw(report: Report) -> Any:
        figures = import_module(f"weftrace.report.render.{module}")
        return getattr(figures, name)(report.document["ranks"][0])

    return draw


REPORT = Output(
    value=Report,
    schema=SCHEMA,
    title=TITLE,
    kind=ReportDocument,
    document=lambda report: report.document,
    load=_load,
    show=_show,
    save={".html": _save_page, ".md": _save_markdown, ".csv": _save_table},
    inputs=_sources,
    figures={
        "lanes": _of_first_rank("lanes_figure"),
        "breakdown": _of_document("breakdown_figure"),
        "overlap": _of_first_rank("overlap_figure"),
        "kernels": _of_first_rank("kernels_figure"),
        "idle": _of_first_rank("idle_figure"),
        "ranks": _of_document("ranks_figure"),
        "job": _of_job("job_figure"),
        "lateness": _of_job("lateness_figure"),
        "steps": _of_job("steps_figure"),
        "modules": _of_first_rank("modules_figure", "code_figures"),
        "functions": _of_first_rank("functions_figure", "code_figures"),
    },
)


def _analysed(value: type) -> Output:
    """A trace or a job: what its report can do, but for the document, which for these is the trace itself."""
    return Output(
        value=value,
        derived=analyze,
        inputs=lambda source: source.paths if isinstance(source, Job) else filter(None, [source.path]),
        show=lambda source, console: _show(analyze(source, timelines=False), console),
        save=REPORT.save,
        figures=REPORT.figures,
    )


OUTPUTS = (REPORT, _analysed(Trace), _analysed(Job))

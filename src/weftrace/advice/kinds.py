"""What can be done with the values of the wing: see `weftrace.kinds`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from weftrace.advice.document import PATH_SCHEMA, CriticalPathReport, parts_table
from weftrace.advice.render.checks_terminal import checks_markdown, print_checks
from weftrace.advice.render.tables import path_markdown, sensitivity_markdown, what_if_markdown
from weftrace.advice.render.terminal import print_critical_path
from weftrace.advice.render.whatif_terminal import print_sensitivity, print_what_if
from weftrace.advice.replay_checks import CHECKS_SCHEMA, ReplayChecks, checks_table
from weftrace.advice.whatif_document import (
    SENSITIVITY_SCHEMA,
    WHAT_IF_SCHEMA,
    SensitivityReport,
    WhatIfReport,
    sensitivity_table,
    what_if_table,
)
from weftrace.files.documents import document_as
from weftrace.files.schemas import DocumentSchema
from weftrace.kinds import Kind, text_writer

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

SCHEMAS = (PATH_SCHEMA, WHAT_IF_SCHEMA, SENSITIVITY_SCHEMA, CHECKS_SCHEMA)


def _kind(
    report: type[Any],
    schema: DocumentSchema,
    show: Callable[[Any, Console], None],
    table: Callable[[Any], pl.DataFrame],
    markdown: Callable[[Any], str],
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
        },
    )


CRITICAL_PATH = _kind(CriticalPathReport, PATH_SCHEMA, print_critical_path, parts_table, path_markdown)
WHAT_IF = _kind(WhatIfReport, WHAT_IF_SCHEMA, print_what_if, what_if_table, what_if_markdown)
SENSITIVITY = _kind(SensitivityReport, SENSITIVITY_SCHEMA, print_sensitivity, sensitivity_table, sensitivity_markdown)
CHECKS = _kind(ReplayChecks, CHECKS_SCHEMA, print_checks, checks_table, checks_markdown)

KINDS: tuple[Kind, ...] = (CRITICAL_PATH, WHAT_IF, SENSITIVITY, CHECKS)

"""What can be done with the wing's reports, a recommendation, a step, a slip: each is its document, and a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weftrace.files.documents import document_as
from weftrace.files.schemas import DocumentSchema
from weftrace.kinds import Kind, made_of, text_writer
from weftrace.pipeline.choices.document import (
    RECOMMENDATION_SCHEMA,
    RecommendationReport,
    recommendation_report,
    recommendation_table,
)
from weftrace.pipeline.choices.recommendation import Recommendation
from weftrace.pipeline.render.recommendation_page import render_recommendation_html
from weftrace.pipeline.render.recommendation_terminal import print_recommendation
from weftrace.pipeline.render.slip_page import render_slip_html
from weftrace.pipeline.render.slip_terminal import print_slip
from weftrace.pipeline.render.step_terminal import print_step
from weftrace.pipeline.slips.document import SLIP_SCHEMA, SlipReport, slip_report, slip_table
from weftrace.pipeline.slips.planned_and_measured import Slip
from weftrace.pipeline.steps.document import STEP_SCHEMA, StepReport, step_table

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

REPORT_SCHEMAS = (RECOMMENDATION_SCHEMA, STEP_SCHEMA, SLIP_SCHEMA)


def _kind(
    report: type[Any],
    schema: DocumentSchema,
    show: Callable[[Any, Console], None],
    table: Callable[[Any], pl.DataFrame],
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
        save={".csv": text_writer(lambda value: table(value.document).write_csv())},
    )


def _with_page(kind: Kind, page: Callable[[Any], str]) -> Kind:
    return replace(kind, save={".html": text_writer(page), **kind.save})


RECOMMENDATION = _with_page(
    _kind(RecommendationReport, RECOMMENDATION_SCHEMA, print_recommendation, recommendation_table),
    render_recommendation_html,
)
STEP = _kind(StepReport, STEP_SCHEMA, print_step, step_table)
SLIP = _with_page(_kind(SlipReport, SLIP_SCHEMA, print_slip, slip_table), render_slip_html)


REPORT_KINDS = (
    RECOMMENDATION,
    STEP,
    SLIP,
    made_of(Recommendation, RECOMMENDATION, recommendation_report),
    made_of(Slip, SLIP, slip_report),
)

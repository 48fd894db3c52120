"""What can be done with the values of the wing: see `weftrace.kinds`."""

from __future__ import annotations

from weftrace.files.documents import document_as
from weftrace.files.output import write_output
from weftrace.kinds import Kind
from weftrace.pipeline.choices.document import (
    RECOMMENDATION_SCHEMA,
    RecommendationDocument,
    RecommendationReport,
    recommendation_table,
)
from weftrace.pipeline.comparing.comparison import Comparison
from weftrace.pipeline.comparing.document import (
    COMPARISON_SCHEMA,
    comparison_document,
    comparison_of,
    comparison_table,
)
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.costs_document import COSTS_SCHEMA, costs_document, costs_of
from weftrace.pipeline.render.comparison_page import render_comparison_html
from weftrace.pipeline.render.comparison_terminal import print_comparison
from weftrace.pipeline.render.recommendation_terminal import print_recommendation
from weftrace.pipeline.render.step_terminal import print_step
from weftrace.pipeline.steps.document import STEP_SCHEMA, StepDocument, StepReport, step_table

SCHEMAS = (COSTS_SCHEMA, COMPARISON_SCHEMA, RECOMMENDATION_SCHEMA, STEP_SCHEMA)

COSTS = Kind(
    value=Costs,
    schema=COSTS_SCHEMA.schema,
    document=costs_document,
    load=lambda document, what: costs_of(document, what=what),
    show=lambda costs, console: console.print(costs.in_lines(), highlight=False, markup=False),
)


COMPARISON = Kind(
    value=Comparison,
    schema=COMPARISON_SCHEMA.schema,
    document=comparison_document,
    load=lambda document, what: comparison_of(document, what=what),
    show=lambda comparison, console: print_comparison(comparison_document(comparison), console),
    save={
        ".html": lambda comparison, path: write_output(path, [render_comparison_html(comparison)]),
        ".csv": lambda comparison, path: write_output(path, [comparison_table(comparison).write_csv().encode()]),
    },
)

RECOMMENDATION = Kind(
    value=RecommendationReport,
    schema=RECOMMENDATION_SCHEMA.schema,
    document=lambda report: report.document,
    load=lambda document, what: RecommendationReport(
        document=document_as(document, RecommendationDocument, schema=RECOMMENDATION_SCHEMA.schema, what=what)
    ),
    show=lambda report, console: print_recommendation(report.document, console),
    save={
        ".csv": lambda report, path: write_output(path, [recommendation_table(report.document).write_csv().encode()])
    },
)

STEP = Kind(
    value=StepReport,
    schema=STEP_SCHEMA.schema,
    document=lambda report: report.document,
    load=lambda document, what: StepReport(
        document=document_as(document, StepDocument, schema=STEP_SCHEMA.schema, what=what)
    ),
    show=lambda report, console: print_step(report.document, console),
    save={".csv": lambda report, path: write_output(path, [step_table(report.document).write_csv().encode()])},
)

KINDS: tuple[Kind, ...] = (COSTS, COMPARISON, RECOMMENDATION, STEP)

"""What can be done with the wing's reports, a recommendation, a step, a slip: each is its document, and a table."""

from __future__ import annotations

from weftrace.files.reports import report_kind
from weftrace.outputs import adapter_for
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

REPORT_SCHEMAS = (RECOMMENDATION_SCHEMA, STEP_SCHEMA, SLIP_SCHEMA)


RECOMMENDATION = report_kind(
    RecommendationReport, RECOMMENDATION_SCHEMA, show=print_recommendation, table=recommendation_table,
    page=render_recommendation_html,
)  # fmt: skip
STEP = report_kind(StepReport, STEP_SCHEMA, show=print_step, table=step_table)
SLIP = report_kind(SlipReport, SLIP_SCHEMA, show=print_slip, table=slip_table, page=render_slip_html)


REPORT_OUTPUTS = (
    RECOMMENDATION,
    STEP,
    SLIP,
    adapter_for(Recommendation, RECOMMENDATION, recommendation_report),
    adapter_for(Slip, SLIP, slip_report),
)

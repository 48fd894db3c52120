"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from weftrace.errors import OutputError
from weftrace.files.columns import frame_of
from weftrace.outputs import DOCUMENT_SUFFIXES, Output, adapter_for, text_writer
from weftrace.pipeline.choices import document as choices
from weftrace.pipeline.choices.recommendation import Recommendation
from weftrace.pipeline.comparing import document as comparing
from weftrace.pipeline.comparing.comparison import Comparison
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.costs_document import COSTS_SCHEMA, costs_document, costs_of
from weftrace.pipeline.document import SCHEMA, SavedSimulation, pipeline_document, simulation_of
from weftrace.pipeline.exports import values as exports
from weftrace.pipeline.exports.values import Export
from weftrace.pipeline.notation import to_text, to_torch_csv
from weftrace.pipeline.plan_vs_measured import document as slips
from weftrace.pipeline.plan_vs_measured.planned_and_measured import Slip
from weftrace.pipeline.render.comparison_page import render_comparison_html, render_recommendation_html
from weftrace.pipeline.render.comparison_terminal import print_comparison
from weftrace.pipeline.render.page import render_schedules_html
from weftrace.pipeline.render.perfetto import write_perfetto
from weftrace.pipeline.render.recommendation_terminal import print_recommendation
from weftrace.pipeline.render.scene import figure_schedule, svg_of
from weftrace.pipeline.render.slip_page import render_slip_html
from weftrace.pipeline.render.slip_terminal import print_slip
from weftrace.pipeline.render.step_terminal import print_step
from weftrace.pipeline.render.terminal import print_simulation
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import Simulation, simulate
from weftrace.pipeline.steps import document as steps
from weftrace.render.console_parts import notes_block, opening, print_blocks
from weftrace.render.console_text import suited

SCHEMAS = (COSTS_SCHEMA,)

COSTS = Output(
    value=Costs,
    schema=COSTS_SCHEMA.schema,
    document=costs_document,
    load=costs_of,
    show=lambda costs, console: print_blocks([Text(costs.in_lines())], console, console.width),
)


COMPARISON = Output(
    value=Comparison,
    schema=comparing.SCHEMA,
    title="A comparison of pipeline schedules",
    kind=comparing.ComparisonSummary,
    document=comparing.comparison_document,
    load=comparing.comparison_of,
    show=lambda comparison, console: print_comparison(comparing.comparison_summary(comparison), console),
    page=render_comparison_html,
    table=comparing.comparison_table,
)


#: A saved simulation is its document and a trace for Perfetto in one file.
SIMULATION = Output(
    value=Simulation,
    schema=SCHEMA,
    title="A simulated pipeline schedule",
    kind=SavedSimulation,
    document=pipeline_document,
    load=simulation_of,
    show=print_simulation,
    save={
        **dict.fromkeys(DOCUMENT_SUFFIXES, write_perfetto),
        ".html": text_writer(lambda simulation: render_schedules_html([simulation])),
        ".svg": text_writer(lambda simulation: svg_of([simulation])),
        ".csv": text_writer(lambda simulation: to_torch_csv(simulation.schedule)),
        ".txt": text_writer(lambda simulation: to_text(simulation.schedule)),
    },
    figures={"schedule": figure_schedule},
)


def _in_units(schedule: Schedule) -> Simulation:
    return simulate(schedule, Costs.units(FB=3))


#: A schedule has no times of its own: it is drawn and saved with F = I = W = 1 and F&B = 3.
SCHEDULE = adapter_for(Schedule, SIMULATION, _in_units)

RECOMMENDATION = Output(
    value=choices.RecommendationReport,
    schema=choices.SCHEMA,
    title="Which pipeline schedule to use, and what would change that",
    show=print_recommendation,
    table=lambda report: frame_of(choices.CandidateRow, report.rows),
    page=render_recommendation_html,
    save={".txt": text_writer(lambda report: to_text(choices.chosen_schedule(report)))},
)

STEP = Output(
    value=steps.StepReport,
    schema=steps.SCHEMA,
    title="A whole step from the costs of one chunk",
    show=print_step,
    table=lambda report: frame_of(steps.PartRow, report.parts),
)

SLIP = Output(
    value=slips.SlipReport,
    schema=slips.SCHEMA,
    title="A measured pipeline step compared with its plan",
    show=print_slip,
    table=lambda report: report.actions,
    page=render_slip_html,
)


def _print_export(export: Export, console: Console) -> None:
    head = opening("pipeline export", [export.schedule], f"For {export.title} {export.version}")
    print_blocks(head, console, console.width)
    console.print(suited(Text(f"\n{export.text}"), console), soft_wrap=True)  # to be pasted, so no line is broken
    print_blocks(notes_block(export.notes), console, console.width)


def _csv_of(export: Export) -> str:
    if not export.csv:
        raise OutputError(f"{export.title} reads no CSV: write its settings as .txt or .json.")
    return export.csv


EXPORT = Output(
    value=Export,
    schema=exports.SCHEMA,
    title="A pipeline schedule as settings of a training framework",
    show=_print_export,
    csv=_csv_of,
    save={".txt": text_writer(lambda export: export.text)},
)

OUTPUTS: tuple[Output, ...] = (
    COSTS,
    COMPARISON,
    SIMULATION,
    SCHEDULE,
    RECOMMENDATION,
    STEP,
    SLIP,
    EXPORT,
    adapter_for(Recommendation, RECOMMENDATION, choices.recommendation_report),
    adapter_for(Slip, SLIP, slips.slip_report),
)

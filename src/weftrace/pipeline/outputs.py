"""What can be done with the values of the wing: see `weftrace.outputs`."""

from __future__ import annotations

from weftrace.outputs import DOCUMENT_SUFFIXES, Output, adapter_for, text_writer
from weftrace.pipeline.comparing.comparison import Comparison
from weftrace.pipeline.comparing.document import (
    COMPARISON_SCHEMA,
    comparison_document,
    comparison_of,
    comparison_table,
)
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.costs_document import COSTS_SCHEMA, costs_document, costs_of
from weftrace.pipeline.document import PIPELINE_SCHEMA, pipeline_document, simulation_of
from weftrace.pipeline.notation import to_text, to_torch_csv
from weftrace.pipeline.render.comparison_page import render_comparison_html
from weftrace.pipeline.render.comparison_terminal import print_comparison
from weftrace.pipeline.render.page import render_schedules_html
from weftrace.pipeline.render.perfetto import write_perfetto
from weftrace.pipeline.render.scene import figure_schedule, svg_of
from weftrace.pipeline.render.terminal import print_simulation
from weftrace.pipeline.report_outputs import REPORT_OUTPUTS, REPORT_SCHEMAS
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import Simulation, simulate

SCHEMAS = (COSTS_SCHEMA, COMPARISON_SCHEMA, PIPELINE_SCHEMA, *REPORT_SCHEMAS)

COSTS = Output(
    value=Costs,
    schema=COSTS_SCHEMA.schema,
    document=costs_document,
    load=costs_of,
    show=lambda costs, console: console.print(costs.in_lines(), highlight=False, markup=False),
)


COMPARISON = Output(
    value=Comparison,
    schema=COMPARISON_SCHEMA.schema,
    document=comparison_document,
    load=comparison_of,
    show=lambda comparison, console: print_comparison(comparison_document(comparison), console),
    save={
        ".html": text_writer(render_comparison_html),
        ".csv": text_writer(lambda comparison: comparison_table(comparison).write_csv()),
    },
)


#: A saved simulation is its document and a trace for Perfetto in one file.
SIMULATION = Output(
    value=Simulation,
    schema=PIPELINE_SCHEMA.schema,
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

OUTPUTS: tuple[Output, ...] = (COSTS, COMPARISON, SIMULATION, SCHEDULE, *REPORT_OUTPUTS)

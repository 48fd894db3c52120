"""`weftrace pipeline`: in which order the stages of a model should run."""

from __future__ import annotations

import typer

from weftrace.cli.apps import App
from weftrace.pipeline.cli import compare as pipeline_compare
from weftrace.pipeline.cli import export as pipeline_export
from weftrace.pipeline.cli import recommend as pipeline_recommend
from weftrace.pipeline.cli import show as pipeline_show
from weftrace.pipeline.cli import slip as pipeline_slip
from weftrace.pipeline.cli import step as pipeline_step

app = App(
    help="Compare, draw and choose pipeline schedules, from 1F1B to DualPipe.",
    epilog="Start with: weftrace pipeline compare --stages 8 --micro-batches 20",
)
app.command("compare", epilog=pipeline_compare.EPILOG)(pipeline_compare.command)
app.command("recommend", epilog=pipeline_recommend.EPILOG)(pipeline_recommend.command)
app.command("show", epilog=pipeline_show.EPILOG)(pipeline_show.command)
app.command("step", epilog=pipeline_step.EPILOG)(pipeline_step.command)
app.command("slip", epilog=pipeline_slip.EPILOG)(pipeline_slip.command)
app.command("export", epilog=pipeline_export.EPILOG)(pipeline_export.command)


def add_to(commands: typer.Typer) -> None:
    """Add them to weftrace's commands."""
    commands.add_typer(app, name="pipeline")

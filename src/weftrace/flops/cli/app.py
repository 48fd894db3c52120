"""`weftrace flops`: what a model costs."""

from __future__ import annotations

import typer

from weftrace.cli.apps import App
from weftrace.flops.cli import count as flops_count
from weftrace.flops.cli import diff as flops_diff
from weftrace.flops.cli import models as flops_models
from weftrace.flops.cli import show as flops_show
from weftrace.flops.cli.group import COUNT, CountByDefault, ScriptArguments

app = App(
    cls=CountByDefault,
    help="What a model costs: parameters, FLOPs, bytes and time of every module, forward and backward.",
    epilog=flops_count.EPILOG,
)
app.command(COUNT, hidden=True, cls=ScriptArguments, epilog=flops_count.EPILOG)(flops_count.command)
app.command("diff", epilog=flops_diff.EPILOG)(flops_diff.command)
app.command("models", epilog=flops_models.EPILOG)(flops_models.command)
app.command("show", epilog=flops_show.EPILOG)(flops_show.command)


def add_to(commands: typer.Typer) -> None:
    """Add them to weftrace's commands."""
    commands.add_typer(app, name="flops")

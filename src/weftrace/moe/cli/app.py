"""`weftrace profile`: what DeepSeek's profiles look like at any scale, and what overlapping is worth."""

from __future__ import annotations

import typer

from weftrace.cli.apps import App
from weftrace.moe.cli import calibrate as profile_calibrate
from weftrace.moe.cli import pays as profile_pays
from weftrace.moe.cli import simulate as profile_simulate
from weftrace.moe.cli import validate as profile_validate

app = App(
    help="Simulate training, prefill and decode of mixture-of-experts layers, sweep settings, find what pays.",
    epilog="Start with: weftrace profile prefill -o out/",
)
profile_simulate.add_to(app)
app.command("pays", epilog=profile_pays.EPILOG)(profile_pays.command)
app.command("calibrate", epilog=profile_calibrate.EPILOG)(profile_calibrate.command)
app.command("validate", epilog=profile_validate.EPILOG)(profile_validate.command)


def add_to(commands: typer.Typer) -> None:
    """Add them to weftrace's commands."""
    commands.add_typer(app, name="profile")

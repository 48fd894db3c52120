"""`weftrace experts`: where the experts of a mixture-of-experts model should live."""

from __future__ import annotations

import typer

from weftrace.cli.apps import App
from weftrace.experts.cli import balance as experts_balance
from weftrace.experts.cli import demo as experts_demo
from weftrace.experts.cli import replay as experts_replay
from weftrace.experts.cli import warm as experts_warm

app = App(
    help="Place experts on GPUs: balanced, certified, and cheap to keep balanced.",
    epilog="Start with: weftrace experts demo",
)
app.command("balance", epilog=experts_balance.EPILOG)(experts_balance.command)
app.command("replay", epilog=experts_replay.EPILOG)(experts_replay.command)
app.command("demo", epilog=experts_demo.EPILOG)(experts_demo.command)
app.command("warm", epilog=experts_warm.EPILOG)(experts_warm.command)


def add_to(commands: typer.Typer) -> None:
    """Add them to weftrace's commands."""
    commands.add_typer(app, name="experts")

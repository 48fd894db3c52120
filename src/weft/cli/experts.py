"""`weft experts`: where the experts of a mixture-of-experts model should live."""

from __future__ import annotations

import typer

from weft.cli import experts_balance, experts_demo, experts_replay

app = typer.Typer(
    help="Place experts on GPUs: balanced, certified, and cheap to keep balanced.",
    epilog="Start with: weft experts demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.command("balance", epilog=experts_balance.EPILOG)(experts_balance.command)
app.command("replay", epilog=experts_replay.EPILOG)(experts_replay.command)
app.command("demo", epilog=experts_demo.EPILOG)(experts_demo.command)

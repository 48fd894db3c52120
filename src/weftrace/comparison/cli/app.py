"""The command of comparison, which stands at the top: `diff`."""

from __future__ import annotations

import typer

from weftrace.comparison.cli import diff


def add_to(app: typer.Typer) -> None:
    """Add it to weftrace's commands."""
    app.command("diff", epilog=diff.EPILOG)(diff.command)

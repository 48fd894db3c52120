"""The commands of advice, which stand at the top: `critical-path` and `whatif`."""

from __future__ import annotations

import typer

from weftrace.advice.cli import critical_path, whatif


def add_to(app: typer.Typer) -> None:
    """Add them to weftrace's commands."""
    app.command("critical-path", epilog=critical_path.EPILOG)(critical_path.command)
    app.command("whatif", epilog=whatif.EPILOG)(whatif.command)

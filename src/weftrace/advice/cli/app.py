"""The commands of advice, which stand at the top: `advise`, `critical-path`, `whatif`, `stragglers` and `skill`."""

from __future__ import annotations

import typer

from weftrace.advice.cli import advise, critical_path, skill, stragglers, whatif


def add_to(app: typer.Typer) -> None:
    """Add them to weftrace's commands."""
    app.command("advise", epilog=advise.EPILOG)(advise.command)
    app.command("critical-path", epilog=critical_path.EPILOG)(critical_path.command)
    app.command("whatif", epilog=whatif.EPILOG)(whatif.command)
    app.command("stragglers", epilog=stragglers.EPILOG)(stragglers.command)
    app.command("skill", epilog=skill.EPILOG)(skill.command)

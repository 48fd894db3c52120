"""The commands of a trace's report, which stand at the top: `report`, `lanes`, `annotate`, `convert`, `demo`."""

from __future__ import annotations

import typer

from weftrace.report.cli import annotate, convert, demo, lanes, report


def add_to(app: typer.Typer) -> None:
    """Add them to weftrace's commands."""
    app.command("report", epilog=report.EPILOG)(report.command)
    app.command("lanes", epilog=lanes.EPILOG)(lanes.command)
    app.command("annotate", epilog=annotate.EPILOG)(annotate.command)
    app.command("convert", epilog=convert.EPILOG)(convert.command)
    app.command("demo", epilog=demo.EPILOG)(demo.command)

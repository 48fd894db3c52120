"""`weftrace flops show`: draw a saved report again."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.flops.cli import options as flops_options
from weftrace.flops.cli.output import deliver, wanted

EPILOG = """[bold]Examples[/bold]

weftrace flops show report.json

weftrace flops show report.json -o report.html --hardware h100

weftrace flops show rank0.json rank1.json rank2.json rank3.json               ranks of one job, merged"""


def command(
    reports: Annotated[
        list[str],
        typer.Argument(
            metavar="REPORT...", help="JSON that weftrace flops -o report.json wrote; several ranks are merged."
        ),
    ],
    hardware: flops_options.HardwareName = None,
    depth: flops_options.Depth = None,
    top: flops_options.Top = 5,
    text_layout: flops_options.TextLayout = None,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Print or write saved reports, without torch and without running anything."""
    from weftrace.flops.document import read_flops
    from weftrace.flops.several.merge import merge

    asked = wanted(
        output,
        inputs=reports,
        json=json,
        quiet=quiet,
        depth=depth,
        top=top,
        text_layout=text_layout,
        hardware=hardware,
    )
    read = [read_flops(path) for path in reports]
    deliver(read[0] if len(read) == 1 else merge(read), asked)

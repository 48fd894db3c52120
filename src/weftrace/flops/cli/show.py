"""`weftrace flops show`: draw a saved report again."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.flops.cli import options as flops_options
from weftrace.flops.cli.output import Wanted, deliver

EPILOG = """[bold]Examples[/bold]

weftrace flops show report.json

weftrace flops show report.json --html report.html --hardware h100

weftrace flops show rank0.json rank1.json rank2.json rank3.json               ranks of one job, merged"""


def command(
    reports: Annotated[
        list[str],
        typer.Argument(metavar="REPORT...", help="JSON that weftrace flops --json wrote; several ranks are merged."),
    ],
    hardware: flops_options.HardwareName = None,
    depth: flops_options.Depth = None,
    top: flops_options.Top = 5,
    text_layout: flops_options.TextLayout = None,
    html: flops_options.Html = None,
    json: flops_options.Json = None,
    csv: flops_options.Csv = None,
    markdown: flops_options.Markdown = None,
    trace: flops_options.TraceFile = None,
    quiet: flops_options.Quiet = False,
) -> None:
    """Print or write saved reports, without torch and without running anything."""
    from weftrace.flops.derived.merge import merge
    from weftrace.flops.document import read_flops

    wanted = Wanted(
        html=html, json=json, csv=csv, markdown=markdown, trace=trace, text_layout=text_layout, depth=depth, top=top,
        quiet=quiet,
    )  # fmt: skip
    chip = flops_options.find_hardware(hardware)
    read = [read_flops(path) for path in reports]
    deliver(read[0] if len(read) == 1 else merge(read), wanted, chip)

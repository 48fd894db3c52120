"""`weftrace diff`: what changed from one run to another, and whether that is too much."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import options, outputs
from weftrace.errors import UNUSABLE_INPUT

EPILOG = """[bold]Examples[/bold]

weftrace diff before.json.gz after.json.gz                        what changed in a step, and where

weftrace diff before/ after/ -o diff.html -o diff.md              the ranks of two jobs; a page, Markdown to paste"""

Top = Annotated[int, typer.Option("--top", help="Rows of each table in the terminal.", min=1, metavar="N")]


def command(
    before: Annotated[
        str, typer.Argument(metavar="BEFORE", help="A trace, or a folder or glob of ranks.", show_default=False)
    ],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The other run, likewise.", show_default=False)],
    top: Top = 8,
    kernels: options.Kernels = None,
    workers: options.Workers = None,
    output: outputs.Output = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Compare two runs: what changed in a step, by how much, and whether it is more than noise."""
    from weftrace.comparison.diffs import diff
    from weftrace.comparison.document import diff_report
    from weftrace.comparison.kinds import REPORT
    from weftrace.comparison.render.terminal import print_diff

    inputs = options.inputs_of([before, after])
    to = outputs.wanted(output, writes=REPORT, inputs=inputs, json=json, quiet=quiet)
    report = diff_report(diff(before, after, rules=options.load_kernels(kernels), workers=workers))
    outputs.deliver(report, REPORT, to, show=lambda report, console: print_diff(report.document, console, top))
    if report.document["verdict"]["word"] == "not comparable":
        raise typer.Exit(UNUSABLE_INPUT)

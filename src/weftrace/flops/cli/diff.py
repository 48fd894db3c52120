"""`weftrace flops diff`: what changed between two reports, and whether that is too much."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.errors import NOT_MET
from weftrace.units import signed

EPILOG = """[bold]Examples[/bold]

weftrace flops diff before.json after.json

weftrace flops diff main.json branch.json --fail-above 1%                     exit 1 where a total differs by more"""


def command(
    before: Annotated[str, typer.Argument(metavar="A", help="JSON of the one report.", show_default=False)],
    after: Annotated[str, typer.Argument(metavar="B", help="JSON of the other.", show_default=False)],
    fail_above: Annotated[
        str | None,
        typer.Option(
            "--fail-above", help="Exit with 1 where a total differs by more, or a time grew by more.", metavar="1%"
        ),
    ] = None,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Compare two saved reports. Exit: 0 within the limit, 1 above it, 2 and 3 for mistakes."""
    from weftrace.flops.document import read_flops
    from weftrace.flops.outputs import DIFF
    from weftrace.flops.several.diff import diff, parse_fraction

    to = outputs.wanted(output, writes=DIFF, inputs=[before, after], json=json, quiet=quiet)
    limit = None if fail_above is None else parse_fraction(fail_above)
    found = diff(read_flops(before), read_flops(after))
    outputs.deliver(found, DIFF, to)
    if limit is not None and found.exceeds(limit):
        worst = max(found.above(limit), key=lambda change: abs(change.relative))
        where = worst.quantity if worst.phase is None else f"{worst.quantity} of the {worst.phase}"
        typer.echo(
            f"weftrace: {after} differs from {before} by more than {fail_above}: "
            f"{where} by {signed(worst.relative, 2)}",
            err=True,
        )
        raise typer.Exit(NOT_MET)
